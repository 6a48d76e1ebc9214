"""Kernels of pad, img2col and channelnorm (docs/isa.md, Moves): rows of positions into the aligned layout."""

from __future__ import annotations

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
    end_inside,
    first_inside,
    planes,
    stored_lanes,
)
from emulator.memory.rows import apart, clear, copy_rows
from emulator.memory.state import SCRATCH, SIZE, SPM
from emulator.native.primitives.memory import view_i64
from tx8isa.families.windows import places
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import block_channels
from tx8isa.numbers.primitives import s64
from tx8isa.records.meaning import Unfold
from tx8isa.records.record import Instruction

_SINGLE = 1 << N | 1 << H | 1 << W | 1 << C
"""A window of one position and stride 1, for records without that operand."""


def make_unfold(instruction: Instruction, fmt: Format) -> Kernel:
    """Make the kernel of one record; pad and window are its operands, or neutral."""
    meaning: Unfold = instruction.meaning
    aligned, block, size = meaning.aligned_source, block_channels(fmt.bits), fmt.bits // 8
    names = [o.name for o in instruction.operands]
    target_at, source_at, shape_at = map(names.index, ("dst", "src0", "shape"))
    pad_at, window_at = (names.index(k) if k in names else -1 for k in ("pad", "window"))
    operands = len(names)

    def kernel(fields: int, state: int) -> int:
        words, memory = view_i64(fields, operands), view_i64(state, SIZE)
        shape, pad, window = words[shape_at], s64(0), s64(_SINGLE)
        if pad_at >= 0:
            pad = words[pad_at]
        if window_at >= 0:
            window = words[window_at]
        n, h, w, c = shape >> N & LANE, shape >> H & LANE, shape >> W & LANE, shape >> C & LANE
        rows = places(h, pad >> N & LANE, pad >> H & LANE, window >> H & LANE, window >> C & LANE)
        columns = places(w, pad >> W & LANE, pad >> C & LANE, window >> N & LANE, window >> W & LANE)
        positions = rows * columns * (window >> N & LANE) * (window >> H & LANE)
        read = batch_size(h * w, c, block, size) if aligned else h * w * c * size
        written = batch_size(positions, c, block, size)
        target, source = memory[SPM] + words[target_at], memory[SPM] + words[source_at]
        source = apart(source, n * read, target, n * written, memory[SCRATCH])
        for i in range(n):
            for b in range(planes(c, block)):
                stored, valid = stored_lanes(c, block, b), c - b * block
                to, of = target + i * written + b * positions * block * size, source + i * read
                of += b * block * size * (h * w if aligned else 1)
                pitch = (stored if aligned else c) * size
                run = (stored if aligned else min(valid, stored)) * size
                _copy_plane(to, stored * size, of, pitch, run, (h, w, rows, columns), pad, window)
                clear_padding(to, positions, stored, valid, size)
            clear_gap(target + i * written, positions, c, block, size)
        return 0

    return kernel


def _copy_plane(
    target: int,
    lanes: int,
    source: int,
    pitch: int,
    run: int,
    extents: tuple[int, int, int, int],
    pad: int,
    window: int,
) -> None:
    """Copy one plane of one batch: for every place in the window the rows of the image, zeros outside of it.

    A position of the result has ``lanes`` bytes, one of the source ``pitch``; ``run`` bytes are copied.
    ``extents`` are rows and columns of the image, and rows and columns of the window's positions.
    """
    h, w, rows, columns = extents
    kx, step_x, step_y = window >> N & LANE, window >> W & LANE, window >> C & LANE
    for place in range(kx * (window >> H & LANE)):
        top, left = place // kx - (pad >> N & LANE), place % kx - (pad >> W & LANE)
        first, end = first_inside(left, step_x, columns), end_inside(left, step_x, w, columns)
        for row in range(rows):
            y, to = top + row * step_y, target + (place * rows + row) * columns * lanes
            if y < 0 or y >= h:
                clear(to, columns * lanes)
            else:
                clear(to, first * lanes)
                of = source + (y * w + left + first * step_x) * pitch
                copy_rows(to + first * lanes, lanes, of, step_x * pitch, run, end - first)
                clear(to + end * lanes, (columns - end) * lanes)
