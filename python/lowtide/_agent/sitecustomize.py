"""Loads lowtide's agent, then the `sitecustomize` the user has somewhere behind us on the path.

The recorder puts the folder of this file first on PYTHONPATH. Small, because it is compiled anew in every process.
"""

import sys

# The folder is ours: keep what is compiled there even where the user wants none, it is most of the start-up time.
_kept = sys.dont_write_bytecode, sys.pycache_prefix
sys.dont_write_bytecode, sys.pycache_prefix = False, None
try:
    from lowtide_agent import start as _start
except Exception:
    _start = None
sys.dont_write_bytecode, sys.pycache_prefix = _kept
if _start is not None:
    _start.start()
    _start.chain(__file__)
