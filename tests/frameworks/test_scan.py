"""`lowtide scan` on real torch: tensors are counted, get the bytes of their storages, and have a holder with a name."""

import json
import os
import random
import string
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PLANT = """
import sys, torch
class {kind}:
    __slots__ = {slots}
    def __init__(self):
        self.{field} = torch.ones({numbers}, dtype=torch.{dtype})
{keeper} = [{kind}() for _ in range({count})]
print("ready", flush=True)
sys.stdin.read()
"""


def name():
    return "Z" + "".join(random.choices(string.ascii_lowercase, k=9))


@pytest.mark.parametrize(("dtype", "size"), [("float32", 4), ("bfloat16", 2), ("int64", 8)])
def test_planted_tensors_are_counted_with_their_storages_and_their_holder(tmp_path, dtype, size):
    kind, field, keeper = name(), name().lower(), name().upper()
    # Holders are looked for where a type holds a tenth of all that types hold, and torch itself makes more than 60 MB of it.
    count = random.randint(200, 900)
    numbers = random.randint(40_000_000, 60_000_000) // (count * size)
    slots = f'("{field}",)' if dtype == "int64" else '("__dict__",)'
    values = {"kind": kind, "field": field, "keeper": keeper, "count": count, "numbers": numbers, "dtype": dtype}
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "LOWTIDE"))}
    env["XDG_RUNTIME_DIR"] = str(tmp_path)
    code = PLANT.format(slots=slots, **values)
    target = subprocess.Popen([sys.executable, "-c", code], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert target.stdout.readline() == "ready\n"
        lowtide = os.environ.get("LOWTIDE_BIN", str(ROOT / "target/debug/lowtide"))
        asked = [lowtide, "scan", str(target.pid), "--format", "json"]
        done = subprocess.run(asked, env=env, capture_output=True, text=True, timeout=300)
    finally:
        target.communicate(timeout=300)
    assert done.returncode == 0, done.stderr
    scan = json.loads(done.stdout)
    types = {kind["name"]: kind for kind in scan["types"]}
    assert types[kind]["count"] == count
    assert types["Tensor"]["count"] == count
    planted = count * numbers * size
    assert abs(types["Tensor"]["owned_bytes"] - planted) <= 0.05 * planted
    (holder,) = [holder for holder in scan["holders"] if holder["name"] == "Tensor"]
    assert f"{kind}.{field}" in holder["text"], holder
    assert f"global {keeper} of module __main__" in holder["text"], holder
    assert holder["share"] >= 0.9
