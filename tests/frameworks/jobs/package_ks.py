"""Keras with lowtide's callback."""

import json
import os
import sys

import keras
import lowtide.keras
import numpy as np
from asking import ask_to_stop, ends_the_program

ask = len(sys.argv) > 1


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
    count, ours = Count(), lowtide.keras.Callback(save_on_stop="stopped.keras")
    options = {"batch_size": 4, "epochs": 2, "validation_data": (x, y), "verbose": 0, "callbacks": [count, ours]}
    left = ends_the_program(lambda: model.fit(x, y, **options))
    said, history = count.said, model.history
    said["left"] = left
    said["steps"] = int(model.optimizer.iterations)
    said["logged"] = sorted(history.history)
    said["saved"] = os.path.exists("stopped.keras")
    said["summary"] = ours.summary
    print(json.dumps(said))


main()
