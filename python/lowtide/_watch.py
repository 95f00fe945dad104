"""`lowtide.watch`: a recorder for the process that calls it.

The recorder is a process of its own, so it goes on when this one hangs or dies, and its memory is not ours. This process
grants it the right to read its memory (PR_SET_PTRACER), which kernels with restricted ptrace would refuse to a child.
"""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from typing import TYPE_CHECKING

from lowtide import _page
from lowtide._binary import LowtideError, find

if TYPE_CHECKING:
    from typing_extensions import Self

_PR_SET_PTRACER = 0x59616D61
_START_SECONDS = 15.0
_STOP_SECONDS = 15.0

_running: Watch | None = None


class Watch:
    """A running recording of this process. `path` is its file; `stop()` closes it; also a context manager."""

    def __init__(
        self, process: subprocess.Popen[bytes], path: str, socket: str | None, marks: str | None = None
    ) -> None:
        self._process = process
        self._marks = marks
        self._owner = os.getpid()
        self.path = path
        self.socket = socket

    @property
    def running(self) -> bool:
        """Whether the recorder still records."""
        return self._process.poll() is None

    def stop(self) -> str:
        """Ends the recording and gives its path. A second call does nothing."""
        global _running
        # A forked child has the handle too; the recording is not its to end.
        if os.getpid() != self._owner:
            return self.path
        if self.running:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.terminate()
        if self._marks is not None:
            shutil.rmtree(self._marks, ignore_errors=True)
        if _running is self:
            _running = None
        return self.path

    def __fspath__(self) -> str:
        return self.path

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<lowtide recording {self.path}, {'running' if self.running else 'closed'}>"


def current() -> Watch | None:
    """The recording that `watch` started here and that still runs."""
    return _running if _running is not None and _running.running else None


def watch(out: str | os.PathLike[str] | None = None, name: str | None = None, interval: str | None = None) -> Watch:
    """Records this process and all it starts, from now on, until `stop()` or the end of the process.

    Under `lowtide run` there is a recorder already: its marks stay where they are, and this makes a second file.
    Called again while it runs, it gives the same recording.
    """
    global _running
    running = current()
    if running is not None:
        return running
    # Under `lowtide run` the pages have their place, and the recorder finds it by itself.
    marks = None if os.environ.get("LOWTIDE_MARKS") else tempfile.mkdtemp(prefix="lowtide-marks-")
    command = [find(), "watch", "--recorder", str(os.getpid())]
    for flag, value in (("--out", out), ("--name", name), ("--interval", interval), ("--marks", marks)):
        if value is not None:
            command += [flag, os.fspath(value)]
    try:
        started = _start(command, marks)
    except LowtideError:
        shutil.rmtree(marks, ignore_errors=True) if marks else None
        raise
    if marks is not None:
        _page.begin_in(marks)
    _running = started
    atexit.register(started.stop)
    return started


def _start(command: list[str], marks: str | None) -> Watch:
    # Not a pipe: nobody reads it later, and a full one would hold the recorder up.
    with tempfile.TemporaryFile() as complaints:
        # A session of its own: a Ctrl-C for the job must not cut the recording of what follows it.
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=complaints, start_new_session=True
            )
        except OSError as error:
            raise LowtideError(f"cannot start {command[0]}: {error}") from error
        _grant(process.pid)
        try:
            recording, socket = json.loads(_first_line(process))
        except ValueError:
            process.kill()
            process.wait()
            complaints.seek(0)
            said = complaints.read().decode(errors="replace").strip()
            raise LowtideError(f"the recorder did not start: {said or 'it said nothing'}") from None
    path = os.fsdecode(bytes(recording))
    return Watch(process, path, os.fsdecode(bytes(socket)) if socket else None, marks)


def _first_line(process: subprocess.Popen[bytes]) -> bytes:
    """What the recorder says when it is ready: where the recording and its socket are."""
    assert process.stdout is not None
    line, until = b"", time.monotonic() + _START_SECONDS
    while not line.endswith(b"\n") and time.monotonic() < until:
        ready, _, _ = select.select([process.stdout], [], [], 0.1)
        if ready:
            more = os.read(process.stdout.fileno(), 4096)
            if not more:
                break
            line += more
    return line


def _grant(pid: int) -> None:
    """Kernels without Yama refuse the call, and need no such right."""
    try:
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PTRACER, ctypes.c_ulong(pid), 0, 0, 0)
    except (AttributeError, OSError):
        return
