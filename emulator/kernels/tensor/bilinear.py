"""Kernels of the bilinear resize of an aligned NHWC tensor (docs/isa.md, Bilinear resize)."""

from __future__ import annotations

from collections.abc import Callable

from emulator.kernels.shared import Kernel
from emulator.kernels.shared.access import ACCESS, single_body
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
from emulator.memory.rows import apart
from emulator.memory.state import SCRATCH, SIZE, SPM
from emulator.native.primitives.float32 import single
from emulator.native.primitives.memory import view_i64
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import block_channels
from tx8isa.numbers.primitives import u64
from tx8isa.records.meaning import Resize
from tx8isa.records.record import Instruction

_ONE = 65536.0
"""Coordinates have 16 fractional bits."""


def make_resize(instruction: Instruction, fmt: Format) -> Kernel:
    """Make the kernel of the resize: rows of lanes from four neighbours."""
    sample, write_row = instruction.meaning.sample, _row(instruction.meaning, fmt)
    block, size = block_channels(fmt.bits), fmt.bits // 8
    names = [o.name for o in instruction.operands]
    target_at, source_at, shape_at, result_at, scale_x_at, scale_y_at = (
        names.index(k) for k in ("dst", "src0", "shape", "dst_shape", "scale_x", "scale_y")
    )
    operands = len(names)

    def kernel(fields: int, state: int) -> int:
        words, memory = view_i64(fields, operands), view_i64(state, SIZE)
        shape, result = words[shape_at], words[result_at]
        n, h, w, c = shape >> N & LANE, shape >> H & LANE, shape >> W & LANE, shape >> C & LANE
        rows, columns = result >> H & LANE, result >> W & LANE
        read, written = batch_size(h * w, c, block, size), batch_size(rows * columns, c, block, size)
        target, source = memory[SPM] + words[target_at], memory[SPM] + words[source_at]
        source = apart(source, n * read, target, n * written, memory[SCRATCH])
        for i in range(n):
            for b in range(planes(c, block)):
                stored, of = stored_lanes(c, block, b), source + i * read + b * h * w * block * size
                to = target + i * written + b * rows * columns * block * size
                for row in range(rows):
                    y = sample(row, words[scale_y_at], h)
                    place = to + row * columns * stored * size
                    write_row(place, columns, of, y, h, w, words[scale_x_at], stored)
                clear_padding(to, rows * columns, stored, c - b * block, size)
            clear_gap(target + i * written, rows * columns, c, block, size)
        return 0

    return kernel


def _row(meaning: Resize, fmt: Format) -> Callable[..., None]:
    sample, size, access = meaning.sample, fmt.bits // 8, ACCESS[fmt]
    view, load, store, blend = access.view, access.load, access.store, single_body(meaning.blend)
    if blend is None:
        raise ValueError("an interpolation must not call functions: it is done in binary32")

    def write_row(
        target: int, columns: int, source: int, y: int, h: int, w: int, scale: int, stored: int
    ) -> None:
        """Write a row of results at the vertical coordinate ``y``."""
        upper, lower = (y >> 16) * w, min((y >> 16) + 1, h - 1) * w
        down = single(float(y & 0xFFFF) / _ONE)
        for column in range(columns):
            x = sample(column, scale, w)
            left, right, across = x >> 16, min((x >> 16) + 1, w - 1), single(float(x & 0xFFFF) / _ONE)
            a = view(source + (upper + left) * stored * size, stored)
            b = view(source + (upper + right) * stored * size, stored)
            d = view(source + (lower + left) * stored * size, stored)
            e = view(source + (lower + right) * stored * size, stored)
            to = view(target + column * stored * size, stored)
            for i in range(u64(stored)):
                above, below = blend(load(a[i]), load(b[i]), across), blend(load(d[i]), load(e[i]), across)
                to[i] = store(blend(above, below, down))

    return write_row
