"""Keras on its torch backend: what the agent tells is what its own callbacks see."""


def test_fit_is_told_exactly(run):
    result = run("ks.py")
    said, page = result.said, result.page
    assert page.steps == said["steps"] == said["batches"] == 26
    assert page.numbers("epoch", "start") == [0, 1] and page.count("epoch", "end") == said["epochs"] == 2
    assert page.epoch == 2.0
    assert page.count("eval", "start") == page.count("eval", "end") == said["evals"] == 2
    assert {e["path"] for e in page.extras("save")} == set(said["kept"]) and page.count("save", "start") == 2
    assert page.count("load", "start") == page.count("load", "end") == 1
    wanted = {"examples": 50, "batch": 4, "epochs": 2, "epoch_steps": 13, "model_bytes": 2 * said["sizes"]}
    assert {key: page.facts[key] for key in wanted} == wanted
    assert "keras" in page.facts["hooked"] and "seen_not_hooked" not in page.facts
    assert page.flags & 1
    without = run("ks.py", agent=False).said
    for each in (said, without):
        # Keras writes the time into its files.
        del each["pid"], each["kept"]
    assert without == said


def test_a_request_to_stop_stops_where_keras_can_go_on_from_at_the_end_of_the_pass(run):
    result = run("ks.py", "ask")
    said, page = result.said, result.page
    assert page.steps == said["batches"] == 13 and said["left"]
    assert list(said["kept"]) == ["kept-1.keras"]
    assert (page.taken, page.done) == (9, 9)
    assert (page.facts["stop"], page.facts["stop_every"]) == ("keras", "epoch")
    assert page.facts["checkpoint_dir"] == str(result.work)


def test_keras_keeps_its_backup_for_the_next_life_and_goes_on_at_the_next_pass(run):
    first = run("ks.py", "backup", "ask")
    assert first.said["left"] and first.page.steps == 13
    assert first.page.facts["model_bytes"] == first.said["sizes"]
    assert first.page.facts["checkpoint_dir"] == str(first.work / "backup")
    assert (first.work / "backup/training_metadata.json").exists()
    again = run("ks.py", "backup", work=first.work)
    assert (again.said["epochs"], again.said["batches"], again.said["steps"]) == (1, 13, 26)
    assert again.page.steps == 26 and again.page.numbers("epoch", "start") == [1]
    # A training that ends by itself takes its backup away, as Keras does.
    assert not (first.work / "backup").exists()
