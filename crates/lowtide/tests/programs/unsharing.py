"""Forked workers read a list their parent made: reference counts are written, and the pages become their own."""

import gc
import os

from pace import steps

examples = [bytes(24) + number.to_bytes(4, "little") for number in range(900_000)]
gc.freeze()
workers = []
for number in range(2):
    pid = os.fork()
    if pid == 0:
        share = len(examples) // 130
        for step in steps(130, 13):
            touched = [example for example in examples[step * share : (step + 1) * share]]
        os._exit(0)
    workers.append(pid)
for pid in workers:
    os.waitpid(pid, 0)
