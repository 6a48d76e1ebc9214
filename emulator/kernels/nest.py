"""Moulds of the loop-nest instructions gatherscatter and memset (docs/isa.md, Loop nests)."""

from __future__ import annotations

from collections.abc import Callable

from emulator.native.memory import view_i64
from emulator.state import SCRATCH, SIZE, SPM
from tx8isa.formats import Format
from tx8isa.nest import span
from tx8isa.primitives import u64
from tx8isa.record import Instruction

from .access import VIEWS
from .rows import apart, copy_rows

Kernel = Callable[[int, int], int]


def make_gatherscatter(instruction: Instruction) -> Kernel:
    """Both nests advance together, over the longest run that is one inner loop on either side."""
    names = [o.name for o in instruction.operands]
    target_at, source_at, count_at = (names.index(name) for name in ("dst", "src0", "n"))
    source_loops, target_loops, operands = names.index("src_stride0"), names.index("dst_stride0"), len(names)

    def kernel(fields: int, state: int) -> int:
        words, memory = view_i64(fields, operands), view_i64(state, SIZE)
        block = words[count_at]
        s0, i0, s1, i1 = (
            words[source_loops], words[source_loops + 1], words[source_loops + 2], words[source_loops + 3],
        )  # fmt: skip
        s2, i2 = words[source_loops + 4], words[source_loops + 5]
        t0, j0, t1, j1 = (
            words[target_loops], words[target_loops + 1], words[target_loops + 2], words[target_loops + 3],
        )  # fmt: skip
        t2, j2 = words[target_loops + 4], words[target_loops + 5]
        target = memory[SPM] + words[target_at]
        source = apart(
            memory[SPM] + words[source_at], span(block, s0, i0, s1, i1, s2, i2),
            target, span(block, t0, j0, t1, j1, t2, j2), memory[SCRATCH],
        )  # fmt: skip
        k, total = 0, i0 * i1 * i2
        while k < total:
            a, b = k % i0, k % j0
            run = min(i0 - a, j0 - b)
            read = source + a * s0 + k // i0 % i1 * s1 + k // (i0 * i1) * s2
            write = target + b * t0 + k // j0 % j1 * t1 + k // (j0 * j1) * t2
            copy_rows(write, t0, read, s0, block, run)
            k += run
        return 0

    return kernel


def make_memset(instruction: Instruction, fmt: Format) -> Kernel:
    """Blocks of n elements of one value."""
    names = [o.name for o in instruction.operands]
    target_at, value_at, count_at = (names.index(name) for name in ("dst", "value", "n"))
    loops_at, operands = names.index("stride0"), len(names)
    view = VIEWS[fmt.bits // 8]

    def kernel(fields: int, state: int) -> int:
        words, memory = view_i64(fields, operands), view_i64(state, SIZE)
        n, value, target = words[count_at], words[value_at], memory[SPM] + words[target_at]
        for c in range(words[loops_at + 5]):
            for b in range(words[loops_at + 3]):
                for a in range(words[loops_at + 1]):
                    at = a * words[loops_at] + b * words[loops_at + 2] + c * words[loops_at + 4]
                    to = view(target + at, n)
                    for i in range(u64(n)):
                        to[i] = value
        return 0

    return kernel
