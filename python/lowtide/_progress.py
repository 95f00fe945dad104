"""What every framework's callback does at a step, an epoch, an evaluation, a save, and at the end.

One class for all of them, without a framework in it. Not here: how a framework calls it, logs, saves and stops
(see `_trainer`, `lightning`, `keras`).
"""

from __future__ import annotations

import time

from lowtide import _cleanup, _memory, _objects, _page

# Counting tensors walks all objects with the interpreter's lock held: it gets one part in a hundred of the time.
_CENSUS_SHARE = 0.01


class Progress:
    """Marks, readings and the summary of one training run."""

    def __init__(self, cleanup_every: int | None = None) -> None:
        _page.follow()
        self.cleanup = _cleanup.Cleanup(cleanup_every)
        self._first: _memory.Host | None = None
        self._peak = 0
        self._census: _objects.Census | None = None
        self._cleaned: _cleanup.Round | None = None
        self._next_count = 0.0
        self.steps = 0

    def _page(self) -> _page.Page | None:
        """Where to write; nowhere when the agent follows the framework by itself: twice would count twice."""
        return _page.page() if _page.claim() else None

    def begin(self, stops: str | None) -> None:
        """Training starts: what is here now is not growth. `stops` says who honours a request to save and stop."""
        page = _page.page()
        if page is not None and stops is not None and not _page.followed():
            page.can_stop(stops)
        self._first = _memory.host()
        self._peak = self._first.rss
        self._census = _objects.census(_objects.CENSUS_SECONDS / 2)

    def step(self, number: int, epoch: float | None = None) -> None:
        """A step ended."""
        self.steps = number
        page = self._page()
        if page is not None:
            page.step(number)
            if epoch is not None:
                page.epoch(epoch)
        self._cleaned = self.cleanup.step(number) or self._cleaned

    def asked_to_stop(self, ranks: int) -> bool:
        """Whether to save and stop now. Where the agent follows the framework by itself, it does that itself."""
        page = _page.page()
        return page is not None and not _page.followed() and bool(page.stop_requested(ranks))

    def phase(self, kind: int, phase: int, number: float | None = None) -> None:
        """An epoch, evaluation or save starts or ends."""
        page = self._page()
        if page is not None:
            page.mark(kind, phase, float("nan") if number is None else float(number), {})

    def facts(self, **known: float | None) -> None:
        """What the run says of itself: examples, batch, accum, epochs."""
        page = self._page()
        told = {name: value for name, value in known.items() if value is not None and value > 0}
        if page is not None and told:
            page.mark(_page.INFO, _page.POINT, float("nan"), told)

    def readings(self) -> dict[str, float]:
        """Host, GPU and tensors by device, for the framework's log."""
        values = _memory.readings()
        self._peak = max(self._peak, int(values["lowtide/rss_mib"] * _memory.MIB))
        values.update(self._tensors())
        if self._cleaned is not None:
            values["lowtide/cleanup_freed_mib"] = round(self._cleaned.freed / _memory.MIB, 1)
            values["lowtide/cleanup_ms"] = round(self._cleaned.milliseconds, 1)
            self._cleaned = None
        return values

    def _tensors(self) -> dict[str, float]:
        """Counted anew when the last count has paid for itself; until then the last one is not repeated as new."""
        now = time.monotonic()
        if now < self._next_count:
            return {}
        values: dict[str, float] = {}
        for device, (count, held) in _objects.tensors_by_device().items():
            values[f"lowtide/tensors_{device}"] = count
            values[f"lowtide/tensors_{device}_mib"] = round(held / _memory.MIB, 1)
        took = time.monotonic() - now
        self._next_count = now + took / _CENSUS_SHARE
        return values

    def end(self) -> str:
        """The growth of the run, and the ten largest types and tensors."""
        _page.release()
        first, last = self._first or _memory.host(), _memory.host()
        self._peak = max(self._peak, last.rss)
        lines = [
            (
                f"lowtide: host memory went from {_memory.size(first.rss)} to {_memory.size(last.rss)} "
                f"({_signed(last.rss - first.rss)}) in {self.steps} steps; highest seen {_memory.size(self._peak)}"
            ),
            (
                f"  by kind         anonymous {_signed(last.anon - first.anon)}, file {_signed(last.file - first.file)}, "
                f"shared {_signed(last.shmem - first.shmem)}"
            ),
        ]
        lines += _objects_lines(self._census, _objects.census())
        cleaned = self.cleanup.summary()
        if cleaned:
            lines.append(f"  {cleaned}")
        lines.append("  growth alone is no leak: `lowtide run -- CMD` records it and says what it is")
        return "\n".join(lines)


def _signed(count: int) -> str:
    return f"{'+' if count >= 0 else ''}{_memory.size(count)}"


def _objects_lines(before: _objects.Census | None, after: _objects.Census) -> list[str]:
    lines = []
    for number, kind in enumerate(after.largest()):
        grown = ""
        if before is not None and before.complete and after.complete:
            had = before.kinds.get(kind.name)
            grown = f", {_signed(kind.size - (had.size if had else 0))}"
        head = "largest types" if number == 0 else ""
        lines.append(f"  {head:<15} {_memory.size(kind.size):>9}{grown}  {kind.number:,} x {kind.name}")
    for number, tensor in enumerate(after.largest_tensors()):
        head = "largest tensors" if number == 0 else ""
        lines.append(f"  {head:<15} {_memory.size(tensor.size):>9}  {tensor.what} on {tensor.device}")
    if not after.complete:
        lines.append(f"  not all objects were looked at: it stopped after {after.seconds:.1f} s")
    return lines
