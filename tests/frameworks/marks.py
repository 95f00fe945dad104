"""Reads mark pages, written apart from the agent's own code: a second opinion on the layout."""

import json
import math
import struct
from collections import namedtuple

KINDS = {1: "step", 2: "epoch", 3: "eval", 4: "save", 5: "load", 6: "info", 7: "custom"}
PHASES = {1: "start", 2: "end", 3: "point"}
UNKNOWN = 2**64 - 1
SIZE, RING, SLOTS, SLOT = 65536, 1024, 252, 256

Record = namedtuple("Record", "index ns kind phase rank number extra")


class Page:
    """One page, as bytes."""

    def __init__(self, raw):
        assert len(raw) == SIZE and raw[:8] == b"LOWTIDE\x01"
        (
            self.version, self.pid, self.start, self.rank, self.world, self.state, self.flags, self.steps, self.step_ns,
            self.epoch, self.micro, self.examples, self.hook_ns, self.gpu_allocated, self.gpu_reserved, self.tensors,
            self.tensors_cpu, self.tensors_device,
        ) = struct.unpack_from("<QQQqqQQQQdQQQQQQQQ", raw, 8)  # fmt: skip
        self.request, self.request_number, self.taken, self.done, self.stop_at, self.missed = struct.unpack_from(
            "<6Q", raw, 256
        )
        (self.head,) = struct.unpack_from("<Q", raw, 512)
        self.records = [self._record(raw, i) for i in range(max(0, self.head - SLOTS), self.head)]

    def _record(self, raw, index):
        at = RING + index % SLOTS * SLOT
        seq, ns, kind, phase, length, rank, number = struct.unpack_from("<QQBBHid", raw, at)
        assert seq == index + 1, f"slot {index} holds {seq}"
        extra = json.loads(raw[at + 32 : at + 32 + length]) if length else {}
        return Record(index, ns, KINDS[kind], PHASES[phase], rank, number, extra)

    def count(self, kind, phase="start"):
        return sum(1 for r in self.records if (r.kind, r.phase) == (kind, phase))

    def numbers(self, kind, phase="start"):
        return [None if math.isnan(r.number) else r.number for r in self.records if (r.kind, r.phase) == (kind, phase)]

    @property
    def facts(self):
        facts = {}
        for record in self.records:
            for key, value in record.extra.items() if record.kind == "info" else ():
                facts[key] = {**facts.get(key, {}), **value} if isinstance(value, dict) else value
        return facts

    def extras(self, kind, phase="end"):
        return [r.extra for r in self.records if (r.kind, r.phase) == (kind, phase)]


def read(folder):
    """All pages of a folder, by pid."""
    pages = [Page(file.read_bytes()) for file in folder.iterdir() if not file.name.startswith(".")]
    return {page.pid: page for page in pages}
