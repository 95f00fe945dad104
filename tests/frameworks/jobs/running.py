"""A plain torch loop that runs until its input closes: how many steps it had when the agent came, and at its end."""

import json
import os
import sys
import threading

import torch
from torch.utils.data import DataLoader, TensorDataset


def main():
    stop = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
    torch.manual_seed(7)
    rows = TensorDataset(torch.randn(64, 8), torch.randn(64, 1))
    loader = DataLoader(rows, batch_size=8)
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    said = {"pid": os.getpid(), "steps": 0, "before": None, "passes": 0}
    while not stop.wait(0.05):
        for x, y in loader:
            optimizer.zero_grad()
            (model(x) - y).pow(2).mean().backward()
            optimizer.step()
            said["steps"] += 1
            if said["before"] is None and "lowtide_agent.late" in sys.modules:
                said["before"] = said["steps"]
                said["passes"] = 0
            if said["steps"] == 20:
                print("running", flush=True)
        said["passes"] += 1
    print(json.dumps(said), flush=True)


main()
