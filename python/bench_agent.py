"""What the agent costs, beside the same program without it, in one run: start-up of Python, and each optimizer step.

    python python/bench_agent.py [--rounds N] [--json]

Rounds alternate, with and without. Start-up is the CPU time of `python -c pass` (median and the middle half of the
differences). Where torch can be imported, a step is timed in one process, in short stretches of a loop of tiny optimizer
steps and batches, with the hooks taken out and put back in turns: two processes differ by more than the hooks cost. The
agent's own count (time inside hooks, from its page) stands beside. Then whole loops run with and without the agent, and
their results are compared bit for bit. Prints JSON with --json.
"""

import argparse
import json
import os
import resource
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

AGENT = Path(__file__).resolve().parent / "lowtide/_agent"

STEPS = 20_000
LOOP = """
import json, sys
import torch
torch.set_num_threads(1)
torch.manual_seed(1)
steps = int(sys.argv[1])
rows = torch.utils.data.TensorDataset(torch.randn(steps, 1))
weight = torch.nn.Parameter(torch.zeros(1))
optimizer = torch.optim.SGD([weight], lr=0.01)
for (x,) in torch.utils.data.DataLoader(rows, batch_size=1):
    weight.grad = x[0]
    optimizer.step()
print(json.dumps({"weight": weight.item().hex()}))
"""

STRETCH = 250
TURNS = """
import json, sys, time
import torch
import torch.optim.optimizer as optimizers
import torch.utils.data.dataloader as loaders
torch.set_num_threads(1)
stretch, turns = int(sys.argv[1]), int(sys.argv[2])
rows = torch.utils.data.TensorDataset(torch.randn((3 * turns + 1) * stretch, 1))
weight = torch.nn.Parameter(torch.zeros(1))
optimizer = torch.optim.SGD([weight], lr=0.01)
batches = iter(torch.utils.data.DataLoader(rows, batch_size=1))
hooks, kind = optimizers._global_optimizer_post_hooks, loaders._SingleProcessDataLoaderIter
ours, ours_next = dict(hooks), vars(kind)["_next_data"]
assert len(ours) == 1, ours

def walk():
    begun = time.process_time_ns()
    for _ in range(stretch):
        (x,) = next(batches)
        weight.grad = x[0]
        optimizer.step()
    return (time.process_time_ns() - begun) / stretch / 1e3

def bare():
    hooks.clear()
    kind._next_data = ours_next.__wrapped__
    return walk()

def stepping():
    hooks.update(ours)
    return walk()

def whole():
    kind._next_data = ours_next
    return walk()

walk()
print(json.dumps([(bare(), stepping(), whole()) for _ in range(turns)]))
"""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder), options.rounds)
    print(json.dumps(found) if options.json else words(found))


def measure(folder, rounds):
    site = folder / "site"
    shutil.copytree(AGENT, site / "lowtide_agent", ignore=shutil.ignore_patterns("__pycache__"))
    (site / "lowtide_agent/sitecustomize.py").rename(site / "sitecustomize.py")
    marks = folder / "marks"
    marks.mkdir(mode=0o700)
    plain = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "LOWTIDE_MARKS")}
    agent = {**plain, "PYTHONPATH": str(site), "LOWTIDE_MARKS": str(marks)}
    found = {"python": sys.version.split()[0], "first_start_ms": cpu_ms("pass", agent)}
    pairs = [(cpu_ms("pass", plain), cpu_ms("pass", agent)) for _ in range(rounds)]
    found["start_ms"] = summary(pairs)
    if (
        subprocess.run([sys.executable, "-c", "import torch"], capture_output=True, env=plain, check=False).returncode
        == 0
    ):
        found.update(steps(plain, agent, marks, max(3, rounds // 4)))
    return found


def steps(plain, agent, marks, rounds):
    weights, inside = set(), []
    for _ in range(2):
        weights |= {run(LOOP, plain, STEPS)["weight"], run(LOOP, agent, STEPS)["weight"]}
    for file in marks.iterdir():
        page = file.read_bytes()
        counted, hook_ns = struct.unpack_from("<Q", page, 64)[0], struct.unpack_from("<Q", page, 104)[0]
        if counted == STEPS:
            inside.append(hook_ns / STEPS / 1e3)
    turns = [turn for _ in range(rounds) for turn in run(TURNS, agent, STRETCH, 100)]
    return {
        "step_us": summary([(bare, stepping) for bare, stepping, _ in turns]),
        "step_and_batch_us": summary([(bare, whole) for bare, _, whole in turns]),
        "inside_hook_us": statistics.median(inside),
        "counted_exactly": len(inside) == 2,
        "same_bits": len(weights) == 1,
    }


def run(code, env, *numbers):
    words = [sys.executable, "-c", code, *map(str, numbers)]
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def cpu_ms(code, env):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], env=env, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1e3 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def summary(pairs):
    differences = sorted(with_agent - without for without, with_agent in pairs)
    quarter = len(differences) // 4
    return {
        "without": statistics.median(p[0] for p in pairs),
        "with": statistics.median(p[1] for p in pairs),
        "added": statistics.median(differences),
        "added_middle_half": [differences[quarter], differences[-1 - quarter]],
    }


def words(found):
    start = found["start_ms"]
    lines = [
        f"Python {found['python']}",
        f"start-up, ms of CPU: {side_by_side(start)}; the very first {found['first_start_ms']:.2f}",
    ]
    if "step_us" in found:
        lines += [
            f"step, us of CPU: {side_by_side(found['step_us'])}",
            f"step and batch, us of CPU: {side_by_side(found['step_and_batch_us'])}",
            f"inside the step's hook, us: {found['inside_hook_us']:.2f}",
            f"counted exactly: {found['counted_exactly']}; same bits: {found['same_bits']}",
        ]
    return "\n".join(lines)


def side_by_side(what):
    low, high = what["added_middle_half"]
    more = f"{what['added']:.2f} more (middle half {low:.2f} to {high:.2f})"
    return f"{what['without']:.2f} without, {what['with']:.2f} with, {more}"


if __name__ == "__main__":
    main()
