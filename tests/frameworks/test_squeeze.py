"""`lowtide squeeze` on a real torch loop: cycles with tensors in them come back, and gradients stay as they are."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
JOB = Path(__file__).parent / "jobs/squeezed.py"
MIB = 1 << 20


def binary():
    places = [os.environ.get("LOWTIDE_BIN"), ROOT / "target/debug/lowtide", ROOT / "target/release/lowtide"]
    found = next((str(place) for place in places if place and Path(place).exists()), None)
    assert found, "build it first: cargo build -p lowtide"
    return found


def test_garbage_of_a_torch_loop_comes_back_and_no_gradient_is_zeroed(tmp_path):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "LOWTIDE"))}
    env["XDG_RUNTIME_DIR"] = str(tmp_path)
    command = [binary(), "run", "--quiet", "--out", str(tmp_path / "job.tide"), "--", sys.executable, str(JOB)]
    job = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert job.stdout.readline() == "ready\n"
        asked = [binary(), "squeeze", str(job.pid), "--format", "json"]
        done = subprocess.run(asked, env=env, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        ways = {way["means"]: way for way in json.loads(done.stdout)["ways"]}
    finally:
        out, _ = job.communicate(timeout=300)
    assert ways["gc_collect"]["found_objects"] >= 100
    assert ways["gc_collect"]["host"]["returned_bytes"] > 30 * MIB
    later = ways["gc_collect"]["later"]
    assert later["steps"] >= 10 and later["host_still_gone_bytes"] > 20 * MIB
    assert "GPU" in ways["gpu_cache"]["skipped"] or ways["gpu_cache"]["gpu"] is not None
    said = json.loads(out.splitlines()[-1])
    assert said["gradient"] == said["steps"]
