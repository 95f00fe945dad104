"""Keras with BackupAndRestore, leaking at every step, nine passes of four steps. Nothing random: Keras restores no dice."""

import json
import os

import keras
import numpy as np
from leaking import STEPS, held, leak, note

PASS = 4


class Diary(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        note(int(self.model.optimizer.iterations), logs["loss"])
        leak()


def main():
    keras.utils.set_random_seed(7)
    x, y = np.random.randn(4 * PASS, 8).astype("float32"), np.random.randn(4 * PASS, 1).astype("float32")
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    callbacks = [Diary(), keras.callbacks.BackupAndRestore("backup")]
    model.fit(x, y, batch_size=4, epochs=STEPS // PASS, shuffle=False, verbose=0, callbacks=callbacks)
    # Not for a model that is half trained.
    weights = [float(v).hex() for w in model.get_weights() for v in w.flatten()]
    print(json.dumps({"pid": os.getpid(), "held": held(), "weights": weights}))


main()
