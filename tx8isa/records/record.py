"""One record per engine instruction: operands, encoding, extents, rules and meaning.

A record is all that the project knows about an instruction. The assembler's syntax and diagnostics, the
encoding, the disassembler, the range checks, the kernels, the slow reference and the manual are derived
from it. Records are written in ``tx8isa/insns``; ``table/registry.py`` loads and proves them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum, IntEnum
from typing import Any

from tx8isa.numbers.formats import Format
from tx8isa.numbers.limits import LANE_BITS


class Engine(IntEnum):
    """Engines, with their codes in ``inter_type`` (docs/isa.md, Packet fields, spec)."""

    CT = 0
    NE = 1
    RDMA = 2
    WDMA = 3
    TDMA = 4
    SCALAR = 5
    DTE = 6
    NCC = 7


class Work(Enum):
    """Kinds of elementwise work, each with its own speed of the vector engine (``tx8isa/cost``)."""

    ARITHMETIC = "arithmetic"
    DIVISION = "division"
    EXPONENTIAL = "exponential"
    EXPONENTIAL_LP = "exponential_lp"
    TRANSCENDENTAL = "transcendental"


@dataclass(frozen=True, slots=True)
class Extent:
    """The bytes that an address operand touches, counted from its base.

    ``length`` is a plain integer function. Each of ``arguments`` is an operand (``"n"``), one lane of a
    packed operand (``"shape.c"``), the storage bits of the instruction's format (``"@format"``) or of the
    format in another operand (``"@out_format"``), or a constant. A length of 0 means that nothing is touched.
    """

    length: Callable[..., int]
    arguments: tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Lane:
    """One 16-bit lane, highest lane first (docs/isa.md, Packed operands and ranges, spec)."""

    name: str
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Operand:
    """One field of an instruction.

    ``words`` 0: bits ``at`` .. ``at+width-1`` of the control word, always an immediate; 1 or 2: an operand
    word or pair of its own, an immediate or (its bit in the register mask set) the number of an x register.
    """

    name: str
    field: str
    """The packet field it fills (docs/isa.md, Packet fields)."""
    words: int
    width: int
    """Bits a value may occupy; higher bits are unclaimed."""
    low: int
    high: int
    at: int = 0
    default: int | str | None = None
    """Value when the text does not name the operand, or the operand whose value it takes; None: required."""
    choices: tuple[tuple[str, int], ...] = ()
    """Spellings of the legal values, when they have names."""
    lanes: tuple[Lane, ...] = ()
    memory: str = ""
    """``spm``, ``ddr`` or ``any`` for an address operand."""
    role: str = ""
    """``read``, ``write`` or ``update`` for an address operand."""
    extent: Extent | None = None
    scalar: bool = False
    """Raw bits of one element of the instruction's format; text may give a decimal fraction."""
    switched_by: str = ""
    """Name of a hidden one-bit operand that is 1 exactly when the text names this operand."""
    hidden: bool = False
    """Set by the assembler through ``switched_by``; not part of the text."""

    @property
    def is_address(self) -> bool:
        return bool(self.memory)

    def lane_shift(self, name: str) -> int:
        """The lowest bit of a lane in the word of a packed operand; ValueError when it has no such lane."""
        position = [lane.name for lane in self.lanes].index(name)
        return LANE_BITS * (len(self.lanes) - 1 - position)


@dataclass(frozen=True, slots=True)
class Rule:
    """A condition between operands. The docstring of ``holds`` is the manual's row and the error text."""

    holds: Callable[..., bool]
    arguments: tuple[str | int, ...]

    @property
    def text(self) -> str:
        return " ".join((self.holds.__doc__ or "").split())


@dataclass(frozen=True, slots=True)
class Instruction:
    """The record of one engine instruction."""

    engine: Engine
    opcode: int
    mnemonic: str
    """Without the format suffix: ``ct.add.vv``."""
    operands: tuple[Operand, ...]
    """In the order of their words; kernels number operands by their position here."""
    formats: tuple[Format, ...]
    """Legal format suffixes; empty when the mnemonic takes none."""
    meaning: Any
    """One of the classes of ``meaning.py``."""
    doc: str
    example: str
    evidence: str
    rules: tuple[Rule, ...] = ()
    work: Work = Work.ARITHMETIC
    """The kind of work of an elementwise function; for other meanings their class decides."""
    shunned: str = ""
    """The reason why programs for a card avoid it; empty for instructions that work."""
    module: str = ""
    """The file of ``insns`` that has the record, as ``ct.arith``; ``register`` fills it in."""

    def operand(self, name: str) -> Operand:
        """The operand spelt ``name``; KeyError when there is none."""
        return self.operands[self.index(name)]

    def index(self, name: str) -> int:
        for position, operand in enumerate(self.operands):
            if operand.name == name:
                return position
        raise KeyError(f"{self.mnemonic} has no operand '{name}'")

    @property
    def visible(self) -> tuple[Operand, ...]:
        """Operands that the text names, except the format, which is a suffix of the mnemonic."""
        return tuple(o for o in self.operands if not o.hidden and o.name != "format")

    @property
    def word_operands(self) -> tuple[Operand, ...]:
        return tuple(o for o in self.operands if o.words)


_registry: dict[str, Instruction] = {}


def register(instruction: Instruction, module: str) -> None:
    """Add a record of a module (its ``__name__``); a mnemonic can be taken once."""
    if instruction.mnemonic in _registry:
        raise ValueError(f"instruction {instruction.mnemonic} is defined twice")
    _registry[instruction.mnemonic] = replace(instruction, module=module.partition(".insns.")[2])


def registered() -> tuple[Instruction, ...]:
    """The records added so far; ``registry.instructions`` loads all of them first."""
    return tuple(_registry.values())
