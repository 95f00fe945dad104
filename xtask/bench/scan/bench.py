"""`cargo xtask bench scan`: who names the cause? lowtide beside tracemalloc, objgraph, memray and heaptrack.

Every tool sees the same program with a known cause. Right: the largest growth it names is the planted one. Blind: what
it names makes up less than a tenth of the growth that the kernel saw. Wrong: it names something else that large. heaptrack tells
the largest consumer at the peak by its C functions: the C call that a case is about is its right answer.
Overhead is CPU time of the program's own work against the plain program, median of three.
"""

import json
import os
import random
import statistics
import string
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
CASES = str(HERE / "cases.py")
LOWTIDE = sys.argv[1]
QUICK = "--quick" in sys.argv
ROUNDS = {"list_leak": 120, "fragmentation": 100, "thread_arenas": 12, "autograd_graph": 120}
RIGHT, WRONG, BLIND = "right", "wrong", "blind"
#: The part of memory that a case is about, where no Python type is; and the Python type of which it is, where one is.
PARTS = {"native_leak": "unowned_native", "fragmentation": "kept_native", "thread_arenas": "kept_native"}


class Program:
    """One run of a case."""

    def __init__(self, case, prefix=(), **extra):
        letters = lambda: "".join(random.choices(string.ascii_lowercase, k=8))
        self.case, self.class_name, self.holder = case, "C" + letters(), "h" + letters()
        self.rounds = ROUNDS.get(case, 100)
        env = dict(os.environ, CASE_CLASS=self.class_name, CASE_HOLDER=self.holder, PYTHONPATH=str(HERE), **extra)
        command = [*prefix, CASES, case, str(self.rounds)]
        if not prefix or prefix[0] != sys.executable:
            command = [*prefix, sys.executable, CASES, case, str(self.rounds)]
        self.process = subprocess.Popen(
            command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def wait(self, word):
        for line in self.process.stdout:
            if line.startswith(word):
                return line.split()[1:]
        raise RuntimeError(f"{self.case} ended before it said {word}")

    def go_on(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def rss(self):
        for line in open(f"/proc/{self.process.pid}/status"):
            if line.startswith("VmRSS"):
                return int(line.split()[1]) * 1024
        return 0

    def end(self):
        self.go_on()
        self.process.stdin.close()
        self.process.wait()

    def through(self, at_half=lambda: None, at_end=lambda: None):
        """Runs it; gives its CPU seconds and the growth of its second half."""
        self.wait("half")
        before = self.rss()
        at_half()
        self.go_on()
        cpu = float(self.wait("done")[0])
        grown = self.rss() - before
        at_end()
        self.end()
        return cpu, grown


def lowtide(case):
    program = Program(case)
    with tempfile.TemporaryDirectory() as folder:
        saved = f"{folder}/half.json"
        scan = lambda *more: subprocess.run(
            [LOWTIDE, "scan", str(program.process.pid), *more], capture_output=True, text=True, check=True
        ).stdout
        told = []
        cpu, grown = program.through(
            lambda: scan("--save", saved), lambda: told.append(json.loads(scan("--against", saved, "--format", "json")))
        )
    growth = told[0]
    cost = growth["scan"]["cost"]["cpu_ms"]
    return cpu, judge_lowtide(program, growth, grown), cost


def judge_lowtide(program, growth, grown):
    kinds = sorted(growth["difference"]["kinds"], key=lambda kind: -kind["bytes"])
    part = PARTS.get(program.case)
    if part:
        size = next((kind["bytes"] for kind in kinds if kind["kind"] == part), 0)
        answer = f"{part} {size / 1e6:+.0f} MB"
        return (RIGHT if size > 0.5 * grown else BLIND if size < 0.1 * grown else WRONG), answer
    types = growth["difference"]["types"]
    top = types[0] if types else {"name": "nothing", "own_bytes": 0, "owned_bytes": 0}
    size = top["own_bytes"] + top["owned_bytes"]
    holders = growth["scan"]["holders"]
    path = next((h for h in holders if h["name"] == top["name"]), None)
    told = (path["text"] or path["doubt"]) if path else ""
    answer = f"{top['name']} {size / 1e6:+.0f} MB, {told}" if told else f"{top['name']} {size / 1e6:+.0f} MB"
    if size < 0.1 * grown:
        return BLIND, answer
    named = program.class_name in answer or program.holder in told
    graph = program.case == "autograd_graph" and "ensor" in top["name"]
    answer = answer.replace(program.class_name, "PLANTED").replace(program.holder, "HOLDER")
    return (RIGHT if named or graph else WRONG), answer


def inside(tool):
    def run(case):
        with tempfile.TemporaryDirectory() as folder:
            answer = f"{folder}/answer.json"
            extra = {"CASE_INSIDE": tool, "CASE_ANSWER": answer}
            if tool == "tracemalloc":
                extra["PYTHONTRACEMALLOC"] = "1"
            program = Program(case, **extra)
            cpu, grown = program.through()
            told = json.load(open(answer))
        return cpu, (judge_tracemalloc if tool == "tracemalloc" else judge_objgraph)(program, told, grown), None

    return run


def lines_of(case):
    """First and last line of the function that grows."""
    import ast

    tree = ast.parse(open(CASES).read())
    node = next(node for node in tree.body if getattr(node, "name", "") == case)
    return node.lineno, node.end_lineno


def judge_tracemalloc(program, told, grown):
    if not told:
        return BLIND, "nothing"
    name, line, size = told[0]
    first, last = lines_of(program.case)
    answer = f"{Path(name).name}:{line} {size / 1e6:+.0f} MB"
    if size < 0.1 * grown:
        return BLIND, answer
    return (RIGHT if Path(name).name == "cases.py" and first <= line <= last else WRONG), answer


def judge_objgraph(program, told, _grown):
    if not told:
        return BLIND, "nothing"
    name, _count, more = told[0]
    answer = f"{name} {more:+d}".replace(program.class_name, "PLANTED")
    # Of a graph nobody can name more than that it is tensors: the same answer is right for every tool.
    if name == program.class_name or (program.case == "autograd_graph" and "ensor" in name):
        return RIGHT, answer
    # It counts objects, not bytes: a few dozen dicts or nothing at all are no answer.
    return (BLIND if more < program.rounds // 4 else WRONG), answer


def memray(case):
    with tempfile.TemporaryDirectory() as folder:
        out = f"{folder}/run.bin"
        prefix = [sys.executable, "-m", "memray", "run", "--quiet", "--output", out]
        program = Program(case, prefix)
        cpu, grown = program.through()
        import memray as tool

        records = list(tool.FileReader(out).get_leaked_allocation_records(merge_threads=True))
    records.sort(key=lambda record: -record.size)
    if not records:
        return cpu, (BLIND, "nothing"), None
    top = records[0]
    frames = top.stack_trace()
    answer = f"{frames[0][0] if frames else '?'} {top.size / 1e6:.0f} MB"
    if top.size < 0.1 * grown:
        return cpu, (BLIND, answer), None
    right = any(frame[0] in (case, "work", "tokens") for frame in frames)
    return cpu, (RIGHT if right else WRONG, answer), None


#: What heaptrack is made of, where Debian puts it.
HEAPTRACK = Path("/usr/lib/heaptrack")
#: A C function that names the cause of a case; the others are about Python objects, of which C functions know nothing.
C_CAUSES = {"cache_fill": "Imaging", "native_leak": "ffi_call", "autograd_graph": "autograd"}


def heaptrack(case):
    with tempfile.TemporaryDirectory() as folder:
        raw, read = f"{folder}/raw", f"{folder}/read"
        preload = {"LD_PRELOAD": str(HEAPTRACK / "libheaptrack_preload.so"), "DUMP_HEAPTRACK_OUTPUT": raw}
        cpu, grown = Program(case, **preload).through()
        with open(raw) as source, open(read, "w") as target:
            interpret = [str(HEAPTRACK / "libexec/heaptrack_interpret")]
            subprocess.run(interpret, stdin=source, stdout=target, stderr=subprocess.DEVNULL, check=True)
        ask = ["heaptrack_print", "-p", "1", "-l", "0", "-a", "0", "-T", "0", "-n", "1", "-s", "4", read]
        lines = subprocess.run(ask, capture_output=True, text=True, check=True).stdout.splitlines()
    at = next((n for n, line in enumerate(lines) if "peak memory consumed over" in line), None)
    if at is None:
        return cpu, (BLIND, "nothing"), None
    size = bytes_of(lines[at].split()[0])
    end = next((n for n in range(at, len(lines)) if lines[n].startswith("total runtime")), len(lines))
    # Functions stand at the margin or four blanks in; files and libraries stand deeper.
    frames = [line.strip() for line in lines[at + 1 : end] if line.strip() and not line.strip().startswith(("at ", "in "))]
    named = next((frame for frame in frames if not frame.startswith("0x")), "?")
    answer = f"{named} {size / 1e6:.0f} MB"
    if size < 0.1 * grown:
        return cpu, (BLIND, answer), None
    cause = C_CAUSES.get(case)
    return cpu, (RIGHT if cause and any(cause in frame for frame in frames) else WRONG, answer), None


def bytes_of(text):
    """heaptrack's `1.50M`."""
    units = {"B": 1, "K": 1e3, "M": 1e6, "G": 1e9}
    return float(text[:-1]) * units[text[-1]]


TOOLS = {
    "lowtide": lowtide,
    "tracemalloc": inside("tracemalloc"),
    "objgraph": inside("objgraph"),
    "memray": memray,
    "heaptrack": heaptrack,
}


def plain(case):
    return Program(case).through()[0]


def can(tool):
    if tool == "heaptrack":
        return (HEAPTRACK / "libheaptrack_preload.so").exists()
    try:
        __import__(tool if tool != "lowtide" else "json")
        return True
    except ImportError:
        return False


def one(tool, case, base):
    times = 1 if QUICK else 3
    try:
        runs = [TOOLS[tool](case) for _ in range(times)]
    except Exception as error:
        return "failed", str(error)[:60], None
    cpu = statistics.median(run[0] for run in runs) / base
    (verdict, answer), cost = runs[-1][1], runs[-1][2]
    price = f"{cost} ms beside it" if cost is not None else f"{cpu:.1f} x"
    return verdict, answer, price


def main():
    cases = [case for case in ["cache_fill", "list_leak", "closure_leak", "lru_cache", "native_leak", "fragmentation",
                               "thread_arenas"]]
    try:
        import torch  # noqa: F401

        cases.append("autograd_graph")
    except ImportError:
        print("torch is not here: autograd_graph left out\n")
    tools = [tool for tool in TOOLS if can(tool)]
    print("| case | " + " | ".join(tools) + " |\n|---|" + "---|" * len(tools))
    answers, wrong = [], []
    for case in cases:
        base = statistics.median(plain(case) for _ in range(1 if QUICK else 3))
        row = []
        for tool in tools:
            verdict, answer, price = one(tool, case, base)
            row.append(f"{verdict} ({price})" if price else verdict)
            answers.append(f"{case}, {tool}: {verdict}: {answer}")
            if tool == "lowtide" and verdict != RIGHT:
                wrong.append(case)
        print(f"| {case} | " + " | ".join(row) + " |", flush=True)
    print("\n" + "\n".join(answers))
    if wrong:
        sys.exit(f"lowtide did not name the cause of: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
