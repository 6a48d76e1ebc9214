"""One executed instruction, its operands as places and elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import batch_bytes, block_channels, full_blocks, tail_width
from tx8isa.numbers.packing import stored_numbers
from tx8isa.numbers.prime_field import Elements, PrimeField
from tx8isa.records.record import Instruction
from tx8isa.table.encoding import argument_values, unpack_lanes

from .memory import FieldMemory, Places

Shape = tuple[int, int, int, int]
Functions = Mapping[bytes, Callable[[Elements], Elements]]
"""Functions of elements, by the bytes of the tables that hold them."""


class NotFollowed(Exception):
    """Raised for an instruction without a meaning in the field; the text names its function."""


@dataclass
class FieldStep:
    """An instruction with its operand values, before it is executed; DDR addresses are offsets."""

    instruction: Instruction
    fmt: Format | None
    values: Mapping[str, int]
    spm: FieldMemory
    ddr: FieldMemory
    field: PrimeField
    functions: Functions
    finds: bool = False
    """True if real numbers decide relations, because the graph only finds and moves."""
    decided: bool = False
    """True if they have decided a relation of elements."""
    written: Elements | None = None
    """Its results; None if it computes nothing or literals."""
    computed: tuple[Places, Elements, Format] | None = None
    """Places, elements and format of its results, if all of its operands are literals."""

    @property
    def meaning(self) -> Any:
        return self.instruction.meaning

    @property
    def form(self) -> Format:
        assert self.fmt is not None
        return self.fmt

    @property
    def size(self) -> int:
        """Bytes of an element of its format."""
        return self.form.bits // 8

    def lanes(self, name: str) -> tuple[int, ...]:
        return unpack_lanes(self.instruction.operand(name), self.values[name])

    def shape(self, name: str) -> Shape:
        n, h, w, c = self.lanes(name)
        return n, h, w, c

    def length(self, name: str) -> int:
        """Return the bytes of the memory that an operand takes."""
        extent = self.instruction.operand(name).extent
        assert extent is not None, "it is an address"
        arguments = argument_values(self.instruction, extent.arguments, list(self.values.values()))
        return extent.length(*arguments)

    def vector(self, name: str, count: int, size: int | None = None) -> Places:
        """Return the places of consecutive elements."""
        return self.values[name] + np.arange(count) * (self.size if size is None else size)

    def tensor(self, name: str, shape: Shape, fmt: Format | None = None) -> Places:
        """Return the places of an aligned NHWC tensor, in its shape."""
        n, h, w, c = shape
        bits = (self.form if fmt is None else fmt).bits
        return (self.values[name] + aligned(n, h * w, c, bits)).reshape(shape)

    def scalar(self, name: str) -> Elements:
        """Return an immediate number as an element [residues, 1]."""
        pattern = np.array([self.values[name] & (1 << self.form.bits) - 1])
        return self.field.of_scalars(stored_numbers(pattern, self.form), self.form)

    def literal(self, *operands: Places) -> bool:
        """True if no operand has an element, so that the bytes of the result suffice."""
        return not any(map(self.spm.has_elements, operands))

    def read(self, places: Places, fmt: Format | None = None) -> Elements:
        return self.spm.read(places, self.form if fmt is None else fmt)

    def write(self, places: Places, elements: Elements, fmt: Format | None = None) -> None:
        self.written = elements
        self.spm.write(places, self.form if fmt is None else fmt, elements)


@lru_cache(maxsize=64)
def aligned(batches: int, positions: int, channels: int, bits: int) -> Places:
    """Offsets [batches, positions, channels] in aligned tensors: ``layouts.element_offset`` of arrays."""
    block, size = block_channels(bits), bits // 8
    full, tail = full_blocks(channels, block), tail_width(channels, block)
    channel = np.arange(channels)
    number = channel // block
    width = np.where(number < full, block, tail)
    start = number * positions * block + channel - number * block
    within = start + np.arange(positions).reshape(-1, 1) * width
    found: Places = np.arange(batches).reshape(-1, 1, 1) * batch_bytes(positions, channels, bits)
    found = found + within * size
    found.flags.writeable = False
    return found
