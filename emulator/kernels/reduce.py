"""Mould of the reductions of an aligned NHWC tensor (docs/isa.md, Reductions)."""

from __future__ import annotations

from collections.abc import Callable

from emulator.native.memory import view_i64
from emulator.state import SCRATCH, SIZE, SPM
from tx8isa.formats import Format
from tx8isa.layouts import SMALLEST_TAIL, block_channels
from tx8isa.meaning import Reduction
from tx8isa.record import Instruction

from .fold import make_fold
from .planes import LANE, C, H, N, W, batch_size, clear_padding, planes, stored_lanes
from .rows import SECOND, apart, clear

Kernel = Callable[[int, int], int]
Fold = Callable[..., None]
"""One batch: (result, source, outer, steps, inner, channels, accumulators)."""

_LANES = 1024
"""Accumulators at a time: they stay in the first-level cache."""
_POSITIONS = 64
"""Positions at a time when channels are folded: their lanes stay in the first-level cache."""


def make_reduce(instruction: Instruction, fmt: Format) -> Kernel:
    """The kernel of one reduction: whole batches of the result are written, zero where nothing belongs."""
    fold_one = _fold(instruction.meaning.fold, fmt)
    names = [o.name for o in instruction.operands]
    target_at, source_at, shape_at, dims_at = (names.index(k) for k in ("dst", "src0", "shape", "dims"))
    block, size, operands = block_channels(fmt.bits), fmt.bits // 8, len(names)

    def kernel(fields: int, state: int) -> int:
        words, memory = view_i64(fields, operands), view_i64(state, SIZE)
        shape, dims = words[shape_at], words[dims_at]
        n, h, w, c = shape >> N & LANE, shape >> H & LANE, shape >> W & LANE, shape >> C & LANE
        outer = h if dims == 1 else 1
        steps = c if dims == 0 else w if dims == 1 else h if dims == 2 else h * w
        inner = h * w if dims == 0 else w if dims == 2 else 1
        kept = 1 if dims == 0 else c
        read, written = batch_size(h * w, c, block, size), batch_size(outer * inner, kept, block, size)
        target, source = memory[SPM] + words[target_at], memory[SPM] + words[source_at]
        source = apart(source, n * read, target, n * written, memory[SCRATCH])
        clear(target, n * written)
        for i in range(n):
            to, of = target + i * written, source + i * read
            fold_one(to, of, outer, steps, inner, kept, memory[SCRATCH] + SECOND, dims)
        return 0

    return kernel


def _fold(fold: Reduction, fmt: Format) -> Fold:
    """One batch: the middle one of outer x steps x inner positions is folded, or steps channels (dims 0).

    Source and result have the same planes, but when channels are folded: then the result has one channel,
    stored SMALLEST_TAIL lanes apart. Lanes of the result that are no channels end up zero.
    """
    begin, accumulate, finish = make_fold(fold, fmt)
    block, size = block_channels(fmt.bits), fmt.bits // 8

    def fold_one(
        target: int, source: int, outer: int, steps: int, inner: int, kept: int, spare: int, dims: int
    ) -> None:
        apart_by = SMALLEST_TAIL if dims == 0 else 1
        piece = _POSITIONS if dims == 0 else _LANES
        for b in range(planes(kept, block)):
            stored = stored_lanes(kept, block, b)
            row = inner if dims == 0 else inner * stored
            plane = b * outer * inner * block * size
            to, of = target + plane, source + plane * steps
            for o in range(outer):
                for at in range(0, row, piece):
                    m = min(row - at, piece)
                    begin(spare, m)
                    for s in range(steps):
                        stride, first = 1, (o * steps + s) * row + at
                        if dims == 0:
                            stride = stored_lanes(steps, block, s // block)
                            first = s // block * inner * block + at * stride + s % block
                        accumulate(spare, of + first * size, stride, m)
                    finish(spare, to + (o * row + at) * apart_by * size, apart_by, m, steps)
            if dims != 0:
                clear_padding(to, outer * inner, stored, kept - b * block, size)

    return fold_one
