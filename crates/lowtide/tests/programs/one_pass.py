"""One pass over a stream: every example is new, and something of each is kept."""

import os

from pace import argument, note, steps, touched

kept = []
with open(argument(1, os.devnull), "w") as log:
    for step in steps(140, 13):
        kept.append(touched(0.8))
        note(log, step)
