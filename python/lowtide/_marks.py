"""Marks from the user's own loop: steps, phases, and the question whether to stop.

Without a recorder every call is a cheap nothing. A page never raises (see `lowtide._agent.page`), so neither does this.
"""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any, Callable

from lowtide import _page

_KINDS = {
    "step": _page.STEP,
    "epoch": _page.EPOCH,
    "eval": _page.EVAL,
    "evaluation": _page.EVAL,
    "validation": _page.EVAL,
    "save": _page.SAVE,
    "checkpoint": _page.SAVE,
    "load": _page.LOAD,
}
_UNKNOWN = float("nan")


class Step:
    """One step of a loop, as a `with` block or as a bare call.

    A block that raises was no finished step and is not counted. A bare `lowtide.step()` is dropped by Python at once,
    which is when it counts: so both ways of writing it mean the same.
    """

    __slots__ = ("_entered", "_finish")

    def __init__(self, finish: Callable[[], None]) -> None:
        self._finish = finish
        self._entered = False

    def __enter__(self) -> None:
        self._entered = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._finish()

    def __del__(self) -> None:
        if not self._entered:
            self._entered = True
            self._finish()


class Mark:
    """A moment when called bare, a stretch of time as a `with` block. See `mark`."""

    __slots__ = ("_extra", "_name", "_number", "_written")

    def __init__(self, name: str, number: float | None, extra: dict[str, Any]) -> None:
        self._name = name
        self._number = number
        self._extra = extra
        self._written = False

    def __enter__(self) -> None:
        self._written = True
        self._write(_page.START)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._extra = {**self._extra, "failed": kind.__name__}
        self._write(_page.END)

    def __del__(self) -> None:
        self._ipython_display_()

    def _ipython_display_(self) -> None:
        """A notebook keeps the last value of a cell for ever; showing it is its last use."""
        if not self._written:
            self._written = True
            self._write(_page.POINT)

    def _write(self, phase: int) -> None:
        put(self._name, phase, self._number, self._extra)


def put(name: str, phase: int, number: float | None = None, extra: dict[str, Any] | None = None) -> None:
    """Writes one mark, where there is a page to write to."""
    page = _page.page()
    if page is None:
        return
    kind = _KINDS.get(name, _page.CUSTOM)
    facts = dict(extra or {})
    if kind == _page.CUSTOM:
        facts["name"] = name
    if kind == _page.EPOCH:
        facts.setdefault("step", page.steps)
    if kind == _page.SAVE and isinstance(facts.get("path"), (str, os.PathLike)):
        folder, facts["path"] = os.path.split(os.path.abspath(facts["path"]))
        page.folder("save_dir", folder)
    page.mark(kind, phase, _UNKNOWN if number is None else number, facts)


_steps: int | None = None


def _finished(number: int | None) -> None:
    global _steps
    if number is None:
        number = (_page.steps_before() if _steps is None else _steps) + 1
    _steps = number
    page = _page.page()
    if page is not None:
        page.step(number)
        _page.look(page, number)


def step(number: int | None = None) -> Step:
    """One step of your own loop: `with lowtide.step(): ...`.

    Counts by itself; give `number` (the step that ends here, from 1) where you have it, for instance after a resume.
    """
    return Step(lambda: _finished(number))


def mark(name: str, number: float | None = None, **extra: Any) -> Mark:
    """Says what happens now: `lowtide.mark("eval")` for a moment, `with lowtide.mark("eval"): ...` for a stretch.

    `eval`, `save`, `load` and `epoch` are known to the verdict; any other name is kept as it is.
    """
    return Mark(name, number, extra)


def should_stop() -> bool:
    """Whether the recorder asks this job to save and stop. For loops of your own; the callbacks ask by themselves.

    Ask at the end of each step: several ranks are told to stop at the same one.
    """
    page = _page.page()
    if page is None:
        return False
    page.can_stop("own loop")
    return bool(page.stop_requested())


def checkpoint() -> str | None:
    """The checkpoint to go on from, when `lowtide run --guard --resume` started this program again; else None."""
    return os.environ.get("LOWTIDE_CHECKPOINT") or None


def stop_done() -> None:
    """Tells the recorder that what `should_stop` asked for was done: everything is saved."""
    page = _page.page()
    if page is not None:
        page.stop_done()
