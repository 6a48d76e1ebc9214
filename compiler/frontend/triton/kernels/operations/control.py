"""Loops and conditions."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.codegen.expr import Value, highest, maximum
from compiler.codegen.writing.branches import exit_unless
from compiler.frontend.triton.kernels.engines.elements import BINARY, UNARY
from compiler.frontend.triton.kernels.integers import add, subtract, sum_before_division, truth_of, uniform
from compiler.frontend.triton.kernels.site import KernelSite
from compiler.frontend.triton.kernels.values import (
    Indices,
    KernelValue,
    Pointers,
    SpmBlock,
    UnsupportedOperation,
    known,
    scalar,
)
from compiler.frontend.triton.operations import Block, TtirOperation, TtirType

from .carried import (
    Carried,
    Formula,
    OwnBlock,
    empty_place,
    home_of,
    is_number,
    put_all,
    register_of,
    settled,
    truth_number,
)
from .integers import as_condition
from .prefetch import Prefetch
from .registry import Values, operation

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
_MOST_TURNS = 1 << 31
"""The most iterations of a loop whose end is not known."""


@operation("scf.for")
def for_loop(site: KernelSite, found: TtirOperation, operands: Values) -> Values:
    """Write scf.for: a loop, unless it has no iteration."""
    lower, upper, step = scalar(operands[0]), scalar(operands[1]), known(operands[2])
    if step < 1:
        raise UnsupportedOperation(f"a step of {step}; allowed are 1 and above")
    (body,), starts = found.regions, operands[3:]
    turns = sum_before_division(maximum(upper - lower, 0), step)
    if highest(turns) == 0:
        return starts
    carried = _LoopValues(site, body, starts)
    turns = site.kernel.let(turns)

    def arguments(turn: Value) -> list[KernelValue]:
        return [Indices(site.kernel.let(lower + turn * step)), *carried.at(turn)]

    ahead = Prefetch(site, body, carried.formulas, turns)
    ahead.begin(arguments)
    with site.kernel.loop(turns) as turn, site.inner():
        ahead.next(arguments, turn)
        homes, site.homes = site.homes, {**site.homes, **carried.wanted}
        ready, site.ready = site.ready, site.ready | ahead.names
        loaded, site.loaded = site.loaded, site.loaded | ahead.loaded
        put_all(site, carried.places, site.run_block(body, arguments(turn)))
        site.locate(found.location)
        site.homes, site.ready, site.loaded = homes, ready, loaded
    return settled(carried.at(turns))


class _LoopValues:
    """The values that a loop carries from one iteration to the next."""

    def __init__(self, site: KernelSite, body: Block, starts: Sequence[KernelValue]) -> None:
        self.site, self.body, self.starts = site, body, starts
        self.names = [name for name, _ in body.parameters[1:]]
        self.kinds = [kind for _, kind in body.parameters[1:]]
        self.yielded = body.operations[-1].operands
        self.makers = {name: each for each in body.operations for name in each.results}
        self.places = [self._place(number) for number in range(len(starts))]

    @property
    def wanted(self) -> dict[str, SpmBlock]:
        """Return the homes of the results that may be written while the iteration is still running."""
        return {
            self.yielded[number]: place.block
            for number, place in enumerate(self.places)
            if isinstance(place, OwnBlock) and self._ready(number)
        }

    @property
    def formulas(self) -> set[str]:
        """Return the names of the values that are formulas of the iteration."""
        pairs = zip(self.names, self.places, strict=True)
        return {name for name, place in pairs if isinstance(place, Formula)}

    def at(self, turn: Value) -> list[KernelValue]:
        """Return the values at the beginning of an iteration."""
        return [place.at(turn) for place in self.places]

    def _place(self, number: int) -> Carried:
        start, kind = self.starts[number], self.kinds[number]
        if isinstance(start, Indices | Pointers):
            distance = self._moved_by(self.yielded[number], self.names[number])
            if distance is not None:
                if not distance.shape and start.shape:
                    distance = uniform(distance.offset, start.shape)
                return Formula(start, distance)
        if isinstance(start, Pointers) or is_number(kind):
            return register_of(self.site, kind, start)
        accumulator = len(kind.shape) == 2 and kind.shape[1] > 64 and self._is_accumulator(self.names[number])
        place = OwnBlock(home_of(self.site, kind, blocked=accumulator))
        source = place.taken(self.site, start)
        if source is not None:
            place.put(self.site, source)
        return place

    # --- formulas -------------------------------------------------------------------------------------------

    def _moved_by(self, name: str, carried: str) -> Indices | None:
        """Return how far a carried integer or pointer moves in each iteration; None if that varies."""
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
        """Return the value of an integer that is the same in each iteration; None for others."""
        site, maker = self.site, self.makers.get(name)
        if name not in site.values:
            if maker is None or maker.name not in _FORMULAS:
                return None
            if any(self._formula(operand) is None for operand in maker.operands):
                return None
            (site.values[name],) = site.evaluate(maker)
        value = site.values[name]
        return value if isinstance(value, Indices) else None

    # --- data -----------------------------------------------------------------------------------------------

    def _is_accumulator(self, name: str) -> bool:
        """Return True if products are added to a carried matrix, perhaps after arithmetic."""
        names = {name}
        for each in self.body.operations:
            if each.name in BINARY and names & set(each.operands):
                names |= set(each.results)
        return any(each.name == "tt.dot" and each.operands[2] in names for each in self.body.operations)

    def _ready(self, number: int) -> bool:
        """Return True if the new value of a carried block may replace the old: nothing reads it later."""
        maker = self.makers.get(self.yielded[number])
        if maker is None or not (maker.name in BINARY or maker.name in UNARY or maker.name == "tt.dot"):
            return False
        if self.yielded.count(self.yielded[number]) > 1:
            return False
        names, at = {self.names[number]}, self.body.operations.index(maker)
        for place, each in enumerate(self.body.operations):
            used = {name for inner in _all(each) for name in inner.operands} & names
            if used and each.name in _VIEWS:
                names |= set(each.results)
            elif used and place > at:
                return False
        return maker.name != "tt.dot" or not names & set(maker.operands[:2])


def _all(found: TtirOperation) -> list[TtirOperation]:
    return [found, *(inner for region in found.regions for inner in region.walk())]


# --- loops without a known end ------------------------------------------------------------------------------


@operation("scf.while")
def while_loop(site: KernelSite, found: TtirOperation, operands: Values) -> Values:
    """Write scf.while: one region decides whether the loop continues and with which values, the other uses
    them."""
    before, after = found.regions
    kinds = [kind for _, kind in before.parameters]
    places = [_place_of(site, kind, start) for kind, start in zip(kinds, operands, strict=True)]
    names, passed = [name for name, _ in before.parameters], before.operations[-1].operands[1:]
    results = [
        places[names.index(name)] if name in names else empty_place(site, kind)
        for name, (_, kind) in zip(passed, after.parameters, strict=True)
    ]
    end = f"{site.kernel.prefix}.end{len(site.kernel.spm.loops)}"
    with site.kernel.loop(_MOST_TURNS) as turn, site.inner():
        goes_on, *values = site.run_block(before, [place.at(turn) for place in places])
        own = [name not in names for name in passed]
        put_all(
            site,
            [place for place, moved in zip(results, own, strict=True) if moved],
            [value for value, moved in zip(values, own, strict=True) if moved],
        )
        for smaller, larger in as_condition(site, goes_on).conditions:
            exit_unless(site.kernel.registers, smaller, larger, end)
        put_all(site, places, site.run_block(after, [place.at(turn) for place in results]))
    return settled([place.at(0) for place in results])


def _place_of(site: KernelSite, kind: TtirType, start: KernelValue) -> Carried:
    """Return a place that begins with a value."""
    if isinstance(start, Pointers) or is_number(kind):
        return register_of(site, kind, start)
    place = OwnBlock(home_of(site, kind))
    source = place.taken(site, start)
    assert source is not None
    place.put(site, source)
    return place


# --- conditions ---------------------------------------------------------------------------------------------


@operation("scf.if")
def condition(site: KernelSite, found: TtirOperation, operands: Values) -> Values:
    """Write scf.if: the taken branch, if it is known; else both, each under its condition."""
    region = as_condition(site, operands[0])
    then, *other = found.regions
    truth = truth_of(region)
    if truth is not None:
        branches = [then] if truth else other
        return [value for branch in branches for value in site.run_block(branch, ())]
    conditions = region.conditions
    if other and len(conditions) > 1:
        conditions = ((0, truth_number(site, region)),)
    places = [empty_place(site, kind) for kind in found.types]
    with site.blocks.when(conditions):
        _branch(site, then, places)
    if other:
        ((smaller, larger),) = conditions
        with site.blocks.when([(larger, smaller + 1)]):
            _branch(site, other[0], places)
    return settled([place.at(0) for place in places])


def _branch(site: KernelSite, block: Block, places: Sequence[Carried]) -> None:
    with site.inner():
        put_all(site, places, site.run_block(block, ()))
