"""Places of values that a loop carries from one iteration to the next, or that branches of a condition give.

An integer or a pointer that moves by the same distance in each iteration is a formula of the iteration. Other
numbers for a whole block are in registers, pointers have their first place in one, and data are in a block in
the scratchpad.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from compiler.codegen.expr import Value, Variable, bounds
from compiler.frontend.triton.kernels.core.elements import owned
from compiler.frontend.triton.kernels.integers import add, multiply, uniform
from compiler.frontend.triton.kernels.site import KernelSite
from compiler.frontend.triton.kernels.values import (
    FLOAT_FORMATS,
    INTEGER_FORMATS,
    TRUTH,
    Indices,
    KernelValue,
    Pointers,
    Region,
    Splat,
    SpmBlock,
    UnsupportedOperation,
    range_of,
)
from compiler.frontend.triton.operations import TtirType
from tx8isa.numbers.formats import Format

Source = Value | SpmBlock | Splat | None
"""A value on its way to the place where the next iteration expects it."""


@dataclass(frozen=True)
class Formula:
    """An integer or a pointer that moves by the same distance in each iteration."""

    start: Indices | Pointers
    distance: Indices

    def at(self, turn: Value) -> KernelValue:
        """Return the value at the beginning of an iteration."""
        moved = multiply(self.distance, uniform(turn, self.distance.shape))
        if isinstance(self.start, Pointers):
            return replace(self.start, indices=add(self.start.indices, moved))
        return add(self.start, moved)

    def taken(self, site: KernelSite, value: KernelValue) -> Source:
        """Return None, because the formula gives each new value."""
        return None

    def put(self, site: KernelSite, source: Source) -> None:
        """Do nothing, because a formula has no place."""


@dataclass(frozen=True)
class Register:
    """One number for a whole block: an integer, a truth value, or the first place of pointers."""

    variable: Variable
    like: Indices | Pointers | Region

    def at(self, turn: Value) -> KernelValue:
        """Return the value in the register."""
        if isinstance(self.like, Region):
            return replace(self.like, conditions=((0, self.variable),))
        if isinstance(self.like, Pointers):
            return replace(self.like, indices=replace(self.like.indices, offset=self.variable))
        return replace(self.like, offset=self.variable)

    def taken(self, site: KernelSite, value: KernelValue) -> Source:
        """Return the number of a new value, in a register of its own."""
        number = site.kernel.let(self._number(site, value))
        if isinstance(number, Variable) and number is not self.variable:  # of another place, which may change
            return site.kernel.registers.hold(owned(site.kernel, number), *bounds(number))
        return number

    def _number(self, site: KernelSite, value: KernelValue) -> Value:
        like = self.like
        if isinstance(like, Region):
            return truth_number(site, value)
        if isinstance(like, Pointers):
            same = (
                isinstance(value, Pointers)
                and value.argument == like.argument
                and value.data is like.data
                and value.base is like.base
            )
            if not same or not isinstance(value, Pointers) or value.indices.axes != like.indices.axes:
                raise UnsupportedOperation("pointers that do not move as a whole from turn to turn")
            return value.indices.offset
        if not isinstance(value, Indices) or value.axes != like.axes:
            raise UnsupportedOperation("integers that do not move as a whole from turn to turn")
        return value.offset

    def put(self, site: KernelSite, source: Source) -> None:
        """Change the register."""
        assert isinstance(source, int) or not isinstance(source, SpmBlock | Splat | None)
        site.kernel.registers.assign(self.variable, source)


@dataclass(frozen=True)
class OwnBlock:
    """Data in a block of their own."""

    block: SpmBlock

    def at(self, turn: Value) -> KernelValue:
        """Return the block."""
        return self.block

    def taken(self, site: KernelSite, value: KernelValue) -> Source:
        """Return a new value in the order of the block; None if it is there already."""
        if isinstance(value, SpmBlock) and value.address is self.block.address:
            return None
        return in_order(site, value, self.block)

    def put(self, site: KernelSite, source: Source) -> None:
        """Write it into the block."""
        if isinstance(source, Splat):
            site.blocks.fill(self.block, source.number)
        else:
            assert isinstance(source, SpmBlock)
            site.blocks.copy(self.block, source)


Carried = Formula | Register | OwnBlock


def truth_number(site: KernelSite, value: KernelValue) -> Value:
    """Return a single truth value as 0 or 1."""
    if isinstance(value, SpmBlock):
        return site.core.of_block(value)
    assert isinstance(value, Region)
    if not value.conditions:
        return 1
    flag = site.kernel.registers.counter(0, 0, 1)
    with site.blocks.when(value.conditions):
        site.kernel.registers.assign(flag, 1)
    return flag


def in_order(site: KernelSite, value: KernelValue, home: SpmBlock) -> SpmBlock | Splat:
    """Return a value with all elements of a block, in its order."""
    if isinstance(value, Splat):
        return value
    if isinstance(value, Indices) and value.uniform and isinstance(value.offset, int):
        return Splat(value.offset, home.element, home.shape)
    data = site.blocks.typed(value, home.element)
    if home.element == TRUTH:
        data = site.elements.in_format(data, home.fmt)
    spread = site.blocks.spread(data, home.stored)
    return site.blocks.planes(spread) if home.blocked else site.blocks.compact(spread)


def home_of(site: KernelSite, kind: TtirType, blocked: bool = False) -> SpmBlock:
    """Return a block without content for data of a type."""
    formats = {**FLOAT_FORMATS, **INTEGER_FORMATS, TRUTH: Format.FP32}
    if kind.pointer or kind.element not in formats:
        raise UnsupportedOperation(f"a value of type {kind} that is carried")
    stored = tuple(extent > 1 for extent in kind.shape)
    made = site.blocks.empty(kind.element, formats[kind.element], kind.shape, stored, blocked)
    return replace(made, carried=True)


def register_of(site: KernelSite, kind: TtirType, start: KernelValue | None = None) -> Register:
    """Return a register for a number of a type, or for pointers, which begins with ``start`` or 0."""
    if isinstance(start, Pointers):
        variable = site.kernel.registers.counter(start.indices.offset, *range_of("i64"))
        return Register(variable, start)
    like: Indices | Region = Region() if kind.element == TRUTH else Indices(0)
    begin: Value = 0
    if isinstance(start, Indices):
        begin, like = start.offset, start
    elif start is not None:
        begin = truth_number(site, start)
    return Register(site.kernel.registers.counter(begin, *range_of(kind.element)), like)


def is_number(kind: TtirType) -> bool:
    """Return True if a type is a single integer or truth value."""
    return not kind.shape and not kind.pointer and kind.element not in FLOAT_FORMATS


def empty_place(site: KernelSite, kind: TtirType) -> Carried:
    """Return a place for a value of a type that is not known yet."""
    if kind.pointer:
        raise UnsupportedOperation(f"a result of type {kind} that is not known when compiling")
    return register_of(site, kind) if is_number(kind) else OwnBlock(home_of(site, kind))


def put_all(site: KernelSite, places: Sequence[Carried], values: Sequence[KernelValue]) -> None:
    """Move values to their places in parallel: a place may be read for another before it is written."""
    blocks = site.blocks
    homes = [place.block.address for place in places if isinstance(place, OwnBlock)]
    pairs: list[tuple[Carried, Source]] = []
    for place, value in zip(places, values, strict=True):
        source = place.taken(site, value)
        if isinstance(source, SpmBlock) and any(source.address is address for address in homes):
            source = blocks.copied(source)
        pairs.append((place, source))
    for place, source in pairs:
        if source is not None:
            place.put(site, source)


def settled(values: Sequence[KernelValue]) -> list[KernelValue]:
    """Return values after the loop, which does not overwrite them any more."""
    return [replace(value, carried=False) if isinstance(value, SpmBlock) else value for value in values]
