"""Runs small real jobs with the agent and without, as the recorder would: a private folder, two variables."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import marks

HERE = Path(__file__).resolve().parent
AGENT = HERE.parents[1] / "python/lowtide/_agent"


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The agent as the recorder lays it out."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(AGENT, folder / "lowtide_agent", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "lowtide_agent/sitecustomize.py").rename(folder / "sitecustomize.py")
    return folder


class Result:
    """How a job ended: what it printed as its last line (JSON), and the pages it left."""

    def __init__(self, done, folder, work):
        self.work = work
        self.stdout, self.stderr, self.code = done.stdout, done.stderr, done.returncode
        self.pages = marks.read(folder) if folder else {}

    @property
    def said(self):
        assert self.code == 0, self.stderr[-4000:]
        return json.loads(self.stdout.strip().splitlines()[-1])

    @property
    def page(self):
        """The page of the process that printed its pid as `pid`."""
        return self.pages[self.said["pid"]]

    def with_fact(self, key):
        return [page for page in self.pages.values() if key in page.facts]


@pytest.fixture
def run(site, tmp_path):
    """Runs `python ARGS` with the agent (or without) and gives what it said and its pages."""
    counter = iter(range(100))

    def go(*args, agent=True, env=None, python=sys.executable, timeout=300, before=(), work=None):
        number = next(counter)
        work = work or tmp_path / str(number)
        work.mkdir(exist_ok=True)
        pages = work / f"marks-{number}"
        pages.mkdir(mode=0o700)
        variables = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "LOWTIDE"))}
        variables |= {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
        variables |= {"KERAS_BACKEND": "torch", "CUDA_VISIBLE_DEVICES": "", "TQDM_DISABLE": "1"}
        if agent:
            variables |= {"PYTHONPATH": str(site), "LOWTIDE_MARKS": str(pages)}
        variables |= env or {}
        args = [str(HERE / "jobs" / a) if str(a).endswith(".py") and "/" not in str(a) else str(a) for a in args]
        options = {"cwd": work, "env": variables, "capture_output": True, "text": True, "timeout": timeout}
        done = subprocess.run([*before, python, *args], **options, check=False)
        return Result(done, pages if agent else None, work)

    go.site = site
    return go
