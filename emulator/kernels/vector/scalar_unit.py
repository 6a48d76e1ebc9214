"""Kernels of the SCALAR unit: one value, to a register of the core."""

from __future__ import annotations

from math import inf

from numpy import float64

from emulator.kernels.shared import Kernel
from emulator.kernels.shared.access import ACCESS, nearest_store
from emulator.memory.state import ANSWER, NUMERIC, SINK, SIZE, X
from emulator.native.primitives.memory import view_i64
from tx8isa.numbers.formats import Format
from tx8isa.records.meaning import ScalarFunction
from tx8isa.records.record import Instruction

INFINITE, NAN_INPUT = 1 << 0, 1 << 1
"""Bits of the unit's field of the exception register (spec); other bits are not raised."""


def make_scalar(instruction: Instruction, fmt: Format) -> Kernel:
    """Make the kernel of operands src and rd; ``state.ANSWER`` also gets the result, for its register."""
    meaning: ScalarFunction = instruction.meaning
    body, load, store = meaning.body, ACCESS[fmt].load, nearest_store(fmt)
    source_at, target_at = instruction.index("src"), instruction.index("rd")
    operands = len(instruction.operands)
    pattern = (1 << fmt.bits) - 1

    def kernel(fields: int, state: int) -> int:
        words, memory = view_i64(fields, operands), view_i64(state, SIZE)
        value = float64(load(words[source_at] & pattern))
        result = body(value)
        bits = store(result)
        register = words[target_at]
        memory[X + register if register != 0 else SINK] = bits
        memory[ANSWER] = bits
        if value != value:
            memory[NUMERIC] = NAN_INPUT
        elif abs(float64(load(bits))) == inf:
            memory[NUMERIC] = INFINITE
        return 0

    return kernel
