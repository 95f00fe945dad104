"""Plain torch loops: steps, passes, evaluations and saves are what the loop itself counted."""

import pytest


def check_plain(result):
    said, page = result.said, result.page
    assert page.steps == said["steps"]
    assert page.epoch == said["epochs"]
    assert page.count("epoch", "start") == page.count("epoch", "end") == said["epochs"]
    assert page.numbers("epoch", "start") == [0, 1, 2]
    assert page.count("eval", "start") == page.count("eval", "end") == said["evals"]
    assert page.count("save", "start") == page.count("save", "end") == said["saves"]
    assert [e["save_bytes"] for e in page.extras("save")] == [said["save_bytes"]] * said["saves"]
    assert (page.micro, page.examples) == (said["batches"], said["examples"])
    assert (page.facts["examples"], page.facts["batch"], page.facts["eval_examples"]) == (50, 4, 20)
    # 161 weights of 4 bytes; AdamW keeps two numbers for each, and the count of steps for each of four tensors.
    assert (page.facts["model_bytes"], page.facts["optimizer_bytes"]) == (644, 1304)
    assert page.state == 3
    assert "torch" in page.facts["hooked"] and "seen_not_hooked" not in page.facts


@pytest.mark.parametrize("workers,method", [(0, "none"), (2, "fork"), (2, "spawn"), (2, "forkserver")])
def test_counts_of_a_plain_loop_are_exact_under_every_start_method(run, workers, method):
    result = run("plain.py", workers, method, 1)
    check_plain(result)
    assert result.page.facts["workers"] == workers
    found = [page.facts["worker"] for page in result.with_fact("role")]
    # Three passes start their workers anew.
    assert sorted(found) == sorted(list(range(workers)) * 3)
    assert all(page.steps == 0 for page in result.with_fact("role"))


def test_accumulation_is_learnt_from_batches_between_steps(run):
    result = run("plain.py", 0, "none", 4)
    check_plain(result)
    assert (result.page.facts["accum"], result.page.facts["epoch_steps"]) == (4, 4)


def test_results_and_random_state_are_the_same_bit_for_bit(run):
    with_agent, without = run("plain.py", 2, "fork", 2).said, run("plain.py", 2, "fork", 2, agent=False).said
    assert with_agent.pop("pid") != without.pop("pid")
    assert with_agent == without


def test_output_is_the_same_with_every_warning_shown(run):
    always = {"PYTHONWARNINGS": "always"}
    with_agent, without = (
        run("plain.py", 0, "none", 1, env=always),
        run("plain.py", 0, "none", 1, agent=False, env=always),
    )
    assert with_agent.code == without.code == 0
    assert with_agent.stderr == without.stderr


@pytest.mark.parametrize(
    "what", ["gan", "scaler", "breaks", "stream", "side_by_side", "threads", "forked", "quiet_failure"]
)
def test_loops_out_of_the_ordinary(run, what):
    result = run("odd.py", what)
    said, page = result.said, result.page
    assert result.stderr == ""
    for name, told in {"steps": page.steps, "micro": page.micro, "examples": page.examples}.items():
        assert said.get(name, told) == told, name
    for name in ("epoch", "eval"):
        if name + "s" in said:
            assert page.count(name, "start") == page.count(name, "end") == said[name + "s"]
    assert page.count("custom", "point") == said.get("custom", 0)
    assert page.state == said.get("off", 3)
    if "child" in said:
        assert result.pages[said["child"]].steps == said["child_steps"]


def test_a_compiled_step_is_compiled_the_same(run):
    with_agent, without = run("odd.py", "compiled"), run("odd.py", "compiled", agent=False)
    assert {**with_agent.said, "pid": 0} == {**without.said, "pid": 0}
    # Nobody calls the hook inside a compiled step: not counted, and not guessed.
    assert with_agent.page.steps == 0
