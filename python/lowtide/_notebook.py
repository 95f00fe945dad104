"""`%load_ext lowtide`: cells become marks, each fit its own recording, and `%lowtide` names who holds memory.

A notebook keeps things a script would drop: every value a cell showed (Out), the frames of the last error, and all
names. That is most of what looks like a leak in a notebook.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any, Callable, NamedTuple

from lowtide import _marks, _memory, _objects, _page, _watch
from lowtide._agent import imports
from lowtide._binary import LowtideError
from lowtide._verdict import Verdict, verdict

# Smaller things are not what fills a machine.
_WORTH_NAMING = 1 * _memory.MIB
_MOST_LINES = 15

# Where the classes are that train, and their method: each call of it is a fit.
_FITS = {
    "transformers.trainer": ("Trainer", "train"),
    "lightning.pytorch.trainer.trainer": ("Trainer", "fit"),
    "pytorch_lightning.trainer.trainer": ("Trainer", "fit"),
    "keras.src.models.model": ("Model", "fit"),
}


class Cell(NamedTuple):
    """What a cell did to memory."""

    number: int
    before: int
    after: int


class Fit(NamedTuple):
    """One training, recorded by itself."""

    name: str
    path: str | None
    why_not: str | None

    def verdict(self) -> Verdict | None:
        """What its recording is."""
        return verdict(self.path) if self.path is not None else None


class Holder(NamedTuple):
    """A name under which a notebook keeps memory."""

    size: int
    where: str
    what: str
    how_to_drop: str


class Notebook:
    """The extension in one shell."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._before = 0
        self._running: int | None = None
        self.cells: list[Cell] = []
        self.fits: list[Fit] = []

    def before_cell(self, info: Any) -> None:
        """A cell starts."""
        # Not `execution_count`: newer IPython has moved it on by now. `In` gets this cell only after us.
        self._running = len(self._shell.user_ns.get("In", ()))
        self._before = _memory.rss()
        _marks.put("cell", _page.START, self._running)

    def after_cell(self, result: Any) -> None:
        """A cell ended, well or not."""
        if self._running is None:
            return
        _marks.put("cell", _page.END, self._running)
        self.cells.append(Cell(self._running, self._before, _memory.rss()))
        self._running = None

    def fit(self, train: Callable[[], Any]) -> Any:
        """Runs a training under a recorder of its own, unless one records the whole notebook."""
        name = f"fit {len(self.fits) + 1}" + ("" if self._running is None else f", cell {self._running}")
        outer = _watch.current()
        recording: _watch.Watch | None = None
        why_not = "it is part of the recording of the whole notebook" if outer else None
        if outer is None:
            try:
                recording = _watch.watch(name=name)
            except LowtideError as error:
                why_not = str(error)
        _marks.put("fit", _page.START)
        try:
            return train()
        finally:
            _marks.put("fit", _page.END)
            path = recording.stop() if recording is not None else None
            self.fits.append(Fit(name, path, why_not))

    def magic(self, line: str) -> None:
        """`%lowtide`: memory, cells, fits, holders. `%lowtide fits` shows the verdicts with their curves."""
        if line.strip() == "fits":
            self._show_fits()
        elif line.strip():
            print("usage: %lowtide        who holds memory\n       %lowtide fits   what each training's curve is")
        else:
            print(self.text())

    def _show_fits(self) -> None:
        from IPython.display import display

        for fit in self.fits:
            print(fit.name if fit.why_not is None else f"{fit.name}: not recorded, {fit.why_not}")
            if fit.path is not None:
                display(fit.verdict())  # type: ignore[no-untyped-call, unused-ignore]
        if not self.fits:
            print("no training ran since %load_ext lowtide")

    def text(self) -> str:
        """The report."""
        own = _memory.host()
        lines = [f"this kernel holds {_memory.size(own.rss)} ({_memory.size(own.anon)} anonymous)"]
        grown = sorted(self.cells, key=lambda cell: cell.before - cell.after)[:5]
        big = [cell for cell in grown if cell.after - cell.before >= _WORTH_NAMING]
        lines += [f"  cell {cell.number:<4} added {_memory.size(cell.after - cell.before)}" for cell in big]
        for fit in self.fits:
            lines.append(f"  {fit.name}: {_headline(fit)}")
        found = sorted(holders(self._shell), key=lambda holder: -holder.size)
        if found:
            lines.append("held by")
        for holder in found[:_MOST_LINES]:
            size = _memory.size(holder.size)
            lines.append(f"  {size:>9}  {holder.where:<24} {holder.what:<28} {holder.how_to_drop}")
        if len(found) > _MOST_LINES:
            lines.append(f"  and {len(found) - _MOST_LINES} more")
        if not found:
            lines.append(f"no name, Out entry or traceback holds more than {_memory.size(_WORTH_NAMING)}")
        return "\n".join(lines)


def _headline(fit: Fit) -> str:
    if fit.path is None:
        return f"not recorded, {fit.why_not}"
    try:
        return verdict(fit.path).headline
    except LowtideError as error:
        return str(error)


def _wrap(module: Any) -> None:
    """Makes each call of a framework's training method a fit of the notebook."""
    owner, method = _FITS[module.__name__]
    kind = getattr(module, owner)
    plain = getattr(kind, method)

    @functools.wraps(plain)
    def fit(*args: Any, **kwargs: Any) -> Any:
        # A fit inside a fit is one fit: tuners and subclasses call each other.
        if _book is None or _fitting:
            return plain(*args, **kwargs)
        _fitting.append(True)
        try:
            return _book.fit(lambda: plain(*args, **kwargs))
        finally:
            _fitting.pop()

    if not hasattr(plain, "_lowtide"):
        fit._lowtide = True  # type: ignore[attr-defined]
        setattr(kind, method, fit)


def holders(shell: Any) -> list[Holder]:
    """Who keeps memory in this notebook; a thing with several names is listed under each way it is kept."""
    space: dict[str, Any] = shell.user_ns
    found = [*_in_out(space), *_in_traceback(), *_in_names(space, getattr(shell, "user_ns_hidden", {}))]
    return [holder for holder in found if holder.size >= _WORTH_NAMING]


def _in_names(space: dict[str, Any], hidden: Any) -> Iterator[Holder]:
    for name, value in list(space.items()):
        if name.startswith("_") or name in hidden or name in ("In", "Out"):
            continue
        size, whole = _objects.deep_size(value)
        yield Holder(size, f"name {name}", _what(value, whole), f"del {name}")


def _in_out(space: dict[str, Any]) -> Iterator[Holder]:
    history = space.get("Out") or {}
    for number, value in list(history.items()):
        size, whole = _objects.deep_size(value)
        yield Holder(size, f"Out[{number}]", _what(value, whole), "%reset -f out")


def _in_traceback() -> Iterator[Holder]:
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    trace = getattr(error, "__traceback__", None) or getattr(sys, "last_traceback", None)
    for frame in _frames(trace):
        # The cell's own frame has the notebook's names as its locals; they are listed as such.
        if frame.f_locals is frame.f_globals or frame.f_code.co_name == "<module>":
            continue
        for name, value in list(frame.f_locals.items()):
            size, whole = _objects.deep_size(value)
            where = f"last error, {frame.f_code.co_name}.{name}"
            drop = "del sys.last_exc, sys.last_value, sys.last_traceback"
            yield Holder(size, where, _what(value, whole), drop)


def _frames(trace: TracebackType | None) -> Iterator[FrameType]:
    while trace is not None:
        yield trace.tb_frame
        trace = trace.tb_next


def _what(value: Any, whole: bool) -> str:
    kind = type(value).__name__
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):
        kind = f"{kind} {'x'.join(map(str, shape))}"
    elif isinstance(value, (list, dict, set, tuple)):
        kind = f"{kind} of {len(value):,}"
    return kind if whole else f"{kind}, at least"


_book: Notebook | None = None
_finder: Any = None
_fitting: list[bool] = []


def load(shell: Any) -> None:
    """Registers cells and the magic, and waits for frameworks to be imported."""
    global _book, _finder
    if _book is not None:
        return
    _book = Notebook(shell)
    _finder = imports.install(  # type: ignore[no-untyped-call]
        dict.fromkeys(_FITS, _wrap)
    )
    for event, act in _events(_book):
        shell.events.register(event, act)
    shell.register_magic_function(_book.magic, "line", "lowtide")


def unload(shell: Any) -> None:
    """Takes it back. Methods that were wrapped stay so, and only pass calls on."""
    global _book
    if _book is None:
        return
    for event, act in _events(_book):
        shell.events.unregister(event, act)
    sys.meta_path.remove(_finder)
    _book = None


def _events(book: Notebook) -> tuple[tuple[str, Callable[[Any], None]], ...]:
    return (("pre_run_cell", book.before_cell), ("post_run_cell", book.after_cell))
