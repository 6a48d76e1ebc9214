"""Kernels of concat (docs/isa.md, Moves): two aligned tensors joined along C, W or H."""

from __future__ import annotations

from collections.abc import Callable

from emulator.kernels.shared import Kernel
from emulator.kernels.shared.planes import (
    LANE,
    C,
    H,
    N,
    W,
    batch_size,
    clear_gap,
    clear_padding,
    planes,
    stored_lanes,
)
from emulator.memory.rows import SECOND, apart, copy_rows
from emulator.memory.state import SCRATCH, SIZE, SPM
from emulator.native.primitives.memory import view_i64
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import block_channels
from tx8isa.numbers.primitives import s64
from tx8isa.records.record import Instruction

Extents = tuple[int, int, int]
"""Extents along h, w and c."""


def make_join(instruction: Instruction, fmt: Format) -> Kernel:
    """Make the kernel of concat: each source is copied to its place, the rest of the result is cleared."""
    block, size, part = block_channels(fmt.bits), fmt.bits // 8, _part(fmt)
    names = [o.name for o in instruction.operands]
    target_at, first_at, second_at, shape_at, result_at, dims_at = (
        names.index(k) for k in ("dst", "src0", "src1", "shape", "dst_shape", "dims")
    )
    operands = len(names)

    def kernel(fields: int, state: int) -> int:
        words, memory = view_i64(fields, operands), view_i64(state, SIZE)
        shape, result, dims = words[shape_at], words[result_at], words[dims_at]
        n, h, w, c = shape >> N & LANE, shape >> H & LANE, shape >> W & LANE, shape >> C & LANE
        rows, columns, channels = result >> H & LANE, result >> W & LANE, result >> C & LANE
        target, written = memory[SPM] + words[target_at], batch_size(rows * columns, channels, block, size)
        first, second = memory[SPM] + words[first_at], memory[SPM] + words[second_at]
        from_h, from_w, from_c = (h if dims == 2 else 0), (w if dims == 1 else 0), (c if dims == 0 else 0)
        more_h, more_w, more_c = rows - from_h, columns - from_w, channels - from_c
        read, more = batch_size(h * w, c, block, size), batch_size(more_h * more_w, more_c, block, size)
        first = apart(first, n * read, target, n * written, memory[SCRATCH])
        second = apart(second, n * more, target, n * written, memory[SCRATCH] + SECOND)
        for i in range(n):
            to, of, also_of = target + i * written, first + i * read, second + i * more
            part(to, (rows, columns, channels), of, (h, w, c), (s64(0), s64(0), s64(0)))
            part(to, (rows, columns, channels), also_of, (more_h, more_w, more_c), (from_h, from_w, from_c))
            for b in range(planes(channels, block)):
                plane, stored = to + b * rows * columns * block * size, stored_lanes(channels, block, b)
                clear_padding(plane, rows * columns, stored, channels - b * block, size)
            clear_gap(to, rows * columns, channels, block, size)
        return 0

    return kernel


def _part(fmt: Format) -> Callable[[int, Extents, int, Extents, Extents], None]:
    """Copy one batch of one source to (h, w, c) of the result.

    The channels of a source plane go to at most two planes of the result, a run of lanes in each.
    """
    block, size = block_channels(fmt.bits), fmt.bits // 8

    def copy_part(target: int, result: Extents, source: int, shape: Extents, place: Extents) -> None:
        (rows, columns, channels), (h, w, c), (from_h, from_w, from_c) = result, shape, place
        last, done = planes(channels, block) - 1, 0
        # Rows as wide as the result's follow one another without a gap: one long row.
        high, long = (1, h * w) if w == columns else (h, w)
        while done < c:
            b, plane = done // block, min((from_c + done) // block, last)
            start = from_c + done - plane * block
            stored, wide = stored_lanes(c, block, b), stored_lanes(channels, block, plane)
            run = min(min(c, b * block + stored) - done, wide - start)
            of = source + (b * h * w * block + done - b * block) * size
            to = target + (plane * rows * columns * block + (from_h * columns + from_w) * wide + start) * size
            for row in range(high):
                at, read = to + row * columns * wide * size, of + row * w * stored * size
                copy_rows(at, wide * size, read, stored * size, run * size, long)
            done += run

    return copy_part
