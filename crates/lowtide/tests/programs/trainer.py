"""A trainer with flat forked workers; one of them starts a helper, and the helper leaks."""

import os
import subprocess
import sys

from pace import steps, touched

model = touched(100)
workers = []
for number in range(3):
    pid = os.fork()
    if pid == 0:
        own = touched(12)
        if number == 1:
            helper = os.path.join(os.path.dirname(__file__), "helper.py")
            os._exit(subprocess.call([sys.executable, helper]))
        for step in steps(150, 13):
            own[step] = 1
        os._exit(0)
    workers.append(pid)
for step in steps(150, 13):
    batch = touched(1)
for pid in workers:
    os.waitpid(pid, 0)
