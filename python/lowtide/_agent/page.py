"""The mark page: one small shared file a process, read by the recorder, written here by plain stores.

Why a page and not a socket: a store into mapped memory makes no system call, never blocks and does not care whether the
recorder lives. Every number is absolute, so a record that was overwritten shifts no count.
Not here: when to write (see `progress`), the import hook (see `imports`).

Nothing in this module raises into its caller once a page is open.
"""

import mmap
import os
import sys
from _collections import deque
from _thread import allocate_lock
from time import clock_gettime_ns

SIZE = 65536
MAGIC = b"LOWTIDE\x01"
VERSION = 1
UNKNOWN = (1 << 64) - 1
#: CLOCK_BOOTTIME: goes on while the machine sleeps, and is the recorder's clock.
BOOTTIME = 7

# Cells of eight bytes (offset / 8).
_MAGIC, _VERSION, _PID, _START, _RANK, _WORLD, _STATE, _FLAGS = range(8)
STEPS, STEP_TIME, EPOCH, MICRO, EXAMPLES, _HOOK_NS = range(8, 14)
_GPU_ALLOCATED, _GPU_RESERVED, _TENSORS, _TENSORS_CPU, _TENSORS_DEVICE = range(14, 19)
REQUEST, _REQUEST_NUMBER, _TAKEN, _DONE, _STOP_AT, _MISSED = range(32, 38)
_HEAD = 64

RING_AT = 1024
SLOTS = 252
SLOT = 256
#: Bytes of JSON that fit into one record.
MOST_EXTRA = 224
#: Bytes of a text; the rest is cut off: names of files, not their contents.
MOST_TEXT = 120

KINDS = {"step": 1, "epoch": 2, "eval": 3, "save": 4, "load": 5, "info": 6, "custom": 7}
PHASES = {"start": 1, "end": 2, "point": 3}
INFO, POINT = KINDS["info"], PHASES["point"]

LOADED, ACTIVE, GOODBYE, OFF = 1, 2, 3, 4
CAN_STOP, CAN_SQUEEZE = 1, 2
SAVE_AND_STOP, SQUEEZE = 1, 2

_COUNTERS = {
    "micro_batches": MICRO,
    "examples": EXAMPLES,
    "hook_ns": _HOOK_NS,
    "gpu_allocated": _GPU_ALLOCATED,
    "gpu_reserved": _GPU_RESERVED,
    "tensors": _TENSORS,
    "tensors_cpu": _TENSORS_CPU,
    "tensors_device": _TENSORS_DEVICE,
}

#: Where launchers say which rank this is, and of how many.
_RANK_VARIABLES = (
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
)

_page = None
_folder = None
#: Pages of parents and of recorders before. Kept for ever: freeing one would close a descriptor number the user may have taken over by now.
_inherited = []


class Page:
    """The page of this process."""

    def __init__(self, mapping, pid, start):
        self.pid = pid
        self.start = start
        #: The user's own code tells the step: what we would count stands back.
        self.told = False
        #: A request to save and stop was carried out: the program is on its way out.
        self.stopped = False
        self._stopping = None
        self._failed = None
        self._stops = set()
        self._looked = 0
        self._mapping = mapping
        self._bytes = memoryview(mapping)
        self.u64 = self._bytes.cast("Q")
        self._i64 = self._bytes.cast("q")
        self._i32 = self._bytes.cast("i")
        self._f64 = self._bytes.cast("d")
        self._head = self.u64[_HEAD]
        self._waiting = deque()
        self._writing = allocate_lock()

    def step(self, n):
        """The user's code finished optimizer step `n`."""
        self.told = True
        self.count_step(n)

    def count_step(self, n, at=None):
        """Hooks saw the end of optimizer step `n`, `at` nanoseconds since boot."""
        try:
            cells = self.u64
            cells[STEP_TIME] = clock_gettime_ns(BOOTTIME) if at is None else at
            cells[STEPS] = n
            wanted = cells[REQUEST] == SQUEEZE
        except Exception:
            return
        if wanted:
            self._squeeze(n)

    @property
    def steps(self):
        """The newest step told."""
        return self.u64[STEPS]

    @property
    def step_time(self):
        """When that was, in nanoseconds since boot."""
        return self.u64[STEP_TIME]

    @property
    def world_size(self):
        """Of how many ranks this is one, or None."""
        size = self._i64[_WORLD]
        return size if size > 0 else None

    @property
    def ranked(self):
        """Whether the rank is known."""
        return self._i64[_RANK] >= 0

    def epoch(self, x):
        """How far the job is, in passes over its data: 1.5 is the middle of the second."""
        try:
            self._f64[EPOCH] = x
        except Exception:
            pass

    def mark(self, kind, phase, number=float("nan"), extra=None, at=None):
        """Writes one record; `kind` and `phase` by word or by number, `at` in nanoseconds since boot."""
        try:
            when = clock_gettime_ns(BOOTTIME) if at is None else at
            kind = KINDS.get(kind, kind)
            phase = PHASES.get(phase, phase)
            for part in _parts(extra):
                self._waiting.append((when, kind, phase, number, part))
                kind, phase = INFO, POINT
            self._drain()
        except Exception:
            pass

    def info(self, **facts):
        """States facts about the job."""
        self.mark(INFO, POINT, float("nan"), facts)

    def folder(self, key, path):
        """States a folder as `key`; what does not fit into one record follows as `key`_more."""
        try:
            from json import dumps

            path = os.path.abspath(path)
            while path:
                most = len(path)
                while True:
                    part = dumps({key: path[:most]}, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
                    if len(part) <= MOST_EXTRA:
                        break
                    most //= 2
                self._waiting.append((clock_gettime_ns(BOOTTIME), INFO, POINT, float("nan"), part))
                path = path[most:]
                if not key.endswith("_more"):
                    key += "_more"
            self._drain()
        except Exception:
            pass

    def cost(self, ns):
        """Nanoseconds spent inside hooks so far."""
        self.u64[_HOOK_NS] = ns

    @property
    def micro_batches(self):
        """Micro-batches taken so far."""
        return self.u64[MICRO]

    def took(self, micro_batches, examples):
        """So many more were taken from training loaders."""
        self.u64[MICRO] += micro_batches
        self.u64[EXAMPLES] += examples

    def cells(self):
        """The page as whole numbers and as fractions, for those who store at every batch."""
        return self.u64, self._f64

    def counters(self, **values):
        """Sets absolute counters by name: micro_batches, examples, hook_ns, gpu_allocated, tensors and so on."""
        try:
            for name, value in values.items():
                self.u64[_COUNTERS[name]] = value
        except Exception:
            pass

    def place(self, rank, world_size):
        """Says which rank this is, and of how many."""
        try:
            self._i64[_RANK] = rank
            self._i64[_WORLD] = world_size
        except Exception:
            pass

    def state(self, state):
        """Says how the agent is: LOADED, ACTIVE, GOODBYE, OFF."""
        try:
            self.u64[_STATE] = state
        except Exception:
            pass

    def can(self, flag):
        """Says that requests of a kind are honoured: CAN_STOP, CAN_SQUEEZE."""
        try:
            self.u64[_FLAGS] |= flag
        except Exception:
            pass

    def begins_at(self, steps):
        """Training goes on from here: a request to stop before that comes too late."""
        self._looked = max(self._looked, steps)

    def can_stop(self, by, **more):
        """Says that a request to save and stop is honoured, and by whom: a framework's name, or "own loop"."""
        if by not in self._stops:
            self._stops.add(by)
            self.can(CAN_STOP)
            self.info(stop=by, **more)

    def stop_requested(self, ranks=1):
        """Whether the recorder asks to save and stop now; asked at the end of each step.

        Several ranks stop at the same step, which the recorder names ahead of time. A rank that looks too late for it
        goes on and leaves the request untaken, so that the recorder names a later one.
        """
        try:
            cells = self.u64
            looked, steps = self._looked, cells[STEPS]
            self._looked = steps
            number = cells[_REQUEST_NUMBER]
            if cells[REQUEST] != SAVE_AND_STOP or number in (cells[_DONE], self._failed):
                return False
            if number == self._stopping:
                return True
            at = cells[_STOP_AT]
            alone = max(ranks, self._i64[_WORLD]) <= 1
            if looked >= at > 0:
                cells[_MISSED] = number
                return False
            if steps < at or (at == 0 and not alone):
                return False
            cells[_TAKEN] = self._stopping = number
            return True
        except Exception:
            return False

    def stop_failed(self):
        """The save that was asked for failed: the job goes on, and is not asked for the same again."""
        self._failed = self._stopping
        self._stopping = None

    def stop_done(self):
        """The job saved and stops."""
        try:
            if self._stopping is not None:
                self.u64[_DONE] = self._stopping
                self.stopped = True
        except Exception:
            pass

    def squeeze_wanted(self):
        """The number of a squeeze that was asked for and is not done yet, or None."""
        cells = self.u64
        number = cells[_REQUEST_NUMBER]
        return number if cells[REQUEST] == SQUEEZE and number != cells[_DONE] else None

    def take_up(self, number):
        """Request `number` is being worked on."""
        self.u64[_TAKEN] = number

    def carried_out(self, number):
        """Request `number` is done."""
        self.u64[_DONE] = number

    def batch_taken(self):
        """A batch was taken from a loader: where programs without steps are squeezed."""
        if self.u64[REQUEST] == SQUEEZE:
            try:
                from . import squeeze
            except Exception:
                return
            squeeze.at_batch(self)

    def _squeeze(self, step):
        try:
            from . import squeeze
        except Exception:
            return
        squeeze.at_step(self, step)

    def _drain(self):
        # Never waits: whoever holds the lock writes what others (other threads, a signal handler in the middle of this
        # very loop) leave in the queue, and looks once more after letting go.
        while self._waiting and self._writing.acquire(False):
            try:
                while self._waiting:
                    self._write(self._waiting.popleft())
            except IndexError:
                pass
            finally:
                self._writing.release()

    def _write(self, record):
        when, kind, phase, number, extra = record
        index = self._head
        at = RING_AT + (index % SLOTS) * SLOT
        slot = at >> 3
        self.u64[slot] = 0
        self.u64[slot + 1] = when
        self._bytes[at + 16] = kind
        self._bytes[at + 17] = phase
        self._bytes[at + 18 : at + 20] = len(extra).to_bytes(2, "little")
        self._i32[(at + 20) >> 2] = max(-1, min(self._i64[_RANK], 0x7FFFFFFF))
        self._f64[slot + 3] = number
        self._bytes[at + 32 : at + 32 + len(extra)] = extra
        self.u64[slot] = index + 1
        self._head = index + 1
        self.u64[_HEAD] = index + 1


def current():
    """The page of this process, or None."""
    return _page or _elsewhere()


def open_page(folder=None):
    """Opens the page of this process; None when no recorder made a folder for it or it cannot be had."""
    global _page, _folder
    found = current()
    folder = folder or os.environ.get("LOWTIDE_MARKS")
    if found is not None or not folder:
        return found
    try:
        _page = _make(folder)
        _folder = folder
    except Exception:
        _page = None
    return _page


def move_page(folder):
    """Begins a new page in another recorder's folder: each recording gets only what happens while it runs."""
    global _page
    if _page is not None:
        _inherited.append(_page)
        _page = None
    return open_page(folder)


def goodbye():
    """A clean end."""
    if _page is not None and _page.pid == os.getpid() and _page.u64[_STATE] != OFF:
        _page.state(GOODBYE)


def _elsewhere():
    # The injected agent and the installed package carry this module under two names. One process, one page.
    for name in ("lowtide_agent.page", "lowtide._agent.page"):
        other = sys.modules.get(name)
        if other is not None and name != __name__:
            return getattr(other, "_page", None)
    return None


def _make(folder):
    pid, start = os.getpid(), _start_ticks()
    name = "%d.%d" % (pid, start)
    path = os.path.join(folder, name)
    try:
        mapping = _map(path, os.O_RDWR)
    except FileNotFoundError:
        pass
    else:
        # The same process after exec: the ring goes on, the counters begin anew.
        if mapping[:8] != MAGIC:
            raise OSError("not a page")
        page = Page(mapping, pid, start)
        _fill(page)
        return page
    hidden = os.path.join(folder, "." + name + ".tmp")
    mapping = _map(hidden, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    try:
        page = Page(mapping, pid, start)
        _fill(page)
        os.rename(hidden, path)
    except BaseException:
        os.unlink(hidden)
        raise
    return page


def _map(path, flags):
    fd = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        if flags & os.O_CREAT:
            try:
                # All blocks now: a store into a hole on a full disk would kill the job by SIGBUS.
                os.posix_fallocate(fd, 0, SIZE)
            except BaseException:
                os.unlink(path)
                raise
        elif os.fstat(fd).st_size != SIZE:
            raise OSError("not a page")
        if sys.version_info >= (3, 13):
            return mmap.mmap(fd, SIZE, trackfd=False)
        return mmap.mmap(fd, SIZE)
    finally:
        os.close(fd)


def _fill(page):
    cells = page.u64
    for cell in range(_FLAGS, _HOOK_NS + 1):
        cells[cell] = 0
    cells[_VERSION] = VERSION
    cells[_PID] = page.pid
    cells[_START] = page.start
    for cell in range(_GPU_ALLOCATED, _TENSORS_DEVICE + 1):
        cells[cell] = UNKNOWN
    page.place(*_rank())
    page.epoch(float("nan"))
    page.can(CAN_SQUEEZE)
    page.state(LOADED)
    page._bytes[0:8] = MAGIC


def _start_ticks():
    fd = os.open("/proc/self/stat", os.O_RDONLY | os.O_CLOEXEC)
    try:
        text = os.read(fd, 4096)
    finally:
        os.close(fd)
    # The name may hold blanks and brackets; field 22 is the twentieth after the last bracket.
    return int(text[text.rindex(b")") + 2 :].split()[19])


def _rank():
    for rank, world in _RANK_VARIABLES:
        try:
            return int(os.environ[rank]), int(os.environ.get(world, "-1"))
        except (KeyError, ValueError):
            continue
    return -1, -1


def _parts(extra):
    """The facts as JSON objects that each fit into one record."""
    if not extra:
        return (b"",)
    from json import dumps

    parts = []
    part = b""
    for key, value in extra.items():
        try:
            if isinstance(value, str):
                value = value.encode("utf-8", "replace")[:MOST_TEXT].decode("utf-8", "ignore")
            pair = dumps({key: value}, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
            pair = pair[1:-1].encode("utf-8", "replace")
        except Exception:
            continue
        if len(pair) + 2 > MOST_EXTRA:
            continue
        if part and len(part) + len(pair) + 3 > MOST_EXTRA:
            parts.append(b"{" + part + b"}")
            part = b""
        part = part + b"," + pair if part else pair
    parts.append(b"{" + part + b"}" if part else b"")
    return parts


def _after_fork_in_child():
    global _page
    if _page is None:
        return
    _inherited.append(_page)
    _page = None
    try:
        _page = _make(_folder)
        _page.told = _inherited[-1].told
    except Exception:
        pass


try:
    os.register_at_fork(after_in_child=_after_fork_in_child)
except Exception:
    pass
