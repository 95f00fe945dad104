"""Lightning, leaking at every step. BY_HAND: stopped and resumed at these steps by its own means, in one process."""

import json
import os

import lightning.pytorch as pl
import torch
from leaking import STEPS, held, leak, note
from torch.utils.data import DataLoader, TensorDataset

BY_HAND = [int(step) for step in os.environ.get("BY_HAND", "").split(",") if step]


class Leaking(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Dropout(0.3), torch.nn.Linear(8, 1))

    def training_step(self, batch, index):
        loss = (self.layers(batch[0]) - batch[1]).pow(2).mean()
        note(self.trainer.global_step + 1, loss.item())
        leak()
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.01)


class Stop(pl.Callback):
    def __init__(self, step):
        self.step = step

    def on_train_batch_end(self, trainer, *args):
        if trainer.global_step == self.step:
            trainer.save_checkpoint(f"by-hand-{self.step}.ckpt")
            raise SystemExit(0)


def fit(stop=None, start=None):
    pl.seed_everything(7, verbose=False)
    rows = TensorDataset(torch.randn(52, 8), torch.randn(52, 1))
    trainer = pl.Trainer(
        max_steps=STEPS, accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False,
        enable_checkpointing=False, callbacks=[Stop(stop)] if stop else [],
    )  # fmt: skip
    trainer.fit(Leaking(), DataLoader(rows, batch_size=4, shuffle=True), ckpt_path=start)


start = None
for step in BY_HAND:
    try:
        fit(step, start)
    except SystemExit:
        start = f"by-hand-{step}.ckpt"
fit(start=start)
print(json.dumps({"pid": os.getpid(), "held": held()}))
