"""accelerate alone, and under torchrun with two gloo ranks."""

import json


def check(said, page):
    assert page.steps == said["steps"]
    assert page.epoch == said["epochs"] == 2
    assert page.numbers("epoch", "start") == [0, 1] and page.count("epoch", "end") == 2
    assert page.count("eval", "start") == page.count("eval", "end") == said["evals"]
    assert page.count("save", "start") == page.count("save", "end") == 1
    assert page.count("load", "start") == page.count("load", "end") == 1
    assert (page.micro, page.examples) == (said["batches"], said["examples"])
    assert (page.facts["examples"], page.facts["batch"]) == (50, 4)


def test_an_accelerate_loop_is_told_exactly(run):
    result = run("acc.py")
    said, page = result.said, result.page
    check(said, page)
    assert page.facts["accum"] == 3
    assert page.extras("save")[0]["save_bytes"] == said["bytes"]
    # The end of a pass comes after its last step.
    last_step_of_first_pass = -(-13 // 3)
    assert page.numbers("eval", "start")[0] == last_step_of_first_pass
    without = run("acc.py", agent=False).said
    assert {**without, "pid": 0} == {**said, "pid": 0}


def test_two_ranks_under_torchrun_each_tell_their_own(run, tmp_path):
    launch = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "29611"]
    result = run(*launch, "acc.py", env={"SAID_IN": str(tmp_path)})
    assert result.code == 0, result.stderr[-3000:]
    for rank in (0, 1):
        said = json.loads((tmp_path / f"said-{rank}.json").read_text())
        page = result.pages[said["pid"]]
        assert (page.rank, page.world) == (rank, 2) == (said["rank"], said["world"])
        assert all(record.rank == rank for record in page.records)
        assert page.facts["world_size"] == 2
        check(said, page)
