"""An accelerate loop with dropout that asks its trigger, leaking at every step."""

import json
import os

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from leaking import STEPS, held, leak, note

set_seed(7)
accelerator = Accelerator(cpu=True)
model = torch.nn.Sequential(torch.nn.Dropout(0.3), torch.nn.Linear(8, 1))
model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=0.01))
first = 1
start = os.environ.get("LOWTIDE_CHECKPOINT")
if start:
    accelerator.load_state(start)
    first = int(start.rpartition("-")[2]) + 1

for step in range(first, STEPS + 1):
    loss = (model(torch.randn(4, 8)) - torch.randn(4, 1)).pow(2).mean()
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
    note(step, loss.item())
    leak()
    if step < STEPS and accelerator.check_trigger():
        accelerator.save_state(f"step-{step}")
        raise SystemExit(0)
print(json.dumps({"pid": os.getpid(), "held": held()}))
