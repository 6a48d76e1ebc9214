"""Mould of pooling over windows of an aligned NHWC tensor (docs/isa.md, Pooling)."""

from __future__ import annotations

from collections.abc import Callable

from emulator.native.memory import view_i64
from emulator.state import SCRATCH, SIZE, SPM
from tx8isa.formats import Format
from tx8isa.layouts import block_channels
from tx8isa.meaning import Pool
from tx8isa.primitives import s64
from tx8isa.record import Instruction

from .fold import make_fold
from .planes import LANE, C, H, N, W, batch_size, clear_padding, planes, stored_lanes
from .rows import SECOND, apart, clear

Kernel = Callable[[int, int], int]

_ZEROS = 512
"""Bytes of the row of zeros behind the accumulators, and of the accumulators: 128 lanes of binary32."""


def make_pool(instruction: Instruction, fmt: Format) -> Kernel:
    """The kernel of one pooling: a row of accumulators per result position, one lane per channel."""
    window = _window(instruction.meaning, fmt)
    names = [o.name for o in instruction.operands]
    target_at, source_at, shape_at, result_at, pad_at, window_at = (
        names.index(k) for k in ("dst", "src0", "shape", "dst_shape", "pad", "window")
    )
    block, size, operands = block_channels(fmt.bits), fmt.bits // 8, len(names)

    def kernel(fields: int, state: int) -> int:
        words, memory = view_i64(fields, operands), view_i64(state, SIZE)
        shape, result = words[shape_at], words[result_at]
        n, h, w, c = shape >> N & LANE, shape >> H & LANE, shape >> W & LANE, shape >> C & LANE
        rows, columns = result >> H & LANE, result >> W & LANE
        read, written = batch_size(h * w, c, block, size), batch_size(rows * columns, c, block, size)
        target, source = memory[SPM] + words[target_at], memory[SPM] + words[source_at]
        source = apart(source, n * read, target, n * written, memory[SCRATCH])
        spare = memory[SCRATCH] + SECOND
        clear(target, n * written)
        clear(spare + _ZEROS, s64(_ZEROS))
        for i in range(n):
            for b in range(planes(c, block)):
                stored = stored_lanes(c, block, b)
                of, to = source + i * read + b * h * w * block * size, target + i * written
                to += b * rows * columns * block * size
                for p in range(rows * columns):
                    place, pad, shape_of_window = to + p * stored * size, words[pad_at], words[window_at]
                    window(place, of, p // columns, p % columns, h, w, stored, pad, shape_of_window, spare)
                clear_padding(to, rows * columns, stored, c - b * block, size)
        return 0

    return kernel


def _window(meaning: Pool, fmt: Format) -> Callable[..., None]:
    """One result position: fold the rows of lanes of its window, ky outer, kx inner."""
    begin, accumulate, finish = make_fold(meaning.fold, fmt)
    outside, size = meaning.outside, fmt.bits // 8

    def fold(
        target: int, plane: int, row: int, column: int, h: int, w: int, stored: int,
        pad: int, window: int, spare: int,
    ) -> None:  # fmt: skip
        begin(spare, stored)
        kx, ky = window >> N & LANE, window >> H & LANE
        top = row * (window >> C & LANE) - (pad >> N & LANE)
        left = column * (window >> W & LANE) - (pad >> W & LANE)
        for k in range(kx * ky):
            y, x = top + k // kx, left + k % kx
            inside = y >= 0 and y < h and x >= 0 and x < w
            if inside or outside:
                of = plane + (y * w + x) * stored * size if inside else spare + _ZEROS
                accumulate(spare, of, s64(1), stored)
        finish(spare, target, s64(1), stored, kx * ky)

    return fold
