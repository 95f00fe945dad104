"""A torch loop that accumulates gradients for ever and leaves tensors in cycles behind, until its standard input ends."""

import gc
import json
import os
import sys
import threading

import torch

over = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()


class Loop:
    """Keeps a tensor alive through a cycle."""

    def __init__(self):
        self.me = self
        self.data = torch.ones(100_000)


gc.disable()
for _ in range(100):
    Loop()
model = torch.nn.Linear(8, 1, bias=False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
steps = 0
print("ready", flush=True)
while not over.wait(0.01):
    # The same gradient each time, and nobody zeroes it: after n steps it is n times the first.
    model(torch.ones(1, 8)).sum().backward()
    optimizer.step()
    steps += 1
print(json.dumps({"pid": os.getpid(), "steps": steps, "gradient": model.weight.grad[0, 0].item()}), flush=True)
