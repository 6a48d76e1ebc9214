"""Kernels of the reductions of an aligned NHWC tensor (docs/isa.md, Reductions)."""

from __future__ import annotations

from collections.abc import Callable

from emulator.kernels.shared import Kernel
from emulator.kernels.shared.fold import make_fold
from emulator.kernels.shared.matrix import make_matrix
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
from emulator.memory.rows import SECOND, apart, clear
from emulator.memory.state import SCRATCH, SIZE, SPM
from emulator.native.primitives.memory import view_i64
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import SMALLEST_TAIL, block_channels
from tx8isa.records.meaning import Reduction
from tx8isa.records.record import Instruction

_LANES = 1024
"""Accumulators at a time, so that they stay in the first-level cache."""
_POSITIONS = 64
"""Positions at a time when channels are folded, so that a plane of them stays in the first-level cache."""


def make_reduce(instruction: Instruction, fmt: Format) -> Kernel:
    """Make the kernel of one reduction: whole batches of the result are written, with zeros as padding."""
    fold = instruction.meaning.fold
    fold_positions, fold_channels = _positions(fold, fmt), _channels(fold, fmt)
    names = [o.name for o in instruction.operands]
    target_at, source_at, shape_at, dims_at = map(names.index, ("dst", "src0", "shape", "dims"))
    block, size, operands = block_channels(fmt.bits), fmt.bits // 8, len(names)

    def kernel(fields: int, state: int) -> int:
        words, memory = view_i64(fields, operands), view_i64(state, SIZE)
        shape, dims = words[shape_at], words[dims_at]
        n, h, w, c = shape >> N & LANE, shape >> H & LANE, shape >> W & LANE, shape >> C & LANE
        outer = h if dims == 1 else 1
        steps = w if dims == 1 else h if dims == 2 else h * w
        inner = w if dims == 2 else 1
        positions, kept = (h * w, 1) if dims == 0 else (outer * inner, c)
        read, written = batch_size(h * w, c, block, size), batch_size(positions, kept, block, size)
        target, source = memory[SPM] + words[target_at], memory[SPM] + words[source_at]
        source = apart(source, n * read, target, n * written, memory[SCRATCH])
        for i in range(n):
            to, of = target + i * written, source + i * read
            if dims == 0:
                clear(to, written)
                fold_channels(to, of, positions, c, memory[SCRATCH] + SECOND)
            else:
                fold_positions(to, of, outer, steps, inner, c, memory[SCRATCH] + SECOND)
                clear_gap(to, positions, c, block, size)
        return 0

    return kernel


def _positions(reduction: Reduction, fmt: Format) -> Callable[..., None]:
    """Reduce one batch of outer x steps x inner positions over the steps; the planes remain."""
    fold, block, size = make_fold(reduction, fmt), block_channels(fmt.bits), fmt.bits // 8
    begin, add, add_four, finish = fold.begin, fold.add, fold.add_four, fold.finish

    def fold_positions(
        target: int, source: int, outer: int, steps: int, inner: int, c: int, spare: int
    ) -> None:
        for b in range(planes(c, block)):
            stored = stored_lanes(c, block, b)
            row, plane = inner * stored, b * outer * inner * block * size
            for o in range(outer):
                for at in range(0, row, _LANES):
                    m, of = min(row - at, _LANES), source + plane * steps + (o * steps * row + at) * size
                    begin(spare, m)
                    for _ in range(steps >> 2):
                        add_four(spare, of, row, m)
                        of += 4 * row * size
                    for _ in range(steps & 3):
                        add(spare, of, m)
                        of += row * size
                    finish(spare, target + plane + (o * row + at) * size, 1, m, steps)
            clear_padding(target + plane, outer * inner, stored, c - b * block, size)

    return fold_positions


def _channels(reduction: Reduction, fmt: Format) -> Callable[..., None]:
    """Reduce one batch over channels: each plane is transposed, so that a row is one channel of positions.

    The result has one channel, stored SMALLEST_TAIL lanes apart; the lanes between are zero already.
    """
    fold, block, size = make_fold(reduction, fmt), block_channels(fmt.bits), fmt.bits // 8
    begin, add, add_four, finish, turn = fold.begin, fold.add, fold.add_four, fold.finish, make_matrix(size)

    def fold_channels(target: int, source: int, positions: int, c: int, spare: int) -> None:
        turned = spare + 4 * _POSITIONS
        for at in range(0, positions, _POSITIONS):
            m = min(_POSITIONS, positions - at)
            begin(spare, m)
            for b in range(planes(c, block)):
                stored = stored_lanes(c, block, b)
                valid, row = min(c - b * block, stored), turned
                turn(turned, valid, m, source + (b * positions * block + at * stored) * size, 1, stored)
                for _ in range(valid >> 2):
                    add_four(spare, row, m, m)
                    row += 4 * m * size
                for _ in range(valid & 3):
                    add(spare, row, m)
                    row += m * size
            finish(spare, target + at * SMALLEST_TAIL * size, SMALLEST_TAIL, m, c)

    return fold_channels
