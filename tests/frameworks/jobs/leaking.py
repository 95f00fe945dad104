"""What the jobs of the guard's tests have in common: a leak at every step, and a diary of each step that was made.

The diary outlives the process: a step that is made twice stands in it twice.
"""

import os
import time

STEPS = int(os.environ.get("STEPS", "36"))
LEAK = int(os.environ.get("LEAK_MIB", "8")) << 20
#: A step of a model that is worth guarding takes longer than this.
PACE = float(os.environ.get("PACE", "0.2"))

kept = []


def leak():
    """What a step loses for good."""
    kept.append(bytearray(os.urandom(4096) * (LEAK >> 12)))
    time.sleep(PACE)


def note(step, loss, diary="diary"):
    """Writes down that a step was made, and its loss to the last bit."""
    with open(diary, "a") as file:
        file.write(f"{step} {float(loss).hex()}\n")


def held(pid="self"):
    """What a process holds that no file backs, in bytes."""
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("RssAnon"))
