"""The scalar instructions of the kernel core: RV64IMFD, Zicsr, Zifencei; ``compressed`` has those of C.

Importing this module proves the instruction table; see ``prove``.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from itertools import chain, combinations
from types import ModuleType

from tx8isa.insns import riscv
from tx8isa.riscv.format import Scalar, TableError

from .pages import SCALAR_GROUPS, ScalarGroup

_OPCODE_FUNCT3 = 0x707F


def prove(records: Sequence[Scalar]) -> None:
    """Check a table of records; TableError names the first record, or the pair, that breaks a rule.

    Every bit of a word is fixed or belongs to one field. The operands as written are exactly the fields. Each
    record has a docstring and an example of itself. Mnemonics are unique. No word is two instructions.
    """
    for record in records:
        problem = _problem(record)
        if problem:
            raise TableError(f"{record.mnemonic}: {problem}")
    for first, second in combinations(records, 2):
        if first.mnemonic == second.mnemonic:
            raise TableError(f"two records are called {first.mnemonic}")
        if (first.match ^ second.match) & first.mask & second.mask == 0:
            word = first.match | second.match
            raise TableError(f"{first.mnemonic} and {second.mnemonic} both match the word {word:#010x}")


def _problem(record: Scalar) -> str | None:
    claimed = record.mask
    for field in record.fields:
        for bit, _, width in field.pieces:
            bits = (1 << width) - 1 << bit
            if claimed & bits:
                return f"field {field.name} overlaps the bits {claimed & bits:#010x}"
            claimed |= bits
    if claimed != 0xFFFFFFFF:
        return f"the bits {claimed ^ 0xFFFFFFFF:#010x} belong to no field"
    if record.match & ~record.mask:
        return f"match sets the bits {record.match & ~record.mask:#010x} outside its mask"
    written = sorted(record.syntax.replace("(", ", ").replace(")", "").split(", ")) if record.syntax else []
    if written != sorted(field.name for field in record.fields):
        return f"the syntax '{record.syntax}' does not name the fields of '{record.pattern}' once each"
    if not record.doc.strip():
        return "the docstring is missing"
    if record.example.partition(" ")[0] != record.mnemonic:
        return f"the example '{record.example}' is not of this instruction"
    if (record.kind in ("load", "store")) != (record.width in (1, 2, 4, 8)):
        return f"kind {record.kind} cannot move {record.width} bytes"
    return None


def _records_of(module: ModuleType) -> tuple[Scalar, ...]:
    """The records in the order of their definition; a module may define several as a tuple."""
    values = vars(module).values()
    records = (record for value in values for record in (value if isinstance(value, tuple) else (value,)))
    return tuple(record for record in records if isinstance(record, Scalar))


def load(groups: Sequence[ScalarGroup]) -> dict[str, tuple[Scalar, ...]]:
    """The records of each file of ``insns/riscv``, in the order of the groups; TableError for one in none."""
    names = [module.name for module in pkgutil.iter_modules(riscv.__path__)]
    found = {name: _records_of(importlib.import_module(f"{riscv.__name__}.{name}")) for name in names}
    order = [group.module for group in groups]
    for name in names:
        if found[name] and name not in order:
            missing = f"no group of the manual has the records of insns/riscv/{name}.py"
            raise TableError(f"{found[name][0].mnemonic}: {missing}: name it in tx8isa/table/pages.py")
    return {name: found[name] for name in order}


def _index(records: Sequence[Scalar]) -> dict[int, tuple[Scalar, ...]]:
    """Candidates by opcode and funct3; a record whose funct3 is part of a field is listed under all eight."""
    table: dict[int, list[Scalar]] = {}
    for record in records:
        for funct3 in range(8):
            key = funct3 << 12 | record.match & 0x7F
            if (key ^ record.match) & record.mask & _OPCODE_FUNCT3 == 0:
                table.setdefault(key, []).append(record)
    return {key: tuple(found) for key, found in table.items()}


_GROUPS = load(SCALAR_GROUPS)
_RECORDS = tuple(chain.from_iterable(_GROUPS.values()))
prove(_RECORDS)
_BY_MNEMONIC = {record.mnemonic: record for record in _RECORDS}
_BY_OPCODE = _index(_RECORDS)


def scalar_instructions() -> tuple[Scalar, ...]:
    """Every scalar instruction, in the order of the manual."""
    return _RECORDS


def scalar_group(module: str) -> tuple[Scalar, ...]:
    """The records of one file of ``insns/riscv``."""
    return _GROUPS[module]


def scalar_by_mnemonic() -> dict[str, Scalar]:
    """Record by mnemonic."""
    return _BY_MNEMONIC


def decode(word: int) -> tuple[Scalar, dict[str, int]] | None:
    """Record and field values of a 32-bit word, or None when no instruction has this encoding."""
    for record in _BY_OPCODE.get(word & _OPCODE_FUNCT3, ()):
        values = record.decode(word)
        if values is not None:
            return record, values
    return None
