"""Programs that issue instructions to several workers."""

from __future__ import annotations

import pytest

from chip_bench import W, build
from emulator.chip.system import System
from emulator.tile.fault import Fault

UNTOUCHED = (1 << 64) - 1


WINDOWS = "".join(f"li t{w}, {W.ncc + w * W.ncc_stride}\n" for w in range(3)) + f"li t3, {W.spm_weak}\n"


def run(text: str, **options: object) -> System:
    """The system after a program that finds the windows of the workers in t0, t1 and t2, and SPM in t3."""
    system = build(f"_start: {WINDOWS}{text}\n ebreak", **options)
    with pytest.raises(Fault, match="ebreak"):
        system.run()
    return system


def saved(system: System, count: int) -> list[int]:
    """s0, s1, ..."""
    return [system.tiles[0].register(n) & UNTOUCHED for n in (8, 9, *range(18, 26))[:count]]
