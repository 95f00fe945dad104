"""Memory where teams already look: MLflow and W&B get what the callback logs, and scrapers read the server's page.

TensorBoard is in test_package_callbacks.py. Nothing here leaves the machine: MLflow writes files, W&B stays offline.
"""

import json
import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as plain

HERE = Path(__file__).resolve().parent
PACKAGE = str(HERE.parents[1] / "python")
LOWTIDE = Path(os.environ["LOWTIDE_BIN"])


def test_mlflow_holds_the_values_the_trainer_logged(run):
    env = {"PYTHONPATH": PACKAGE, "MLFLOW_TRACKING_URI": "file:./runs", "MLFLOW_ALLOW_FILE_STORE": "true"}
    result = run("package_hf.py", "mlflow", env=env)
    logged = [(entry["step"], entry["lowtide/rss_mib"]) for entry in result.said["history"]]
    assert [step for step, _ in logged] == [5, 10]
    (file,) = (result.work / "runs").glob("*/*/metrics/lowtide/rss_mib")
    # A line each: when, how much, at which step.
    lines = [line.split() for line in file.read_text().splitlines()]
    assert {(int(step), float(value)) for _, value, step in lines} >= set(logged)


def test_wandb_holds_the_values_the_trainer_logged(run):
    env = {"PYTHONPATH": PACKAGE, "WANDB_MODE": "offline", "WANDB_DIR": ".", "WANDB_SILENT": "true"}
    result = run("package_hf.py", "wandb", env=env)
    logged = [(entry["step"], entry["lowtide/rss_mib"]) for entry in result.said["history"]]
    assert [step for step, _ in logged] == [5, 10]
    (file,) = result.work.rglob("*.wandb")
    kept = [line for line in offline("history", file) if "train/lowtide/rss_mib" in line]
    assert {(line["train/global_step"], line["train/lowtide/rss_mib"]) for line in kept} >= set(logged)


def offline(what, file):
    """What W&B kept, read by a process of its own: importing W&B here would bring its threads into every test."""
    code = "import json, offline, pathlib, sys; print(json.dumps(getattr(offline, sys.argv[1])(pathlib.Path(sys.argv[2]))))"
    env = {**os.environ, "PYTHONPATH": str(HERE / "jobs")}
    done = subprocess.run([sys.executable, "-c", code, what, file], env=env, capture_output=True, check=True, text=True)
    return json.loads(done.stdout)


@pytest.fixture
def served(tmp_path):
    """A run that goes on, and a server that shows it: the address of its metrics, and the token."""
    folder = tmp_path / "runs"
    folder.mkdir()
    live = subprocess.Popen([LOWTIDE.parent / "examples/stage", "--live", folder / "live.tide", "300"])
    env = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    command = [LOWTIDE, "serve", "--dir", folder, "--listen", "127.0.0.1:0"]
    server = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
    try:
        address, token = server.stdout.readline().strip().split("/?token=")
        ask = urllib.request.Request(f"{address}/metrics", headers={"Authorization": f"Bearer {token}"})
        # The first rows reach the disk a moment after the file is there.
        while b"lowtide_step" not in urllib.request.urlopen(ask).read():
            time.sleep(0.2)
        yield f"{address}/metrics", token
    finally:
        for process in (server, live):
            process.kill()
            process.wait()


NAMES = {"process_memory_usage_bytes", "lowtide_memory_bytes", "lowtide_verdict", "lowtide_outcome", "lowtide_step"}


@pytest.mark.parametrize(
    ("accept", "kind", "parse"),
    [
        ("application/openmetrics-text; version=1.0.0,text/plain;q=0.5", "application/openmetrics-text", openmetrics),
        ("*/*", "text/plain; version=0.0.4", plain),
    ],
)
def test_the_usual_parsers_read_the_page_in_both_forms(served, accept, kind, parse):
    address, token = served
    ask = urllib.request.Request(address, headers={"Authorization": f"Bearer {token}", "Accept": accept})
    with urllib.request.urlopen(ask) as answer:
        assert answer.headers["content-type"].startswith(kind)
        families = {family.name: family for family in parse(answer.read().decode())}
    assert families.keys() >= NAMES
    assert all(family.type == "gauge" and family.documentation for family in families.values())
    verdicts = {sample.labels["verdict"]: sample.value for sample in families["lowtide_verdict"].samples}
    assert sum(verdicts.values()) == 1
    assert not any("pid" in sample.labels for family in families.values() for sample in family.samples)


def test_wandb_scrapes_the_page_into_its_system_metrics(run, served):
    said = run("scraped_by_wandb.py", *served, env={"WANDB_SILENT": "true"}, agent=False).said
    assert said["samples"], "W&B sampled nothing from us"
    keys = {key for sample in said["samples"] for key in sample}
    for name in NAMES:
        assert any(key.startswith(f"openmetrics.lowtide.{name}.") for key in keys), sorted(keys)
    steps = [value for sample in said["samples"] for key, value in sample.items() if ".lowtide_step." in key]
    assert all(step > 0 for step in steps)
