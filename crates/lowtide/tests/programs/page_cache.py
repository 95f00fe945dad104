"""Reads a large mapped file a little further at every step."""

import mmap
import tempfile

from pace import MIB, steps, touched

model = touched(50)
with tempfile.NamedTemporaryFile(dir=".") as file:
    for part in range(150):
        file.write(b"\x02" * MIB)
    file.flush()
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for step in steps(150, 13):
            batch = data[step * MIB : (step + 1) * MIB]
