"""Versions of phases in plans: the decisions for each version, and the code that follows from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from compiler.evaluation.sizes.ranges import Ranges
from compiler.evaluation.sizes.texts import size_of_text
from compiler.graph import Array, GraphError
from compiler.lowering.generate import DOES_NOT_FIT
from compiler.passes.base import RangedContext
from compiler.search.plan import (
    OTHER,
    Plan,
    PlanMisfit,
    PlannedPart,
    PlannedVersion,
    Runs,
    cut_of_plan,
    planned,
)

from .phase_code import PhaseCode, PhaseDivision, Way
from .versions import Version, version_at


def plan_of_version(version: Version, ranges: Ranges) -> PlannedVersion:
    """The decisions about a version."""
    division, alive = version.division, version.domain.alive
    return PlannedVersion(
        version.number,
        {name: int(ranges.points[name][version.anchor]) for name in ranges.names},
        division.way.value,
        planned(division.cut),
        [PlannedPart(begin, end, planned(cut)) for begin, end, cut in division.parts],
        None if version.right_for.all() else _runs(version.right_for),
        None if np.array_equal(version.points, alive) else _runs(version.points),
    )


def versions_as_planned(
    context: RangedContext, codes: Mapping[str, PhaseCode], plan: Plan
) -> list[list[Version]]:
    """The versions of all phases, by name, as a plan says; PlanMisfit for a plan that does not fit."""
    ranges = context.ranges
    _sizes_as_planned(context, ranges, plan.sizes)
    found = []
    for name, code in codes.items():
        try:
            found.append(_as_planned(context, code, plan.versions.get(name, []), ranges))
        except ValueError as problem:
            raise PlanMisfit([f"the plan's versions of phase '{name}' cannot be used: {problem}"]) from None
    return found


def _sizes_as_planned(context: RangedContext, ranges: Ranges, sizes: Sequence[str]) -> None:
    """Let the table of sizes begin with a plan's sizes, in their order."""
    try:
        context.size_loads |= {text: size_of_text(text, ranges.names) for text in sizes}
    except ValueError as problem:
        raise PlanMisfit([f"the plan's sizes cannot be used: {problem}: {OTHER}"]) from None


def _as_planned(
    context: RangedContext, code: PhaseCode, wanted: Sequence[PlannedVersion], ranges: Ranges
) -> list[Version]:
    """The versions of a phase; ValueError unless each size of the ranges has exactly one."""
    found = [_version(context, code, each, ranges) for each in wanted]
    served = np.sum([version.points for version in found], axis=0) if found else np.zeros(ranges.count, int)
    wrong = np.flatnonzero(served != 1)
    if len(wrong):
        sizes = ", ".join(f"{name}={ranges.points[name][wrong[0]]}" for name in ranges.names)
        raise ValueError(f"{served[wrong[0]]} of them are for {sizes}, expected 1: {OTHER}")
    return found


def _version(context: RangedContext, code: PhaseCode, wanted: PlannedVersion, ranges: Ranges) -> Version:
    """A version of a phase; ValueError if its code is not right for all its points."""
    for each in ranges.dimensions:
        if not each.least <= wanted.at.get(each.name, each.least - 1) <= each.most:
            where = f"{each.name}={wanted.at.get(each.name)}"
            raise ValueError(f"one is made for {where}, expected {each.least} to {each.most}: {OTHER}")
    parts = tuple((part.begin, part.end, cut_of_plan(part.cut)) for part in wanted.parts)
    division = PhaseDivision(Way(wanted.way), cut_of_plan(wanted.cut), parts)
    anchor, right_for = ranges.number(wanted.at), _points(wanted.right_for, ranges.count)
    if not right_for[anchor]:
        raise ValueError(f"one is not right for the sizes that it is made for, {wanted.at}")
    try:
        version = version_at(context, code, anchor, right_for, wanted.number, division)
    except (*DOES_NOT_FIT, GraphError, KeyError, IndexError, ValueError) as error:
        raise ValueError(f"the division of one, '{wanted.way}', is not possible: {error}") from None
    if wanted.used_for is None:
        return version
    points = _points(wanted.used_for, ranges.count)
    if (points & ~version.points).any():
        raise ValueError(f"one is used for sizes for which its code is not right: {OTHER}")
    return version.for_points(points)


def _runs(points: Array) -> Runs:
    """The numbers of the chosen points, as runs."""
    edges = np.flatnonzero(np.diff(points.astype(np.int8), prepend=0, append=0))
    return [(int(begin), int(end)) for begin, end in edges.reshape(-1, 2)]


def _points(runs: Runs | None, count: int) -> Array:
    """A list of ``count`` bools, True for the numbers in ``runs``; None means all."""
    found = np.full(count, runs is None)
    for begin, end in runs or ():
        if not 0 <= begin < end <= count:
            raise ValueError(
                f"combinations of sizes {begin} to {end} are not among the {count} of the ranges"
            )
        found[begin:end] = True
    return found
