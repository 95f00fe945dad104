"""Lightning under both its names: what the agent tells is what its own callbacks see."""

import pytest


@pytest.mark.parametrize("name", ["lightning.pytorch", "pytorch_lightning"])
def test_fit_is_told_exactly(run, name):
    result = run("pl.py", name)
    said, page = result.said, result.page
    assert page.steps == said["steps"] == 21
    assert page.numbers("epoch", "start") == [0, 1, 2] and page.count("epoch", "end") == said["epochs"] == 3
    assert page.epoch == 3.0
    # The check before training is one of them.
    assert page.count("eval", "start") == page.count("eval", "end") == said["evals"] == 4
    assert page.count("save", "start") == page.count("save", "end") == said["saves"] == 3
    assert {e["path"]: e["save_bytes"] for e in page.extras("save")} == said["kept"]
    assert page.facts["model_bytes"] == 2 * 3 * 36
    wanted = {"examples": 50, "batch": 4, "accum": 2, "epochs": 3, "world_size": 1, "epoch_steps": 7}
    assert {key: page.facts[key] for key in wanted} == wanted
    assert (page.micro, page.examples) == (39, 150)
    assert name.partition(".")[0] in page.facts["hooked"] and "seen_not_hooked" not in page.facts
    assert page.flags & 1
    without = run("pl.py", name, agent=False).said
    assert {**without, "pid": 0} == {**said, "pid": 0}


def test_a_request_to_stop_saves_and_stops(run):
    result = run("pl.py", "lightning.pytorch", "ask")
    said, page = result.said, result.page
    assert page.steps == said["steps"] == 4
    assert "lowtide-stop-step=4.ckpt" in said["kept"]
    assert (page.taken, page.done) == (9, 9)
    # Neither a validation nor a second checkpoint that would say the pass is done.
    assert said["left"] and said["evals"] == 1 and len(said["kept"]) == 1
    assert page.facts["stop"] == "lightning" and page.facts["checkpoint_dir"] == str(result.work / "kept")
