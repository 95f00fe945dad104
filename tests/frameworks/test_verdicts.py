"""The whole way, with no flag given: an unchanged Trainer job under `lowtide run`, and what lowtide says of it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
LOWTIDE = os.environ.get("LOWTIDE_BIN", str(HERE.parents[1] / "target/debug/lowtide"))
IMAGES = 300
#: Pillow holds four bytes a pixel.
BYTES = 900 * 700 * 4


@pytest.fixture
def judged(tmp_path):
    """Runs the job under lowtide and gives the verdict."""

    def go(epochs, way):
        recording = tmp_path / "run.tide"
        job = [sys.executable, str(HERE / "jobs/lazy_images.py"), str(tmp_path / "images"), str(IMAGES), epochs, way]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
        run = [LOWTIDE, "run", "--out", str(recording), "--", *job]
        done = subprocess.run(run, env=environment, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr[-4000:]
        explain = [LOWTIDE, "explain", "--format", "json", str(recording)]
        told = subprocess.run(explain, capture_output=True, text=True, timeout=60, check=True)
        return json.loads(told.stdout.splitlines()[0]), done.stderr

    return go


def test_images_kept_in_a_list_are_a_fill_that_ends_with_the_first_pass(judged):
    verdict, said = judged("2.5", "keep")
    assert verdict["verdict"] == "cache-fill", verdict
    # 300 examples, two a batch, two batches a step.
    assert abs(verdict["settled_at"]["step"] - 75) <= 4, verdict
    assert abs(verdict["bytes_per_example"] / BYTES - 1) < 0.1, verdict
    assert verdict["outcome"]["is"] == "fits", verdict
    assert "leak" not in said, said


def test_one_pass_is_told_as_what_every_new_example_keeps(judged):
    verdict, said = judged("1", "keep")
    assert "every new example keeps" in verdict["headline"], verdict
    assert abs(verdict["bytes_per_example"] / BYTES - 1) < 0.1, verdict
    assert verdict["outcome"]["is"] == "fits", verdict
    assert "leak" not in said, said


def test_images_closed_after_use_are_steady(judged):
    verdict, _ = judged("2.5", "close")
    assert verdict["verdict"] == "steady", verdict
