"""The guard, the whole way: real jobs that leak at every step, under a real memory limit, finish all their steps.

Each job runs once unbroken, without a limit; that run says how much memory the job needs without its leak, and what its
losses are. The limit then leaves room for about a third of the leak. Needs the binary (cargo build).
"""

import json
import os
import re
import sqlite3
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STEPS, LEAK = 36, 8 << 20
#: Room for so much of the leak in one life.
ROOM = 120 << 20
PATIENCE = 30


class Cgroup:
    """A memory cgroup of our own, on whichever hierarchy has the controller; where none may be made, `--limit` stands in."""

    def __init__(self, limit):
        v1 = Path("/sys/fs/cgroup/memory")
        base, file, self.events = v1, "memory.limit_in_bytes", "memory.oom_control"
        if not v1.is_dir():
            base, file, self.events = Path("/sys/fs/cgroup"), "memory.max", "memory.events"
        self.folder = base / f"lowtide-test-{os.getpid()}-{limit}"
        self.limit = limit
        try:
            self.folder.mkdir()
            (self.folder / file).write_text(str(limit))
        except OSError:
            self.folder = None

    def before(self):
        """What starts a command inside."""
        if self.folder is None:
            return []
        return ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self.folder / "cgroup.procs")]

    def kills(self):
        """How many processes the kernel killed for it."""
        if self.folder is None:
            return 0
        return int(re.search(r"^oom_kill (\d+)", (self.folder / self.events).read_text(), re.MULTILINE)[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        until = time.monotonic() + PATIENCE
        while self.folder is not None:
            try:
                self.folder.rmdir()
                return
            except OSError:
                assert time.monotonic() < until, f"{self.folder} never became empty"
                time.sleep(0.1)


class Run:
    """A guarded run: what the recording says the guard did, and the diary of the job."""

    def __init__(self, result, kills):
        self.result, self.kills = result, kills
        with sqlite3.connect(result.work / "job.tide") as file:
            rows = file.execute("SELECT kind, text, data FROM event ORDER BY id").fetchall()
        self.events = [(kind, text) for kind, text, _ in rows]
        self.guard = [json.loads(data) for kind, _, data in rows if kind == "guard" and data]
        self.diary = diary(result.work)

    def of(self, what):
        return [data for data in self.guard if data.get("guard") == what]

    def story(self):
        """For whoever reads a failure."""
        said = "\n".join(text for kind, text in self.events if kind in ("guard", "oom", "exit", "note"))
        return f"{said}\n{self.result.stderr[-3000:]}\n{self.result.stdout[-500:]}"


def diary(work):
    return [line.split() for line in (work / "diary").read_text().splitlines()]


@pytest.fixture
def guarded(run):
    """Runs a job under the guard inside a cgroup of so many bytes."""
    places = [os.environ.get("LOWTIDE_BINARY"), ROOT / "target/debug/lowtide", ROOT / "target/release/lowtide"]
    binary = next((p for p in places if p and Path(p).exists()), None)
    assert binary, "build it first: cargo build -p lowtide"

    def go(limit, *args, options=()):
        with Cgroup(limit) as cgroup:
            ask = [str(binary), "run", "--guard", "--resume", "9", "--out", "job.tide", *options]
            if cgroup.folder is None:
                ask += ["--limit", str(limit)]
            result = run(*args, agent=False, env=JOB, before=[*cgroup.before(), *ask, "--"])
            return Run(result, cgroup.kills())

    return go


JOB = {"STEPS": str(STEPS), "LEAK_MIB": str(LEAK >> 20)}


def unbroken(run, *args, ranks=1):
    """The job by itself: what it said, its diary, and the limit it is to be run under."""
    result = run(*args, agent=False, env=JOB)
    assert result.code == 0, result.stderr[-3000:]
    said = json.loads(result.stdout.strip().splitlines()[-1])
    limit = (said["held"] - STEPS * LEAK + ROOM) * ranks + said.get("launcher", 0)
    return said, diary(result.work), limit


def check_that_nothing_is_lost(done, whole, repeated=0):
    """All steps, each one once, with the losses of the unbroken run; by several lives, none of which the kernel ended."""
    story = done.story()
    assert done.result.code == 0, story
    assert done.kills == 0 and not done.of("killed") if not repeated else done.kills == 0, story
    lives = len(done.of("life")) + 1
    assert lives >= 3, story
    if repeated:
        assert len(done.diary) <= STEPS + repeated * (lives - 1), story
        assert dict(done.diary) == dict(whole), story
    else:
        assert done.diary == whole, story
        assert [data["repeated_steps"] for data in done.of("went_on")] == [0] * (lives - 1), story


def test_a_trainer_that_leaks_finishes_all_its_steps(run, guarded):
    said, whole, limit = unbroken(run, "leaking_hf.py")
    done = guarded(limit, "leaking_hf.py")
    check_that_nothing_is_lost(done, whole)
    # The Trainer's own history as well.
    last = next(line for line in done.result.stdout.splitlines() if line.startswith('{"pid"'))
    assert json.loads(last)["losses"] == said["losses"]


def test_lightning_goes_on_as_if_stopped_and_resumed_by_hand_at_the_same_steps(run, guarded):
    _, _, limit = unbroken(run, "leaking_pl.py")
    done = guarded(limit, "leaking_pl.py")
    stops = [str(int(data["step"])) for data in done.of("stopped")]
    by_hand = run("leaking_pl.py", agent=False, env={**JOB, "LEAK_MIB": "0", "PACE": "0", "BY_HAND": ",".join(stops)})
    assert by_hand.code == 0, by_hand.stderr[-3000:]
    check_that_nothing_is_lost(done, diary(by_hand.work))


def test_keras_stops_at_the_end_of_a_pass_and_goes_on_from_its_backup(run, guarded):
    said, whole, limit = unbroken(run, "leaking_ks.py")
    done = guarded(limit, "leaking_ks.py")
    check_that_nothing_is_lost(done, whole)
    last = next(line for line in done.result.stdout.splitlines() if line.startswith('{"pid"'))
    assert json.loads(last)["weights"] == said["weights"]


def test_a_loop_of_accelerate_that_asks_its_trigger_loses_nothing(run, guarded):
    _, whole, limit = unbroken(run, "leaking_acc.py")
    done = guarded(limit, "leaking_acc.py")
    check_that_nothing_is_lost(done, whole)


def test_a_loop_that_saves_on_a_signal_loses_nothing(run, guarded):
    _, whole, limit = unbroken(run, "leaking_loop.py", "term")
    done = guarded(limit, "leaking_loop.py", "term", options=["--stop-signal", "TERM"])
    check_that_nothing_is_lost(done, whole)


def test_a_loop_that_handles_nothing_goes_back_to_its_last_checkpoint_and_is_told_so(run, guarded):
    _, whole, limit = unbroken(run, "leaking_loop.py", "every")
    done = guarded(limit, "leaking_loop.py", "every")
    check_that_nothing_is_lost(done, whole, repeated=10)
    assert "only its last checkpoint is kept" in done.result.stderr


def test_two_ranks_stop_together_and_go_on_together(run, guarded):
    launch = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "29615"]
    said, whole, limit = unbroken(run, *launch, "leaking_hf.py", ranks=2)
    done = guarded(limit, *launch, "leaking_hf.py")
    check_that_nothing_is_lost(done, whole)
    last = next(line for line in done.result.stdout.splitlines() if line.startswith('{"pid"'))
    assert json.loads(last)["losses"] == said["losses"]
