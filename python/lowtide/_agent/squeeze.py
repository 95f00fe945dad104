"""Cleans up once when the recorder asks for it (`lowtide squeeze`), and measures what each way of cleaning up gives back.

Why inside: only the process itself can collect its garbage or have its allocators let go. It happens at a step's end; where
no step was told lately, when a batch is taken, or between two bytecodes of the main thread where the interpreter lets the
recorder call us there (3.14). Never inside a signal handler of the program's. A callback of the garbage collector would reach
every program, and lose a Ctrl-C that comes while it collects: so there is none. One way at a time: what gave something back is
looked at again ten steps (or ten seconds) later before the next one begins. Gradients are not touched: that would change results.
Not here: what the figures mean (the recorder's side).
"""

import gc
import os
import sys
from _thread import get_ident, start_new_thread
from time import clock_gettime_ns, sleep

from . import page as _page
from .page import BOOTTIME

SECOND = 1_000_000_000
#: Less than this is noise of the counters: nothing that could come back.
LEAST = 1 << 20
#: What was given back is looked at again after so many steps, or where there are none, so long.
STEPS_LATER = 10
LATER = 10 * SECOND
#: While the last step is not older than this, work waits for the next step's end.
STEPPING = 60 * SECOND
#: Trim before the collector: memory that was free already is not the collector's merit.
WAYS = ("trim", "gpu", "gc")

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
#: How other allocators than the C library's let go, by a function that only they have.
_STRANGERS = (
    ("jemalloc", "mallctl", lambda call: call(b"arena.4096.purge", None, None, None, None)),
    ("tcmalloc", "MallocExtension_ReleaseFreeMemory", lambda call: call()),
    ("mimalloc", "mi_collect", lambda call: call(1)),
    ("glibc", "malloc_trim", lambda call: call(0)),
)

_work = None


class _NotNow(Exception):
    """The collector is at work below us: later."""


class Squeeze:
    """One request on its way."""

    def __init__(self, page, number):
        self.page = page
        self.number = number
        self._left = list(WAYS)
        #: What is being watched: (way, step, nanoseconds) of when it was done.
        self._watched = None
        page.take_up(number)

    def due(self, step, now):
        """Whether there is something to do by now; `step` is None where no steps are told."""
        if self._watched is None:
            return True
        _, done_step, done_at = self._watched
        return now - done_at >= LATER if step is None else step >= done_step + STEPS_LATER

    def go_on(self, step):
        """Looks again at what was done, then cleans up until something came back. True when nothing is left."""
        if self._watched is not None:
            way, done_step, done_at = self._watched
            self._watched = None
            later = {"seconds": round((_now() - done_at) / SECOND, 1)}
            if step is not None:
                later["steps"] = step - done_step
            self._tell(way, later=_sizes(), **later)
        while self._left:
            way = self._left.pop(0)
            try:
                facts = _WAYS[way]()
            except _NotNow:
                self._left.insert(0, way)
                return False
            except Exception as error:
                if _is_the_programs(error):
                    raise
                facts = {"not": "it failed: " + type(error).__name__}
            self._tell(way, **facts)
            if _came_back(facts):
                self._watched = (way, self.page.steps, _now())
                return False
        self.page.carried_out(self.number)
        return True

    def _tell(self, way, **facts):
        self.page.info(squeeze=dict(n=self.number, way=way, **facts))


def at_step(page, step):
    """A step ended and the recorder wants something."""
    try:
        _work_on(page, step)
    except Exception as error:
        if _is_the_programs(error):
            raise


def _work_on(page, step):
    global _work
    number = page.squeeze_wanted()
    if number is None or _runs(_handler_codes()):
        return
    if _work is None or _work.page is not page or _work.number != number:
        _work = Squeeze(page, number)
    work = _work
    if work.due(step, _now()) and work.go_on(step):
        _work = None


def at_batch(page):
    """A batch was taken: the place for programs that make no steps."""
    try:
        if not _stepping(page):
            _work_on(page, None)
    except Exception as error:
        if _is_the_programs(error):
            raise


def here():
    """The recorder had the interpreter call us between two bytecodes of the main thread (Python 3.14)."""
    try:
        page = _page.current()
        if page is not None and not _stepping(page):
            _work_on(page, None)
    except BaseException as error:
        if _is_the_programs(error):
            _raise_later(type(error))


def _stepping(page):
    return page.steps and _now() - page.step_time < STEPPING


def _is_the_programs(error):
    """Whether an exception comes from a signal handler that ran while we worked: Ctrl-C, an alarm of the program's."""
    if not isinstance(error, Exception):
        return True
    codes = _handler_codes()
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in codes:
            return True
        trace = trace.tb_next
    return False


def _raise_later(kind):
    """Who calls us here would print it and go on: the program gets it a moment later, when this call is over."""
    start_new_thread(_raise_in, (get_ident(), kind))


def _raise_in(thread, kind):
    try:
        import ctypes

        sleep(0.005)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(kind))
    except Exception:
        pass


def _handler_codes():
    import _signal

    handlers = (_signal.getsignal(number) for number in range(1, _signal.NSIG))
    return {code for code in map(_code_of, handlers) if code is not None}


def _runs(codes):
    """Whether one of these functions is being run by this thread."""
    frame = sys._getframe() if codes else None
    while frame is not None:
        if frame.f_code in codes:
            return True
        frame = frame.f_back
    return False


def _code_of(handler):
    for attribute in ("func", "__func__"):
        handler = getattr(handler, attribute, handler)
    if not hasattr(handler, "__code__"):
        handler = getattr(type(handler), "__call__", None)  # noqa: B004 (the function itself is wanted)
    return getattr(handler, "__code__", None)


def _now():
    return clock_gettime_ns(BOOTTIME)


def _sizes():
    """(resident bytes, bytes the GPU allocator holds or None)."""
    fd = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
    try:
        resident = int(os.read(fd, 256).split()[1])
    finally:
        os.close(fd)
    cuda = _cuda()
    held = None if cuda is None else sum(cuda.memory_reserved(device) for device in range(cuda.device_count()))
    return resident * _PAGE_BYTES, held


def _cuda():
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    return cuda if cuda is not None and cuda.is_initialized() else None


def _came_back(facts):
    before, after = facts.get("before"), facts.get("after")
    if before is None:
        return False
    gpu = (before[1] or 0) - (after[1] or 0)
    return before[0] - after[0] >= LEAST or gpu >= LEAST


def _measured(act):
    before = _sizes()
    began = _now()
    act()
    took = _now() - began
    return {"ms": round(took / 1e6, 3), "before": before, "after": _sizes()}


def _trim():
    name, call = _trimmer()
    if call is None:
        return {"not": name}
    return dict(_measured(call), **{"with": name})


def _trimmer():
    """The allocator behind malloc and how it lets go; or why that is not known."""
    from functools import partial

    try:
        from ctypes import CDLL
    except ImportError:
        return "this Python has no ctypes", None
    program = CDLL(None)
    for name, symbol, let_go in _STRANGERS:
        function = getattr(program, symbol, None)
        if function is not None:
            return name, partial(let_go, function)
    return "this C library has no malloc_trim", None


def _gpu():
    cuda = _cuda()
    if cuda is None:
        return {"not": "no GPU is in use"}
    if cuda.is_current_stream_capturing():
        return {"not": "a CUDA graph is being recorded"}
    return dict(_measured(cuda.empty_cache), **{"with": "torch.cuda.empty_cache"})


def _gc():
    # What is free already goes first, so that only what the collector frees counts; what it freed is then let go as well.
    _let_go()
    before = _sizes()
    blocks = sys.getallocatedblocks()
    rounds = _collections()
    began = _now()
    found = gc.collect()
    took = _now() - began
    if _collections() == rounds:
        raise _NotNow
    freed = blocks - sys.getallocatedblocks()
    if found or freed > 0:
        _let_go()
    return {"ms": round(took / 1e6, 3), "before": before, "after": _sizes(), "found": found}


def _collections():
    return sum(generation["collections"] for generation in gc.get_stats())


def _let_go():
    _, call = _trimmer()
    if call is not None:
        call()
    cuda = _cuda()
    if cuda is not None and not cuda.is_current_stream_capturing():
        cuda.empty_cache()


_WAYS = {"trim": _trim, "gpu": _gpu, "gc": _gc}
