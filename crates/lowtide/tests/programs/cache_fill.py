"""Two and a half passes over Pillow images in a list: each is decoded when first touched, and stays decoded."""

import os
import tempfile

from PIL import Image
from pace import argument, note, steps

EXAMPLES = 56

with tempfile.TemporaryDirectory() as folder, open(argument(1, os.devnull), "w") as log:
    paths = []
    for number in range(EXAMPLES):
        paths.append(os.path.join(folder, f"{number}.png"))
        Image.new("RGB", (800, 600), (number, 2 * number, 3 * number)).save(paths[-1], compress_level=1)
    images = [Image.open(path) for path in paths]
    for step in steps(EXAMPLES * 5 // 2, 13):
        images[step % EXAMPLES].load()
        note(log, step)
