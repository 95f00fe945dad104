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
INJECTED = "lowtide_agent"
CALLBACK = "lowtide callback"

_tried = False
_following = False


class Page(Protocol):
    """What we use of a page. Nothing of it raises."""

    @property
    def steps(self) -> int: ...
    def step(self, n: int) -> None: ...
    def epoch(self, x: float) -> None: ...
    def mark(self, kind: int, phase: int, number: float, extra: Mapping[str, Any] | None = None) -> None: ...
    def folder(self, key: str, path: str) -> None: ...
    def can_stop(self, by: str, **more: Any) -> None: ...
    def stop_requested(self, ranks: int = 1) -> bool: ...
    def stop_done(self) -> None: ...


def _agent(part: str) -> ModuleType:
    """A module of the agent: of the injected one where there is one, else of the one in this package."""
    return importlib.import_module(f"{INJECTED if INJECTED in sys.modules else 'lowtide._agent'}.{part}")


def page() -> Page | None:
    """The page of this process, or None when nobody records it."""
    global _tried
    found: Page | None = _agent("page").current()
    if found is None and not _tried:
        _tried = True
        found = _agent("page").open_page()
    return found


def steps_before() -> int:
    """Steps of the lives before this one, where the recorder started the program again."""
    return int(_agent("progress")._steps_before())


def begin_in(folder: str) -> None:
    """Begins a page for a recorder that we started ourselves, and has the agent follow the frameworks here."""
    _agent("page").move_page(folder)
    follow()


def follow() -> None:
    """Has the agent follow the frameworks of this process by itself, as the injected one does: one code for all marks."""
    global _following
    if INJECTED in sys.modules or _following or page() is None:
        return
    _following = True
    _agent("start").start()


def _job() -> Any:
    """What the agent knows of the training that runs now; None where it follows nothing."""
    loaded = sys.modules.get(f"{INJECTED}.progress") or sys.modules.get("lowtide._agent.progress")
    job = getattr(loaded, "job", None)
    return job if job is not None and not job.off else None


def look(page: Page, step: int) -> None:
    """Has the agent tell what it tells now and then, at a step that the user's own loop counts."""
    job = _job()
    if job is not None:
        try:
            job.look(page, step, _agent("progress").now())
        except Exception:
            job.failed()


def claim() -> bool:
    """Whether a callback has to make the marks itself: the agent does not know its framework.

    Then the agent's hooks of what lies below it, such as torch's, stand back as for a framework they know.
    """
    job = _job()
    if job is None:
        return True
    if job.driver is None:
        job.takes_over(CALLBACK)
    return bool(job.driver == CALLBACK)


def release() -> None:
    """The training of a callback that made the marks itself has ended."""
    job = _job()
    if job is not None and job.driver == CALLBACK:
        job.hands_back()


def followed() -> bool:
    """Whether the agent follows the training that runs now by itself."""
    job = _job()
    return job is not None and job.driver not in (None, CALLBACK)
