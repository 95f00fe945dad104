"""Keras on a tiny model; a callback of its own counts what Keras reports."""

import json
import os
import sys

import keras
import numpy as np
from asking import ask_to_stop, ends_the_program

ask = "ask" in sys.argv


class Count(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.said = {"pid": os.getpid(), "epochs": 0, "evals": 0, "batches": 0}

    def on_epoch_end(self, epoch, logs=None):
        self.said["epochs"] += 1

    def on_test_end(self, logs=None):
        self.said["evals"] += 1

    def on_train_batch_end(self, batch, logs=None):
        self.said["batches"] += 1
        if ask and self.said["batches"] == 4:
            ask_to_stop()


def main():
    keras.utils.set_random_seed(7)
    x, y = np.random.randn(50, 8).astype("float32"), np.random.randn(50, 1).astype("float32")
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    count = Count()
    if "backup" in sys.argv:
        keep = keras.callbacks.BackupAndRestore("backup")
    else:
        keep = keras.callbacks.ModelCheckpoint("kept-{epoch}.keras")
    options = {"batch_size": 4, "epochs": 2, "validation_data": (x, y), "verbose": 0, "callbacks": [count, keep]}
    left = ends_the_program(lambda: model.fit(x, y, **options))
    said, history = count.said, model.history
    said["left"] = left
    said["steps"] = int(model.optimizer.iterations)
    said["sizes"] = sum(v.numpy().nbytes for v in [*model.variables, *model.optimizer.variables])
    said["kept"] = {n: os.path.getsize(n) for n in sorted(os.listdir(".")) if n.startswith("kept")}
    said["losses"] = [float(v).hex() for v in history.history["loss"]]
    keras.saving.load_model(next(iter(said["kept"]), None)) if said["kept"] else None
    print(json.dumps(said))


main()
