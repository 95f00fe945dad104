"""The mark page of this process: the one the injected agent has, else one of our own.

Why look for the agent first: under `lowtide run` it is loaded as `lowtide_agent` before any of the user's code. Two
pages for one process would give two step counts. Not here: the page's layout (see `lowtide._agent.page`).
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Protocol

STEP, EPOCH, EVAL, SAVE, LOAD, INFO, CUSTOM = 1, 2, 3, 4, 5, 6, 7
START, END, POINT = 1, 2, 3

_tried = False


class Page(Protocol):
    """What we use of a page."""

    def step(self, n: int) -> None: ...
    def epoch(self, x: float) -> None: ...
    def mark(self, kind: int, phase: int, number: float, extra: Mapping[str, Any] | None = None) -> None: ...
    def stop_requested(self) -> bool: ...
    def stop_done(self) -> None: ...


def agent() -> ModuleType | None:
    """The agent's page module: the injected one where there is one, else the one in this package."""
    name = "lowtide_agent.page" if "lowtide_agent" in sys.modules else "lowtide._agent.page"
    try:
        return sys.modules.get(name) or importlib.import_module(name)
    except ImportError:
        return None


def page() -> Page | None:
    """The page of this process, or None when nobody records it."""
    global _tried
    module = agent()
    if module is None:
        return None
    found: Page | None = module.current()
    if found is None and not _tried:
        _tried = True
        found = module.open_page()
    return found


def open_in(folder: str) -> Page | None:
    """A page for a recorder that was started by us, unless there is one already."""
    module = agent()
    if module is None:
        return None
    found: Page | None = module.current() or module.open_page(folder)
    return found


def hooked(framework: str) -> bool:
    """Whether the injected agent itself follows this framework, so that its callback has nothing to mark."""
    return False
