"""RISC-V encoding formats, and the record that describes one 32-bit scalar instruction.

Compressed instructions have records of their own, in ``compressed.py``.

A record is written like the encoding diagrams of "The RISC-V Instruction Set Manual, Volume I" (spec): the
pattern lists bit strings and field names from bit 31 down to bit 0. Fields whose value bits are scattered
over the word are described once, in ``SEGMENTS``. Mask, match, encoding, decoding and the assembly operands
all come from the pattern and the syntax line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tx8isa.errors import Tx8Error

FieldKind = Literal["register", "float", "signed", "unsigned", "target", "csr", "order", "rounding"]
"""The kind of a field's value in assembly.

``register``: number of an x register. ``float``: number of an f register. ``target``: distance in bytes from
the instruction to a label. ``csr``: number of a control and status register. ``order``: set of ``iorw`` as
bits 3..0 of a fence.
``rounding``: rounding mode of a float operation; 5 and 6 are reserved.
"""

Kind = Literal[
    "alu",
    "divide",
    "upper",
    "load",
    "store",
    "branch",
    "jal",
    "jalr",
    "float",
    "csr",
    "fence",
    "cache",
    "cache line",
    "wait",
    "fence.i",
    "system",
]
"""The use of an instruction's body; every value is a signed 64-bit integer unless stated.

``alu``, ``divide``: rd = body(x[rs1], b), b = x[rs2], imm or shamt; divisions take longer.
``upper``: rd = body(pc, imm).
``load``: rd = body(raw), raw = the ``width`` bytes at x[rs1] + imm, little endian, unsigned.
``store``: body(rs2) = the unsigned value of the ``width`` bytes written at x[rs1] + imm.
``branch``: body(x[rs1], x[rs2]) is True if pc + target comes next.
``jal``: next pc = body(pc, target); ``jalr``: next pc = body(x[rs1], imm); both set rd = pc + 4.
``float``: rd, flags = body(source registers and rm, as written); an f register counts as its raw 64 bits.
The flags are added to fflags. rm is never DYN here: the mode in frm replaces it.
``csr``: csr = body(old, operand), operand = x[rs1] or zimm, rd = old; see ``Scalar.writes_csr``.
``fence``: completes earlier maintenance of the cache; otherwise without effect in an in-order core.
``cache``, ``cache line``: maintenance of the core's data cache, of all of it or of the 64 bytes that contain
the address x[rs1]; body() = (whether it cleans, whether it invalidates). ``wait``: no effect.
``fence.i``: the program text is fetched again. ``system``: the environment acts. Other bodies are empty.
"""

SEGMENTS: dict[str, tuple[str, FieldKind, str]] = {
    "rd": ("rd", "register", "4:0"),
    "rs1": ("rs1", "register", "4:0"),
    "rs2": ("rs2", "register", "4:0"),
    "imm_i": ("imm", "signed", "11:0"),
    "imm_s_hi": ("imm", "signed", "11:5"),
    "imm_s_lo": ("imm", "signed", "4:0"),
    "imm_b_hi": ("target", "target", "12|10:5"),
    "imm_b_lo": ("target", "target", "4:1|11"),
    "imm_u": ("imm", "unsigned", "19:0"),
    "imm_j": ("target", "target", "20|10:1|11|19:12"),
    "shamt6": ("shamt", "unsigned", "5:0"),
    "shamt5": ("shamt", "unsigned", "4:0"),
    "csr": ("csr", "csr", "11:0"),
    "zimm": ("zimm", "unsigned", "4:0"),
    "fd": ("rd", "float", "4:0"),
    "fs1": ("rs1", "float", "4:0"),
    "fs2": ("rs2", "float", "4:0"),
    "fs3": ("rs3", "float", "4:0"),
    "rm": ("rm", "rounding", "2:0"),
    "pred": ("pred", "order", "3:0"),
    "succ": ("succ", "order", "3:0"),
}
"""Pattern word -> field, kind of its value, and the value bits it carries from left to right.

``imm_u`` is the 20-bit number written in assembly, that is imm[31:12] of the manual.
"""


SCALAR_BYTES = 4
"""The length of a scalar instruction that is not compressed."""

RESERVED_ROUNDING = (5, 6)
"""Codes without a rounding mode; an instruction with one of them is illegal."""


class TableError(Tx8Error):
    """The table of scalar instructions contradicts itself, because of a mistake in a record."""


class EncodingError(Tx8Error):
    """A field value that the instruction cannot hold."""


@dataclass(frozen=True, slots=True)
class Field:
    """A named operand of an encoding.

    ``pieces`` holds (lowest word bit, lowest value bit, width) for each run of bits. A legal value is in
    ``minimum..maximum``, a multiple of ``unit``, and not in ``never``. Zero bits mean ``first``: a field of
    three bits with ``first`` = 8 names x8 to x15. With a ``modulus``, negative values are written modulo that
    number.
    """

    name: str
    kind: FieldKind
    pieces: tuple[tuple[int, int, int], ...]
    minimum: int
    maximum: int
    unit: int
    never: tuple[int, ...] = ()
    first: int = 0
    modulus: int = 0

    def extract(self, word: int) -> int:
        """Value of the field in an instruction word."""
        value = self.first
        for word_bit, value_bit, width in self.pieces:
            value += (word >> word_bit & (1 << width) - 1) << value_bit
        if value > self.maximum:  # only a signed field can hold its sign bit
            value -= 2 * (self.maximum + self.unit)
        return value % self.modulus if self.modulus else value

    def insert(self, value: int) -> int:
        """Word bits that hold ``value``, which must be legal."""
        word = 0
        for word_bit, value_bit, width in self.pieces:
            word |= (value - self.first >> value_bit & (1 << width) - 1) << word_bit
        return word

    def problem(self, value: int) -> str | None:
        """Explain why the field cannot hold ``value``; None when it can."""
        if self.modulus:
            return self._problem_modulo(value)
        if not self.minimum <= value <= self.maximum:
            return f"{self.name} = {value} is outside {self.minimum}..{self.maximum}"
        if value % self.unit:
            return f"{self.name} = {value} is not a multiple of {self.unit}"
        if value in self.never:
            return f"{self.name} = {value} is reserved"
        return None

    def _problem_modulo(self, value: int) -> str | None:
        lowest = self.modulus + self.minimum
        if lowest <= value < self.modulus or (0 <= value <= self.maximum and value not in self.never):
            return None
        least = next(number for number in range(self.maximum) if number not in self.never)
        allowed = f"{least}..{self.maximum} or {lowest:#x}..{self.modulus - 1:#x}"
        return f"{self.name} = {value}, expected {allowed}"


@dataclass(frozen=True, slots=True)
class Encoding:
    """The syntax and encoding of one instruction.

    ``operands`` are the comma-separated operands of ``syntax``; each is a field name, ``imm(rs1)``, or a
    fixed register. ``size`` is its length in bytes.
    """

    mnemonic: str
    syntax: str
    operands: tuple[str, ...]
    pattern: str
    mask: int
    match: int
    fields: tuple[Field, ...]
    example: str
    doc: str
    size: int

    def encode(self, values: Mapping[str, int]) -> int:
        """Encode one value per field; EncodingError names field, value and limits."""
        word = self.match
        for field in self.fields:
            if field.name not in values:
                raise EncodingError(f"{self.mnemonic}: {field.name} is missing; it takes {self.syntax}")
            value = values[field.name]
            problem = field.problem(value)
            if problem:
                raise EncodingError(f"{self.mnemonic}: {problem}")
            word |= field.insert(value)
        if len(values) != len(self.fields):
            unknown = sorted(set(values) - {field.name for field in self.fields})
            raise EncodingError(
                f"{self.mnemonic}: unknown field {', '.join(unknown)}; it takes {self.syntax or 'no operand'}"
            )
        return word

    def decode(self, word: int) -> dict[str, int] | None:
        """Decode the field values of an instruction; None for bytes of another one."""
        if word & self.mask != self.match or word >> 8 * self.size:
            return None
        values = {}
        for field in self.fields:
            value = values[field.name] = field.extract(word)
            if value in field.never:
                return None
        return values

    def field(self, name: str) -> Field:
        """The field called ``name``; KeyError when the encoding has none."""
        for field in self.fields:
            if field.name == name:
                return field
        raise KeyError(name)

    @property
    def omitted(self) -> int | None:
        """The value of the last operand when it is not written; None where it must be."""
        return None


@dataclass(frozen=True, slots=True)
class Scalar(Encoding):
    """One scalar instruction: name, operands as written, encoding and meaning.

    ``width`` is the number of bytes a load or store moves, 0 for every other kind. ``rounding`` is the code
    of the rounding mode when none is written.
    """

    kind: Kind
    width: int
    rounding: int
    body: Callable[..., Any]

    @property
    def omitted(self) -> int | None:
        return self.rounding if self.operands[-1:] == ("rm",) else None

    @property
    def signed(self) -> bool:
        """True when a load extends the sign of the value it reads."""
        return self.kind == "load" and self.body(1 << (8 * self.width - 1)) < 0

    def writes_csr(self, values: Mapping[str, int]) -> bool:
        """Return True if a CSR instruction writes: a set or clear from x0 or immediate 0 does not."""
        if self.kind != "csr":
            return False
        keeps_old = self.body(1, 0) == 1
        return not keeps_old or values.get("rs1", values.get("zimm")) != 0


def scalar(
    syntax: str, pattern: str, *, example: str, kind: Kind = "alu", width: int = 0, rounding: int = 7
) -> Callable[[Callable[..., Any]], Scalar]:
    """Make a record of a body; its docstring is the manual's text.

    ``syntax`` is the mnemonic and its operands as written in assembly; a last ``rm`` may be omitted.
    ``pattern`` is the 32 bits from bit 31 down. TableError when the pattern is not an encoding.
    """
    mnemonic, _, operands = syntax.partition(" ")

    def decorate(body: Callable[..., Any]) -> Scalar:
        mask, match, fields = parse_pattern(mnemonic, pattern)
        return Scalar(
            mnemonic=mnemonic,
            syntax=operands,
            operands=tuple(operands.split(", ")) if operands else (),
            pattern=pattern,
            mask=mask,
            match=match,
            fields=fields,
            example=example,
            doc=body.__doc__ or "",
            size=SCALAR_BYTES,
            kind=kind,
            width=width,
            rounding=rounding,
            body=body,
        )

    return decorate


def parse_pattern(mnemonic: str, pattern: str) -> tuple[int, int, tuple[Field, ...]]:
    """Mask of the fixed bits, their values, and the fields of a pattern."""
    mask = match = 0
    position = 32
    pieces: dict[str, list[tuple[int, int, int]]] = {}
    kinds: dict[str, FieldKind] = {}
    for token in pattern.split():
        if not token.strip("01"):
            position -= len(token)
            mask |= (1 << len(token)) - 1 << max(position, 0)
            match |= int(token, 2) << max(position, 0)
            continue
        if token not in SEGMENTS:
            raise TableError(f"{mnemonic}: '{token}' is neither bits nor one of {' '.join(SEGMENTS)}")
        name, kind, bits = SEGMENTS[token]
        kinds[name] = kind
        for high, low in runs(bits):
            position -= high - low + 1
            pieces.setdefault(name, []).append((position, low, high - low + 1))
    if position != 0:
        raise TableError(f"{mnemonic}: the pattern '{pattern}' has {32 - position} bits, not 32")
    return mask, match, tuple(make_field(mnemonic, name, kinds[name], pieces[name]) for name in pieces)


def runs(bits: str) -> list[tuple[int, int]]:
    """``12|10:5`` -> [(12, 12), (10, 5)]."""
    ends = (run.split(":") for run in bits.split("|"))
    return [(int(end[0]), int(end[-1])) for end in ends]


def make_field(
    mnemonic: str, name: str, kind: FieldKind, pieces: list[tuple[int, int, int]], never: tuple[int, ...] = ()
) -> Field:
    """Make the field of these pieces; TableError when they repeat or omit a bit of the value."""
    carried = sorted(low + i for _, low, width in pieces for i in range(width))
    lowest, above = carried[0], carried[-1] + 1
    if carried != list(range(lowest, above)):
        raise TableError(f"{mnemonic}: the pattern carries bits {carried} of {name}: twice or with a gap")
    signed = kind in ("signed", "target")
    unit = 1 << lowest
    minimum = -(1 << (above - 1)) if signed else 0
    maximum = (1 << (above - signed)) - unit
    if kind == "rounding":
        never = RESERVED_ROUNDING
    return Field(name, kind, tuple(pieces), minimum, maximum, unit, never)
