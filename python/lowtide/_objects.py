"""What Python objects hold, by type and by tensor: for the summary of a training run and for notebooks.

Why not only `gc.get_objects`: it lists containers. Arrays, bytes and decoded images are found one step behind them.
Why a time limit: a walk over a million objects takes seconds and the interpreter's lock. What was not reached is said.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Iterable
from types import BuiltinFunctionType, FrameType, FunctionType, ModuleType
from typing import Any, NamedTuple

# Enough to walk the objects of a loaded torch program; see docs/python.md.
CENSUS_SECONDS = 2.0
_LOOK_AT_CLOCK = 4096
_PILLOW_BYTE_MODES = ("1", "L", "P")
# Objects that lead to the whole program rather than to what a value holds.
_LEADS_AWAY = (type, ModuleType, FunctionType, BuiltinFunctionType, FrameType)


class Tensor(NamedTuple):
    """One piece of tensor memory; views of it are not counted again."""

    size: int
    device: str
    what: str


class Kind(NamedTuple):
    """All objects of one type."""

    name: str
    number: int
    size: int


class Census(NamedTuple):
    """Objects of this process at one moment."""

    kinds: dict[str, Kind]
    tensors: list[Tensor]
    seconds: float
    complete: bool

    def largest(self, count: int = 10) -> list[Kind]:
        """Types that hold the most."""
        return sorted(self.kinds.values(), key=lambda kind: -kind.size)[:count]

    def largest_tensors(self, count: int = 10) -> list[Tensor]:
        """Tensors that hold the most."""
        return sorted(self.tensors, key=lambda tensor: -tensor.size)[:count]


class _Sizes:
    """Sizes objects and takes each piece of tensor memory once."""

    def __init__(self) -> None:
        torch = sys.modules.get("torch")
        self._base: type | None = getattr(torch, "Tensor", None)
        self._is_tensor: dict[type, bool] = {}
        self._storages: set[tuple[str, int]] = set()
        self.tensors: list[Tensor] = []

    def is_tensor(self, kind: type) -> bool:
        """By type, not isinstance on the object: that would wake lazy proxies."""
        known = self._is_tensor.get(kind)
        if known is None:
            known = self._base is not None and issubclass(kind, self._base)
            self._is_tensor[kind] = known
        return known

    def tensor(self, value: Any) -> int:
        """Bytes of a tensor's storage; 0 for a view of one seen before, or one without memory of its own."""
        try:
            storage = value.untyped_storage()
            device = str(value.device)
            where = (device, int(storage.data_ptr()))
            if where[1] == 0 or where in self._storages:
                return 0
            self._storages.add(where)
            held = int(storage.nbytes())
            shape = "x".join(str(length) for length in value.shape) or "scalar"
            self.tensors.append(Tensor(held, device, f"{type(value).__name__} {shape} {_dtype(value)}"))
            return held
        except Exception:
            return 0

    def of(self, value: Any) -> int:
        """Bytes of this one object, without what it refers to."""
        kind = type(value)
        if self.is_tensor(kind):
            held = self.tensor(value)
            return held if str(getattr(value, "device", "cpu")) == "cpu" else 0
        try:
            return int(sys.getsizeof(value)) + _outside(value, kind)
        except Exception:
            return 0


def _dtype(value: Any) -> str:
    return str(value.dtype).rsplit(".", 1)[-1]


def _outside(value: Any, kind: type) -> int:
    """Bytes that `sys.getsizeof` does not know of: pixels of decoded Pillow images, at 4 bytes each but for grey ones."""
    if kind.__name__ != "ImagingCore":
        return 0
    width, height = value.size
    return int(width) * int(height) * (1 if value.mode in _PILLOW_BYTE_MODES else 4)


def _name(kind: type) -> str:
    module = kind.__module__
    return kind.__qualname__ if module == "builtins" else f"{module}.{kind.__qualname__}"


def census(seconds: float = CENSUS_SECONDS) -> Census:
    """Counts and sizes all objects, by type, for at most this long."""
    began = time.perf_counter()
    sizes = _Sizes()
    found: dict[type, list[int]] = {}
    complete = _walk(gc.get_objects(), found, sizes, began + seconds)
    kinds: dict[str, Kind] = {}
    for kind, (count, held) in found.items():
        name = _name(kind)
        had = kinds.get(name, Kind(name, 0, 0))
        kinds[name] = Kind(name, had.number + count, had.size + held)
    return Census(kinds, sizes.tensors, time.perf_counter() - began, complete)


def _walk(containers: list[Any], found: dict[type, list[int]], sizes: _Sizes, until: float) -> bool:
    """Adds every container, and every plain object behind one, once. False when the time ran out."""
    plain: set[int] = set()
    for number, value in enumerate(containers):
        if number % _LOOK_AT_CLOCK == 0 and time.perf_counter() > until:
            return False
        if value is containers or value is found:
            continue
        _add(value, found, sizes)
        for behind in gc.get_referents(value):
            if not gc.is_tracked(behind) and id(behind) not in plain:
                plain.add(id(behind))
                _add(behind, found, sizes)
    return True


def _add(value: Any, found: dict[type, list[int]], sizes: _Sizes) -> None:
    entry = found.setdefault(type(value), [0, 0])
    entry[0] += 1
    entry[1] += sizes.of(value)


def tensors_by_device() -> dict[str, tuple[int, int]]:
    """Live tensors as device -> (count, bytes). Empty where the job has no torch."""
    sizes = _Sizes()
    totals: dict[str, list[int]] = {}
    for value in gc.get_objects():
        if sizes.is_tensor(type(value)):
            sizes.tensor(value)
            count = totals.setdefault(str(value.device), [0, 0])
            count[0] += 1
    for tensor in sizes.tensors:
        totals.setdefault(tensor.device, [0, 0])[1] += tensor.size
    return {device: (count, held) for device, (count, held) in totals.items()}


def deep_size(value: Any, most: int = 200_000) -> tuple[int, bool]:
    """Bytes that a value holds with all it refers to, and whether the walk was whole.

    Modules, classes, functions and frames are not followed: they lead to the program, not to the value.
    """
    sizes = _Sizes()
    seen = {id(value)}
    waiting: list[Any] = [value]
    host, walked = 0, 0
    while waiting and walked < most:
        one = waiting.pop()
        walked += 1
        host += sizes.of(one)
        for behind in _behind(one):
            if id(behind) not in seen and not isinstance(behind, _LEADS_AWAY):
                seen.add(id(behind))
                waiting.append(behind)
    away = sum(tensor.size for tensor in sizes.tensors if tensor.device != "cpu")
    return host + away, not waiting


def _behind(value: Any) -> Iterable[Any]:
    if isinstance(value, _LEADS_AWAY):
        return ()
    # A view of an array owns nothing; its base does, and is not among its referents.
    base = getattr(value, "base", None) if type(value).__name__ == "ndarray" else None
    return [*gc.get_referents(value), *([base] if base is not None else [])]
