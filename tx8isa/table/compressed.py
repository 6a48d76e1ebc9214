"""The compressed instructions of the kernel core as one table, with their scalar expansions.

Importing this module proves the table; see ``prove``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations

from tx8isa.insns.riscv import c
from tx8isa.riscv.compressed import COMPRESSED_BYTES, FULL_LENGTH, Compressed
from tx8isa.riscv.format import SCALAR_BYTES, Encoding, Scalar, TableError
from tx8isa.riscv.registers import REGISTERS

from . import scalar

GROUP = "c"
"""The file of ``insns/riscv`` that has the records."""


@dataclass(frozen=True, slots=True)
class Expansion:
    """The scalar instruction to which a compressed one expands.

    ``fields`` maps each field of ``full`` to the field of ``record`` with its value, or to a number.
    """

    record: Compressed
    full: Scalar
    fields: tuple[tuple[str, str | int], ...]

    def values(self, values: Mapping[str, int]) -> dict[str, int]:
        """Translates field values of ``record`` into the field values of ``full``."""
        return {name: values[given] if isinstance(given, str) else given for name, given in self.fields}

    def shorten(self, values: Mapping[str, int]) -> int | None:
        """Encode ``full`` with these values as ``record``; None when that is impossible or a hint."""
        found: dict[str, int] = {}
        for name, given in self.fields:
            value = values[name]
            if (value != given) if isinstance(given, int) else found.setdefault(given, value) != value:
                return None
        if any(found[name] in hints for name, hints in self.record.hints.items()):
            return None
        if any(field.problem(found[field.name]) for field in self.record.fields):
            return None
        return self.record.encode(found)


def expansion_of(record: Compressed, text: str) -> Expansion:
    """Parse the expansion in a text of a record; TableError when it is not an instruction over its fields."""
    mnemonic, *operands = _words(text)
    full = scalar.scalar_by_mnemonic().get(mnemonic)
    names = _words(", ".join(full.operands)) if full is not None else []
    if full is None or len(names) != len(operands):
        raise TableError(f"{record.mnemonic}: '{text}' is not a scalar instruction")
    own = {field.name for field in record.fields}
    given = [operand if operand in own else _number(record, operand) for operand in operands]
    unused = own - set(operands)
    if unused:
        raise TableError(f"{record.mnemonic}: '{text}' does not use {', '.join(sorted(unused))}")
    return Expansion(record, full, tuple(zip(names, given, strict=True)))


def _words(text: str) -> list[str]:
    """``lw rd, uimm(sp)`` -> lw, rd, uimm, sp."""
    return text.replace(",", " ").replace("(", " ").replace(")", " ").split()


def _number(record: Compressed, operand: str) -> int:
    if operand in REGISTERS:
        return REGISTERS[operand]
    if not operand.isdigit():
        raise TableError(f"{record.mnemonic}: '{operand}' is neither a field, a register nor a number")
    return int(operand)


def prove(records: Sequence[Compressed]) -> None:
    """Check a table of records; TableError names the first record, or the pair, that breaks a rule.

    The operands as written are exactly the fields. Each record has an example of itself, and stands for a
    scalar instruction over its fields. Mnemonics are unique. No 16 bits are two instructions, or the begin of
    a longer one.
    """
    for record in records:
        written = sorted(word for word in _words(record.syntax) if word not in REGISTERS)
        if written != sorted(field.name for field in record.fields):
            raise TableError(f"{record.mnemonic}: '{record.syntax}' does not name the fields once each")
        if record.example.partition(" ")[0] != record.mnemonic:
            raise TableError(f"{record.mnemonic}: the example '{record.example}' is of another instruction")
        if record.mask & FULL_LENGTH != FULL_LENGTH or record.match & FULL_LENGTH == FULL_LENGTH:
            raise TableError(f"{record.mnemonic}: the low bits are those of a longer instruction")
        for text in (record.expansion, *record.also):
            expansion_of(record, text)
    for first, second in combinations(records, 2):
        if first.mnemonic == second.mnemonic:
            raise TableError(f"two records are called {first.mnemonic}")
        overlap = (first.match ^ second.match) & first.mask & second.mask == 0
        if overlap and not first.excludes(second) and not second.excludes(first):
            raise TableError(f"{first.mnemonic} and {second.mnemonic} have an encoding in common")


_RECORDS = tuple(record for record in vars(c).values() if isinstance(record, Compressed))
prove(_RECORDS)
_BY_MNEMONIC = {record.mnemonic: record for record in _RECORDS}
_EXPANSIONS = {record.mnemonic: expansion_of(record, record.expansion) for record in _RECORDS}


def compressed_instructions() -> tuple[Compressed, ...]:
    """Every compressed instruction, in the order of the manual."""
    return _RECORDS


def compressed_by_mnemonic() -> dict[str, Compressed]:
    """Record by mnemonic."""
    return _BY_MNEMONIC


def expansions() -> tuple[Expansion, ...]:
    """The full instruction of each compressed one, in the same order."""
    return tuple(_EXPANSIONS.values())


def is_compressed(word: int) -> bool:
    """Return True if an instruction that begins with these bits has two bytes."""
    return word & FULL_LENGTH != FULL_LENGTH


def length(word: int) -> int:
    """Bytes of the scalar instruction that begins with these bits."""
    return COMPRESSED_BYTES if is_compressed(word) else SCALAR_BYTES


def decode_at(text: bytes | memoryview, at: int) -> tuple[Encoding, dict[str, int]] | None:
    """Decode the scalar instruction, compressed or not, at a byte of program text; None without one."""
    size = length(text[at]) if at < len(text) else COMPRESSED_BYTES
    if at + size > len(text):
        return None
    bits = int.from_bytes(text[at : at + size], "little")
    return decode(bits) if size == COMPRESSED_BYTES else scalar.decode(bits)


@cache
def _by_opcode() -> dict[int, tuple[Compressed, ...]]:
    """Index candidates by the low two and the high three bits, which every pattern fixes."""
    keys = {record.match & _OPCODE for record in _RECORDS}
    return {key: tuple(r for r in _RECORDS if r.match & _OPCODE == key) for key in keys}


_OPCODE = 0xE003


def decode(bits: int) -> tuple[Compressed, dict[str, int]] | None:
    """Decode 16 bits to record and field values; None when they are not a compressed instruction."""
    for record in _by_opcode().get(bits & _OPCODE, ()):
        values = record.decode(bits)
        if values is not None:
            return record, values
    return None


def expand(bits: int) -> tuple[Scalar, dict[str, int]] | None:
    """Expand 16 bits to a scalar instruction and its field values; None as for ``decode``."""
    found = decode(bits)
    if found is None:
        return None
    expansion = _EXPANSIONS[found[0].mnemonic]
    return expansion.full, expansion.values(found[1])


@cache
def _shorter() -> dict[str, tuple[Expansion, ...]]:
    """Index the compressed forms that an assembler may choose, by mnemonic of the scalar instruction."""
    texts = ((record, text) for record in _RECORDS for text in (record.expansion, *record.also))
    found: dict[str, tuple[Expansion, ...]] = {}
    for record, text in texts:
        expansion = expansion_of(record, text)
        found[expansion.full.mnemonic] = (*found.get(expansion.full.mnemonic, ()), expansion)
    return found


def shorten(record: Scalar, values: Mapping[str, int]) -> int | None:
    """Choose the compressed encoding of a scalar instruction; None when there is none."""
    found = (expansion.shorten(values) for expansion in _shorter().get(record.mnemonic, ()))
    return next((bits for bits in found if bits is not None), None)
