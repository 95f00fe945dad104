"""Reads what W&B keeps of an offline run: LevelDB's log format after seven bytes of its own, a protobuf message each."""

import json
import struct

from wandb.proto.wandb_internal_pb2 import Record

HEAD, BLOCK = 7, 32768
#: A whole record, the last part of one, and the filling at the end of a block.
WHOLE, LAST, NOTHING = 1, 4, 0


def records(file):
    data, at, parts = file.read_bytes(), HEAD, b""
    while at + HEAD <= len(data):
        left = BLOCK - at % BLOCK
        _, length, kind = struct.unpack_from("<IHB", data, at)
        if left < HEAD or kind == NOTHING:
            at += left
            continue
        parts += data[at + HEAD : at + HEAD + length]
        at += HEAD + length
        if kind in (WHOLE, LAST):
            yield Record.FromString(parts)
            parts = b""


def _values(items):
    return {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items}


def history(file):
    """What the program logged, one dictionary a call."""
    return [_values(record.history.item) for record in records(file) if record.WhichOneof("record_type") == "history"]


def stats(file):
    """What W&B measured by itself, one dictionary a sample."""
    return [_values(record.stats.item) for record in records(file) if record.WhichOneof("record_type") == "stats"]
