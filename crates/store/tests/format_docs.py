"""Runs the Python examples of docs/FORMAT.md: format_docs.py DOCS RECORDING [word to pick blocks by]."""

import re
import sys

docs, path = open(sys.argv[1], encoding="utf-8").read(), sys.argv[2]
pick = sys.argv[3] if len(sys.argv) > 3 else ""
blocks = [block for block in re.findall(r"```python\n(.*?)```", docs, re.S) if pick in block]
if not blocks:
    sys.exit("no Python example found")
for block in blocks:
    exec(compile(block, "docs/FORMAT.md", "exec"), {"path": path})
print(f"{len(blocks)} examples ran")
