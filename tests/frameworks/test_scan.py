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


def scanned(tmp_path, code):
    """What a program printed when it was ready, and a scan of it then."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "LOWTIDE"))}
    env["XDG_RUNTIME_DIR"] = str(tmp_path)
    target = subprocess.Popen([sys.executable, "-c", code], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        said = target.stdout.readline()
        lowtide = os.environ.get("LOWTIDE_BIN", str(ROOT / "target/debug/lowtide"))
        asked = [lowtide, "scan", str(target.pid), "--format", "json"]
        done = subprocess.run(asked, env=env, capture_output=True, text=True, timeout=300)
    finally:
        target.communicate(timeout=300)
    assert done.returncode == 0, done.stderr
    return said, json.loads(done.stdout)


@pytest.mark.parametrize(("dtype", "size"), [("float32", 4), ("bfloat16", 2), ("int64", 8)])
def test_planted_tensors_are_counted_with_their_storages_and_their_holder(tmp_path, dtype, size):
    kind, field, keeper = name(), name().lower(), name().upper()
    # Holders are looked for where a type holds a tenth of all that types hold, and torch itself makes more than 60 MB of it.
    count = random.randint(200, 900)
    numbers = random.randint(40_000_000, 60_000_000) // (count * size)
    slots = f'("{field}",)' if dtype == "int64" else '("__dict__",)'
    values = {"kind": kind, "field": field, "keeper": keeper, "count": count, "numbers": numbers, "dtype": dtype}
    said, scan = scanned(tmp_path, PLANT.format(slots=slots, **values))
    assert said == "ready\n"
    types = {kind["name"]: kind for kind in scan["types"]}
    assert types[kind]["count"] == count
    assert types["Tensor"]["count"] == count
    planted = count * numbers * size
    assert abs(types["Tensor"]["owned_bytes"] - planted) <= 0.05 * planted
    (holder,) = [holder for holder in scan["holders"] if holder["name"] == "Tensor"]
    assert f"{kind}.{field}" in holder["text"], holder
    assert f"global {keeper} of module __main__" in holder["text"], holder
    assert holder["share"] >= 0.9


GRADIENTS = """
import sys, torch
class {kind}(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.{field} = torch.nn.ModuleList(torch.nn.Linear(1000, 1000) for _ in range(20))
{keeper} = {kind}()
sum(layer(torch.ones(2, 1000)).sum() for layer in {keeper}.{field}).backward()
assert all(weight.grad is not None for weight in {keeper}.parameters())
print("ready", flush=True)
sys.stdin.read()
"""


def test_weights_and_the_gradients_that_only_c_plus_plus_leads_to_are_held_by_the_model(tmp_path):
    values = {"kind": name(), "field": name().lower(), "keeper": name().upper()}
    _, scan = scanned(tmp_path, GRADIENTS.format(**values))
    holders = {holder["name"]: holder for holder in scan["holders"]}
    assert any(kind in holders for kind in ("Parameter", "Tensor")), scan["holders"]
    for kind, holder in holders.items():
        if kind in ("Parameter", "Tensor"):
            assert holder["text"].endswith(f"global {values['keeper']} of module __main__"), holder
            assert "Parameter" in holder["text"] and holder["share"] >= 0.9, holder


TRAIN = """
import json, sys, torch, transformers
from transformers import Trainer
model = torch.nn.Sequential(*[torch.nn.Linear({width}, {width}) for _ in range(6)])
optimizer = torch.optim.AdamW(model.parameters())
class {kind}:
    def __init__(self): self.log_history = []
keeper = {kind}()
for step in range(300):
    loss = model(torch.randn(2, {width})).sum()
    if step < 2:
        optimizer.zero_grad(); loss.backward(); optimizer.step()
    keeper.log_history.append(dict(loss=loss.item(), norm=step * 1.5, rate=step / 7, epoch=step / 300, step=step + 1000))
def deep(value):
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return -(-sys.getsizeof(value) // 16) * 16 + sum(map(deep, parts))
state = sum(part.nbytes for parts in optimizer.state.values() for part in parts.values())
print(json.dumps([state, sum(weight.grad.nbytes for weight in model.parameters()), deep(keeper.log_history)]), flush=True)
sys.stdin.read()
"""


def test_optimizer_state_gradients_and_the_log_are_told_with_what_they_hold_and_no_more(tmp_path):
    kind = name()
    said, scan = scanned(tmp_path, TRAIN.format(kind=kind, width=random.randint(500, 900)))
    state, gradients, log = json.loads(said)
    told = {(row["holder"], row["attribute"]): row for row in scan["suspects"]}
    assert told["AdamW", "state"]["label"] == "optimizer state"
    # Two averages for each of twelve weights: a word that is left from before in a native record may add a block of another tensor.
    assert state <= told["AdamW", "state"]["bytes"] <= 1.1 * state
    assert (told["AdamW", "grad"]["label"], told["AdamW", "grad"]["count"]) == ("gradients", 12)
    assert 0.99 * gradients <= told["AdamW", "grad"]["bytes"] <= 1.05 * gradients
    row = told[kind, "log_history"]
    assert row["count"] == 300 and not row["at_least"]
    assert 0.9 * log <= row["bytes"] <= 1.1 * log


SHARED = """
import sys, torch
{keeper} = [torch.ones({numbers}).share_memory_() for _ in range(30)]
print("ready", flush=True)
sys.stdin.read()
"""


def test_tensors_in_shared_memory_have_an_owner_and_a_holder(tmp_path):
    keeper, numbers = name().upper(), random.randint(900_000, 1_100_000)
    _, scan = scanned(tmp_path, SHARED.format(keeper=keeper, numbers=numbers))
    planted = 30 * numbers * 4
    (owner,) = [kind for kind in scan["types"] if abs(kind["owned_bytes"] - planted) <= 0.05 * planted]
    (holder,) = [holder for holder in scan["holders"] if holder["name"] == owner["name"]]
    assert f"list of 30 <- global {keeper} of module __main__" in holder["text"], holder
    (shared,) = [part for part in scan["kinds"] if part["kind"] == "shared"]
    assert shared["bytes"] >= planted
