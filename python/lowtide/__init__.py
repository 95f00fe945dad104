"""lowtide: memory truth for training jobs.

    with lowtide.step(): ...            # one step of your own loop
    with lowtide.mark("eval"): ...      # what happens now
    Trainer(..., callbacks=[lowtide.Callback()])
    lowtide.watch()                     # record this process from here on
    lowtide.verdict("run.tide")         # a leak, a cache that fills, a warm-up; and does it fit?

Importing this imports no framework. See docs/python.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lowtide._binary import LowtideError
from lowtide._marks import checkpoint, mark, should_stop, step, stop_done
from lowtide._verdict import Outcome, Verdict, verdict
from lowtide._watch import Watch, watch

if TYPE_CHECKING:
    from lowtide._trainer import Callback as Callback

# Not `Callback`: a star import must not need transformers.
__all__ = [
    "LowtideError",
    "Outcome",
    "Verdict",
    "Watch",
    "__version__",
    "checkpoint",
    "mark",
    "should_stop",
    "step",
    "stop_done",
    "verdict",
    "watch",
]


def __getattr__(name: str) -> Any:
    """What costs an import comes when it is asked for."""
    if name == "Callback":
        from lowtide._trainer import Callback

        return Callback
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("lowtide")
        except PackageNotFoundError:
            return "0+source"
    raise AttributeError(f"module 'lowtide' has no attribute {name!r}")


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext lowtide`."""
    from lowtide._notebook import load

    load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """`%unload_ext lowtide`."""
    from lowtide._notebook import unload

    unload(shell)
