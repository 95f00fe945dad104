"""Lightning on a tiny module; a callback of its own counts what Lightning reports."""

import importlib
import json
import os
import sys

import torch
from asking import ask_to_stop, ends_the_program
from torch.utils.data import DataLoader, TensorDataset

pl = importlib.import_module(sys.argv[1])
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
        self.said = {"pid": os.getpid(), "epochs": 0, "evals": 0, "saves": 0, "steps": 0}

    def on_train_epoch_end(self, trainer, module):
        self.said["epochs"] += 1

    def on_validation_end(self, trainer, module):
        self.said["evals"] += 1

    def on_save_checkpoint(self, trainer, module, checkpoint):
        self.said["saves"] += 1

    def on_train_batch_end(self, trainer, *args):
        self.said["steps"] = trainer.global_step
        if ask and trainer.global_step == 4:
            ask_to_stop()


def main():
    torch.manual_seed(7)
    rows = TensorDataset(torch.randn(50, 8), torch.randn(50, 1))
    count = Count()
    keep = pl.callbacks.ModelCheckpoint(dirpath="kept", every_n_epochs=1, save_top_k=-1)
    trainer = pl.Trainer(
        max_epochs=3, accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False,
        accumulate_grad_batches=2, callbacks=[count, keep],
    )  # fmt: skip
    model = Tiny()
    loaders = DataLoader(rows, batch_size=4, shuffle=True), DataLoader(rows, batch_size=10)
    left = ends_the_program(lambda: trainer.fit(model, *loaders, ckpt_path=os.environ.get("BY_HAND")))
    said = count.said
    said["left"] = left
    said["kept"] = {n: os.path.getsize("kept/" + n) for n in sorted(os.listdir("kept"))}
    said["weights"] = [float(v).hex() for v in model.line.weight.flatten()]
    said["callbacks"] = [type(c).__name__ for c in trainer.callbacks]
    print(json.dumps(said))


main()
