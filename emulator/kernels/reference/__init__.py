"""The slow reference: every instruction element by element in plain Python, straight from the records.

It shares with the kernels the definitions of the records (bodies, folds, index functions, ``narrow``,
``element_offset``), but no code of kernels: no views, no planes, no fast conversions. Tests compare the two
byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable, MutableSequence, Sequence

from tx8isa.numbers.formats import Format
from tx8isa.records.record import Instruction

from . import logic, matrix, peripheral, tensor, transfer, vector
from .run import Memory, Run

_RULES: dict[type, Callable[[Run], None]] = {
    **vector.RULES,
    **tensor.RULES,
    **transfer.RULES,
    **logic.RULES,
    **peripheral.RULES,
    **matrix.RULES,
}


def execute(
    instruction: Instruction,
    fmt: Format | None,
    values: Sequence[int],
    spm: Memory,
    ddr: Memory,
    random: int = 1,
    write_back: MutableSequence[int] | None = None,
    ne_post: bool = False,
) -> int:
    """Execute one instruction on byte arrays; return the state of the random numbers afterwards.

    ``values`` are those of ``instruction.operands``, in order; DDR addresses are offsets into ``ddr``.
    ``write_back`` are the registers wb_data0 and wb_data1, which some instructions write.
    ``ne_post``: the matrix engine applies bias, scale and activation of float formats (proposed).
    ValueError for instructions that move no data.
    """
    rules = {**_RULES, **matrix.PROPOSED} if ne_post else _RULES
    rule = rules.get(type(instruction.meaning))
    if rule is None:
        raise ValueError(f"{instruction.mnemonic}: no reference for {type(instruction.meaning).__name__}")
    names = [operand.name for operand in instruction.operands]
    named = dict(zip(names, values, strict=True))
    registers = [0, 0] if write_back is None else write_back
    run = Run(instruction, fmt, named, spm, ddr, bytes(spm), random, registers)
    rule(run)
    return run.random
