"""What tools inside the process say between `half` and `done`: tracemalloc and objgraph."""

import json
import os
import sys

_before = {}


def look(when):
    tool = os.environ["CASE_INSIDE"]
    if tool == "tracemalloc":
        import tracemalloc

        taken = tracemalloc.take_snapshot()
        if when == "half":
            _before["taken"] = taken
            return
        top = taken.compare_to(_before["taken"], "lineno")[:3]
        answer = [[row.traceback[0].filename, row.traceback[0].lineno, row.size_diff] for row in top]
    else:
        import objgraph

        if when == "half":
            _before["seen"] = {}
            objgraph.growth(limit=None, peak_stats=_before["seen"])
            return
        answer = objgraph.growth(limit=3, peak_stats=_before["seen"])
    with open(os.environ["CASE_ANSWER"], "w") as out:
        json.dump(answer, out)
    sys.stdout.flush()
