"""What the frameworks write when they save: one of each kind into the working folder."""

import keras
import numpy as np
import torch
import torch.distributed.checkpoint as dcp

torch.save({"model": torch.nn.Linear(4, 4).state_dict(), "step": 300}, "own-300.pt")
torch.save({"model": torch.zeros(3), "step": 70_000}, "legacy.pt", _use_new_zipfile_serialization=False)
dcp.save({"weights": torch.zeros(4)}, checkpoint_id="dcp/step-5", no_dist=True)

x, y = np.zeros((8, 2), "float32"), np.zeros((8, 1), "float32")
model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
model.compile("adam", "mse")
backup = keras.callbacks.BackupAndRestore("backup", delete_checkpoint=False)
model.fit(x, y, epochs=1, verbose=0, callbacks=[backup])
model.save("model.keras")
