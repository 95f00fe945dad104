"""The finder of checkpoints on what the real frameworks write, whole and cut. Needs the example `checkpoints` (cargo build)."""

import json
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIST = ROOT / "target/debug/examples/checkpoints"


def found(folder):
    assert LIST.exists(), "build it first: cargo build -p lowtide-run --example checkpoints"
    done = subprocess.run([LIST, folder], capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def cuts(path):
    """Every way a save may end too early, as far as it matters: at once, in the middle, just before its end."""
    size = len(path.read_bytes().rstrip(b"\n"))
    return sorted({0, 1, size // 3, size // 2, size - 30, size - 1} & set(range(size)))


def check_that_no_cut_is_complete(folder, checkpoint, names):
    for name in names:
        path = checkpoint / name if name else checkpoint
        whole = path.read_bytes()
        for length in cuts(path):
            path.write_bytes(whole[:length])
            (state,) = [one["state"] for one in found(folder) if one["path"] == str(checkpoint)]
            assert state != "complete", (name, length, len(whole))
        path.write_bytes(whole)
    assert "complete" in [one["state"] for one in found(folder) if one["path"] == str(checkpoint)]


def test_a_trainers_checkpoints(run):
    work = run("hf.py", agent=False).work
    listed = found(work / "out")
    assert [(one["kind"], one["step"], one["state"]) for one in listed] == [
        ("Trainer", step, "complete") for step in (14, 10, 5)
    ]
    newest = work / "out/checkpoint-14"
    assert listed[0]["bytes"] == sum(file.stat().st_size for file in newest.iterdir())
    names = ["model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth", "trainer_state.json"]
    check_that_no_cut_is_complete(work / "out", newest, names)
    for last in ("trainer_state.json", "optimizer.pt", "model.safetensors"):
        aside = (newest / last).rename(work / last)
        assert [one["state"] == "complete" for one in found(work / "out")] == [False, True, True]
        aside.rename(newest / last)
    # The weights alone are no checkpoint.
    assert not [one for one in found(work) if one["path"].endswith("final")]


def test_lightnings_checkpoints(run):
    work = run("pl.py", "lightning.pytorch", agent=False).work
    listed = found(work)
    assert [(one["kind"], one["step"], one["state"]) for one in listed] == [
        ("Lightning", step, "complete") for step in (21, 14, 7)
    ]
    check_that_no_cut_is_complete(work, Path(listed[0]["path"]), [""])


def test_a_state_of_accelerate(run):
    work = run("acc.py", agent=False).work
    (state,) = found(work)
    assert (state["kind"], state["state"]) == ("accelerate", "complete")
    names = [name.name for name in (work / "state").iterdir()]
    assert {"model.safetensors", "optimizer.bin", "random_states_0.pkl"} <= set(names)
    check_that_no_cut_is_complete(work, work / "state", names)


def test_files_of_torch_and_keras(run):
    result = run("saves.py", agent=False)
    assert result.code == 0, result.stderr
    work = result.work
    listed = {Path(one["path"]).name: one for one in found(work)}
    assert {name: (one["kind"], one["step"], one["state"]) for name, one in listed.items()} == {
        "own-300.pt": ("torch", 300, "complete"),
        "legacy.pt": ("torch", None, "broken"),
        "step-5": ("torch distributed", 5, "complete"),
        "model.keras": ("Keras", None, "complete"),
        "backup": ("Keras backup", None, "complete"),
    }
    assert "before 1.6" in listed["legacy.pt"]["why"]
    check_that_no_cut_is_complete(work, work / "own-300.pt", [""])
    check_that_no_cut_is_complete(work, work / "model.keras", [""])
    check_that_no_cut_is_complete(work, work / "backup", ["latest.weights.h5", "training_metadata.json"])
