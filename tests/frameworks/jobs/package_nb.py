"""The notebook extension with real frameworks, in a shell that has only what the extension asks of one."""

import json
import os
import sys
from types import SimpleNamespace

from lowtide import _notebook

shell = SimpleNamespace(
    events=SimpleNamespace(register=lambda name, act: None, unregister=lambda name, act: None),
    register_magic_function=lambda act, kind, name: None,
    user_ns={"In": ["", "fit"], "Out": {}},
)
_notebook.load(shell)
book = _notebook._book
book.before_cell(None)

# Imported after the extension, and used in the same cell.
import keras  # noqa: E402
import lightning  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
from hf import Config, Tiny  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402
from transformers import Trainer, TrainingArguments  # noqa: E402


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.line = torch.nn.Linear(8, 1)

    def training_step(self, batch, index):
        return self.line(batch[0]).pow(2).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


def main():
    rows = [{"x": torch.randn(8), "labels": torch.tensor(1.0)} for _ in range(40)]
    arguments = TrainingArguments("out", num_train_epochs=1, report_to=[], use_cpu=True, disable_tqdm=True, save_strategy="no")
    Trainer(Tiny(Config()), arguments, train_dataset=rows).train()
    loader = DataLoader(TensorDataset(torch.randn(24, 8)), batch_size=4)
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False, "logger": False}
    lightning.Trainer(max_epochs=1, accelerator="cpu", **quiet).fit(Module(), loader)
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(np.zeros((30, 8)), np.zeros((30, 1)), batch_size=10, verbose=0)
    fits = [{"name": fit.name, "why_not": fit.why_not, "steps": steps_of(fit.path)} for fit in book.fits]
    print(json.dumps({"pid": os.getpid(), "fits": fits, "text": book.text()}), file=sys.stdout)


def steps_of(path):
    import sqlite3

    file = sqlite3.connect(path)
    return file.execute("SELECT max(number) FROM mark WHERE kind = 'step'").fetchone()[0]


main()
