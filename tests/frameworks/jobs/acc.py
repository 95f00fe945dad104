"""accelerate: its own loop with accumulation, an evaluation a pass, and a state folder."""

import json
import os

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, TensorDataset


def main():
    # All of them: their states are written, and the size of those varies.
    set_seed(7)
    rows = TensorDataset(torch.randn(50, 8), torch.randn(50, 1))
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=3)
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(rows, batch_size=4, shuffle=True)
    test = DataLoader(rows, batch_size=10)
    model, optimizer, loader, test = accelerator.prepare(model, optimizer, loader, test)
    said = {"pid": os.getpid(), "epochs": 0, "evals": 0, "steps": 0, "batches": 0, "examples": 0}
    for _ in range(2):
        model.train()
        for x, y in loader:
            said["batches"] += 1
            said["examples"] += len(x)
            with accelerator.accumulate(model):
                accelerator.backward((model(x) - y).pow(2).mean())
                optimizer.step()
                said["steps"] += accelerator.sync_gradients
                optimizer.zero_grad()
        said["epochs"] += 1
        model.eval()
        with torch.no_grad():
            for x, _ in test:
                model(x)
        said["evals"] += 1
    accelerator.save_state("state")
    accelerator.wait_for_everyone()
    accelerator.load_state("state")
    if accelerator.is_main_process:
        said["bytes"] = sum(os.path.getsize("state/" + n) for n in os.listdir("state"))
    said["rank"], said["world"] = accelerator.process_index, accelerator.num_processes
    said["weights"] = [float(v).hex() for v in accelerator.unwrap_model(model).weight.flatten()]
    folder = os.environ.get("SAID_IN")
    if folder:
        with open(os.path.join(folder, f"said-{accelerator.process_index}.json"), "w") as file:
            json.dump(said, file)
    print(json.dumps(said))


main()
