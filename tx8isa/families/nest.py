"""Loop nests of the DMA engines: extents and rules. Level 0 is the innermost.

Sources are read completely before anything is written (docs/isa.md, Number model, proposed).
"""

from __future__ import annotations

from tx8isa.records.operands import rule


def span(block: int, s0: int, i0: int, s1: int, i1: int, s2: int, i2: int) -> int:
    """Bytes from the first to the last one that blocks touch at all loop positions; strides in bytes."""
    return block + (i0 - 1) * s0 + (i1 - 1) * s1 + (i2 - 1) * s2


def element_span(bits: int, n: int, s0: int, i0: int, s1: int, i1: int, s2: int, i2: int) -> int:
    """The result of ``span`` for a block and strides in elements."""
    block = (bits * n + 7) >> 3
    return span(block, bits * s0 >> 3, i0, bits * s1 >> 3, i1, bits * s2 >> 3, i2)


def element_stream(bits: int, n: int, i0: int, i1: int, i2: int) -> int:
    """Bytes of all blocks one after another."""
    return ((bits * n + 7) >> 3) * i0 * i1 * i2


def fill_span(bits: int, n: int, s0: int, i0: int, s1: int, i1: int, s2: int, i2: int) -> int:
    """The result of ``span`` for a fill: block in elements, strides in bytes."""
    return span((bits * n + 7) >> 3, s0, i0, s1, i1, s2, i2)


@rule("@format", "stride0", "stride1", "stride2")
def whole_bytes(bits: int, s0: int, s1: int, s2: int) -> bool:
    """strides of bool data must be multiples of 8 elements"""
    return (bits * s0) & 7 == 0 and (bits * s1) & 7 == 0 and (bits * s2) & 7 == 0
