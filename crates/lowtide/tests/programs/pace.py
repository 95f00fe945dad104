"""Steps by the wall clock, so that a loaded machine makes them late and never fewer."""

import sys
import time


def steps(count, seconds):
    """Yields 0..count, one every seconds/count."""
    began = time.monotonic()
    for step in range(count):
        yield step
        until = began + (step + 1) * seconds / count
        time.sleep(max(0.0, until - time.monotonic()))


def note(log, step):
    """Adds `step` and the time to a file, as a training loop writes its log."""
    log.write(f"{step} {time.time_ns()}\n")
    log.flush()


MIB = 1 << 20


def touched(mib):
    """So many MiB that are really there."""
    return bytearray(b"\x01") * int(mib * MIB)


def argument(at, default=None):
    return sys.argv[at] if len(sys.argv) > at else default
