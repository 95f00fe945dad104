"""Cleaning up at step ends: garbage, the C allocator's free memory, the GPU cache. It measures what that is worth.

It is here because people write it anyway. It stops by itself after three rounds that freed nothing, and it never zeroes
gradients: that would change the training.
"""

from __future__ import annotations

import gc
import time
from typing import NamedTuple

from lowtide import _memory

# Below this a round freed nothing: resident memory moves by as much by itself.
NOTHING = 1 * _memory.MIB
ROUNDS_OF_NOTHING = 3


class Round(NamedTuple):
    """What one cleaning gave back, and what it cost."""

    host: int
    gpu: int
    milliseconds: float

    @property
    def freed(self) -> int:
        """Bytes in all."""
        return max(self.host, 0) + max(self.gpu, 0)


def clean() -> Round:
    """One round."""
    host, card = _memory.rss(), _memory.gpu()
    began = time.perf_counter()
    gc.collect()
    cuda = _memory.torch_cuda()
    if cuda is not None:
        cuda.empty_cache()
    _memory.trim()
    took = (time.perf_counter() - began) * 1000
    after = _memory.gpu()
    on_card = card.reserved - after.reserved if card is not None and after is not None else 0
    return Round(host - _memory.rss(), on_card, took)


class Cleanup:
    """Cleans every so many steps, for as long as it helps."""

    def __init__(self, every: int | None) -> None:
        if every is not None and every < 1:
            raise ValueError(f"cleanup_every is {every}; it must be 1 or more, or None for never")
        self._every = every
        self._in_vain = 0
        self.rounds = 0
        self.freed = 0
        self.milliseconds = 0.0

    @property
    def stopped(self) -> bool:
        """Whether it gave up."""
        return self._in_vain >= ROUNDS_OF_NOTHING

    def step(self, number: int) -> Round | None:
        """To be called when a step ended; cleans when it is due."""
        if self._every is None or self.stopped or number % self._every:
            return None
        done = clean()
        self.rounds += 1
        self.freed += done.freed
        self.milliseconds += done.milliseconds
        self._in_vain = self._in_vain + 1 if done.freed < NOTHING else 0
        return done

    def summary(self) -> str:
        """Megabytes against milliseconds, in one line; empty when it never ran."""
        if not self.rounds:
            return ""
        what = f"cleanup: {self.rounds} rounds gave back {_memory.size(self.freed)} for {self.milliseconds:.0f} ms"
        if self.stopped:
            what += f"; stopped after {ROUNDS_OF_NOTHING} rounds that freed nothing"
        return what
