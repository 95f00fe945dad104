"""A torch loop of one's own that leaks at every step: "term" saves on SIGTERM, "every" saves every ten steps."""

import json
import os
import signal
import sys

import torch
from leaking import STEPS, held, leak, note

wish = sys.argv[1]
asked = []
if wish == "term":
    signal.signal(signal.SIGTERM, lambda *_: asked.append(True))

torch.manual_seed(7)
model = torch.nn.Sequential(torch.nn.Dropout(0.3), torch.nn.Linear(8, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
first = 1


def save(step):
    state = {
        "step": step,
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "random": torch.get_rng_state(),
    }
    torch.save(state, f"state-{step}.pt")


if os.environ.get("LOWTIDE_CHECKPOINT"):
    state = torch.load(os.environ["LOWTIDE_CHECKPOINT"])
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    torch.set_rng_state(state["random"])
    first = state["step"] + 1

for step in range(first, STEPS + 1):
    loss = (model(torch.randn(4, 8)) - torch.randn(4, 1)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    note(step, loss.item())
    leak()
    if asked or (wish == "every" and step % 10 == 0):
        save(step)
    if asked:
        sys.exit(0)
print(json.dumps({"pid": os.getpid(), "held": held()}))
