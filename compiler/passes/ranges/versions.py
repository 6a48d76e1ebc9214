"""Code of a phase for all sizes of a range: versions, each used for some of the sizes.

A version is generated for one point of the ranges. It is right for all points at which every decision would
be the same. Versions are generated until every point has one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from compiler.codegen.kernel import Kernel
from compiler.evaluation.sizes import Domain
from compiler.evaluation.sizes.ranges import Ranges
from compiler.evaluation.sizes.size import Unsized
from compiler.graph import Array, GraphError
from compiler.lowering.generate import DOES_NOT_FIT
from compiler.passes.base import RangedContext
from compiler.search.cost import estimate
from tx8isa.errors import Tx8Error
from tx8isa.machine.description import Machine

from .phase_code import PhaseCode, PhaseDivision, Way, sizes_of_phase

MOST_VERSIONS = 8
"""Most versions of a phase."""
_FASTER, _SAVED = 1.15, 500
"""Least gain of another version at an end of the ranges: a factor, and cycles."""
_LITTLE = 0.03
"""The part of the cycles at the usual sizes that may be lost for phases of one version."""
_MUCH_SLOWER = 1.35
"""Largest slowdown of a run at an end of the ranges, against the best version of each phase."""
_STEPS = 6
"""Points at which two versions are compared to find the border between them."""
UNTRACED = (TypeError, ValueError, AttributeError, IndexError, KeyError, Unsized)
"""The errors of code that cannot handle a size."""


@dataclass(frozen=True, eq=False)
class Version:
    """Code of a phase, the points that use it, and the point for which it was made, with a division.

    ``number`` is part of its symbols, and ``right_for`` are the points for which it must be right.
    """

    kernel: Kernel
    points: Array
    domain: Domain
    anchor: int
    division: PhaseDivision
    number: int
    right_for: Array

    def for_points(self, points: Array) -> Version:
        """The same version for fewer points."""
        return replace(self, points=points)

    def cycles(self, machine: Machine, point: int) -> int:
        """The estimated cycles at a point."""
        with self._at(point):
            return estimate(self.kernel, machine).cycles

    @contextmanager
    def _at(self, point: int) -> Iterator[None]:
        """Take all decisions about the code as if for one point."""
        self.domain.anchor, self.domain.estimated = point, True
        try:
            yield
        finally:
            self.domain.estimated = False


def versions_of(context: RangedContext, code: PhaseCode) -> list[Version]:
    """The code of a phase for all points.

    The division for the usual sizes is used for these, and for all other sizes for which its code is right.
    GraphError for a phase that needs too many versions.
    """
    ranges = context.ranges
    left = np.ones(ranges.count, bool)
    found: list[Version] = []
    while left.any():
        if len(found) == MOST_VERSIONS:
            reason = f"more than {MOST_VERSIONS} versions of its code would be needed"
            raise _refusal(context, code.node, reason)
        anchors = _anchors(ranges, left) if found else [ranges.number(ranges.usual)]
        version = _best_version(context, code, anchors, left, len(found))
        found.append(version)
        left = left & ~version.points
    return found


def _anchors(ranges: Ranges, left: Array) -> list[int]:
    """Candidate points for which the next version may be made.

    They are the largest point, that point with one dimension at the median or minimum of the remaining
    points, and the usual point with the minimum. Code for the largest batch may leave tiles idle for two
    images.
    """
    most = ranges.number(ranges.most)
    if not left[most]:
        return [int(np.flatnonzero(left)[-1])]
    points = [ranges.most]
    if len(ranges.dimensions) > 1:
        for name in ranges.names:
            sizes = ranges.points[name][left]
            points += [{**ranges.most, name: int(size)} for size in (np.median(sizes), sizes.min())]
            points.append({**ranges.usual, name: int(sizes.min())})
    numbers = map(ranges.number, points)
    return [number for number in dict.fromkeys(numbers) if left[number]]


def join(context: RangedContext, phases: Sequence[tuple[PhaseCode, list[Version]]]) -> None:
    """Give phases a single version if one made for another point is right for all points and hardly slower.

    At the usual sizes all phases together may then take a little longer. At the ends of the ranges none may
    take much longer.
    """
    ranges = context.ranges
    usual, every = ranges.number(ranges.usual), np.ones(ranges.count, bool)
    cycles = [versions[0].cycles(context.machine, usual) for _, versions in phases]
    room = sum(cycles) * _LITTLE
    for (code, versions), before in zip(phases, cycles, strict=True):
        for other in versions[1:]:
            try:
                new = _version(context, code, other.anchor, every, 0, other.division.way)
            except GraphError:
                continue
            more = new.cycles(context.machine, usual) - before if new.points.all() else room
            if more < room and not _is_slow_at_an_end(context, new, versions):
                versions[:] = [new]
                room -= max(more, 0)
                break


def _is_slow_at_an_end(context: RangedContext, new: Version, versions: Sequence[Version]) -> bool:
    """True if the present versions would be much faster at an end of the ranges."""
    ranges, machine = context.ranges, context.machine
    ends = map(ranges.number, (ranges.most, ranges.least))
    return any(_is_faster(new.cycles(machine, end), _at(versions, end).cycles(machine, end)) for end in ends)


def improve(context: RangedContext, phases: Sequence[tuple[PhaseCode, list[Version]]]) -> None:
    """Add versions for points near the ends of the ranges, beginning with those that save most.

    It ends when a run is expected to take only a little longer than with the best version of each phase.
    Further versions would add much code for a small gain.
    """
    if not context.effort.total:
        return
    ranges = context.ranges
    for end in map(ranges.number, (ranges.most, ranges.least)):
        total = context.machine.timing.core.program.value + sum(
            _at(versions, end).cycles(context.machine, end) for _, versions in phases
        )
        tried = [_faster_version(context, code, versions, end) for code, versions in phases]
        found = [each for each in tried if each is not None]
        best = total - sum(each.saved for each in found)
        for each in sorted(found, key=lambda each: -each.saved):
            if total > _MUCH_SLOWER * best:
                _add(context, each, end)
                total -= each.saved


def _at(versions: Sequence[Version], point: int) -> Version:
    """The version for a point."""
    return next(version for version in versions if version.points[point])


@dataclass(frozen=True)
class _FasterVersion:
    """Another version for the points at an end of the ranges, and the cycles that it saves there."""

    code: PhaseCode
    versions: list[Version]
    new: Version
    saved: int


def _faster_version(
    context: RangedContext, code: PhaseCode, found: list[Version], end: int
) -> _FasterVersion | None:
    """A version that is faster at an end of the ranges; None if there is none, or too many exist already."""
    old, usual = _at(found, end), context.ranges.number(context.ranges.usual)
    before = old.cycles(context.machine, end)
    if len(found) == MOST_VERSIONS or end == usual or before < _SAVED:
        return None
    try:
        new = _version(context, code, end, old.points, len(found), Way.SEARCHED)
    except GraphError:
        return None
    after = new.cycles(context.machine, end)
    return _FasterVersion(code, found, new, before - after) if _is_faster(before, after) else None


def _is_faster(before: int, after: int) -> bool:
    return before > _FASTER * after and before - after > _SAVED


def _add(context: RangedContext, faster: _FasterVersion, end: int) -> None:
    """Add a version for the points near an end of the ranges at which it is faster."""
    ranges, new, found = context.ranges, faster.new, faster.versions
    old, usual = _at(found, end), ranges.number(ranges.usual)

    def is_faster(point: int) -> bool:
        return _is_faster(*(version.cycles(context.machine, point) for version in (old, new)))

    amount = np.prod([np.maximum(ranges.points[name], 1) for name in _factors(context, faster.code)], axis=0)
    border = _border(amount, new.points, amount[usual], amount[end], is_faster)
    beyond = new.points & ((amount >= border) if amount[end] > amount[usual] else (amount <= border))
    beyond[usual] = False
    left = old.points & ~beyond
    at = found.index(old)
    found[at : at + 1] = [old.for_points(left)] if left.any() else []
    found.append(new.for_points(beyond))


def _factors(context: RangedContext, code: PhaseCode) -> Sequence[str]:
    """The sizes whose product measures the work of a phase.

    Where states grow, these are only the dimensions and sums of its own extents, because many phases compute
    only the new rows.
    """
    ranges = context.ranges
    found = sizes_of_phase(context, code.operation) if ranges.growing else ()
    return found or ranges.names


def _border(amount: Array, points: Array, usual: int, end: int, faster: Callable[[int], bool]) -> int:
    """The amount of work beyond which, towards ``end``, other code is faster; found by bisection."""
    near, far = sorted((int(usual), int(end)))
    found = int(end)
    for _ in range(_STEPS):
        middle = (near + far) // 2
        candidates = np.flatnonzero(
            points & (amount == amount[points][np.argmin(np.abs(amount[points] - middle))])
        )
        point = int(candidates[0])
        if faster(point):
            found = int(amount[point])
            near, far = (near, middle) if end > usual else (middle, far)
        else:
            near, far = (middle, far) if end > usual else (near, middle)
    return found


def _best_version(
    context: RangedContext, code: PhaseCode, anchors: Sequence[int], left: Array, number: int
) -> Version:
    """The version that is right for most of the remaining points; among several, one that is slow nowhere."""
    made: list[Version] = []
    problems: list[GraphError] = []
    for anchor in anchors:
        try:
            made.append(_widest_version(context, code, anchor, left, number))
        except GraphError as error:
            problems.append(error)
    if not made:
        raise problems[0]
    most = max(version.points.sum() for version in made)
    made = [version for version in made if version.points.sum() == most]
    shared = [p for p in anchors if all(version.points[p] for version in made)]
    if not shared:
        return made[0]
    cycles = np.array([[each.cycles(context.machine, p) for p in shared] for each in made], float)
    slower = cycles / np.maximum(cycles.min(axis=0), 1)
    return made[int(slower.max(axis=1).argmin())]


def _widest_version(
    context: RangedContext, code: PhaseCode, anchor: int, left: Array, number: int
) -> Version:
    """The version for a point that is right for most remaining points; the decided division is tried
    first."""
    decided, others = (Way.DECIDED,), code.ways
    ways = (*others[:-1], *decided, others[-1]) if number else (*decided, *others)
    made: list[Version] = []
    problems: list[GraphError] = []
    for way in ways:
        try:
            made.append(_version(context, code, anchor, left, number, way))
        except GraphError as error:
            problems.append(error)
        if made and (not number or made[-1].points.sum() == left.sum()):
            return made[-1]
    if not made:
        raise problems[0]
    return max(made, key=lambda version: int(version.points.sum()))


def _version(
    context: RangedContext, code: PhaseCode, anchor: int, left: Array, number: int, way: Way
) -> Version:
    """Code that is right at a point, with the other remaining points for which it is right.

    If it does not fit for the largest sizes, it is made for smaller ones.
    """
    points = left
    while True:
        try:
            return version_at(context, code, anchor, points, number, way)
        except (*DOES_NOT_FIT, GraphError) as error:
            points = _smaller(anchor, points)
            if points.sum() < 2:
                raise _refusal(context, code.node, str(error)) from None
        except UNTRACED as error:
            if isinstance(error, Tx8Error):
                raise
            raise _refusal(context, code.node, "its code has been written for known sizes only") from error


def version_at(
    context: RangedContext,
    code: PhaseCode,
    anchor: int,
    points: Array,
    number: int,
    division: PhaseDivision | Way,
) -> Version:
    """Code that is right at one of the ``points``; without a division, a search there finds one.

    Raises the errors of ``generate``, and those of code that cannot handle sizes.
    """
    domain = context.domain = Domain(context.ranges.points, anchor, points, context.size_loads)
    try:
        division = code.division(division) if isinstance(division, Way) else division
        kernel = code.kernel(number, division)
    finally:
        context.domain = None
    domain.complete = True
    return Version(kernel, domain.alive, domain, anchor, division, number, points)


def _smaller(anchor: int, points: Array) -> Array:
    """About half of the points: those nearest to a point, in their order."""
    numbers = np.flatnonzero(points)
    near = numbers[np.argsort(np.abs(numbers - anchor), kind="stable")][: max(len(numbers) // 2, 1)]
    found = np.zeros_like(points)
    found[near] = True
    found[anchor] = True
    return found


def _refusal(context: RangedContext, node: str, reason: str) -> GraphError:
    names = ", ".join(context.ranges.names)
    fix = "give it one size with --shape (in Python: shapes=), or narrow its range"
    return GraphError([f"node '{node}' cannot run a range of {names}: {reason}; {fix}"])
