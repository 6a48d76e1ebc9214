"""Proves the order of a program: at every size of its ranges no two unordered accesses share bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import product

import numpy as np

from asm.image import Dimension
from emulator.memory import shapes
from emulator.memory.buffers import Array, travel_dtype
from emulator.program import Program
from emulator.tile.fault import Fault, FaultKind
from emulator.watch.order.findings import OrderFindings
from emulator.watch.order.observer import UnknownOrder
from emulator.watch.strict.hazards import Hazard, grouped
from tx8isa.errors import Tx8Error
from tx8isa.tools.command_line import one_line

Progress = Callable[[int, int], None]
"""Called with the number of sizes that are judged, and with that of all."""


@dataclass(frozen=True)
class OrderProof:
    """What is proved of the order of a program's accesses."""

    ranges: Mapping[str, tuple[int, int]]
    """The least and the largest size of each dimension that was judged."""
    sizes: int
    """Sizes that were judged: all of the ranges, or those up to the first with a hazard."""
    accesses: int
    """The most accesses at a size."""
    hazards: tuple[Hazard, ...] = ()
    """Pairs of accesses that nothing orders, at the sizes ``at``."""
    at: Mapping[str, int] | None = None
    confirmed: bool = False
    """True if ``--strict`` finds one of these pairs in a run at the sizes."""
    reserves: tuple[str, ...] = ()
    """Numbers on which accesses may depend: the proof is for those of the run."""
    undecided: tuple[str, ...] = ()
    """Why nothing is proved at some size."""

    @property
    def holds(self) -> bool:
        """Return True if the order of all accesses is proved, with the reserves."""
        return not self.hazards and not self.undecided

    def lines(self) -> Iterator[str]:
        """Yield the findings as lines for people."""
        if self.holds:
            parts = " ".join(f"{name}={least}:{most}" for name, (least, most) in self.ranges.items())
            where = f" at all {self.sizes:,} sizes of {parts}" if parts else ""
            yield f"order proved{where}: {'up to ' if parts else ''}{self.accesses:,} accesses"
        for hazard, tiles in grouped(self.hazards):
            again = f" (the same on {len(tiles)} more tiles)" if tiles else ""
            seen = "found by --strict, too" if self.confirmed else "--strict does not find it"
            yield one_line(f"order WRONG{_point(self.at or {})}: {hazard.text}{again}; {seen}")
        yield from (one_line(f"order open{reason}") for reason in self.undecided)
        yield from (one_line(f"but for {reserve}") for reserve in self.reserves)

    def __str__(self) -> str:
        return "\n".join(self.lines())


def _point(sizes: Mapping[str, int]) -> str:
    return f" at {', '.join(f'{name}={size}' for name, size in sizes.items())}" if sizes else ""


def prove_order(
    program: Program, sizes: Mapping[str, int] | None = None, progress: Progress | None = None
) -> OrderProof:
    """Judge the order of a program's accesses at every size, or at those with the given ``sizes``.

    Engines and copies compute and move nothing, so that the proof holds for all numbers, except those that
    the kernel cores read: inputs are 0. The proof ends at the first size with a hazard. Tx8Error for
    programs of several chips or entries, and for sizes out of range.
    """
    if program.chips > 1:
        raise Tx8Error(f"the program runs on {program.chips} chips; --prove-order takes programs of one")
    points = list(_points(program, sizes or {}))
    names = points[0].keys()
    ranges = {name: (min(p[name] for p in points), max(p[name] for p in points)) for name in names}
    run, undecided, reserves, most = _Runs(program), dict[str, str](), set[str](), 0
    for number, point in enumerate(points, 1):
        found, why = run.at(point)
        most, reserves = max(most, found.accesses), reserves | run.reserves(found)
        if found.hazards:
            confirmed = run.confirms(point, found.hazards)
            kept = tuple(sorted(reserves))
            return OrderProof(ranges, number, most, found.hazards, point, confirmed, kept)
        if why:
            undecided.setdefault(why, _point(point))
        if progress is not None:
            progress(number, len(points))
    reasons = tuple(f"{where}: {why}" for why, where in undecided.items())
    return OrderProof(ranges, len(points), most, reserves=tuple(sorted(reserves)), undecided=reasons)


def _points(program: Program, sizes: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Yield all sizes, those at the ends of the ranges and the usual ones first."""
    declared = program.image.shapes
    dimensions: tuple[Dimension, ...] = () if declared is None else tuple(declared.dimensions)
    unknown = sorted(sizes.keys() - {each.name for each in dimensions})
    if unknown:
        known = ", ".join(each.name for each in dimensions) or "none"
        raise Tx8Error(f"the program has no dimension '{unknown[0]}'; its dimensions: {known}")
    for each in dimensions:
        if each.name in sizes and not each.least <= sizes[each.name] <= each.most:
            limits = f"allowed are {each.least} to {each.most}"
            raise Tx8Error(f"{each.name} is {sizes[each.name]}; {limits}")
    names = [each.name for each in dimensions]
    chosen = [
        dict.fromkeys([sizes[d.name]] if d.name in sizes else (d.least, d.usual, d.most)) for d in dimensions
    ]
    whole = [[sizes[d.name]] if d.name in sizes else range(d.least, d.most + 1) for d in dimensions]
    first = dict.fromkeys(product(*chosen))
    for values in (*first, *(values for values in product(*whole) if values not in first)):
        yield dict(zip(names, values, strict=True))


class _Runs:
    """Runs of a program at different sizes, with inputs of zeros; without data until a core needs them."""

    def __init__(self, program: Program) -> None:
        self._program, self._data = program, ""

    def at(self, sizes: Mapping[str, int]) -> tuple[OrderFindings, str]:
        """Return the findings at some sizes, and why they are not complete, or nothing."""
        program = self._program
        inputs, why = self._zeros(sizes), ""
        try:
            program.run(inputs, data=bool(self._data), order=True)
        except Fault as fault:
            if not self._data and fault.kind is FaultKind.NEEDS_DATA:
                self._data = str(fault).partition("; a run without data")[0]
                return self.at(sizes)
            why = str(fault)
        except UnknownOrder as unknown:
            why = str(unknown)
        assert program.order is not None
        others = ", ".join(sorted(program.order.not_followed))
        return program.order, why or (f"{others}: not followed" if others else "")

    def reserves(self, found: OrderFindings) -> set[str]:
        """Return the numbers on which accesses of a run may depend."""
        kept = {f"input '{name}', which the core reads at {place}: zeros here" for name, place in found.reads}
        if self._data:
            kept.add(f"numbers that follow from the inputs, zeros here: {self._data}")
        return kept

    def confirms(self, sizes: Mapping[str, int], hazards: tuple[Hazard, ...]) -> bool:
        """Return True if the sanitizer finds one of these hazards at some sizes."""
        pairs = {_pair(hazard) for hazard in hazards}
        with suppress(Fault):  # hazards are those up to there
            self._program.run(self._zeros(sizes), strict=True)
        return any(_pair(hazard) in pairs for hazard in self._program.hazards)

    def _zeros(self, sizes: Mapping[str, int]) -> dict[str, Array]:
        buffers = [shapes.sized(self._program.image.shapes, each, sizes) for each in self._program.inputs]
        return {buffer.name: np.zeros(buffer.shape, travel_dtype(buffer)) for buffer in buffers}


def _pair(hazard: Hazard) -> frozenset[int | None]:
    return frozenset((hazard.at.pc, hazard.other.pc if hazard.other else None))
