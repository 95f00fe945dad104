"""`cargo xtask bench scan`, second part: what one whole scan costs, as the table in docs/scan.md.

CPU time and own memory are those of the helper that scans, as it tells them: all of its CPU, the least of five (others use the
machine too), and the most it had resident.
"""

import json
import subprocess
import sys
from pathlib import Path

HELD = str(Path(__file__).parent / "held.py")
CASES = {
    "torch_model": "torch with transformers, a model, its gradients and Adam state",
    "torch_imported": "torch, imported and nothing else",
    "mixed": "dicts, texts, sets and blobs",
    "tiny": "nothing but tiny objects",
    "deep": "tiny objects that hold each other",
}
TIMES = 5


def started(case):
    program = subprocess.Popen(
        [sys.executable, HELD, case], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    if program.stdout.readline().strip() != "ready":
        program.kill()
        return None
    return program


def scan(lowtide, pid):
    ran = subprocess.run([lowtide, "scan", str(pid), "--format", "json"], capture_output=True, text=True, check=True)
    told = json.loads(ran.stdout)
    return told.get("scan", told)


def main():
    lowtide = sys.argv[1]
    chosen = sys.argv[2:] or list(CASES)
    print("\n| process | objects | resident | CPU | for each GB | own memory | read |\n|---|---|---|---|---|---|---|")
    for case in chosen:
        program = started(case)
        if program is None:
            print(f"{case} could not be made here")
            continue
        scans = [scan(lowtide, program.pid) for _ in range(TIMES)]
        cpu = min(told["cost"]["cpu_ms"] for told in scans) / 1000
        last = scans[-1]
        rss, own = last["rss_bytes"], last["cost"]["own_bytes"]
        objects = sum(row["count"] for row in last["types"])
        print(
            f"| {CASES[case]} | {objects / 1e6:.1f} million | {rss / 1e9:.2f} GB | {cpu:.2f} s | {cpu / rss * 1e9:.2f} s "
            f"| {own / rss * 100:.1f} % | {last['cost']['read_bytes'] / 1e9:.2f} GB |",
            flush=True,
        )
        doubts = [line["doubt"] for line in last["coverage"] if line["doubt"]]
        holders = [held["text"] or held["doubt"] for held in last["holders"]]
        print("\n".join(f"    {line}" for line in doubts + holders), file=sys.stderr)
        program.kill()
        program.wait()


if __name__ == "__main__":
    main()
