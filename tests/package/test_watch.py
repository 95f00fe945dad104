"""`lowtide.watch`: a real recorder for a real process."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path

import lowtide
import pytest
from lowtide import _binary


def run(code: str) -> str:
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_watched_loop_that_keeps_everything_is_a_leak(tmp_path: Path) -> None:
    path = tmp_path / "own.tide"
    run(
        f"""
        import time, lowtide
        with lowtide.watch(out={str(path)!r}, interval="20ms") as recording:
            kept = []
            for _ in range(560):
                kept.append(bytearray(400_000))
                time.sleep(0.02)
        assert not recording.running
        assert recording.stop() == {str(path)!r}
        """
    )
    told = lowtide.verdict(path)
    assert told.kind == "leak"
    assert told.line is not None
    assert max(told.line.y) - min(told.line.y) > 60_000_000


def test_the_recording_closes_by_itself_at_the_end_of_the_program(tmp_path: Path) -> None:
    out = run("import lowtide\nprint(lowtide.watch().path)")
    path = Path(out.strip())
    assert path.parent == tmp_path / "runs"
    listed = _binary.call(["list", str(path.parent)])
    assert path.name in listed.stdout
    assert "running" not in listed.stdout


def marks_of(path: str) -> list[tuple[object, ...]]:
    with contextlib.closing(sqlite3.connect(path)) as file:
        return file.execute("SELECT kind, phase, number FROM mark ORDER BY id").fetchall()


def test_each_recording_has_the_marks_made_while_it_ran() -> None:
    out = run(
        """
        import time, lowtide
        lowtide.step()
        for run in (1, 2):
            with lowtide.watch(interval="20ms") as recording:
                for step in range(5):
                    with lowtide.step(100 * run + step):
                        time.sleep(0.05)
                with lowtide.mark("eval", run):
                    time.sleep(0.05)
            print(recording.path)
        """
    )
    for number, path in enumerate(out.splitlines(), 1):
        told = marks_of(path)
        steps = [value for kind, _, value in told if kind == "step"]
        assert steps[-1] == 100 * number + 4
        assert min(steps) >= 100 * number
        assert [(phase, value) for kind, phase, value in told if kind == "eval"] == [("start", number), ("end", number)]


def test_a_second_watch_is_the_first_one(tmp_path: Path) -> None:
    run(
        """
        import lowtide
        one = lowtide.watch()
        assert lowtide.watch() is one
        one.stop()
        two = lowtide.watch()
        assert two is not one and two.path != one.path
        """
    )


def test_a_forked_child_does_not_end_its_parents_recording() -> None:
    run(
        """
        import os, lowtide
        recording = lowtide.watch()
        pid = os.fork()
        if pid == 0:
            recording.stop()
            os._exit(0)
        os.waitpid(pid, 0)
        assert recording.running
        """
    )


def test_a_recorder_that_cannot_start_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(lowtide.LowtideError, match="the recorder did not start: error: cannot"):
        lowtide.watch(out=tmp_path / "file" / "x.tide")
