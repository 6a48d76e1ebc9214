"""Mould of the reductions of an aligned NHWC tensor (semantics.md 7)."""

from __future__ import annotations

from collections.abc import Callable

from emulator.native.memory import view_i64
from emulator.state import SCRATCH, SIZE, SPM
from tx8isa.aligned import reduced, tensor
from tx8isa.formats import Format
from tx8isa.layouts import SMALLEST_TAIL, batch_bytes, block_channels
from tx8isa.meaning import Reduction
from tx8isa.record import Instruction

from .fold import Accumulate, Begin, Finish, make_fold
from .planes import C, H, N, W, clear_padding, lane, planes, stored_lanes, valid_lanes
from .rows import SECOND, apart, clear

Kernel = Callable[[int, int], int]

_LANES = 1024
"""Accumulators at a time: they stay in the first-level cache."""
_POSITIONS = 64
"""Positions at a time when channels are folded: their lanes stay in the first-level cache."""


def make_reduce(instruction: Instruction, fmt: Format) -> Kernel:
    """The kernel of one reduction: whole batches of the result are written, zero where nothing belongs."""
    fold: Reduction = instruction.meaning.fold
    loops = make_fold(fold, fmt)
    channels, lanes = _fold_channels(loops, fmt.bits), _fold_lanes(loops, fmt.bits)
    names = [o.name for o in instruction.operands]
    target_at, source_at, shape_at, dims_at = (names.index(k) for k in ("dst", "src0", "shape", "dims"))
    bits, operands = fmt.bits, len(names)

    def kernel(fields: int, state: int) -> int:
        words, memory = view_i64(fields, operands), view_i64(state, SIZE)
        shape, dims = words[shape_at], words[dims_at]
        n, h, w, c = lane(shape, N), lane(shape, H), lane(shape, W), lane(shape, C)
        target, size = memory[SPM] + words[target_at], reduced(bits, n, h, w, c, dims)
        source, spare = memory[SPM] + words[source_at], memory[SCRATCH]
        source = apart(source, tensor(bits, n, h, w, c), target, size, spare)
        clear(target, size)
        for i in range(n):
            of, to = source + i * batch_bytes(h * w, c, bits), target + i * (size // n)
            if dims == 0:
                channels(to, of, h * w, c, spare + SECOND)
            elif dims == 1:
                lanes(to, of, h, w, 1, c, spare + SECOND)
            elif dims == 2:
                lanes(to, of, 1, h, w, c, spare + SECOND)
            else:
                lanes(to, of, 1, h * w, 1, c, spare + SECOND)
        return 0

    return kernel


def _fold_lanes(loops: tuple[Begin, Accumulate, Finish], bits: int) -> Callable[..., None]:
    """Fold the middle one of the position extents outer x steps x inner, plane by plane."""
    begin, accumulate, finish = loops
    block, size = block_channels(bits), bits // 8

    def fold(target: int, source: int, outer: int, steps: int, inner: int, c: int, spare: int) -> None:
        for b in range(planes(c, bits)):
            stored = stored_lanes(c, bits, b)
            row = inner * stored
            of = source + b * outer * steps * inner * block * size
            to = target + b * outer * inner * block * size
            for o in range(outer):
                at = 0
                while at < row:
                    m = min(row - at, _LANES)
                    begin(spare, m)
                    for s in range(steps):
                        accumulate(spare, of + ((o * steps + s) * row + at) * size, 1, m)
                    finish(spare, to + (o * row + at) * size, 1, m, steps)
                    at += m
            clear_padding(to, outer * inner, stored, valid_lanes(c, bits, b), size)

    return fold


def _fold_channels(loops: tuple[Begin, Accumulate, Finish], bits: int) -> Callable[..., None]:
    """Fold the channels of every position; the result has one channel, stored SMALLEST_TAIL lanes apart."""
    begin, accumulate, finish = loops
    block, size = block_channels(bits), bits // 8

    def fold(target: int, source: int, hw: int, c: int, spare: int) -> None:
        at = 0
        while at < hw:
            m = min(hw - at, _POSITIONS)
            begin(spare, m)
            for b in range(planes(c, bits)):
                stored = stored_lanes(c, bits, b)
                of = source + (b * hw * block + at * stored) * size
                for k in range(valid_lanes(c, bits, b)):
                    accumulate(spare, of + k * size, stored, m)
            finish(spare, target + at * SMALLEST_TAIL * size, SMALLEST_TAIL, m, c)
            at += m

    return fold
