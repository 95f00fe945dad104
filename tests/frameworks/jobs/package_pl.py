"""Lightning with lowtide's callback, under either of its names."""

import importlib
import json
import os
import sys

name = sys.argv[1]
pl = importlib.import_module(name)

import lowtide.lightning
import torch
from asking import ask_to_stop, ends_the_program
from torch.utils.data import DataLoader, TensorDataset

ask = len(sys.argv) > 2


class Tiny(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.line = torch.nn.Linear(8, 1)

    def training_step(self, batch, index):
        return (self.line(batch[0]) - batch[1]).pow(2).mean()

    def validation_step(self, batch, index):
        self.log("val", (self.line(batch[0]) - batch[1]).pow(2).mean())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


class Count(pl.Callback):
    def __init__(self):
        self.said = {"pid": os.getpid(), "epochs": 0, "evals": 0, "steps": 0}

    def on_train_epoch_end(self, trainer, module):
        self.said["epochs"] += 1

    def on_validation_end(self, trainer, module):
        self.said["evals"] += 1

    def on_train_batch_end(self, trainer, *args):
        self.said["steps"] = trainer.global_step
        if ask and trainer.global_step == 4:
            ask_to_stop()


def main():
    torch.manual_seed(7)
    rows = TensorDataset(torch.randn(50, 8), torch.randn(50, 1))
    count = Count()
    ours = lowtide.lightning.Callback(log_every=5)
    logger = importlib.import_module(
        f"{'pytorch_lightning' if name[0] == 'p' else 'lightning.pytorch'}.loggers"
    ).CSVLogger("logs")
    trainer = pl.Trainer(
        max_epochs=3, accelerator="cpu", logger=logger, enable_progress_bar=False, enable_model_summary=False,
        accumulate_grad_batches=2, callbacks=[count, ours],
    )  # fmt: skip
    loaders = DataLoader(rows, batch_size=4, shuffle=True), DataLoader(rows, batch_size=10)
    left = ends_the_program(trainer.fit, Tiny(), *loaders)
    logger.save()
    said = count.said
    said["left"] = left
    metrics = os.path.join(logger.log_dir, "metrics.csv")
    # A training that is stopped in its first steps has logged nothing.
    if os.path.exists(metrics):
        with open(metrics) as file:
            said["logged"] = file.readline().strip().split(",")
    said["saved"] = sorted(n for _, _, names in os.walk(".") for n in names if n.startswith("lowtide-stop"))
    said["summary"] = ours.summary
    print(json.dumps(said))


main()
