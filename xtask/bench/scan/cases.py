"""Programs with a known cause of growth, one a case: `cases.py NAME ROUNDS`.

Each grows by `ROUNDS` equal parts, says `half` in the middle and `done` at the end with its CPU seconds, and waits
for a line on standard input each time. Names of classes and variables come from the environment, so that no tool can
know them.
"""

import ctypes
import functools
import os
import sys
import threading
import time

CLASS = os.environ.get("CASE_CLASS", "Planted")
HOLDER = os.environ.get("CASE_HOLDER", "KEPT")
PLANTED = type(CLASS, (), {})
KEPT = globals()[HOLDER] = []
LIBC = ctypes.CDLL(None)
LIBC.malloc.restype = ctypes.c_void_p
LIBC.malloc.argtypes = [ctypes.c_size_t]
LIBC.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]


def cache_fill(rounds):
    """A data set keeps every decoded picture."""
    from PIL import Image

    for _ in range(rounds):
        example = PLANTED()
        example.image = Image.new("RGB", (640, 480), (1, 2, 3))
        KEPT.append(example)
        yield


def list_leak(rounds):
    """A metric list that is never cleared, of small objects."""
    for _ in range(rounds):
        for _ in range(2000):
            one = PLANTED()
            one.loss = 0.5
            one.step = len(KEPT)
            KEPT.append(one)
        yield


def closure_leak(rounds):
    """Callbacks that each close over a buffer."""
    for _ in range(rounds):
        buffer = PLANTED()
        buffer.data = bytearray(1_000_000)
        buffer.data[:] = b"x" * 1_000_000
        KEPT.append(lambda buffer=buffer: buffer)
        yield


def lru_cache(rounds):
    """A cached function whose results are large."""

    @functools.lru_cache(maxsize=None)
    def tokens(_):
        made = PLANTED()
        made.ids = bytearray(b"x" * 1_000_000)
        return made

    globals()[HOLDER] = tokens
    for number in range(rounds):
        tokens(number)
        yield


def native_leak(rounds):
    """C code that forgets to free."""
    for _ in range(rounds):
        for _ in range(100):
            LIBC.memset(LIBC.malloc(10_000), 1, 10_000)
        yield


def fragmentation(rounds):
    """Buffers shrink to a small block at their head, which pins the heap: the rest is free and fits nothing later."""
    LIBC.realloc.restype = ctypes.c_void_p
    LIBC.realloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    for number in range(rounds):
        # Each time a little larger: what was freed before does not fit.
        size = 20_000 + 64 * number
        blocks = [LIBC.malloc(size) for _ in range(60)]
        for block in blocks:
            LIBC.memset(block, 1, size)
        for block in blocks:
            LIBC.realloc(block, 200)
        yield


def thread_arenas(rounds):
    """Threads that end and leave their arenas behind, full of freed memory."""
    free = LIBC.free
    free.argtypes = [ctypes.c_void_p]

    def work(gate, ready):
        blocks = [LIBC.malloc(50_000) for _ in range(60)]
        for block in blocks:
            LIBC.memset(block, 1, 50_000)
        pin = LIBC.malloc(100)
        for block in blocks:
            free(block)
        ready.set()
        gate.wait()
        return pin

    gate = threading.Event()
    for _ in range(rounds):
        ready = threading.Event()
        threading.Thread(target=work, args=(gate, ready), daemon=True).start()
        ready.wait()
        yield


def autograd_graph(rounds):
    """A loss that is kept with its graph."""
    import torch

    weight = torch.ones(256, 256, requires_grad=True)
    for _ in range(rounds):
        out = torch.ones(64, 256)
        for _ in range(8):
            out = torch.relu(out @ weight)
        KEPT.append(out.sum())
        yield


CASES = (cache_fill, list_leak, closure_leak, lru_cache, native_leak, fragmentation, thread_arenas, autograd_graph)


def main():
    case = next(case for case in CASES if case.__name__ == sys.argv[1])
    rounds = int(sys.argv[2])
    before = time.process_time()
    for number, _ in enumerate(case(rounds)):
        if number == rounds // 2:
            say("half")
        if number < 20:
            # Time for everybody to have loaded what they load late.
            time.sleep(0.005)
    say("done %.4f" % (time.process_time() - before))


def say(line):
    inside = os.environ.get("CASE_INSIDE")
    if inside:
        import inside as tool

        tool.look(line.split()[0])
    print(line, flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main()
