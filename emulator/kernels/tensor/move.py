"""Kernels of the moves between compact tensors (docs/isa.md, Moves), from the record's source index.

The index is affine (``meaning.Move``), so its differences at neighbouring places are the source's strides.
"""

from __future__ import annotations

from collections.abc import Callable

from emulator.kernels.shared import Kernel
from emulator.kernels.shared.matrix import make_matrix
from emulator.kernels.shared.planes import LANE, C, H, N, W
from emulator.memory.rows import apart, copy_rows
from emulator.memory.state import SCRATCH, SIZE, SPM
from emulator.native.primitives.memory import view_i64
from tx8isa.numbers.formats import Format
from tx8isa.records.meaning import Move
from tx8isa.records.record import Instruction

_TOGETHER = 16
"""Number of source rows that are read together when runs of channels change places."""


def make_move(instruction: Instruction, fmt: Format) -> Kernel:
    """Make the kernel of one move: each batch is a matrix of units, or of runs of channels kept together."""
    meaning: Move = instruction.meaning
    index, channels_first = meaning.source, meaning.channels_first
    size, move_batch = fmt.bits // 8, _batch(fmt)
    names = [o.name for o in instruction.operands]
    target_at, source_at, shape_at, result_at = map(names.index, ("dst", "src0", "shape", "dst_shape"))
    operands = len(names)

    def kernel(fields: int, state: int) -> int:
        words, memory = view_i64(fields, operands), view_i64(state, SIZE)
        shape, result = words[shape_at], words[result_at]
        n, h, w, c = shape >> N & LANE, shape >> H & LANE, shape >> W & LANE, shape >> C & LANE
        e, f, g = result >> H & LANE, result >> W & LANE, result >> C & LANE
        if channels_first:
            e, f, g = g, e, f
        batch = h * w * c * size
        target, source = memory[SPM] + words[target_at], memory[SPM] + words[source_at]
        source = apart(source, n * batch, target, n * batch, memory[SCRATCH])
        for i in range(n):
            first = index(i, 0, 0, 0, n, h, w, c)
            along_e = index(i, 1, 0, 0, n, h, w, c) - first
            along_f = index(i, 0, 1, 0, n, h, w, c) - first
            along_g = index(i, 0, 0, 1, n, h, w, c) - first
            move_batch(target + i * batch, source + first * size, e, f, g, along_e, along_f, along_g)
        return 0

    return kernel


def _batch(fmt: Format) -> Callable[..., None]:
    """Move one batch, by extents e, f, g of the result and the source's strides along them in elements."""
    size = fmt.bits // 8
    move_units = make_matrix(size)

    def move_batch(
        target: int, source: int, e: int, f: int, g: int, along_e: int, along_f: int, along_g: int
    ) -> None:
        if g == 1:
            move_units(target, e, f, source, along_e, along_f)
        elif along_g == 1:
            _move_runs(target, e, f, source, along_e * size, along_f * size, g * size)
        elif along_e == f * along_f:
            move_units(target, e * f, g, source, along_f, along_g)
        elif along_f == g * along_g:
            move_units(target, e, f * g, source, along_e, along_g)
        else:
            for j in range(e):
                move_units(target + j * f * g * size, f, g, source + j * along_e * size, along_f, along_g)

    return move_batch


def _move_runs(
    target: int, rows: int, columns: int, source: int, row_step: int, column_step: int, size: int
) -> None:
    """Move a compact matrix of runs of ``size`` bytes; steps of the source in bytes."""
    for first in range(0, rows, _TOGETHER):
        for c in range(columns):
            of, to = source + first * row_step + c * column_step, target + (first * columns + c) * size
            copy_rows(to, columns * size, of, row_step, size, min(_TOGETHER, rows - first))
