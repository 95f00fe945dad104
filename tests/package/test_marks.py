"""Steps, marks and the stop request of a loop of one's own, through a real page and real processes."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import textwrap
from pathlib import Path

import pages
import pytest

STEP, EVAL, SAVE, CUSTOM = 1, 3, 4, 7
START, END, POINT = 1, 2, 3


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "marks"
    folder.mkdir(mode=0o700)
    return folder


def run(code: str, folder: Path | None, *before: str) -> str:
    env = {**os.environ, **({"LOWTIDE_MARKS": str(folder)} if folder else {})}
    command = [sys.executable, *before, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_steps_count_as_blocks_and_as_bare_calls(folder: Path) -> None:
    run(
        """
        import lowtide
        for _ in range(5):
            with lowtide.step():
                pass
        for _ in range(2):
            lowtide.step()
        """,
        folder,
    )
    (page,) = pages.read(folder)
    assert page.steps == 7


def test_a_step_that_raised_is_no_finished_step(folder: Path) -> None:
    run(
        """
        import lowtide
        for number in range(4):
            try:
                with lowtide.step():
                    1 / (number % 2)
            except ZeroDivisionError:
                pass
        """,
        folder,
    )
    (page,) = pages.read(folder)
    assert page.steps == 2


def test_a_given_number_is_taken_as_it_is(folder: Path) -> None:
    run("import lowtide\nwith lowtide.step(500): pass\nlowtide.step()", folder)
    (page,) = pages.read(folder)
    assert page.steps == 501


def test_a_mark_is_a_moment_or_a_stretch_and_known_names_have_their_kind(folder: Path) -> None:
    run(
        """
        import lowtide
        lowtide.mark("checkpoint", 3)
        with lowtide.mark("eval", 12):
            pass
        with lowtide.mark("rollout", prompts=64):
            pass
        try:
            with lowtide.mark("save"):
                raise OSError
        except OSError:
            pass
        """,
        folder,
    )
    (page,) = pages.read(folder)
    told = [(record.kind, record.phase, record.extra) for record in page.records]
    rollout = {"prompts": 64, "name": "rollout"}
    assert told == [
        (SAVE, POINT, {}),
        (EVAL, START, {}),
        (EVAL, END, {}),
        (CUSTOM, START, rollout),
        (CUSTOM, END, rollout),
        (SAVE, START, {}),
        (SAVE, END, {"failed": "OSError"}),
    ]
    assert [record.number for record in page.records[:3]] == [3.0, 12.0, 12.0]


def test_without_a_recorder_everything_is_a_quiet_nothing(tmp_path: Path) -> None:
    out = run(
        """
        import lowtide
        with lowtide.step(): pass
        with lowtide.mark("eval"): pass
        lowtide.mark("save")
        lowtide.stop_done()
        print(lowtide.should_stop())
        """,
        None,
    )
    assert out == "False\n"


def test_a_forked_child_has_a_page_of_its_own(folder: Path) -> None:
    run(
        """
        import os, lowtide
        for _ in range(3): lowtide.step()
        pid = os.fork()
        if pid == 0:
            lowtide.step(50)
            os._exit(0)
        os.waitpid(pid, 0)
        lowtide.step()
        """,
        folder,
    )
    assert sorted(page.steps for page in pages.read(folder)) == [4, 50]


def test_the_stop_request_is_seen_and_its_doing_is_told(folder: Path) -> None:
    run(
        """
        import glob, os, lowtide
        lowtide.step()
        (name,) = glob.glob(os.environ["LOWTIDE_MARKS"] + "/*")
        def put(offset, value):
            with open(name, "r+b") as file:
                file.seek(offset)
                file.write(value.to_bytes(8, "little"))
        assert not lowtide.should_stop()
        put(264, 9)
        put(256, 1)
        assert lowtide.should_stop()
        assert lowtide.should_stop()
        lowtide.stop_done()
        assert not lowtide.should_stop()
        """,
        folder,
    )
    (path,) = folder.iterdir()
    assert struct.unpack_from("<QQ", path.read_bytes(), 272) == (9, 9)


def test_the_injected_agents_page_is_the_one_that_is_used(folder: Path) -> None:
    run(
        """
        import importlib.util, os, sys
        where = [os.path.join(p, "lowtide", "_agent") for p in sys.path]
        (source,) = [p for p in where if os.path.isdir(p)][:1]
        spec = importlib.util.spec_from_file_location(
            "lowtide_agent", os.path.join(source, "__init__.py"), submodule_search_locations=[source])
        agent = importlib.util.module_from_spec(spec)
        sys.modules["lowtide_agent"] = agent
        spec.loader.exec_module(agent)
        from lowtide_agent import page
        own = page.open_page()
        import lowtide
        lowtide.step()
        lowtide.mark("eval")
        assert "lowtide._agent.page" not in sys.modules
        assert own.steps == 1 and own.told
        """,
        folder,
    )
    (page,) = pages.read(folder)
    assert page.steps == 1
    assert [record.kind for record in page.records] == [EVAL]


def test_importing_lowtide_imports_nothing_heavy() -> None:
    heavy = {"torch", "transformers", "numpy", "IPython", "pytest", "lightning", "keras", "asyncio"}
    out = run("import lowtide, sys\nprint(' '.join(sys.modules))", None, "-X", "importtime")
    assert heavy.isdisjoint(out.split())
