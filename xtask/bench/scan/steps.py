"""`cargo xtask bench scan`, third part: does a job's step take longer while it is scanned?

A job that holds a few hundred MB makes steps of some milliseconds and writes down when each began and ended. It is scanned again and
again with a pause between. For each scan: the median step during it against the median step of as long a time right before
it. Printed: the median of these ratios with its interval (bootstrap over scans), and the same for pairs of quiet times, which is
the noise.
"""

import random
import statistics
import subprocess
import sys
import time

#: The job: steps that compute and allocate, with other objects held.
JOB = """
import sys, time
held = [{"id": n, "text": "example %d" % n, "pair": (n + 0.5, [n])} for n in range(500_000)]
out = open(sys.argv[1], "w", buffering=1 << 20)
print("ready", flush=True)
while True:
    begun = time.monotonic_ns()
    made = [(n, str(n)) for n in range(10_000)]
    sum(n for n, _ in made)
    out.write("%d %d\\n" % (begun, time.monotonic_ns()))
"""
SCANS = 30
#: Seconds of quiet before each scan, as long as a scan takes or longer.
PAUSE = 3.0
DRAWS = 2000


def interval(ratios):
    draw = lambda: statistics.median(random.choices(ratios, k=len(ratios)))
    drawn = sorted(draw() for _ in range(DRAWS))
    return drawn[DRAWS * 25 // 1000], drawn[DRAWS * 975 // 1000]


def medians(steps, spans):
    """The median step of each span of time, in ms."""
    found = []
    for begin, end in spans:
        inside = [(stop - start) / 1e6 for start, stop in steps if start >= begin and stop <= end]
        found.append(statistics.median(inside) if len(inside) >= 5 else None)
    return found


def ratios(steps, spans, bases):
    pairs = zip(medians(steps, spans), medians(steps, bases))
    return [one / base for one, base in pairs if one and base]


def told(name, found):
    low, high = interval(found)
    return f"| {name} | {statistics.median(found):.3f} | {low:.3f} to {high:.3f} | {len(found)} |"


def main():
    lowtide, log = sys.argv[1], sys.argv[2]
    job = subprocess.Popen([sys.executable, "-c", JOB, log], stdout=subprocess.PIPE, text=True)
    try:
        job.stdout.readline()
        spans = []
        for _ in range(SCANS):
            time.sleep(PAUSE)
            begin = time.monotonic_ns()
            subprocess.run([lowtide, "scan", str(job.pid), "--format", "json"], capture_output=True, check=True)
            spans.append((begin, time.monotonic_ns()))
    finally:
        job.kill()
        job.wait()
    steps = [tuple(map(int, line.split())) for line in open(log).read().splitlines()[:-1]]
    before = [(begin - (end - begin), begin) for begin, end in spans]
    earlier = [(begin - (end - begin), begin) for begin, end in before]
    print("\n| step time | ratio | 95 % | scans |\n|---|---|---|---|")
    print(told("during a scan, against right before it", ratios(steps, spans, before)))
    print(told("right before, against before that (noise)", ratios(steps, before, earlier)))


if __name__ == "__main__":
    main()
