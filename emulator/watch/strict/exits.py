"""Finds outputs that may be unfinished, because a tile exits while its engines still write them.

The end of a program waits for no engine (docs/isa.md, Tiles and numbers, proposed). The host reads the
outputs when all tiles have exited: this counts as an access of each core, after its last instruction.
"""

from __future__ import annotations

from collections.abc import Iterator

from asm.image import Image, ddr_offset
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import Layout, place


def outputs(image: Image) -> Iterator[tuple[str, int, int]]:
    """Yield name, offset in DDR and bytes of each output."""
    for buffer in image.buffers:
        offset = ddr_offset(buffer.address, image.windows)
        if buffer.kind == "output" and offset is not None:
            placed = place(Format.parse(buffer.format), buffer.shape, Layout.parse(buffer.layout))
            yield buffer.name, offset, placed.total_bytes


def output_at(image: Image, offset: int) -> str:
    """Return the name of the output at an offset in DDR."""
    return next(name for name, first, size in outputs(image) if first <= offset < first + size)
