"""The table of engine instructions: loaded from ``insns``, proved, and looked up by name."""

from __future__ import annotations

from functools import cache

from tx8isa import insns
from tx8isa.numbers.formats import Format
from tx8isa.records.record import Instruction, registered

from .proof import prove


@cache
def instructions() -> tuple[Instruction, ...]:
    """All engine records, by engine and opcode; the first call loads and proves the table."""
    insns.load()
    records = tuple(sorted(registered(), key=lambda i: (i.engine, i.opcode)))
    prove(records)
    return records


def by_mnemonic() -> dict[str, Instruction]:
    """Records by mnemonic without format suffix."""
    return {i.mnemonic: i for i in instructions()}


def find(mnemonic: str) -> tuple[Instruction, Format | None] | None:
    """The record and format of a full mnemonic such as ``ct.add.vv.fp16``; None when there is none."""
    return _table().get(mnemonic)


@cache
def _table() -> dict[str, tuple[Instruction, Format | None]]:
    full: dict[str, tuple[Instruction, Format | None]] = {}
    for instruction in instructions():
        for fmt in instruction.formats or (None,):
            suffix = f".{fmt.token}" if fmt is not None else ""
            full[instruction.mnemonic + suffix] = (instruction, fmt)
    return full


def full_mnemonics() -> tuple[str, ...]:
    """Every mnemonic as assembly spells it, format suffix included."""
    return tuple(_table())
