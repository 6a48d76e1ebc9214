"""Mould of concat (docs/isa.md, Moves): two aligned tensors joined along C, W or H."""

from __future__ import annotations

from collections.abc import Callable

from emulator.native.memory import view_i64
from emulator.state import SCRATCH, SIZE, SPM
from tx8isa.formats import Format
from tx8isa.layouts import block_channels
from tx8isa.primitives import s64, u64
from tx8isa.record import Instruction

from .access import VIEWS
from .planes import LANE, C, H, N, W, batch_size, planes, stored_lanes
from .rows import SECOND, apart, clear

Kernel = Callable[[int, int], int]


def make_join(instruction: Instruction, fmt: Format) -> Kernel:
    """The kernel of concat: the result is cleared, then each source copied to its place."""
    block, size, part = block_channels(fmt.bits), fmt.bits // 8, _part(fmt)
    names = [o.name for o in instruction.operands]
    target_at, first_at, second_at = (names.index(k) for k in ("dst", "src0", "src1"))
    shape_at, result_at, dims_at = (names.index(k) for k in ("shape", "dst_shape", "dims"))
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
        clear(target, n * written)
        for k in range(2 * n):
            i, to = k >> 1, target + (k >> 1) * written
            if k & 1 == 0:
                part(to, rows, columns, channels, first + i * read, h, w, c, s64(0), s64(0), s64(0))
            else:
                of = second + i * more
                part(to, rows, columns, channels, of, more_h, more_w, more_c, from_h, from_w, from_c)
        return 0

    return kernel


def _part(fmt: Format) -> Callable[..., None]:
    """One batch of one source at (from_h, from_w, from_c) of the result.

    The channels of a source plane lie in at most two planes of the result, a run of lanes in each.
    """
    block, size, view = block_channels(fmt.bits), fmt.bits // 8, VIEWS[fmt.bits // 8]

    def copy_part(
        target: int, rows: int, columns: int, channels: int, source: int, h: int, w: int, c: int,
        from_h: int, from_w: int, from_c: int,
    ) -> None:  # fmt: skip
        last = planes(channels, block) - 1
        done = 0
        while done < c:
            b, plane = done // block, min((from_c + done) // block, last)
            start = from_c + done - plane * block
            stored, wide = stored_lanes(c, block, b), stored_lanes(channels, block, plane)
            run = min(min(c, b * block + stored) - done, wide - start)
            for p in range(h * w):
                at = (from_h + p // w) * columns + from_w + p % w
                of = source + (b * h * w * block + p * stored + done - b * block) * size
                to = target + (plane * rows * columns * block + at * wide + start) * size
                result, lanes = view(to, run), view(of, run)
                for k in range(u64(run)):
                    result[k] = lanes[k]
            done += run

    return copy_part
