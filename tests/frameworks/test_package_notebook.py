"""Each fit in a notebook is a recording of its own, with real frameworks and a real recorder."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_each_fit_of_a_real_framework_is_a_run_of_its_own_with_its_own_steps(run, tmp_path):
    program = os.environ.get("LOWTIDE_BIN", str(ROOT / "target/debug/lowtide"))
    env = {"PYTHONPATH": str(ROOT / "python"), "LOWTIDE_BIN": program, "LOWTIDE_DIR": str(tmp_path / "runs")}
    said = run("package_nb.py", agent=False, env=env).said
    assert [fit["name"] for fit in said["fits"]] == ["fit 1, cell 2", "fit 2, cell 2", "fit 3, cell 2"]
    assert [fit["why_not"] for fit in said["fits"]] == [None, None, None]
    assert [fit["steps"] for fit in said["fits"]] == [5, 6, 3]
    assert len(list((tmp_path / "runs").glob("*.tide"))) == 3
    assert said["text"].count("fit ") == 3
