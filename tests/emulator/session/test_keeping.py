"""Kept bytes: exactly the written ones are copied, wherever a range begins and ends."""

from __future__ import annotations

import numpy as np
import pytest

from emulator.memory.keeping import AFTER_RESET, KEEP, PUT_BACK, Keeping
from emulator.memory.resetting import Area, Resetting, reset_kernel

SHIFT = 6
GRANULE = 1 << SHIFT
RANGES = [
    (0, GRANULE),
    (GRANULE + 5, 3),
    (2 * GRANULE, 2 * GRANULE),
    (5 * GRANULE - 8, 16),
    (7 * GRANULE - 1, 200),
]
"""First byte and size: whole granules, inside one, across a border, at both ends within others."""


def drawn(seed: int, size: int = 16 * GRANULE) -> np.ndarray:
    return np.random.default_rng(seed).integers(1, 256, size).astype(np.uint8)


@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize("written", [[], [0], [1, 4, 5], [2, 3, 9], range(16)])
def test_marked_granules_are_copied_and_survive_the_reset(complete: bool, written: list[int]) -> None:
    before, step = drawn(1), drawn(2)
    area = Area(before.copy(), np.zeros(16, np.uint8), SHIFT, 0)
    copies = [(offset, before[offset : offset + size].copy()) for offset, size in RANGES]
    keeping, reset = Keeping(area, copies), Resetting([area], reset_kernel())
    wanted = before.copy()
    for granule in written:
        part = slice(granule * GRANULE, (granule + 1) * GRANULE)
        area.data[part] = wanted[part] = step[part]
        area.mark(part.start, GRANULE)
    keeping.follow(KEEP if complete else PUT_BACK)
    reset.begin()
    reset.share()
    keeping.follow(AFTER_RESET)
    source = wanted if complete else before
    for (offset, copy), (_, size) in zip(copies, RANGES, strict=True):
        part = slice(offset, offset + size)
        assert (copy == source[part]).all()
        assert (area.data[part] == source[part]).all()
    assert not area.marks.any()
    kept = np.zeros(area.data.size, bool)
    for offset, size in RANGES:
        kept[offset : offset + size] = True
    marked = np.repeat([granule in written for granule in range(16)], GRANULE)
    assert not area.data[marked & ~kept].any()
    assert (area.data[~marked & ~kept] == before[~marked & ~kept]).all()
