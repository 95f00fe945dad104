"""transformers.Trainer: what the agent tells is what the Trainer's own callbacks see."""


def test_trainer_events_and_arguments_are_told_exactly(run):
    result = run("hf.py")
    said, page = result.said, result.page
    assert page.steps == said["steps"] == 14
    assert page.epoch == 2.0
    assert page.numbers("epoch", "start") == [0, 1] and page.count("epoch", "end") == said["epochs"] == 2
    assert page.count("eval", "start") == page.count("eval", "end") == said["evals"] == 2
    assert page.numbers("eval", "start") == [7, 14]
    # Each checkpoint is one save, and so is the final model.
    assert page.count("save", "start") == page.count("save", "end") == said["saves"] + 1
    saves = {e["path"]: e["save_bytes"] for e in page.extras("save")}
    final = saves.pop("final")
    assert saves == said["bytes"] and final > 0
    assert page.count("load", "start") == page.count("load", "end") == 1
    assert page.facts["model_bytes"] == 36
    wanted = {"examples": 50, "batch": 4, "accum": 2, "epochs": 2, "world_size": 1, "epoch_steps": 7, "max_steps": 14}
    assert {key: page.facts[key] for key in wanted} == wanted
    assert page.facts["workers"] == 1 and page.facts["persistent_workers"] is True
    assert (page.micro, page.examples) == (26, 100)
    assert {"torch", "transformers", "accelerate"} <= set(page.facts["hooked"]) and "seen_not_hooked" not in page.facts
    assert page.flags & 1
    without = run("hf.py", agent=False).said
    for each in (said, without):
        # The Trainer writes how long an evaluation took into its checkpoints.
        del each["pid"], each["bytes"]
    assert without == said


def test_a_request_to_stop_saves_and_stops_at_the_next_step(run):
    result = run("hf.py", 0)
    said, page = result.said, result.page
    assert said["stopped"] == page.steps == 3 and said["left"]
    assert said["checkpoints"] == ["checkpoint-3"]
    assert (page.taken, page.done) == (9, 9)
    assert said["evals"] == 0
    assert page.facts["stop"] == "trainer" and page.facts["checkpoint_dir"] == str(result.work / "out")
    assert "saves_on" not in page.facts
