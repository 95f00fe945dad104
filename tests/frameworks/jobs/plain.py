"""A plain torch loop: passes, an evaluation after each, saves; arguments: workers, start method, accumulation."""

import json
import os
import sys

import torch
from torch.utils.data import DataLoader, TensorDataset


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(8, 16), torch.nn.Linear(16, 1)

    def forward(self, x):
        return self.last(torch.relu(self.first(x)))


def main():
    workers, method, accum = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    torch.manual_seed(7)
    rows = TensorDataset(torch.randn(50, 8), torch.randn(50, 1))
    options = {"num_workers": workers, "multiprocessing_context": method if workers else None}
    loader = DataLoader(rows, batch_size=4, shuffle=True, **options)
    test = DataLoader(TensorDataset(torch.randn(20, 8), torch.randn(20, 1)), batch_size=5)
    model = Model()
    next(iter(DataLoader(rows, batch_size=4)))  # a look at the data is no pass
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    said = {"pid": os.getpid(), "steps": 0, "epochs": 0, "evals": 0, "saves": 0, "batches": 0, "examples": 0}
    losses = []
    for _ in range(3):
        model.train()
        said["epochs"] += 1
        for index, (x, y) in enumerate(loader):
            said["batches"] += 1
            said["examples"] += len(x)
            loss = (model(x) - y).pow(2).mean()
            loss.backward()
            losses.append(loss.item())
            if (index + 1) % accum == 0 or index + 1 == len(loader):
                optimizer.step()
                optimizer.zero_grad()
                said["steps"] += 1
        model.eval()
        said["evals"] += 1
        for x, y in test:
            with torch.no_grad():
                losses.append((model(x) - y).pow(2).mean().item())
        torch.save(model.state_dict(), "weights.pt")
        said["saves"] += 1
    model.load_state_dict(torch.load("weights.pt"))
    said["save_bytes"] = os.path.getsize("weights.pt")
    said["losses"] = [loss.hex() for loss in losses]
    said["random"] = torch.randn(4).tolist()
    print(json.dumps(said))


if __name__ == "__main__":
    main()
