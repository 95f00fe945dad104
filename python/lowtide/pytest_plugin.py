"""The pytest plugin: the gates of `lowtide check` for a test.

    @pytest.mark.lowtide(no_leak=True, max_range="500MB")
    def test_training(lowtide):
        for batch in batches:
            with lowtide.step():
                train(batch)

Memory is read by the test process itself at each step: no recorder, no second process until the judgement.
"""

from __future__ import annotations

import json
import os
import threading
import time
from array import array
from collections.abc import Generator
from typing import Any, Union

import pytest

from lowtide import _marks, _memory
from lowtide._binary import LowtideError, call
from lowtide._verdict import Verdict, flags, parse_size, verdict

_GATES = ("no_leak", "fits", "max", "max_range")
_ABOUT = ("examples", "batch", "accum", "world_size", "epochs", "epoch_steps", "limit")
_KNOWN = (*_GATES, *_ABOUT, "steps", "too_early", "ignore_below")
# Growth over a whole test that is below this is no leak to be told from noise: CPython takes memory from the system in
# arenas of 1 MiB.
_NOISE = "1MiB"
# Readings for which there is room from the start.
_ROOM = 10_000
# Between two readings of a test that counts no steps.
_INTERVAL = 0.02
_FAILED, _TOO_EARLY = 1, 3
_recorder_key = pytest.StashKey["Recorder"]()

Setting = Union[str, int, float, bool, None]


class Recorder:
    """The fixture `lowtide`: reads memory at each step of the test."""

    def __init__(self) -> None:
        self._columns = tuple(array("d", bytes(8 * _ROOM)) for _ in range(4))
        self._count = 0
        self.x_kind = "step"

    def step(self) -> _marks.Step:
        """One step of the test's loop: `with lowtide.step(): ...`, or a bare call at its end."""
        return _marks.Step(lambda: self.read(float(self._count + 1)))

    def read(self, x: float) -> None:
        """Takes one reading. Into room made before: what we keep must not look like the test's leak."""
        host = _memory.host()
        for column, value in zip(self._columns, (x, host.rss, host.anon, host.file)):
            if self._count == len(column):
                column.extend(array("d", bytes(8 * len(column))))
            column[self._count] = value
        self._count += 1

    def curve(self) -> dict[str, Any]:
        """The curve so far, as `lowtide explain` reads it."""
        x, rss, anon, file = (list(column[: self._count]) for column in self._columns)
        series = {"anon": anon, "file": file}
        return {"x": x, "y": rss, "x_kind": self.x_kind, "unit": "bytes", "metric": "rss", "series": series}

    def verdict(self, **about: float | str) -> Verdict:
        """What the curve so far is, for a test that wants to look by itself."""
        return verdict(self.curve(), **about)


class _Clock:
    """Reads memory by time, for a test that counts no steps: before it, while it runs, and after it."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._began = time.monotonic()
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lowtide", daemon=True)

    def _read(self) -> None:
        self._recorder.read(time.monotonic() - self._began)

    def _run(self) -> None:
        while not self._enough.wait(_INTERVAL):
            self._read()

    def __enter__(self) -> None:
        self._recorder.x_kind = "seconds"
        self._read()
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        self._thread.join()
        self._read()


def pytest_configure(config: pytest.Config) -> None:
    """Declares the marker, so that --strict-markers knows it."""
    config.addinivalue_line(
        "markers",
        "lowtide(no_leak=True, fits='8GB', max='2GB', max_range='500MB', steps='10..', examples=, batch=, accum=, "
        "too_early='fail'): judge the memory of this test as `lowtide check` does",
    )


@pytest.fixture
def lowtide(request: pytest.FixtureRequest) -> Recorder:
    """Reads memory at each step: `with lowtide.step(): ...`."""
    recorder = Recorder()
    request.node.stash[_recorder_key] = recorder
    return recorder


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """After the test's own body passed: is its memory fine? Inside the call, so that the test fails and is no error."""
    if item.get_closest_marker("lowtide") is None:
        yield
        return
    settings = _settings(item)
    recorder = item.stash.get(_recorder_key, None)
    if recorder is None:
        recorder = Recorder()
        with _Clock(recorder):
            yield
    else:
        yield
    _judge(recorder, settings, item)


def _settings(item: pytest.Item) -> dict[str, Setting]:
    """What the markers say; the nearest wins. A gate nobody knows would never fail, so it is an error."""
    settings: dict[str, Setting] = {}
    for marker in reversed(list(item.iter_markers("lowtide"))):
        unknown = [name for name in marker.kwargs if name not in _KNOWN]
        if unknown or marker.args:
            said = ", ".join([*map(repr, marker.args), *unknown])
            raise pytest.UsageError(f"mark lowtide of {item.nodeid}: {said} is not known; use {', '.join(_KNOWN)}")
        settings.update(marker.kwargs)
    if settings.get("too_early", "fail") not in ("fail", "pass"):
        raise pytest.UsageError(f"mark lowtide of {item.nodeid}: too_early is 'fail' or 'pass'")
    if not any(settings.get(gate) for gate in _GATES):
        settings["no_leak"] = True
    return settings


def _about(settings: dict[str, Setting]) -> list[str]:
    fits = settings.get("fits")
    about = {name: settings.get(name) for name in _ABOUT}
    if fits and fits is not True:
        about["limit"] = fits
    return flags(about)


def _gates(settings: dict[str, Setting]) -> list[str]:
    if not any(settings.get(gate) for gate in _GATES):
        return []
    words = [f"--{name.replace('_', '-')}" for name in ("no_leak", "fits") if settings.get(name)]
    return [*words, *flags({name: settings.get(name) for name in ("max", "max_range", "steps")})]


def _judge(recorder: Recorder, settings: dict[str, Setting], item: pytest.Item) -> None:
    """Passes, or fails with the verdict as its message."""
    folder = item.config._tmp_path_factory.mktemp("lowtide")  # type: ignore[attr-defined]
    path = os.path.join(folder, "curve.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(recorder.curve(), file)
    about = _about(settings)
    try:
        gates = _gates(_without_noise(settings, path, about))
        checked = call(["check", path, *gates, *about], accept=(0, _FAILED, _TOO_EARLY)) if gates else None
        if checked is None or checked.returncode == 0:
            return
        if checked.returncode == _TOO_EARLY and settings.get("too_early") == "pass":
            return
        told = call(["explain", path, *about]).stdout
    except LowtideError as error:
        pytest.fail(f"lowtide could not check the memory of this test: {error}", pytrace=False)
    pytest.fail(f"{told.strip()}\n\n{_said(checked.stdout)}", pytrace=False)


def _without_noise(settings: dict[str, Setting], path: str, about: list[str]) -> dict[str, Setting]:
    """The settings without the leak gate when what rises is too little to be told from noise."""
    if not settings.get("no_leak"):
        return settings
    told = json.loads(call(["explain", path, "--format", "json", *about]).stdout)
    floor = told["floor"]
    rise = floor["end_bytes"] - floor["start_bytes"]
    if told["group"] != "leak" or rise >= parse_size(settings.get("ignore_below") or _NOISE):
        return settings
    return {**settings, "no_leak": False}


def _said(report: str) -> str:
    """The gates' lines, without the path of a file the user never wrote."""
    lines = [line for line in report.splitlines() if not line.endswith("curve.json")]
    return "\n".join(lines).strip()
