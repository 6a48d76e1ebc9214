"""Kernels of the masked moves and the look-ups in tables (docs/isa.md, Masked moves, Tables)."""

from __future__ import annotations

from emulator.kernels.shared import Kernel
from emulator.kernels.shared.access import ACCESS, VIEWS, magnitude_bits
from emulator.memory.rows import SECOND, apart, overlap
from emulator.memory.state import SCRATCH, SIZE, SPM, SPM_BYTES
from emulator.native.primitives.memory import copy_bytes, view_i64, view_u8, view_u64
from tx8isa.numbers.formats import Format
from tx8isa.numbers.primitives import s64, u64
from tx8isa.records.meaning import Gather
from tx8isa.records.record import Instruction


def make_masked_copy(instruction: Instruction, fmt: Format) -> Kernel:
    """Make the kernel of maskmove: every element is written, with its old value where the mask is zero."""
    target_at, source_at, mask_at, count_at = map(instruction.index, ("dst", "src0", "src1", "n"))
    view, size, operands = ACCESS[fmt].view, ACCESS[fmt].size, len(instruction.operands)
    magnitude = magnitude_bits(fmt)

    def kernel(fields: int, state: int) -> int:
        words, memory = view_i64(fields, operands), view_i64(state, SIZE)
        n, target = words[count_at], memory[SPM] + words[target_at]
        source, mask = memory[SPM] + words[source_at], memory[SPM] + words[mask_at]
        source = apart(source, n * size, target, n * size, memory[SCRATCH])
        mask = apart(mask, n * size, target, n * size, memory[SCRATCH] + SECOND)
        to, of, by = view(target, n), view(source, n), view(mask, n)
        for i in range(u64(n)):
            taken = -1 if s64(by[i]) & magnitude != 0 else 0
            to[i] = (s64(of[i]) & taken) | (s64(to[i]) & ~taken)  # no branch: this becomes vector code
        return 0

    return kernel


def make_gather(instruction: Instruction, fmt: Format | None) -> Kernel:
    """Make the kernel of maskgather.v and of the tables.

    The indices are data; the largest one determines the range that is read. If the range is inside SPM and
    does not overlap the result, elements are copied directly. Otherwise each address is checked, and the
    result passes through scratch, so that only old values are read.
    """
    meaning: Gather = instruction.meaning
    target_at, source_at, index_at, count_at = map(instruction.index, ("dst", "src0", "src1", "n"))
    size = (meaning.bits if fmt is None else fmt.bits) // 8
    view, step, operands = VIEWS[size], 1 if meaning.in_bytes else size, len(instruction.operands)

    def kernel(fields: int, state: int) -> int:
        words, memory = view_i64(fields, operands), view_i64(state, SIZE)
        n, table, result = words[count_at], words[source_at], words[target_at]
        index = view(memory[SPM] + words[index_at], n)
        last = 0
        for i in range(u64(n)):
            last = max(last, s64(index[i]))
        reach = last * step + size
        staged = overlap(table, reach, result, n * size)
        staged = staged or overlap(words[index_at], n * size, result, n * size)
        if staged or table + reach > memory[SPM_BYTES]:
            to = view(memory[SCRATCH], n)
            for i in range(u64(n)):
                at = table + s64(index[i]) * step
                inside = at + size <= memory[SPM_BYTES]
                to[i] = view(memory[SPM] + at, 1)[u64(0)] if inside else BEYOND_SPM
            copy_bytes(memory[SPM] + result, memory[SCRATCH], n * size)
            return 0
        to = view(memory[SPM] + result, n)
        for i in range(u64(n)):
            to[i] = view(memory[SPM] + table + s64(index[i]) * step, 1)[u64(0)]
        return 0

    return kernel


BEYOND_SPM = 0
"""Value read at an address that is not wholly inside SPM (proposed)."""


def make_compress(instruction: Instruction, fmt: Format) -> Kernel:
    """Make the kernel of maskgather.bv: the elements are collected in scratch, so operands may overlap.

    Every element is written to the next free position; only a selected one advances that position.
    """
    target_at, source_at, mask_at, count_at = map(instruction.index, ("dst", "src0", "src1", "n"))
    view, size, operands = VIEWS[fmt.bits // 8], fmt.bits // 8, len(instruction.operands)

    def kernel(fields: int, state: int) -> int:
        words, memory = view_i64(fields, operands), view_i64(state, SIZE)
        n, source = words[count_at], memory[SPM] + words[source_at]
        mask, bits = memory[SPM] + words[mask_at], view_u64(memory[SPM] + words[mask_at], n >> 6)
        of, to, found = view(source, n), view(memory[SCRATCH], n + 1), u64(0)
        for block in range(u64(n >> 6)):
            chosen = u64(bits[block])
            if chosen != u64(0):
                for k in range(u64(64)):
                    to[found] = of[u64(block * u64(64)) + k]
                    found = u64(found + (u64(chosen >> k) & u64(1)))
        last = view_u8(mask, n + 7 >> 3)
        for i in range(u64(n & ~63), u64(n)):
            to[found] = of[i]
            found = u64(found + (u64(last[i >> 3]) >> u64(i & 7) & u64(1)))
        copy_bytes(memory[SPM] + words[target_at], memory[SCRATCH], s64(found) * size)
        return 0

    return kernel
