"""The modes of the DTE: which blocks an instruction copies where, read from the memories after a run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

import tx8

from .svg import GREY, WIDTH, Sheet

BLOCKS, ELEMENTS = 8, 64
SIDE, GAP, COLUMN, BELOW = 24, 4, WIDTH // 2, 40
"""Pixels: a square, the space between two, a column of modes, and the room for arrows."""
OTHERS = (1, 2, 3)
"""The tiles that may be targets; tile 0 has the source."""
HUES = (210, 30, 120, 280, 0, 180, 55, 320)
PROGRAM = """
        .input  x, fp32, {blocks}x{elements}
        .output y, fp32, 16x{blocks}x{elements}
        .output z, fp32, {blocks}x{elements}
        .equ    SPM, 0x10000
        .equ    GOT, 0x20000
        .equ    BLOCK, {elements} * 4
_start: csrr    s0, mhartid
        td.memset.fp32 dst=GOT, value=0, n={blocks} * {elements}
        la      s1, x
        la      s2, z
        bnez    s0, ready
        rdma.fp32 dst=SPM, src=s1, n={blocks} * {elements}
        wdma.fp32 dst=s2, src=GOT, n={blocks} * {elements}
ready:  ncc.wait
        ncc.barrier
        bnez    s0, copied
        {instruction}
        dte.wait
copied: ncc.barrier
        li      t0, {blocks} * BLOCK
        mul     t0, t0, s0
        la      t1, y
        add     t1, t1, t0
        wdma.fp32 dst=t1, src=GOT, n={blocks} * {elements}
        ncc.wait
        li      a0, 0
        li      a7, 93
        ecall
"""


@dataclass(frozen=True)
class Mode:
    """An instruction of the DTE with its operands, and the name of its source."""

    name: str
    operands: str
    source: str = "tile 0"

    @property
    def instruction(self) -> str:
        return f"{self.name} {self.operands}"


MODES = (
    Mode("dte.unicast", "dst=GOT, src=SPM, tile=1, n=2 * BLOCK"),
    Mode("dte.unicast2d", "dst=GOT, src=SPM, tile=1, n=BLOCK, src_stride0=2 * BLOCK, src_iter0=4"),
    Mode("dte.broadcast", "dst=GOT, src=SPM, tiles=0b1110, n=2 * BLOCK"),
    Mode("dte.scatter", "dst=GOT, src=SPM, tiles=0b1110, n=2 * BLOCK"),
    Mode(
        "dte.gather",
        "dst=GOT, src=SPM, tile=1, n=BLOCK, "
        "src_stride0=4 * BLOCK, src_iter0=2, src_stride1=BLOCK, src_iter1=4",
    ),
    Mode(
        "dte.shuffle",
        "dst=GOT, src=SPM, tile=1, n=BLOCK, "
        "src_stride0=BLOCK, src_iter0=2, src_stride1=4 * BLOCK, src_iter1=2",
    ),
    Mode("dte.rdma", "dst=GOT, src=s1, tile=1, n=BLOCK, src_stride0=2 * BLOCK, src_iter0=4", source="DDR"),
    Mode("dte.wdma", "dst=s2, src=SPM, n=BLOCK, dst_stride0=2 * BLOCK, dst_iter0=4"),
)


def draw() -> str:
    """The picture as SVG."""
    sheet, top = Sheet("The modes of the DTE: which blocks of the source arrive where"), 8.0
    for pair in zip(MODES[::2], MODES[1::2], strict=True):
        top += max(_mode(sheet, mode, 12 + at * COLUMN, top) for at, mode in enumerate(pair))
    return sheet.text(top)


def found(mode: Mode) -> dict[str, list[int]]:
    """Memories by name, each with the number of the block that is in each place after a run, or 0.

    Memories that received nothing are left out.
    """
    text = PROGRAM.format(blocks=BLOCKS, elements=ELEMENTS, instruction=mode.instruction)
    numbers = np.arange(1, BLOCKS + 1, dtype=np.float32)
    run = tx8.assemble(text).run(np.repeat(numbers[:, None], ELEMENTS, axis=1))
    memories = {f"tile {tile}": _blocks(run["y"][tile]) for tile in OTHERS} | {"DDR": _blocks(run["z"])}
    return {name: blocks for name, blocks in memories.items() if any(blocks)}


def _blocks(memory: np.ndarray) -> list[int]:
    """The number of the block in each place; ValueError for a place with parts of several."""
    if (memory != memory[:, :1]).any():
        raise ValueError("a place has parts of several blocks")
    return [int(number) for number in memory[:, 0]]


def _mode(sheet: Sheet, mode: Mode, left: float, top: float) -> float:
    """Draw a mode: its name, the source, and the blocks that each memory received; returns the height."""
    sheet.write(left, top + 16, f"*{mode.name}", size=14)
    sheet.write(left, top + 32, _amounts(mode), fill=GREY)
    origin, y = left + 46, top + 42
    sheet.write(left, y + 17, mode.source)
    _strip(sheet, range(1, BLOCKS + 1), origin, y)
    for row, (name, blocks) in enumerate(found(mode).items()):
        below = y + SIDE + BELOW + row * (SIDE + 6)
        sheet.write(left, below + 17, name)
        _strip(sheet, blocks, origin, below)
        for place, block in enumerate(blocks):
            if block and not row:
                ends = (_middle(origin, block - 1), y + SIDE + 2), (_middle(origin, place), below - 3)
                sheet.arrow(ends, "#888888", 1.2)
    return below + SIDE + 20 - top


def _middle(origin: float, place: int) -> float:
    return origin + place * (SIDE + GAP) + SIDE / 2


def _strip(sheet: Sheet, blocks: Iterable[int], left: float, top: float) -> None:
    """A memory: a square for each place, with the number and the colour of the block that is there."""
    for place, block in enumerate(blocks):
        fill = f"hsl({HUES[block - 1]},70%,82%)" if block else "#ffffff"
        edge = f"hsl({HUES[block - 1]},45%,45%)" if block else "#cccccc"
        x = left + place * (SIDE + GAP)
        sheet.box(x, top, SIDE, SIDE, fill, edge)
        if block:
            sheet.write(x + SIDE / 2, top + 17, str(block), anchor="middle", size=13)


def _amounts(mode: Mode) -> str:
    """The amounts of a copy, in blocks: the piece, and stride and trips of each loop."""
    text = mode.operands.replace(" * BLOCK", "").replace("BLOCK", "1")
    given = dict(part.split("=") for part in text.split(", "))
    loops = [
        f"{given[f'{side}_iter{level}']} times, {given[f'{side}_stride{level}']} apart"
        for level in range(3)
        for side in ("src", "dst")
        if f"{side}_iter{level}" in given
    ]
    return "; ".join([f"n = {given['n']}", *loops])
