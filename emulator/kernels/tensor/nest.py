"""Kernels of the loop-nest instructions gatherscatter and memset (docs/isa.md, Loop nests)."""

from __future__ import annotations

from emulator.kernels.shared import Kernel
from emulator.kernels.shared.access import VIEWS
from emulator.memory.rows import apart, copy_rows
from emulator.memory.state import SCRATCH, SIZE, SPM
from emulator.native.primitives.memory import view_i64
from tx8isa.families.nest import span
from tx8isa.numbers.formats import Format
from tx8isa.numbers.primitives import s64, u64
from tx8isa.records.record import Instruction


def make_gatherscatter(instruction: Instruction) -> Kernel:
    """Make the kernel of gatherscatter: both nests advance together, by the longest common inner loop."""
    names = [o.name for o in instruction.operands]
    target_at, source_at, count_at = (names.index(name) for name in ("dst", "src0", "n"))
    source_loops, target_loops, operands = names.index("src_stride0"), names.index("dst_stride0"), len(names)

    def kernel(fields: int, state: int) -> int:
        words, memory = view_i64(fields, operands), view_i64(state, SIZE)
        s0, i0, s1, i1, s2, i2 = _loops(fields, source_loops)
        t0, j0, t1, j1, t2, j2 = _loops(fields, target_loops)
        block, target = words[count_at], memory[SPM] + words[target_at]
        source = apart(
            memory[SPM] + words[source_at],
            span(block, s0, i0, s1, i1, s2, i2),
            target,
            span(block, t0, j0, t1, j1, t2, j2),
            memory[SCRATCH],
        )
        a, a1, a2, b, b1, b2 = 0, 0, 0, 0, 0, 0
        left = i0 * i1 * i2
        while left > 0:
            run = min(i0 - a, j0 - b)
            read, write = source + a * s0 + a1 * s1 + a2 * s2, target + b * t0 + b1 * t1 + b2 * t2
            copy_rows(write, t0, read, s0, block, run)
            a, a1, a2 = _advanced(a + run, a1, a2, i0, i1)
            b, b1, b2 = _advanced(b + run, b1, b2, j0, j1)
            left -= run
        return 0

    return kernel


Loops = tuple[int, int, int, int, int, int]


def _loops(fields: int, at: int) -> Loops:
    """Return stride and trip count of three loops, the innermost first; contiguous loops are joined."""
    words = view_i64(fields + 8 * at, 6)
    s0, i0, s1, i1 = _joined(words[0], words[1], words[2], words[3])
    s1, i1, s2, i2 = _joined(s1, i1, words[4], words[5])
    s0, i0, s1, i1 = _joined(s0, i0, s1, i1)
    return s0, i0, s1, i1, s2, i2


def _joined(s0: int, i0: int, s1: int, i1: int) -> tuple[int, int, int, int]:
    """Join two loops if the outer one continues the inner one; the second then has a single trip."""
    if i0 == 1:
        return s1, i1, s0, i0
    if s1 == i0 * s0:
        return s0, i0 * i1, s1, 1
    return s0, i0, s1, i1


def _advanced(a: int, b: int, c: int, inner: int, middle: int) -> tuple[int, int, int]:
    """Return the counters of a nest after its inner one was advanced, at most to its end."""
    if a < inner:
        return a, b, c
    return (a - inner, b + 1, c) if b + 1 < middle else (a - inner, b + 1 - middle, c + 1)


_SHORT = 256
"""Shorter blocks, in bytes, are copied from the first one; longer ones are filled directly."""


def make_memset(instruction: Instruction, fmt: Format) -> Kernel:
    """Make the kernel of memset: blocks of n elements of one value."""
    names = [o.name for o in instruction.operands]
    target_at, value_at, count_at = (names.index(name) for name in ("dst", "value", "n"))
    loops_at, operands, size = names.index("stride0"), len(names), fmt.bits // 8
    view = VIEWS[size]

    def fill(target: int, value: int, n: int) -> None:
        to = view(target, n)
        for i in range(u64(n)):
            to[i] = value

    def kernel(fields: int, state: int) -> int:
        words, memory = view_i64(fields, operands), view_i64(state, SIZE)
        s0, i0, s1, i1, s2, i2 = _loops(fields, loops_at)
        n, value, target = words[count_at], words[value_at], memory[SPM] + words[target_at]
        if s0 == n * size:
            n, i0 = n * i0, s64(1)
        short = n * size < _SHORT
        if short:
            fill(memory[SCRATCH], value, n)
        for c in range(i2):
            for b in range(i1):
                at = target + b * s1 + c * s2
                if short:
                    copy_rows(at, s0, memory[SCRATCH], s64(0), n * size, i0)
                else:
                    for a in range(i0):
                        fill(at + a * s0, value, n)
        return 0

    return kernel
