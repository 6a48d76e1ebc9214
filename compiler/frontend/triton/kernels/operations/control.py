"""Loops and conditions.

What a loop carries is a formula of the turn if it is an integer or a pointer that moves by the same distance
in each, and a block in the scratchpad if it is data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from compiler.codegen.expr import Value, highest, maximum
from compiler.frontend.triton.operations import Block, TtirOperation, TtirType

from compiler.frontend.triton.kernels.engines.elements import BINARY, UNARY
from compiler.frontend.triton.kernels.integers import add, multiply, subtract, sum_before_division, truth_of, uniform
from compiler.frontend.triton.kernels.site import KernelSite
from compiler.frontend.triton.kernels.values import (
    FLOAT_FORMATS,
    Indices,
    KernelValue,
    Pointers,
    Region,
    Splat,
    SpmBlock,
    UnsupportedOperation,
    known,
    scalar,
)

_VIEWS = (
    "tt.splat",
    "tt.expand_dims",
    "tt.broadcast",
    "tt.reshape",
    "tt.trans",
    "arith.extf",
    "arith.truncf",
)
"""Operations whose result may be the bytes of their operand."""
_FORMULAS = (
    *("arith.constant", "arith.addi", "arith.subi", "arith.muli", "tt.splat", "tt.broadcast"),
    *("tt.expand_dims", "tt.make_range", "arith.extsi", "arith.trunci", "arith.index_cast"),
)
"""Operations that write no code for integers."""


def for_loop(site: KernelSite, operation: TtirOperation, operands: list[KernelValue]) -> list[KernelValue]:
    """scf.for: a loop, unless it has one turn or none."""
    lower, upper, step = scalar(operands[0]), scalar(operands[1]), known(operands[2])
    if step < 1:
        raise UnsupportedOperation(f"a step of {step}; allowed are 1 and above")
    (body,), starts = operation.regions, operands[3:]
    turns = sum_before_division(maximum(upper - lower, 0), step)
    if highest(turns) == 0:
        return starts
    carried = _Carried(site, body, starts)
    turns = site.kernel.let(turns)
    with site.kernel.loop(turns) as turn:
        before = dict(site.values)
        arguments = [Indices(site.kernel.let(lower + turn * step)), *carried.at(turn)]
        homes, site.homes = site.homes, {**site.homes, **carried.wanted}
        carried.take(site.run_block(body, arguments))
        site.values, site.homes = before, homes
    return carried.at(turns)


class _Carried:
    """The values that a loop carries from one turn to the next."""

    def __init__(self, site: KernelSite, body: Block, starts: Sequence[KernelValue]) -> None:
        self.site, self.body, self.starts = site, body, starts
        self.names = [name for name, _ in body.parameters[1:]]
        self.yielded = body.operations[-1].operands
        self.makers = {name: each for each in body.operations for name in each.results}
        self.distances = [self._distance(place) for place in range(len(starts))]
        self.homes = [self._home(place) for place in range(len(starts))]

    @property
    def wanted(self) -> dict[str, SpmBlock]:
        """The homes of those results that may be written while the turn still goes on."""
        places = [place for place, home in enumerate(self.homes) if home and self._ready(place)]
        return {self.yielded[place]: home for place in places if (home := self.homes[place])}

    def at(self, turn: Value) -> list[KernelValue]:
        """The values at the beginning of a turn."""
        found: list[KernelValue] = []
        for start, distance, home in zip(self.starts, self.distances, self.homes, strict=True):
            if home is not None:
                found.append(home)
            else:
                assert distance is not None
                found.append(_moved(start, multiply(distance, uniform(turn, distance.shape))))
        return found

    def take(self, values: Sequence[KernelValue]) -> None:
        """Bring what a turn yields to where the next one expects it."""
        blocks, homes = self.site.blocks, [home.address for home in self.homes if home]
        pairs: list[tuple[SpmBlock, SpmBlock | Splat]] = []
        for home, value in zip(self.homes, values, strict=True):
            if home is None or (isinstance(value, SpmBlock) and value.address is home.address):
                continue
            source = value if isinstance(value, Splat) else _in_order(self.site, value, home)
            if isinstance(source, SpmBlock) and any(source.address is address for address in homes):
                copied = blocks.empty(home.element, home.fmt, home.shape, home.stored, home.blocked)
                blocks.copy(copied, source)
                source = copied
            pairs.append((home, source))
        for home, source in pairs:
            put(self.site, home, source)

    # --- formulas -----------------------------------------------------------------------------------------

    def _distance(self, place: int) -> Indices | None:
        """How far a carried integer or pointer moves in each turn; None for data."""
        start = self.starts[place]
        if not isinstance(start, Indices | Pointers):
            return None
        found = self._moved_by(self.yielded[place], self.names[place])
        if found is None:
            raise UnsupportedOperation(
                f"the carried value %{self.names[place]} must move by the same distance in each turn"
            )
        if not found.shape and start.shape:
            return uniform(found.offset, start.shape)
        return found

    def _moved_by(self, name: str, carried: str) -> Indices | None:
        if name == carried:
            return uniform(0)
        maker = self.makers.get(name)
        if maker is None or maker.name not in ("tt.addptr", "arith.addi", "arith.subi"):
            return None
        base, offset = maker.operands
        before, change = self._moved_by(base, carried), self._formula(offset)
        if before is None and maker.name == "arith.addi":
            before, change = self._moved_by(offset, carried), self._formula(base)
        if before is None or change is None:
            return None
        before = uniform(before.offset, change.shape) if not before.shape else before
        return subtract(before, change) if maker.name == "arith.subi" else add(before, change)

    def _formula(self, name: str) -> Indices | None:
        """The value of an integer that is the same in each turn; None for others."""
        site, maker = self.site, self.makers.get(name)
        if name not in site.values:
            if maker is None or maker.name not in _FORMULAS:
                return None
            if any(self._formula(operand) is None for operand in maker.operands):
                return None
            (site.values[name],) = site.evaluate(maker)
        value = site.values[name]
        return value if isinstance(value, Indices) else None

    # --- data ---------------------------------------------------------------------------------------------

    def _home(self, place: int) -> SpmBlock | None:
        """A block with the start of carried data, which stays where it is."""
        start = self.starts[place]
        if isinstance(start, Indices | Pointers):
            return None
        if isinstance(start, Region) or start.element not in FLOAT_FORMATS:
            raise UnsupportedOperation("a loop carries floats, and integers and pointers that move evenly")
        fmt, shape = FLOAT_FORMATS[start.element], start.shape
        stored = tuple(extent > 1 for extent in shape)
        blocked = len(shape) == 2 and shape[1] > 64 and self._is_accumulator(self.names[place])
        home = self.site.blocks.empty(start.element, fmt, shape, stored, blocked)
        put(self.site, home, start if isinstance(start, Splat) else _in_order(self.site, start, home))
        return home

    def _is_accumulator(self, name: str) -> bool:
        return any(each.name == "tt.dot" and each.operands[2] == name for each in self.body.operations)

    def _ready(self, place: int) -> bool:
        """Whether the new value of a carried block may overwrite the old one: no later operation reads it."""
        maker = self.makers.get(self.yielded[place])
        if maker is None or not (maker.name in BINARY or maker.name in UNARY or maker.name == "tt.dot"):
            return False
        if self.yielded.count(self.yielded[place]) > 1:
            return False
        names, at = {self.names[place]}, self.body.operations.index(maker)
        for number, operation in enumerate(self.body.operations):
            used = {name for each in _all(operation) for name in each.operands} & names
            if used and operation.name in _VIEWS:
                names |= set(operation.results)
            elif used and number > at:
                return False
        return maker.name != "tt.dot" or not names & set(maker.operands[:2])


def _all(operation: TtirOperation) -> list[TtirOperation]:
    return [operation, *(inner for region in operation.regions for inner in region.walk())]


def _moved(start: KernelValue, distance: Indices) -> KernelValue:
    if isinstance(start, Pointers):
        return replace(start, indices=add(start.indices, distance))
    assert isinstance(start, Indices)
    return add(start, distance)


def _in_order(site: KernelSite, value: KernelValue, home: SpmBlock) -> SpmBlock:
    """A value with all elements of a block, in its order."""
    return site.blocks.planes(site.blocks.data(value)) if home.blocked else site.blocks.full(value)


def put(site: KernelSite, home: SpmBlock, value: SpmBlock | Splat) -> None:
    """Write a value into a block of its extents and order."""
    if isinstance(value, Splat):
        site.blocks.fill(home, value.number)
    else:
        site.blocks.copy(home, value)


def condition(site: KernelSite, operation: TtirOperation, operands: list[KernelValue]) -> list[KernelValue]:
    """scf.if: the branch that is taken, if that is known; else both, each under its condition."""
    (region,) = operands
    if not isinstance(region, Region) or region.shape:
        raise UnsupportedOperation("a condition must compare integers that are no data")
    then, *other = operation.regions
    truth = truth_of(region)
    if truth is not None:
        branches = [then] if truth else other
        return [value for branch in branches for value in site.run_block(branch, ())]
    if other and len(region.conditions) > 1:
        raise UnsupportedOperation("a condition of several comparisons with an else branch")
    homes = [_result_home(site, kind) for kind in operation.types]
    with site.blocks.when(region.conditions):
        _branch(site, then, homes)
    if other:
        ((smaller, larger),) = region.conditions
        with site.blocks.when([(larger, smaller + 1)]):
            _branch(site, other[0], homes)
    return list(homes)


def _result_home(site: KernelSite, kind: TtirType) -> SpmBlock:
    if kind.pointer or kind.element not in FLOAT_FORMATS:
        raise UnsupportedOperation(f"a result of type {kind} of a condition that is not known when compiling")
    stored = tuple(extent > 1 for extent in kind.shape)
    return site.blocks.empty(kind.element, FLOAT_FORMATS[kind.element], kind.shape, stored)


def _branch(site: KernelSite, block: Block, homes: Sequence[SpmBlock]) -> None:
    before = dict(site.values)
    values = site.run_block(block, ())
    for home, value in zip(homes, values, strict=True):
        put(site, home, value if isinstance(value, Splat) else _in_order(site, value, home))
    site.values = before
