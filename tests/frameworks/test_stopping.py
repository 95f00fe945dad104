"""Ranks that stop together, saves that fail, and frameworks that go on from the checkpoint they are given."""

import json
import os
from pathlib import Path

PACKAGE = str(Path(__file__).resolve().parents[2] / "python")
TWO_RANKS = ["-m", "torch.distributed.run", "--nproc-per-node", "2"]


def of_ranks(result, folder):
    """What each rank said, with its page."""
    assert result.code == 0, result.stderr[-3000:]
    said = [json.loads((folder / f"said-{rank}.json").read_text()) for rank in (0, 1)]
    return [(one, result.pages[one["pid"]]) for one in said]


def test_two_ranks_of_a_trainer_stop_at_the_step_they_are_named(run, tmp_path):
    # Rank 0 is asked at step 3, rank 1 at step 4; both are to stop at 6.
    result = run(*TWO_RANKS, "--master-port", "29613", "hf.py", 6, env={"SAID_IN": str(tmp_path)})
    for rank, (said, page) in enumerate(of_ranks(result, tmp_path)):
        assert (said["stopped"], page.steps, said["left"]) == (6, 6, True)
        assert (page.rank, page.taken, page.done) == (rank, 9, 9)
        assert page.facts["stop"] == "trainer"
    assert (result.work / "out/checkpoint-6/rng_state_1.pth").exists()


def test_one_rank_stops_at_a_step_that_is_named_ahead(run):
    result = run("hf.py", 9)
    assert (result.said["stopped"], result.page.done) == (9, 9)


def test_a_request_at_the_last_step_lets_the_training_end(run):
    result = run("hf.py", 14)
    assert result.said["stopped"] == 14 and not result.said["left"]
    assert result.page.done == 0


def test_a_save_that_fails_is_told_and_not_taken_for_done(run):
    code = """
import sys
sys.argv = ["hf.py", "0"]
import hf, transformers
from transformers import Trainer
def full(self, *args, **kwargs):
    raise OSError(28, "No space left on device")
Trainer._save_rng_state = full
hf.main()
"""
    result = run("-c", code, env={"PYTHONPATH": f"{run.site}:{Path(__file__).parent / 'jobs'}"})
    assert result.code == 1 and "No space left" in result.stderr
    (page,) = [page for page in result.pages.values() if page.steps]
    assert (page.taken, page.done) == (9, 0)
    (end,) = page.extras("save")
    assert end["failed"] == "OSError" and end["path"] == "checkpoint-3"


def test_lightning_goes_on_when_the_save_fails_and_is_not_asked_again(run):
    code = """
import sys
sys.argv = ["pl.py", "lightning.pytorch", "ask"]
from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO
save, failed = TorchCheckpointIO.save_checkpoint, []
def full(self, checkpoint, path, *args, **kwargs):
    if "lowtide" in str(path):
        failed.append(path)
        raise OSError(28, "No space left on device")
    save(self, checkpoint, path, *args, **kwargs)
TorchCheckpointIO.save_checkpoint = full
import pl
assert len(failed) == 1, failed
"""
    result = run("-c", code, env={"PYTHONPATH": f"{run.site}:{Path(__file__).parent / 'jobs'}"})
    said, page = result.said, result.page
    assert said["steps"] == 21 and not said["left"]
    assert (page.taken, page.done) == (9, 0)
    assert [extra.get("failed") for extra in page.extras("save")] == ["OSError", None, None, None]


def test_a_trainer_goes_on_from_the_checkpoint_and_ends_as_if_unbroken(run):
    whole = run("hf.py").said
    first = run("hf.py", 0)
    assert first.said["losses"] == whole["losses"][:3]
    out = first.work / "out"
    again = run("hf.py", env={"LOWTIDE_RESUME": str(out / "checkpoint-3")}, work=first.work)
    assert again.said["losses"] == whole["losses"] and again.said["weights"] == whole["weights"]
    assert again.page.facts["resumed"] == "checkpoint-3"
    assert again.page.steps == 14


def test_a_checkpoint_of_another_trainer_is_left_alone(run, tmp_path):
    (tmp_path / "out/checkpoint-3").mkdir(parents=True)
    other = run("hf.py", env={"LOWTIDE_RESUME": str(tmp_path / "out/checkpoint-3")})
    assert "resumed" not in other.page.facts and len(other.said["losses"]) == 14


def test_lightning_goes_on_from_the_checkpoint(run):
    first = run("pl.py", "lightning.pytorch", "ask")
    path = first.work / "kept/lowtide-stop-step=4.ckpt"
    again = run("pl.py", "lightning.pytorch", env={"LOWTIDE_RESUME": str(path)}, work=first.work)
    assert again.page.facts["resumed"] == path.name
    by_hand = run("pl.py", "lightning.pytorch", agent=False, env={"BY_HAND": str(path)}, work=first.work)
    assert again.said["weights"] == by_hand.said["weights"]
    assert again.said["steps"] == by_hand.said["steps"] == 21


def test_a_loop_of_accelerate_is_stopped_by_its_own_trigger(run):
    result = run("trigger.py")
    said, page = result.said, result.page
    assert said["stopped"] == page.steps == 4
    assert (page.taken, page.done, page.facts["stop"]) == (9, 9, "accelerate")
    assert page.facts["save_dir"] == str(result.work / "project/checkpoints")
    assert page.extras("save")[0]["path"] == "checkpoint_0"


def test_a_loop_of_ones_own_finds_its_checkpoint_and_says_that_it_stops(run):
    code = """
import json, os, lowtide
from asking import ask_to_stop
done = []
for n in range(1, 9):
    with lowtide.step(n):
        done.append(n)
    if n == 2:
        ask_to_stop(5)
    if lowtide.should_stop():
        lowtide.stop_done()
        break
print(json.dumps({"pid": os.getpid(), "done": done, "from": lowtide.checkpoint()}))
"""
    path = f"{run.site}:{PACKAGE}:{Path(__file__).parent / 'jobs'}"
    result = run("-c", code, env={"PYTHONPATH": path, "LOWTIDE_CHECKPOINT": "/out/state-7.pt"})
    assert result.said["done"] == [1, 2, 3, 4, 5]
    assert result.said["from"] == "/out/state-7.pt"
    assert (result.page.taken, result.page.done, result.page.facts["stop"]) == (9, 9, "own loop")


def test_steps_that_are_counted_go_on_from_those_of_the_life_before(run):
    optimizers = run("plain.py", 0, "none", 1, env={"LOWTIDE_STEP": "100"})
    assert optimizers.page.steps == 100 + optimizers.said["steps"]
    code = "import json, os, lowtide; lowtide.step(); lowtide.step(); print(json.dumps({'pid': os.getpid()}))"
    own = run("-c", code, env={"PYTHONPATH": f"{run.site}:{PACKAGE}", "LOWTIDE_STEP": "100"})
    assert own.page.steps == 102
    # A Trainer knows its own.
    assert run("hf.py", env={"LOWTIDE_STEP": "100"}).page.steps == 14


def test_a_long_folder_is_told_in_pieces(run, tmp_path):
    folder = tmp_path.joinpath(*["a folder of a long name \u00fc\u6f6e" * 4] * 4)
    folder.mkdir(parents=True)
    code = "import json, os, torch; torch.save({}, 'x.pt'); print(json.dumps({'pid': os.getpid()}))"
    result = run("-c", f"import os; os.chdir({str(folder)!r}); {code}")
    told = [r.extra for r in result.page.records if r.kind == "info" and any("save_dir" in key for key in r.extra)]
    assert "".join(next(iter(part.values())) for part in told) == str(folder)
    assert [next(iter(part)) for part in told] == ["save_dir"] + ["save_dir_more"] * (len(told) - 1)
    assert os.path.isfile(folder / "x.pt") and len(told) > 2
