"""`lowtide watch --agent`: a torch loop of Python 3.14 that already runs tells its steps. Needs the binary (cargo build).

torch for 3.14 is put into target/python3.14-torch by this environment's pip; where there is no 3.14 to be had, the one
test says so and is skipped.
"""

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import build
import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TORCH = ROOT / "target/python3.14-torch"
#: What `import torch` needs.
NEEDED = (
    "torch",
    "typing_extensions",
    "filelock",
    "fsspec",
    "Jinja2",
    "MarkupSafe",
    "mpmath",
    "networkx",
    "numpy",
    "sympy",
)
NEEDED += ("nvidia-cuda-cupti", "nvidia-cuda-runtime", "nvidia-cufile")
PATIENCE = 120


@pytest.fixture(scope="module")
def python():
    """A Python 3.14 with torch: its path."""
    found = subprocess.run([sys.executable, ROOT / "tests/python314.py"], capture_output=True, text=True, check=False)
    if found.returncode:
        pytest.skip(found.stderr.strip())
    stamp = TORCH / "built"
    wanted = [line for line in build.REQUIREMENTS.read_text().split() if line.partition("==")[0] in NEEDED]
    if not stamp.exists() or stamp.read_text().split() != wanted:
        platforms = [word for minor in range(17, 35) for word in ("--platform", f"manylinux_2_{minor}_x86_64")]
        platforms += ["--platform", "manylinux2014_x86_64", "--platform", "any", "--python-version", "3.14"]
        install = [
            "install",
            "--quiet",
            "--no-deps",
            "--no-compile",
            "--only-binary=:all:",
            "--upgrade",
            "--target",
            TORCH,
        ]
        subprocess.run([sys.executable, "-m", "pip", *install, *platforms, *wanted], check=True)
        build.add_stubs(TORCH)
        stamp.write_text("\n".join(wanted))
    return found.stdout.strip()


def marks(file):
    try:
        with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as recording:
            return recording.execute("SELECT kind, phase, number, extra FROM mark ORDER BY id").fetchall()
    except sqlite3.Error:
        return []


def steps(rows):
    return max((number for kind, _, number, _ in rows if kind == "step"), default=0)


@pytest.fixture
def runtime():
    """A folder for sockets, whose paths must be short."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def test_a_torch_loop_that_already_runs(python, runtime, tmp_path):
    places = [os.environ.get("LOWTIDE_BINARY"), ROOT / "target/debug/lowtide", ROOT / "target/release/lowtide"]
    binary = next((p for p in places if p and Path(p).exists()), None)
    assert binary, "build it first: cargo build -p lowtide"
    file = tmp_path / "job.tide"
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "LOWTIDE"))}
    env |= {
        "PYTHONPATH": str(TORCH),
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "XDG_RUNTIME_DIR": str(runtime),
    }
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": env}
    job = subprocess.Popen([python, HERE / "jobs/running.py"], **pipes)
    try:
        assert job.stdout.readline() == "running\n"
        flags = ["--agent", "--lines", "--interval", "50ms", "--out", str(file)]
        watch = subprocess.Popen([binary, "watch", str(job.pid), *flags], **pipes)
        until = time.monotonic() + PATIENCE
        while steps(marks(file)) < 40 and time.monotonic() < until:
            time.sleep(0.05)
        # Closes its input; the job ends after the pass it is in, and the watch with it.
        said, complaints = job.communicate(timeout=PATIENCE)
        watch.communicate(timeout=PATIENCE)
    finally:
        job.kill()
    assert (job.returncode, complaints) == (0, "")
    said = json.loads(said.splitlines()[-1])
    rows = marks(file)
    # The agent may come in the middle of a step: that one may count or not.
    assert said["before"] > 20 and said["steps"] - said["before"] - steps(rows) in (-1, 0)
    ends = sum(1 for kind, phase, _, _ in rows if (kind, phase) == ("epoch", "end"))
    # The pass it came into has no beginning, so it is none.
    assert said["passes"] - ends in (0, 1)
    facts = {key: value for kind, _, _, extra in rows if kind == "info" for key, value in json.loads(extra).items()}
    assert "torch" in facts["hooked"]
    assert (facts["examples"], facts["batch"]) == (64, 8)
    assert list((runtime / "lowtide").iterdir()) == []
