"""Finds the `lowtide` program that was installed with this package, and runs it.

Why not simply PATH: a virtual environment that is not activated, `pip install --user` and `--target` put it elsewhere,
and another version may come first.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence

NAME = "lowtide"


class LowtideError(RuntimeError):
    """lowtide could not do it; the message is the program's own."""


def _places() -> Iterator[str]:
    """Folders in which an installer may have put the program, the likeliest first."""
    yield sysconfig.get_path("scripts")
    here = os.path.dirname(os.path.abspath(__file__))
    above = os.path.dirname(here)
    # `pip install --target DIR` and `--prefix DIR`.
    yield os.path.join(above, "bin")
    yield os.path.normpath(os.path.join(above, "..", "..", "..", "bin"))
    yield sysconfig.get_path("scripts", scheme=f"{os.name}_user")
    yield os.path.dirname(sys.executable)


def find() -> str:
    """The program's path. `LOWTIDE_BIN` names another one, for those who build it themselves."""
    named = os.environ.get("LOWTIDE_BIN")
    if named:
        return named
    for place in _places():
        program = os.path.join(place, NAME)
        if os.path.isfile(program) and os.access(program, os.X_OK):
            return program
    found = shutil.which(NAME)
    if found is None:
        raise LowtideError("the lowtide program is not installed beside this package; install it with pip or cargo")
    return found


def call(arguments: Sequence[str], accept: Sequence[int] = (0,)) -> subprocess.CompletedProcess[str]:
    """Runs the program to its end. An exit code that is not accepted becomes an error with what the program said."""
    command = [find(), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    except OSError as error:
        raise LowtideError(f"cannot start {command[0]}: {error}") from error
    if done.returncode not in accept:
        said = done.stderr.strip() or f"exit code {done.returncode}"
        raise LowtideError(said.removeprefix("error: "))
    return done
