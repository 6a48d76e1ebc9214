"""One instruction on the memories before it, and conversions between numbers and patterns."""

from __future__ import annotations

from collections.abc import MutableSequence
from dataclasses import dataclass, field
from typing import Any

from emulator.kernels.shared.lfsr import random_bits, step
from tx8isa.numbers.formats import EXPONENT_BITS, MANTISSA_BITS, Format, narrow, widen
from tx8isa.numbers.layouts import element_offset
from tx8isa.records.record import Extent, Instruction
from tx8isa.table.packets import VALID_DATA_BIT

Memory = MutableSequence[int]
Shape = tuple[int, int, int, int]


@dataclass
class Run:
    """One instruction with its operands, on the memories before it."""

    instruction: Instruction
    fmt: Format | None
    values: dict[str, int]
    spm: Memory
    ddr: Memory
    before: bytes
    """The scratchpad before the instruction."""
    random: int
    write_back: MutableSequence[int] = field(default_factory=lambda: [0, 0])
    """Registers wb_data0 and wb_data1 of the worker."""

    @property
    def meaning(self) -> Any:
        return self.instruction.meaning

    @property
    def form(self) -> Format:
        assert self.fmt is not None
        return self.fmt

    def lanes(self, name: str) -> tuple[int, ...]:
        count = len(self.instruction.operand(name).lanes)
        return tuple(self.values[name] >> 16 * (count - 1 - k) & 0xFFFF for k in range(count))

    def shape(self, name: str) -> Shape:
        n, h, w, c = self.lanes(name)
        return n, h, w, c

    def read(self, at: int, size: int) -> int:
        """Unsigned pattern at an address, from before the instruction."""
        return int.from_bytes(self.before[at : at + size], "little")

    def write(self, at: int, pattern: int, size: int) -> None:
        for k, byte in enumerate((pattern & ((1 << 8 * size) - 1)).to_bytes(size, "little")):
            self.spm[at + k] = byte

    def draw(self, mode: int) -> int:
        """52 random bits for a rounding in mode 4; no other mode uses any."""
        if mode != 4:
            return 0
        self.random = step(self.random)
        return random_bits(self.random)

    def put_result(self, position: int, value: int) -> None:
        """Put a value into a write-back register and mark it valid."""
        self.write_back[position] = value | 1 << VALID_DATA_BIT

    def clear(self, name: str) -> None:
        """Zero all bytes of the extent of an operand."""
        extent = self.instruction.operand(name).extent
        assert extent is not None
        for k in range(self.extent_bytes(extent)):
            self.spm[self.values[name] + k] = 0

    def extent_bytes(self, extent: Extent) -> int:
        arguments = []
        for argument in extent.arguments:
            if isinstance(argument, int):
                arguments.append(argument)
            elif argument.startswith("@"):
                arguments.append(self.form.bits)
            else:
                name, _, lane = argument.partition(".")
                names = [entry.name for entry in self.instruction.operand(name).lanes]
                arguments.append(self.lanes(name)[names.index(lane)] if lane else self.values[name])
        return extent.length(*arguments)


def float_of(pattern: int, fmt: Format) -> float:
    """Return the number of a stored pattern; the low bits that TF32 does not use are ignored."""
    unused = fmt.bits - 1 - EXPONENT_BITS[fmt] - MANTISSA_BITS[fmt]
    pattern &= (1 << fmt.bits) - 1
    return widen(pattern >> unused, EXPONENT_BITS[fmt], MANTISSA_BITS[fmt])


def pattern_of(x: float, fmt: Format, mode: int = 0, random: int = 0) -> int:
    """The stored pattern of ``x`` rounded once."""
    unused = fmt.bits - 1 - EXPONENT_BITS[fmt] - MANTISSA_BITS[fmt]
    return narrow(x, EXPONENT_BITS[fmt], MANTISSA_BITS[fmt], mode, random) << unused


def element_at(base: int, shape: Shape, bits: int, index: Shape) -> int:
    """Address of an element of an aligned NHWC tensor."""
    _, h, w, c = shape
    return base + element_offset(h * w, c, bits, index[0], index[1] * w + index[2], index[3])
