"""Mould of pooling over windows of an aligned NHWC tensor (semantics.md 8.1)."""

from __future__ import annotations

from collections.abc import Callable

from emulator.native.memory import view_i64
from emulator.state import SCRATCH, SIZE, SPM
from tx8isa.aligned import tensor
from tx8isa.formats import Format
from tx8isa.layouts import batch_bytes, block_channels
from tx8isa.meaning import Pool
from tx8isa.record import Instruction

from .fold import make_fold
from .planes import C, H, N, W, clear_padding, lane, planes, stored_lanes, valid_lanes
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
    bits, block, element, operands = fmt.bits, block_channels(fmt.bits), fmt.bits // 8, len(names)

    def kernel(fields: int, state: int) -> int:
        words, memory = view_i64(fields, operands), view_i64(state, SIZE)
        shape, result, pad = words[shape_at], words[result_at], words[pad_at]
        n, h, w, c = lane(shape, N), lane(shape, H), lane(shape, W), lane(shape, C)
        rows, columns = lane(result, H), lane(result, W)
        target, size = memory[SPM] + words[target_at], tensor(bits, n, rows, columns, c)
        source, spare = memory[SPM] + words[source_at], memory[SCRATCH]
        source = apart(source, tensor(bits, n, h, w, c), target, size, spare)
        clear(target, size)
        clear(spare + SECOND + _ZEROS, _ZEROS)
        for i in range(n):
            for b in range(planes(c, bits)):
                stored = stored_lanes(c, bits, b)
                of = source + i * batch_bytes(h * w, c, bits) + b * h * w * block * element
                to = target + i * (size // n) + b * rows * columns * block * element
                for p in range(rows * columns):
                    window(
                        to + p * stored * element, of, p // columns, p % columns, h, w, stored,
                        lane(pad, N), lane(pad, W), words[window_at], spare + SECOND,
                    )  # fmt: skip
                clear_padding(to, rows * columns, stored, valid_lanes(c, bits, b), element)
        return 0

    return kernel


def _window(meaning: Pool, fmt: Format) -> Callable[..., None]:
    """One result position: fold the rows of lanes of its window, ky outer, kx inner."""
    begin, accumulate, finish = make_fold(meaning.fold, fmt)
    outside, size = meaning.outside, fmt.bits // 8

    def fold(
        target: int, plane: int, row: int, column: int, h: int, w: int, stored: int,
        top: int, left: int, window: int, spare: int,
    ) -> None:  # fmt: skip
        begin(spare, stored)
        kx, ky = lane(window, N), lane(window, H)
        first, start = row * lane(window, C) - top, column * lane(window, W) - left
        for y in range(first, first + ky):
            for x in range(start, start + kx):
                if y >= 0 and y < h and x >= 0 and x < w:
                    accumulate(spare, plane + (y * w + x) * stored * size, 1, stored)
                elif outside:
                    accumulate(spare, spare + _ZEROS, 1, stored)
        finish(spare, target, 1, stored, kx * ky)

    return fold
