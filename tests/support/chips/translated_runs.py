"""Programs run twice, interpreted and translated, and compared."""

from __future__ import annotations

from typing import Any

import numpy as np

from asm.image import Image
from chip_bench import ONE
from emulator.chip.system import System
from emulator.core.predecode import TRANSLATED
from emulator.core.translate.region import LEFT_OUT, block_at, following
from emulator.memory import state
from emulator.tile.fault import Fault

SAME = [
    n
    for n in range(state.SIZE)
    if n
    not in (
        state.SINK,
        state.SPM,
        state.DDR,
        state.SCRATCH,
        state.LINES,
        state.CODE,
        state.PLAIN,
        state.KERNELS,
        state.COUNTS,
        state.QUEUE,
        state.TEXT,
        state.WRITE_BACK,
        state.REGISTERS,
        state.REGISTER_MAP,
        state.DDR_MARKS,
    )
]
"""Words of the state that hold no host address, except the target of writes to x0."""


def translate_all(system: System) -> None:
    """Translate every block of a system's program, from every place where one can begin."""
    code = system.code
    layout = code.translation.layout
    starts = {0, *(n for n in layout.leaders if 0 <= n < len(layout.words) - 1)}
    left_out = (n for n, begins in enumerate(layout.starts) if begins and layout.kinds[n] in LEFT_OUT)
    starts |= {after for n in left_out if (after := following(layout, n)) < len(layout.words)}
    blocks = {}
    for start in sorted(starts):
        while (found := block_at(layout, start)) and start not in blocks:
            blocks[start] = found
            start = following(layout, found[-1])
    if blocks:
        code.translation.translate(blocks, system.tiles[0].words)
    for tile in system.tiles:
        code.install(tile.words)


def entrances(system: System) -> int:
    """Count the words of the program that are entrances to translations."""
    return int(np.count_nonzero(system.code.translation.dispatch & 0xFF == TRANSLATED))


def outcome(image: Image, start: dict[int, int], limit: int, *, translated: bool, **options: Any) -> Any:
    """The system after a run, and the fault that ended it."""
    system = System(image, options.pop("machine", ONE), translate=False, **options)
    for number, value in start.items():
        system.tiles[0].set_register(number, value)
    if translated:
        translate_all(system)
        assert entrances(system) > 0
    try:
        system.run(limit)
    except Fault as fault:
        return system, str(fault)
    return system, ""


def same(image: Image, start: dict[int, int], limit: int = 100_000, **options: Any) -> tuple[System, str]:
    """Run in both ways and compare everything that a program can see."""
    first, expected = outcome(image, start, limit, translated=False, **options)
    second, found = outcome(image, start, limit, translated=True, **options)
    assert found == expected
    for a, b in zip(first.tiles, second.tiles, strict=True):
        assert b.words[SAME].tolist() == a.words[SAME].tolist()
        assert (b.status, b.exit_code, b.csrs, b.output) == (a.status, a.exit_code, a.csrs, a.output)
        assert np.array_equal(a.spm.data, b.spm.data) and np.array_equal(a.spm.lines, b.spm.lines)
        assert np.array_equal(a.counts, b.counts)
    assert np.array_equal(first.ddr[: 1 << 21], second.ddr[: 1 << 21])
    return second, found
