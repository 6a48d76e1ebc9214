"""The versions that phases get and keep, for invented cycles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from asm.image import Dimension
from compiler.evaluation.sizes.ranges import Ranges
from compiler.graph import GraphError
from compiler.passes.ranges import versions
from compiler.passes.ranges.phase_code import PhaseDivision, Way
from compiler.passes.ranges.versions import Version, improve, join

RANGES = Ranges((Dimension("width", 1, 10, 100), Dimension("batch", 1, 1, 4)))
USUAL, MOST = RANGES.number(RANGES.usual), RANGES.number(RANGES.most)
EVERY = np.ones(RANGES.count, bool)
SEVERAL = RANGES.points["batch"] > 1
START = 1000
"""Cycles of a program besides its phases."""
Cycles = Callable[[int], int]


@dataclass(frozen=True, eq=False)
class PricedVersion(Version):
    """A version without code whose cycles depend on the number of images times their width."""

    price: Cycles

    def cycles(self, machine: Any, point: int) -> int:
        return self.price(int(RANGES.points["width"][point] * RANGES.points["batch"][point]))


def version(points: Any, price: Cycles) -> Version:
    nothing: Any = None
    return PricedVersion(nothing, points, nothing, MOST, PhaseDivision(Way.SEARCHED), 0, points, price)


def settled(
    monkeypatch: pytest.MonkeyPatch,
    way: Callable[[Any, Any], None],
    phases: Sequence[list[Version]],
    made: Sequence[Version | None],
) -> list[int]:
    """Return each phase's number of versions after ``way``; ``made``: another version of each, or None."""
    program = SimpleNamespace(value=START)
    machine = SimpleNamespace(timing=SimpleNamespace(core=SimpleNamespace(program=program)))
    context: Any = SimpleNamespace(ranges=RANGES, machine=machine, effort=SimpleNamespace(total=1))

    def other(_: Any, code: int, *more: Any) -> Version:
        found = made[code]
        if found is None:
            raise GraphError(["no division fits"])
        return found

    monkeypatch.setattr(versions, "_version", other)
    way(context, [*enumerate(phases)])
    return [len(each) for each in phases]


def usual_and_others() -> list[Version]:
    return [version(~SEVERAL, lambda amount: 1000), version(SEVERAL, lambda amount: 1000)]


@pytest.mark.parametrize(
    ("made", "left"),
    [
        (version(EVERY, lambda amount: 1010), 1),
        (version(EVERY, lambda amount: 900), 1),
        (version(EVERY, lambda amount: 1100), 2),
        (version(EVERY, lambda amount: 1000 if amount < 100 else 2000), 2),
        (version(SEVERAL, lambda amount: 900), 2),
        (None, 2),
    ],
)
def test_one_version_stays_if_it_is_right_for_all_and_hardly_slower(
    made: Version | None, left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert settled(monkeypatch, join, [usual_and_others()], [made]) == [left]


def test_phases_together_lose_little_at_the_usual_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 3,000 cycles at most 90 may be lost; a phase that becomes faster does not allow others more."""
    slower = [version(EVERY, lambda amount, more=more: 1000 + more) for more in (80, 20, 5)]
    assert settled(monkeypatch, join, [usual_and_others() for _ in slower], slower) == [1, 2, 1]


def slow_with_much(factor: float) -> list[Version]:
    return [version(EVERY, lambda amount: round(1000 + factor * amount))]


def test_versions_are_added_until_all_phases_together_are_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the largest sizes the phases take 6,000, 3,000 and 2,000 cycles; 1,000 each would do.

    With the start that is 12,000, where 5,400 are near enough to 4,000.
    """
    phases = [slow_with_much(5000 / 400), slow_with_much(2000 / 400), slow_with_much(1000 / 400)]
    made = [version(EVERY, lambda amount: 1000) for _ in phases]
    assert settled(monkeypatch, improve, phases, made) == [2, 2, 1]
    usual, large = phases[0]
    assert (usual.points ^ large.points).all() and usual.points[USUAL] and large.points[MOST]


def test_much_code_for_little_time_is_not_added(monkeypatch: pytest.MonkeyPatch) -> None:
    phases = [slow_with_much(600 / 400), [version(EVERY, lambda amount: 1000)]]
    made = [version(EVERY, lambda amount: 1000), None]
    assert settled(monkeypatch, improve, phases, made) == [1, 1]


def test_a_version_that_is_left_without_sizes_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another version is faster at all sizes of this one."""
    largest = SEVERAL & (RANGES.points["width"] == 100)
    phases = [[version(~largest, lambda amount: 1000), version(largest, lambda amount: 9000)]]
    made = [version(largest, lambda amount: 1000)]
    assert settled(monkeypatch, improve, phases, made) == [2]
    assert all(each.points.any() for each in phases[0])
    assert sum(each.points.astype(int) for each in phases[0]).tolist() == [1] * RANGES.count
