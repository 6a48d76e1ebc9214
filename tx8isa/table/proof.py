"""Checks the instruction table whenever the records are loaded, so that a broken table is never used."""

from __future__ import annotations

from collections.abc import Iterable

from tx8isa.errors import Tx8Error
from tx8isa.numbers.formats import Format
from tx8isa.records.record import Extent, Instruction, Operand, Rule

from .pages import page_of


class ProofError(Tx8Error):
    """The instruction table contradicts itself, because of a mistake in a record."""


def prove(table: Iterable[Instruction]) -> None:
    """Check every record and that their codes are unique; ProofError names the record and the fault."""
    codes: dict[tuple[int, int], str] = {}
    for instruction in table:
        code = (instruction.engine, instruction.opcode)
        if code in codes:
            where = f"{instruction.engine.name} {instruction.opcode}"
            raise ProofError(f"{instruction.mnemonic} and {codes[code]} share {where}")
        codes[code] = instruction.mnemonic
        for fault in faults(instruction):
            raise ProofError(f"{instruction.mnemonic}: {fault}")


def faults(instruction: Instruction) -> Iterable[str]:
    """The faults of one record."""
    yield from _texts(instruction)
    if page_of(instruction) is None:
        file = instruction.module.replace(".", "/")
        yield f"no page of the manual has the records of insns/{file}.py: name it in tx8isa/table/pages.py"
    if not 0 <= instruction.opcode <= 255:
        yield f"opcode {instruction.opcode} does not fit 8 bits"
    names = [o.name for o in instruction.operands]
    if len(set(names)) != len(names):
        yield f"operand names repeat: {' '.join(names)}"
    if len(instruction.word_operands) > 32:
        yield "more than 32 operand words do not fit the register mask"
    if bool(instruction.formats) != ("format" in names):
        yield "a format suffix needs exactly one operand 'format'"
    yield from _control_bits(instruction)
    for operand in instruction.operands:
        yield from _operand(instruction, operand)
    for rule in instruction.rules:
        yield from _references(instruction, "rule", rule)
        if not rule.text:
            yield "a rule has no docstring"


def _texts(instruction: Instruction) -> Iterable[str]:
    if not instruction.doc.strip():
        yield "no docstring"
    if not instruction.evidence.strip():
        yield "no evidence"
    if not instruction.example.startswith(instruction.mnemonic):
        yield "the example must be an instance of the instruction"


def _control_bits(instruction: Instruction) -> Iterable[str]:
    taken = 0
    for operand in instruction.operands:
        if operand.words:
            continue
        bits = ((1 << operand.width) - 1) << operand.at
        if bits & taken:
            yield f"operand '{operand.name}' overlaps another in the control word"
        if bits >> 32:
            yield f"operand '{operand.name}' lies outside the control word"
        taken |= bits


def _operand(instruction: Instruction, operand: Operand) -> Iterable[str]:
    where = f"operand '{operand.name}'"
    if operand.high >> operand.width:
        yield f"{where}: values up to {operand.high} do not fit its {operand.width} bits"
    if operand.width > 32 * max(operand.words, 1):
        yield f"{where}: {operand.width} bits do not fit its words"
    if any(code > operand.high for _, code in operand.choices):
        yield f"{where}: a choice lies above {operand.high}"
    if operand.is_address != (operand.extent is not None) or operand.is_address != bool(operand.role):
        yield f"{where}: an address needs memory, role and extent"
    if operand.extent:
        yield from _references(instruction, where, operand.extent)
    if operand.switched_by and not instruction.operand(operand.switched_by).hidden:
        yield f"{where}: '{operand.switched_by}' is not hidden"


def _references(instruction: Instruction, where: str, user: Extent | Rule) -> Iterable[str]:
    for argument in user.arguments:
        if isinstance(argument, int):
            continue
        name, _, lane = argument.removeprefix("@").partition(".")
        operand = next((o for o in instruction.operands if o.name == name), None)
        if operand is None:
            yield f"{where} refers to '{argument}', which does not exist"
        elif lane and lane not in [entry.name for entry in operand.lanes]:
            yield f"{where} refers to lane '{argument}', which does not exist"
        elif argument.startswith("@") and len(Format) < len(operand.choices):
            yield f"{where}: '{name}' is not a format"
