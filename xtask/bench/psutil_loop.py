"""Samples processes with psutil's oneshot, the way people write it, and prints CPU seconds per process-sample.

Only the reading is counted: the list of processes is made once.

usage: psutil_loop.py PARENT_PID SECONDS INTERVAL
"""
import sys
import time

import psutil

parent, seconds, interval = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
root = psutil.Process(parent)
processes = [root] + root.children(recursive=True)
samples, begun, end = 0, time.process_time(), time.monotonic() + seconds
while time.monotonic() < end:
    for process in processes:
        with process.oneshot():
            process.memory_info()  # rss, vms, shared: statm
            process.num_threads()  # status
            process.cpu_times()  # stat
        samples += 1
    time.sleep(interval)
print((time.process_time() - begun) / samples)
