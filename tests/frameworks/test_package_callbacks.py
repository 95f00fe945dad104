"""lowtide's callbacks in real frameworks: the same marks as the agent's, never twice, and what they add of their own.

Each job runs in three settings: with the injected agent and the package, with the package alone (as under `python -I`),
and with the package alone where the agent does not know the framework.
"""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

PACKAGE = str(Path(__file__).resolve().parents[2] / "python")
#: The agent's table without this framework: what a version it does not know comes to.
WITHOUT = "import lowtide._agent.start as s\nfor name in [n for n in s.HOOKS if not n.startswith('torch')]: s.HOOKS.pop(name)\n"


@pytest.fixture(params=["injected", "alone", "unknown"])
def job(request, run, site, tmp_path):
    """Runs a job in one of the settings."""
    setting = request.param
    path = PACKAGE if setting != "injected" else f"{site}:{PACKAGE}"
    if setting == "unknown":
        (tmp_path / "early").mkdir()
        (tmp_path / "early/sitecustomize.py").write_text(WITHOUT)
        path = f"{tmp_path / 'early'}:{PACKAGE}"

    def go(*args):
        return run(*args, env={"PYTHONPATH": path})

    go.setting = setting
    return go


def test_the_trainers_marks_are_the_same_however_they_come(job):
    result = job("package_hf.py")
    said, page = result.said, result.page
    assert page.steps == said["steps"] == 14
    assert page.count("epoch", "start") == page.count("epoch", "end") == said["epochs"] == 2
    assert page.count("eval", "start") == page.count("eval", "end") == said["evals"] == 2
    phase = "point" if job.setting == "unknown" else "end"
    assert page.count("save", phase) == said["saves"] == 3
    wanted = {"examples": 50, "batch": 4, "accum": 2, "epochs": 2}
    assert {key: page.facts[key] for key in wanted} == wanted
    assert said["modules"] == [f"{'lowtide_agent' if job.setting == 'injected' else 'lowtide._agent'}.page"]


def test_the_trainers_own_log_has_memory_in_it_and_training_is_unchanged(job):
    said = job("package_hf.py").said
    logged = [entry for entry in said["history"] if "lowtide/rss_mib" in entry]
    assert [entry["step"] for entry in logged] == [5, 10]
    assert all(100 < entry["lowtide/rss_mib"] < 10_000 for entry in logged)
    assert logged[0]["lowtide/tensors_cpu"] > 50
    assert logged[0]["lowtide/tensors_cpu_mib"] >= 0
    assert not any(key.startswith("lowtide/") for seen in said["tracker"] for key in seen)
    assert re.search(
        r"lowtide: host memory went from [\d.]+ [MG]iB to [\d.]+ [MG]iB \(.*\) in 14 steps", said["summary"]
    )
    assert len(re.findall(r"^ +(?:largest types)? +[\d.]+ [KMG]iB.*  [\d,]+ x ", said["summary"], re.MULTILINE)) == 10
    assert "largest tensors" in said["summary"]


def test_training_gives_the_same_weights_with_and_without_us(run):
    ours = run("package_hf.py", env={"PYTHONPATH": PACKAGE}).said
    assert ours["weights"] == run("package_hf.py", agent=False, env={"PYTHONPATH": PACKAGE}).said["weights"]


def test_trackers_get_the_values_when_asked(run):
    said = run("package_hf.py", "tracker", env={"PYTHONPATH": PACKAGE}).said
    with_loss = [seen for seen in said["tracker"] if "loss" in seen]
    assert len(with_loss) == 2
    assert all("lowtide/rss_mib" in seen for seen in with_loss)


def test_tensorboard_holds_the_values_and_explain_reads_them_back(run):
    result = run("package_hf.py", "tensorboard", env={"PYTHONPATH": PACKAGE, "TENSORBOARD_LOGGING_DIR": "board"})
    assert result.said["stopped"] == 14
    (events,) = (result.work / "board").rglob("events.out.tfevents*")
    command = [os.environ["LOWTIDE_BIN"], "explain", str(events), "--y", "train/lowtide/rss_mib", "--format", "json"]
    verdict = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
    assert verdict["schema"] == "lowtide.verdict/1"
    logged = [entry["lowtide/rss_mib"] for entry in result.said["history"]]
    assert verdict["floor"]["end_bytes"] == pytest.approx(logged[-1] * 2**20, rel=0.05)


def test_a_request_to_stop_saves_and_stops_at_the_next_step(job):
    result = job("package_hf.py", "ask")
    said, page = result.said, result.page
    assert said["stopped"] == page.steps == 3
    assert said["checkpoints"] == ["checkpoint-3"]
    assert (page.taken, page.done) == (9, 9)
    assert page.flags & 1 and page.facts["stop"] == "trainer"
    assert said["left"] is (job.setting != "unknown")


def test_cleaning_frees_garbage_and_stops_when_there_is_none(run):
    said = run("package_hf.py", "garbage", env={"PYTHONPATH": PACKAGE}).said
    first = said["history"][0]
    assert first["lowtide/cleanup_freed_mib"] > 6
    assert first["lowtide/cleanup_ms"] > 0
    found = re.search(
        r"cleanup: (\d+) rounds gave back (\d+\.?\d*) MiB for \d+ ms; stopped after 3 rounds", said["summary"]
    )
    assert found
    assert 9 <= int(found[1]) < 14
    assert 40 < float(found[2]) < 70


@pytest.mark.parametrize("name", ["lightning", "pytorch_lightning"])
def test_lightnings_marks_are_the_same_however_they_come(job, name):
    result = job("package_pl.py", name)
    said, page = result.said, result.page
    assert page.steps == said["steps"] == 21
    assert page.count("epoch", "start") == page.count("epoch", "end") == said["epochs"] == 3
    assert page.count("eval", "start") == page.count("eval", "end") == said["evals"] == 4
    assert page.facts["examples"] == 50
    assert page.facts["accum"] == 2
    assert "lowtide/rss_mib" in said["logged"]
    assert "in 21 steps" in said["summary"]


def test_lightning_saves_once_and_stops_when_asked(job):
    result = job("package_pl.py", "lightning", "ask")
    said, page = result.said, result.page
    assert page.steps == said["steps"] == 4
    assert len(said["saved"]) == 1
    assert (page.taken, page.done) == (9, 9)


def test_keras_marks_are_the_same_however_they_come(job):
    result = job("package_ks.py")
    said, page = result.said, result.page
    assert page.steps == said["steps"] == said["batches"] == 26
    assert page.count("epoch", "start") == page.count("epoch", "end") == said["epochs"] == 2
    assert page.count("eval", "start") == page.count("eval", "end") == said["evals"] == 2
    assert page.facts["epoch_steps"] == 13
    assert "lowtide/rss_mib" in said["logged"]
    assert "in 26 steps" in said["summary"]


def test_keras_saves_and_stops_when_asked(job):
    result = job("package_ks.py", "ask")
    said, page = result.said, result.page
    assert page.steps == said["steps"] == 4
    assert said["saved"]
    assert (page.taken, page.done) == (9, 9)
    assert page.flags & 1 and page.facts["stop"] == "keras"


def test_the_example_of_the_page_runs(run, tmp_path):
    page = Path(PACKAGE).parent / "docs/python.md"
    (code,) = re.findall(r"^```python transformers\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    before = "import torch\nfrom hf import Config, Tiny\nmodel, folder = Tiny(Config()), 'out'\n"
    data = "data = [{'x': torch.randn(8), 'labels': torch.tensor(1.0)} for _ in range(50)]\n"
    after = "\nimport json, os\nprint(json.dumps({'pid': os.getpid(), 'steps': trainer.state.global_step}))\n"
    script = tmp_path / "example.py"
    script.write_text(before + data + code + after)
    jobs = str(Path(__file__).parent / "jobs")
    result = run(script, env={"PYTHONPATH": f"{PACKAGE}:{jobs}"})
    assert result.said["steps"] == result.page.steps == 50
    assert "largest types" in result.stdout
