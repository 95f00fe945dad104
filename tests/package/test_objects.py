"""What objects hold, and what cleaning up gives back: real memory."""

from __future__ import annotations

import ctypes
import gc

import numpy as np
import pytest
from lowtide import _cleanup, _memory, _objects
from PIL import Image

MIB = 1 << 20


def test_a_decoded_image_weighs_four_bytes_a_pixel() -> None:
    size, whole = _objects.deep_size(Image.new("RGB", (1000, 500)))
    assert whole
    assert 2_000_000 <= size < 2_010_000
    grey, _ = _objects.deep_size(Image.new("L", (1000, 500)))
    assert 500_000 <= grey < 510_000


def test_things_behind_a_list_a_dict_and_an_object_are_counted_once() -> None:
    array = np.zeros(MIB, dtype=np.uint8)

    class Holder:
        def __init__(self) -> None:
            self.many = [array, array, {"view": array[10:]}]

    size, whole = _objects.deep_size(Holder())
    assert whole
    assert MIB <= size < MIB + 5000


def test_a_walk_that_was_cut_short_says_so() -> None:
    size, whole = _objects.deep_size([bytes([n % 256]) * 40 for n in range(1000)] + [[] for _ in range(1000)], most=100)
    assert not whole
    assert size > 0


def test_a_census_finds_arrays_images_and_bytes_behind_containers() -> None:
    kept = {"images": [Image.new("RGB", (500, 500)) for _ in range(3)], "raw": [bytearray(3 * MIB)]}
    before = _objects.census(30)
    kept["arrays"] = [np.zeros(2 * MIB, dtype=np.uint8) for _ in range(4)]
    after = _objects.census(30)
    assert after.complete
    assert after.kinds["ImagingCore" if "ImagingCore" in after.kinds else "PIL.ImagingCore"].size >= 3_000_000
    assert after.kinds["bytearray"].size >= 3 * MIB
    had = before.kinds.get("numpy.ndarray")
    assert after.kinds["numpy.ndarray"].size - (had.size if had else 0) == pytest.approx(8 * MIB, rel=0.01)
    assert [kind.size for kind in after.largest()] == sorted((kind.size for kind in after.largest()), reverse=True)


def test_readings_are_the_kernels() -> None:
    before = _memory.rss()
    block = bytearray(64 * MIB)
    host = _memory.host()
    assert host.rss - before == pytest.approx(len(block), rel=0.1)
    assert abs(host.rss - (host.anon + host.file + host.shmem)) < MIB
    assert _memory.readings()["lowtide/rss_mib"] == pytest.approx(_memory.rss() / MIB, rel=0.05)


def test_sizes_read_well() -> None:
    told = [_memory.size(n) for n in (0, 1000, 1023 * 1024, 5 * MIB, -300 * MIB, 1.5 * 2**30, 3 * 2**50)]
    assert told == ["0 B", "1000 B", "1023 KiB", "5.00 MiB", "-300 MiB", "1.50 GiB", "3072 TiB"]


def test_cleaning_gives_back_garbage_and_what_the_allocator_kept() -> None:
    class Node:
        pass

    gc.disable()
    try:
        node = Node()
        node.self, node.load = node, bytearray(32 * MIB)
        del node
        done = _cleanup.clean()
    finally:
        gc.enable()
    assert done.host >= 30 * MIB
    assert done.milliseconds > 0


def test_a_trim_gives_back_small_chunks_below_a_live_one() -> None:
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.malloc.argtypes = libc.free.argtypes = None
    chunks = [libc.malloc(ctypes.c_size_t(60_000)) for _ in range(500)]
    for chunk in chunks:
        ctypes.memset(chunk, 1, 60_000)
    for chunk in chunks[:-1]:
        libc.free(ctypes.c_void_p(chunk))
    before = _memory.rss()
    assert _memory.trim()
    assert before - _memory.rss() > 20 * MIB
    libc.free(ctypes.c_void_p(chunks[-1]))


def test_cleanup_stops_after_three_rounds_of_nothing_and_says_what_it_was_worth(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    freed = iter([5 * MIB, 0, 0, 7 * MIB, 0, 0, 0, 9 * MIB])
    monkeypatch.setattr(_cleanup, "clean", lambda: _cleanup.Round(next(freed), 0, 2.0))
    cleanup = _cleanup.Cleanup(every=5)
    ran = [step for step in range(1, 101) if cleanup.step(step)]
    assert ran == [5, 10, 15, 20, 25, 30, 35]
    assert cleanup.stopped
    assert cleanup.summary() == (
        "cleanup: 7 rounds gave back 12.0 MiB for 14 ms; stopped after 3 rounds that freed nothing"
    )


def test_cleanup_is_off_unless_asked_for() -> None:
    cleanup = _cleanup.Cleanup(None)
    assert not any(cleanup.step(step) for step in range(100))
    assert cleanup.summary() == ""
    with pytest.raises(ValueError, match="cleanup_every"):
        _cleanup.Cleanup(0)
