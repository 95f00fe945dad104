"""Starts the trainer and waits, as torchrun or accelerate do."""

import os
import subprocess
import sys

sys.exit(subprocess.call([sys.executable, os.path.join(os.path.dirname(__file__), "trainer.py")]))
