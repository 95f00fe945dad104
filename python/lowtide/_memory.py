"""What this process holds, as the kernel and the GPU's framework count it. Reads only; no opinion, no cache."""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Any, NamedTuple

MIB = 1 << 20
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Host(NamedTuple):
    """Resident bytes of this process, by kind."""

    rss: int
    anon: int
    file: int
    shmem: int


class Gpu(NamedTuple):
    """Bytes of GPU memory as the framework in this process counts them, over all devices."""

    allocated: int
    reserved: int


def rss() -> int:
    """Resident bytes of this process. Opened anew each time: a kept descriptor would show the parent after a fork."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * _PAGE


def host() -> Host:
    """Resident bytes by kind; one read of /proc/self/status."""
    with open("/proc/self/status", "rb") as file:
        fields = dict(line.split(b":", 1) for line in file.read().splitlines() if line.startswith((b"VmRSS", b"Rss")))
    kib = {name: int(value.split()[0]) for name, value in fields.items()}
    return Host(*(kib.get(name, 0) * 1024 for name in (b"VmRSS", b"RssAnon", b"RssFile", b"RssShmem")))


def children_rss() -> int:
    """Resident bytes of all processes below this one, shared pages counted in each."""
    total, below, seen = 0, [os.getpid()], set()
    while below:
        pid = below.pop()
        for child in _children(pid):
            if child not in seen:
                seen.add(child)
                below.append(child)
                total += _rss_of(child)
    return total


def _children(pid: int) -> list[int]:
    found = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", "rb") as file:
                found += [int(word) for word in file.read().split()]
    except OSError:
        pass
    return found


def _rss_of(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0


def torch_cuda() -> Any | None:
    """torch.cuda where the job already uses it: asking must not be what initialises a GPU."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    try:
        return cuda if cuda is not None and cuda.is_available() and cuda.is_initialized() else None
    except Exception:
        return None


def gpu() -> Gpu | None:
    """GPU bytes as torch sees them, or None where no GPU is in use."""
    cuda = torch_cuda()
    if cuda is None:
        return None
    devices = range(cuda.device_count())
    return Gpu(
        sum(int(cuda.memory_allocated(device)) for device in devices),
        sum(int(cuda.memory_reserved(device)) for device in devices),
    )


def trim() -> bool:
    """Asks the C library to give free memory back; False where it has no such call."""
    try:
        malloc_trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):
        return False
    malloc_trim.argtypes = [ctypes.c_size_t]
    malloc_trim(0)
    return True


def readings() -> dict[str, float]:
    """Host and GPU for a training log, in MiB."""
    own = host()
    values = {
        "lowtide/rss_mib": own.rss / MIB,
        "lowtide/anon_mib": own.anon / MIB,
        "lowtide/children_mib": children_rss() / MIB,
    }
    card = gpu()
    if card is not None:
        values["lowtide/gpu_allocated_mib"] = card.allocated / MIB
        values["lowtide/gpu_reserved_mib"] = card.reserved / MIB
    return {name: round(value, 1) for name, value in values.items()}


def size(count: float) -> str:
    """Bytes as people read them."""
    value, unit = abs(float(count)), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            break
        value /= 1024
    digits = 0 if unit == "B" or value >= 100 else 1 if value >= 10 else 2
    return f"{'-' if count < 0 else ''}{value:.{digits}f} {unit}"
