"""The encoding of engine instructions, which are wide, in the instruction stream.

    word 0   [6:0] 1111111, [11:7] engine, [14:12] 111, [22:15] opcode, [28:23] words in all, [30:29] worker
    word 1   bit i: the i-th operand word below holds the number of an x register instead of a value
    word 2   control word: the operands with ``words == 0`` at their ``at``
    then     one or two words per operand, low word first; at least 6 words in all, the rest zero

Low seven bits 1111111 with bits 14:12 = 111 are RISC-V's reserved space for instructions of 192 bits and
more. Bits that no operand claims must be zero; otherwise the instruction is illegal.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from operator import itemgetter

from tx8isa.numbers.formats import STORAGE_BITS, Format
from tx8isa.numbers.limits import LANE_BITS, LANE_MASK
from tx8isa.records.record import Engine, Instruction, Operand

from .registry import instructions

MARK = 0x707F
"""The bits of word 0 that mark a wide instruction; all of them are set."""
MIN_WORDS = 6
WORKERS = 3
_HEADER_CLAIMED = 0x7FFFFFFF


@dataclass(frozen=True, slots=True)
class IllegalBytes:
    """The reason why bytes are not an instruction."""

    reason: str


@dataclass(frozen=True, slots=True)
class DecodedInstruction:
    """A decoded wide instruction: ``values[i]`` belongs to ``instruction.operands[i]``.

    ``registers`` has bit i set when ``values[i]`` is the number of an x register.
    """

    instruction: Instruction
    values: tuple[int, ...]
    registers: int
    worker: int
    size: int

    @property
    def format(self) -> Format | None:
        if not self.instruction.formats:
            return None
        return Format(self.values[self.instruction.index("format")])


class Encoder:
    """The bit layout of one record, computed once."""

    def __init__(self, instruction: Instruction) -> None:
        self.instruction = instruction
        self.control = tuple((i, o) for i, o in enumerate(instruction.operands) if not o.words)
        self.words = tuple((i, o) for i, o in enumerate(instruction.operands) if o.words)
        used = 3 + sum(o.words for _, o in self.words)
        self.length = max(MIN_WORDS, used)
        self.size = 4 * self.length
        layout = "<III" + "".join("IQ"[o.words - 1] for _, o in self.words) + "I" * (self.length - used)
        self.struct = struct.Struct(layout)
        self._padding = (0,) * (self.length - used)
        self.header = (
            MARK | instruction.engine << 7 | instruction.opcode << 15 | self.length << 23
        )  # worker 0

    def encode(self, values: tuple[int, ...] | list[int], registers: int = 0, worker: int = 0) -> bytes:
        """Bytes of one instruction; values must be legal (``value_error``)."""
        control = 0
        for i, operand in self.control:
            control |= values[i] << operand.at
        mask = 0
        for position, (i, _) in enumerate(self.words):
            if registers >> i & 1:
                mask |= 1 << position
        words = [values[i] for i, _ in self.words]
        return self.struct.pack(self.header | worker << 29, mask, control, *words, *self._padding)

    def decode(self, data: bytes | memoryview, offset: int) -> DecodedInstruction | IllegalBytes:
        """Decode ``size`` bytes at ``offset`` whose header word is this record's."""
        if len(data) - offset < self.size:
            return IllegalBytes(f"{self.instruction.mnemonic} cut off: {self.size} bytes needed")
        header, mask, control, *rest = self.struct.unpack_from(data, offset)
        if mask >> len(self.words):
            name = self.instruction.mnemonic
            return IllegalBytes(f"register mask 0x{mask:08x} marks operands that {name} lacks")
        values = [0] * len(self.instruction.operands)
        claimed = 0
        for i, operand in self.control:
            values[i] = control >> operand.at & ((1 << operand.width) - 1)
            claimed |= ((1 << operand.width) - 1) << operand.at
        if control & ~claimed:
            return IllegalBytes(f"unclaimed bits 0x{control & ~claimed:08x} are set in the control word")
        registers = 0
        for position, (i, operand) in enumerate(self.words):
            values[i] = rest[position]
            if mask >> position & 1:
                registers |= 1 << i
            limit = 31 if mask >> position & 1 else (1 << operand.width) - 1
            if values[i] > limit:
                return IllegalBytes(f"unclaimed bits are set in operand '{operand.name}': 0x{values[i]:x}")
        if any(rest[len(self.words) :]):
            return IllegalBytes("unclaimed bits are set in the padding words")
        return self._checked(values, registers, header >> 29 & 3)

    def _checked(self, values: list[int], registers: int, worker: int) -> DecodedInstruction | IllegalBytes:
        for i, operand in enumerate(self.instruction.operands):
            error = None if registers >> i & 1 else value_error(operand, values[i])
            if error:
                return IllegalBytes(f"operand '{operand.name}': {error}")
        return DecodedInstruction(self.instruction, tuple(values), registers, worker, self.size)


@cache
def encoder(instruction: Instruction) -> Encoder:
    """The encoder of a record."""
    return Encoder(instruction)


@cache
def _by_code() -> dict[tuple[int, int], Encoder]:
    return {(i.engine, i.opcode): encoder(i) for i in instructions()}


def is_wide(word: int) -> bool:
    """Return True if a header word starts a wide instruction."""
    return word & MARK == MARK


def decode(data: bytes | memoryview, offset: int = 0) -> DecodedInstruction | IllegalBytes:
    """Decode the wide instruction at ``offset``; returns the reason if there is none."""
    if len(data) - offset < 4:
        return IllegalBytes("cut off: fewer than 4 bytes")
    (header,) = struct.unpack_from("<I", data, offset)
    if not is_wide(header):
        return IllegalBytes(f"0x{header:08x} is not the header of a wide instruction")
    engine, opcode = header >> 7 & 31, header >> 15 & 255
    found = _by_code().get((engine, opcode))
    if found is None:
        name = Engine(engine).name if engine < len(Engine) else str(engine)
        return IllegalBytes(f"engine {name} has no opcode {opcode}")
    if header >> 23 & 63 != found.length:
        return IllegalBytes(
            f"{found.instruction.mnemonic} has {found.length} words, the header says {header >> 23 & 63}"
        )
    if header & ~_HEADER_CLAIMED or header >> 29 & 3 >= WORKERS:
        return IllegalBytes(f"unclaimed bits are set in the header word 0x{header:08x}")
    return found.decode(data, offset)


def value_error(operand: Operand, value: int) -> str | None:
    """Explain why ``value`` is illegal for ``operand``, with the allowed values; None for a legal one."""
    if operand.choices:
        if any(value == code for _, code in operand.choices):
            return None
        names = " ".join(name for name, _ in operand.choices)
        return f"{value} is not one of {names}"
    if not operand.low <= value <= operand.high:
        return f"{value} is outside {operand.low}..{operand.high}"
    if operand.lanes and (value or operand.default != 0):
        for lane, part in zip(operand.lanes, unpack_lanes(operand, value), strict=True):
            if not lane.low <= part <= lane.high:
                return f"{lane.name} = {part} is outside {lane.low}..{lane.high}"
    return None


def pack_lanes(parts: tuple[int, ...] | list[int]) -> int:
    """Pack 16-bit numbers into one word, the first in the highest lane."""
    value = 0
    for part in parts:
        value = value << LANE_BITS | part
    return value


def unpack_lanes(operand: Operand, value: int) -> tuple[int, ...]:
    """The 16-bit numbers of a packed operand, first (highest) lane first."""
    return tuple(value >> operand.lane_shift(lane.name) & LANE_MASK for lane in operand.lanes)


def argument_values(
    instruction: Instruction, arguments: tuple[str | int, ...], values: tuple[int, ...] | list[int]
) -> list[int]:
    """The values of the arguments of an Extent or Rule for these operand values."""
    return [read(values) for read in argument_readers(instruction, arguments)]


ArgumentReader = Callable[[Sequence[int]], int]
"""Maps the values of the operands to the value of an argument."""


def argument_readers(
    instruction: Instruction, arguments: Sequence[str | int | tuple[int, ...]]
) -> list[ArgumentReader]:
    """Make a reader for each argument of an Extent, Rule or cost; tuples are indexed by format."""
    return [_reader(instruction, argument) for argument in arguments]


def _reader(instruction: Instruction, argument: str | int | tuple[int, ...]) -> ArgumentReader:
    if isinstance(argument, int):
        return lambda values: argument
    if isinstance(argument, tuple):
        by_format = instruction.index("format")
        return lambda values: argument[values[by_format]]
    if argument.startswith("@"):
        of_format = instruction.index(argument[1:])
        return lambda values: STORAGE_BITS[values[of_format]]
    name, _, lane = argument.partition(".")
    index = instruction.index(name)
    if not lane:
        return itemgetter(index)
    shift = instruction.operands[index].lane_shift(lane)
    return lambda values: values[index] >> shift & LANE_MASK
