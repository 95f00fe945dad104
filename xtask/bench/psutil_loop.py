"""Samples processes with psutil's oneshot, the way people write it, and prints CPU seconds per process-sample.

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
            memory = process.memory_info()  # rss, vms, shared: statm
            process.num_threads()  # status
            process.cpu_times()  # stat
            process.page_faults() if hasattr(process, "page_faults") else None
        samples += 1
    root.children(recursive=True)  # who came and went
    time.sleep(interval)
print((time.process_time() - begun) / samples)
