"""The same leaking job under a bare memory limit, under earlyoom and under `lowtide run --guard`, side by side.

Each gets a memory cgroup of its own with the same limit, the same job (crates/lowtide/tests/guard/loop.py: leaks on every
step, saves every twenty) and as many starts as it needs, each from the newest checkpoint, as a requeueing scheduler gives.
earlyoom watches /proc/meminfo, so it sees one that tells of the cgroup, as lxcfs shows it in containers, in a pid namespace
of its own: it can end nothing but the job. Prints steps lost, time lost and how lives ended, and what lowtide itself takes of the
CPU while it looks; fails when lowtide lost a step.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

MIB = 1 << 20
ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
LOOP = os.path.join(ROOT, "crates", "lowtide", "tests", "guard", "loop.py")
V1 = "/sys/fs/cgroup/memory"


class Cgroup:
    def __init__(self, name, limit):
        base, self.usage, limited = (
            (V1, "memory.usage_in_bytes", "memory.limit_in_bytes")
            if os.path.isdir(V1)
            else ("/sys/fs/cgroup", "memory.current", "memory.max")
        )
        self.folder = os.path.join(base, "lowtide-bench-%s-%d" % (name, os.getpid()))
        os.mkdir(self.folder)
        self.write(limited, str(limit))

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w") as file:
            file.write(text)

    def read(self, name):
        try:
            with open(os.path.join(self.folder, name)) as file:
                return file.read()
        except OSError:
            return ""

    def kills(self):
        text = self.read("memory.oom_control") + self.read("memory.events")
        return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("oom_kill "))

    def inside(self, command):
        return ["sh", "-c", 'echo $$ > "$0" && exec "$@"', os.path.join(self.folder, "cgroup.procs"), *command]

    def close(self):
        for _ in range(100):
            try:
                return os.rmdir(self.folder)
            except OSError:
                time.sleep(0.05)


class Trial:
    """One way to run the job to its end."""

    def __init__(self, name, args):
        self.name, self.args = name, args
        self.folder = tempfile.mkdtemp(prefix="lowtide-bench-")
        self.cgroup = Cgroup(name.split()[0], args.limit * MIB)
        self.log = os.path.join(self.folder, "log")
        self.saves = os.path.join(self.folder, "saves")
        self.environment = dict(
            os.environ,
            PYTHONPATH=os.path.join(ROOT, "python"),
            XDG_RUNTIME_DIR=self.folder,
            LOWTIDE_DIR=os.path.join(self.folder, "runs"),
        )
        self.environment.pop("LOWTIDE_CHECKPOINT", None)
        self.ends = []

    def job(self):
        return [
            sys.executable, LOOP, "--steps", str(self.args.steps), "--leak", str(self.args.leak),
            "--step-ms", str(self.args.step_ms), "--every", "20", "--save-ms", "100", "--save", self.saves,
            "--log", self.log,
        ]  # fmt: skip

    def newest(self):
        names = os.listdir(self.saves) if os.path.isdir(self.saves) else []
        whole = [name for name in names if name.endswith(".pt")]
        return max(whole, key=lambda name: int(name[5:-3]), default=None)

    def lives(self, command):
        """Starts the command until it ends by itself, each time from the newest checkpoint."""
        for _ in range(self.args.lives):
            kills, newest = self.cgroup.kills(), self.newest()
            environment = dict(self.environment)
            if newest:
                environment["LOWTIDE_CHECKPOINT"] = os.path.join(self.saves, newest)
            quiet = subprocess.DEVNULL
            code = subprocess.run(command, env=environment, stdout=quiet, stderr=quiet).returncode
            if code == 0:
                return self.ends.append("finished")
            number = -code if code < 0 else code - 128
            who = "the kernel" if self.cgroup.kills() > kills else self.name
            self.ends.append("%s by %s" % (signal.Signals(number).name if 0 < number < 65 else code, who))
            if self.newest() == newest:
                return self.ends.append("no further")

    def row(self, seconds):
        with open(self.log) as file:
            made = [int(line.split()[0]) for line in file if line.strip()]
        lost = len(made) - len(set(made))
        ideal = self.args.steps * self.args.step_ms / 1000
        reasons = ", ".join("%dx %s" % (self.ends.count(end), end) for end in dict.fromkeys(self.ends))
        done = "%d of %d" % (len(set(made)), self.args.steps)
        row = (self.name, done, lost, seconds - ideal, self.cgroup.kills(), reasons)
        self.cgroup.close()
        shutil.rmtree(self.folder)
        return row


def bare(trial):
    trial.lives(trial.cgroup.inside(trial.job()))


def earlyoom(trial):
    """With a meminfo that tells of the cgroup, in namespaces of its own."""
    meminfo = os.path.join(trial.folder, "meminfo")
    stop = threading.Event()

    def tell():
        total = trial.args.limit * 1024
        while not stop.is_set():
            used = int(trial.cgroup.read(trial.cgroup.usage) or 0) // 1024
            free = max(0, total - used)
            lines = (("MemTotal", total), ("MemFree", free), ("MemAvailable", free), ("SwapTotal", 0), ("SwapFree", 0))
            text = "".join("%-16s%11d kB\n" % (name + ":", value) for name, value in lines)
            with open(meminfo, "r+" if os.path.exists(meminfo) else "w") as file:
                file.write(text)
            stop.wait(0.02)

    teller = threading.Thread(target=tell)
    teller.start()
    while not os.path.exists(meminfo):
        time.sleep(0.01)
    script = 'mount --bind "$0" /proc/meminfo && (earlyoom -m 10,5 -r 0 >/dev/null 2>&1 &) && "$@"'
    space = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script, meminfo]
    trial.lives([*space, *trial.cgroup.inside(trial.job())])
    stop.set()
    teller.join()


def guarded(trial):
    out = os.path.join(trial.folder, "run.tide")
    command = [trial.args.lowtide, "run", "--quiet", "--guard", "--resume", "99", "--out", out, "--", *trial.job()]
    trial.lives(trial.cgroup.inside(command))


def own_cpu(pid):
    """CPU seconds of a process itself, its threads and nobody below it."""
    total = 0
    for thread in os.listdir("/proc/%d/task" % pid):
        with open("/proc/%d/task/%s/schedstat" % (pid, thread)) as file:
            total += int(file.read().split()[0])
    return total / 1e9


def cost(args, flags, leak):
    """Part of one core that lowtide takes while the job runs, after two seconds of starting up; and its seconds."""
    trial = Trial("lowtide cost", args)
    trial.args = argparse.Namespace(**{**vars(args), "leak": leak})
    out = os.path.join(trial.folder, "run.tide")
    command = trial.cgroup.inside([args.lowtide, "run", "--quiet", *flags, "--out", out, "--", *trial.job()])
    quiet = subprocess.DEVNULL
    running = subprocess.Popen(command, env=trial.environment, stdout=quiet, stderr=quiet)
    time.sleep(2)
    first = newest = (time.monotonic(), own_cpu(running.pid))
    while running.poll() is None:
        time.sleep(0.1)
        try:
            newest = (time.monotonic(), own_cpu(running.pid))
        except OSError:
            break
    running.wait()
    trial.cgroup.close()
    shutil.rmtree(trial.folder)
    seconds = newest[0] - first[0]
    return (newest[1] - first[1]) / seconds, seconds


def tell_costs(args):
    roomy = argparse.Namespace(**{**vars(args), "limit": 16 * args.limit})
    guard = ["--guard", "--resume", "99"]
    rows = [
        ("recorded only", cost(roomy, [], 0)),
        ("guarded, memory stands still", cost(roomy, guard, 0)),
        ("guarded, leaks towards its limit", cost(args, guard, args.leak)),
    ]
    print("\n%-34s %14s" % ("a job that is", "CPU of lowtide"))
    for name, (share, seconds) in rows:
        print("%-34s %11.2f %%  of one core, over %.0f s" % (name, 100 * share, seconds), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lowtide")
    parser.add_argument("--limit", type=int, default=300, help="MiB")
    parser.add_argument("--leak", type=float, default=4, help="MiB a step")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--step-ms", type=float, default=50)
    parser.add_argument("--lives", type=int, default=40)
    args = parser.parse_args()
    ways = [("bare cgroup", bare), ("earlyoom", earlyoom), ("lowtide", guarded)]
    if not shutil.which("earlyoom"):
        print("earlyoom is not installed here (apt-get install earlyoom): left out")
        del ways[1]
    print("%-12s %-12s %10s %10s %12s  %s" % ("", "steps", "lost", "time lost", "OOM kills", "how lives ended"))
    lost = None
    for name, run in ways:
        trial = Trial(name, args)
        began = time.monotonic()
        run(trial)
        row = trial.row(time.monotonic() - began)
        print("%-12s %-12s %10d %8.1f s %12d  %s" % row, flush=True)
        lost = row[2] if name == "lowtide" else lost
    tell_costs(args)
    if lost:
        sys.exit("lowtide lost %d steps" % lost)


if __name__ == "__main__":
    main()
