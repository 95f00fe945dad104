"""accelerate with its trigger: a loop that stops on all ranks together when one of them wants to."""

import json
import os

import torch
from accelerate import Accelerator
from accelerate.utils import ProjectConfiguration
from asking import ask_to_stop

accelerator = Accelerator(
    cpu=True, project_config=ProjectConfiguration("project", automatic_checkpoint_naming=True)
)  # fmt: skip
model = torch.nn.Linear(8, 1)
model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.01))
stopped = None
for step in range(1, 20):
    accelerator.backward(model(torch.ones(4, 8)).pow(2).mean())
    optimizer.step()
    if step == 4:
        ask_to_stop()
    if accelerator.check_trigger():
        accelerator.save_state()
        stopped = step
        break
print(json.dumps({"pid": os.getpid(), "stopped": stopped}))
