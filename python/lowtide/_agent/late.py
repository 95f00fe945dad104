"""Starts the agent in a process that already runs: `lowtide watch --agent` sends it here by remote execution (3.14).

What the program imported before is hooked where it is. A function that the program took out of its module by name
(`from safetensors.torch import save_file`) stays as it was. Nothing of the program's environment or path is changed.
"""

import atexit
import os
import sys

from . import page, start


def begin(agent, marks):
    """Opens the page in `marks`, or moves the one there is, and hooks what is loaded; `agent` is the folder of our files."""
    try:
        owner = sys.modules.get("lowtide._agent.page")
        (owner if owner is not None and owner._page is not None else page).move_page(marks)
        start.start(marks)
        atexit.register(_tidy, agent, marks, os.getpid())
    except Exception:
        pass


def _tidy(agent, marks, pid):
    """Takes the page away when this process ends and its recorder is gone; the last one takes our files as well."""
    try:
        private = os.path.dirname(agent)
        if os.getpid() != pid or os.path.exists(os.path.join(private, "control.sock")):
            return
        for name in os.listdir(marks):
            if name.startswith("%d." % pid):
                os.unlink(os.path.join(marks, name))
        os.rmdir(marks)
        from shutil import rmtree

        rmtree(agent, True)
        os.rmdir(private)
    except Exception:
        pass
