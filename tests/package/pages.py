"""Reads a mark page as the recorder does."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any, NamedTuple


class Record(NamedTuple):
    kind: int
    phase: int
    number: float
    extra: dict[str, Any]


class Page(NamedTuple):
    pid: int
    steps: int
    epoch: float
    records: list[Record]


def read(folder: Path) -> list[Page]:
    """Every page in a folder, by pid."""
    return sorted(_page(path.read_bytes()) for path in folder.iterdir() if not path.name.startswith("."))


def _page(data: bytes) -> Page:
    assert data[:8] == b"LOWTIDE\x01"
    assert len(data) == 65536
    (pid,) = struct.unpack_from("<Q", data, 16)
    (steps,) = struct.unpack_from("<Q", data, 64)
    (epoch,) = struct.unpack_from("<d", data, 80)
    (head,) = struct.unpack_from("<Q", data, 512)
    return Page(pid, steps, epoch, [_record(data, index) for index in range(max(0, head - 252), head)])


def _record(data: bytes, index: int) -> Record:
    at = 1024 + index % 252 * 256
    seq, _, kind, phase, length, _, number = struct.unpack_from("<QQBBHid", data, at)
    assert seq == index + 1
    extra = json.loads(data[at + 32 : at + 32 + length]) if length else {}
    return Record(kind, phase, number, extra)
