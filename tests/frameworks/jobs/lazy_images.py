"""A Trainer over images that are decoded when they are first used: kept open in a list, or closed after use."""

import sys
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from transformers import Trainer, TrainingArguments

folder, count, epochs, way = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
WIDTH, HEIGHT = 900, 700


def path(number):
    return folder / f"{number}.jpg"


class Lazy(torch.utils.data.Dataset):
    def __init__(self):
        # Opened, not decoded: the pixels come with the first use and stay with the object.
        self.images = [Image.open(path(number)) for number in range(count)] if way == "keep" else None

    def __len__(self):
        return count

    def __getitem__(self, number):
        if way == "keep":
            pixels = self.corner(self.images[number])
        else:
            with Image.open(path(number)) as image:
                pixels = self.corner(image)
        time.sleep(0.01)
        return {"x": torch.from_numpy(pixels).flatten() / 255, "labels": torch.tensor(0.0)}

    @staticmethod
    def corner(image):
        image.load()
        return np.asarray(image.crop((0, 0, 8, 8)), dtype=np.float32).copy()


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.line = torch.nn.Linear(192, 1)

    def forward(self, x, labels):
        out = self.line(x).squeeze(-1)
        return {"loss": ((out - labels) ** 2).mean(), "logits": out}


folder.mkdir(exist_ok=True)
small = np.random.default_rng(0).integers(0, 255, (35, 45, 3), dtype=np.uint8)
for number in range(count):
    Image.fromarray(small).resize((WIDTH, HEIGHT)).save(path(number))
arguments = TrainingArguments(
    output_dir=str(folder / "out"),
    per_device_train_batch_size=2,
    gradient_accumulation_steps=2,
    num_train_epochs=epochs,
    report_to=[],
    save_strategy="no",
    use_cpu=True,
    disable_tqdm=True,
)
Trainer(model=Model(), args=arguments, train_dataset=Lazy()).train()
