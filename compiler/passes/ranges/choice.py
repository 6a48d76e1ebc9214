"""The choice between the versions of a phase, by comparisons of sizes or by a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby

import numpy as np

from compiler.codegen.emitter import Emitter
from compiler.codegen.registers import SIZE_PREFIX
from compiler.evaluation.sizes import Domain, dimension
from compiler.evaluation.sizes.ranges import Ranges
from compiler.graph import Array
from compiler.passes.base import RangedContext

from .versions import Version

_MOST_RUNS = 16
"""Most stretches of points with one version for which comparisons choose; more need a table."""


@dataclass(frozen=True)
class _Rule:
    """Selects ``version`` if the product of ``names`` is at least ``bound``, or, unless ``above``, less."""

    names: tuple[str, ...]
    bound: int
    above: bool
    version: int


def chosen_version(
    context: RangedContext, name: str, versions: Sequence[Version], texts: Sequence[Sequence[str]]
) -> Iterator[str]:
    """The lines of a phase of several versions: the choice, and the code of each."""
    number = np.zeros(len(versions[0].points), np.int64)
    for at, version in enumerate(versions):
        number[version.points] = at
    out = Emitter()
    rules = _rules(context.ranges, number)
    if rules is not None:
        _compare(context, out, name, *rules)
    else:
        out.instruction("ld", "t0", f"{SIZE_PREFIX}{_index(context)}")
        _choose(out, name, number)
    yield from out.lines
    for at, text in enumerate(texts):
        yield f"{name}.version{at}:"
        yield from text
        if at < len(texts) - 1:
            yield f"        j {name}.done"
    yield f"{name}.done:"


def _rules(ranges: Ranges, number: Array) -> tuple[list[_Rule], int] | None:
    """Rules for all versions but one, in order, and the remaining version.

    None if rules cannot tell them apart.
    """
    left = np.ones(len(number), bool)
    others = [*range(1, int(number.max()) + 1), 0]
    found: list[_Rule] = []
    while len(others) > 1:
        rule = next((rule for at in others if (rule := _rule(ranges, left, number == at, at))), None)
        if rule is None:
            return None
        found.append(rule)
        left &= number != rule.version
        others.remove(rule.version)
    return found, others[0]


def _rule(ranges: Ranges, left: Array, wanted: Array, version: int) -> _Rule | None:
    """A rule for exactly the points of a version, among the points that are left."""
    inside, outside = left & wanted, left & ~wanted
    for count in range(1, len(ranges.names) + 1):
        for names in combinations(ranges.names, count):
            amount = np.prod([ranges.points[name] for name in names], axis=0)
            if amount[inside].min() > amount[outside].max():
                return _Rule(names, int(amount[inside].min()), True, version)
            if amount[inside].max() < amount[outside].min():
                return _Rule(names, int(amount[outside].min()), False, version)
    return None


def _compare(context: RangedContext, out: Emitter, name: str, rules: Sequence[_Rule], rest: int) -> None:
    """Write jumps to the versions of the rules, and to version ``rest``; version 0 follows this code."""
    domain = _domain(context)
    for rule in rules:
        for each in rule.names:
            context.size_loads[each] = dimension(domain, each)
        first, *others = rule.names
        out.instruction("ld", "t0", f"{SIZE_PREFIX}{first}")
        for each in others:
            out.instruction("ld", "t1", f"{SIZE_PREFIX}{each}")
            out.instruction("mul", "t0", "t0", "t1")
        out.instruction("li", "t1", str(rule.bound))
        out.instruction("blt" if rule.above else "bge", "t0", "t1", "1f")
        out.instruction("j", f"{name}.version{rule.version}")
        out.label("1")
    if rest:
        out.instruction("j", f"{name}.version{rest}")


def _domain(context: RangedContext) -> Domain:
    ranges = context.ranges
    return Domain(ranges.points, 0, np.ones(ranges.count, bool), context.size_loads)


def _index(context: RangedContext) -> str:
    """The text of the size that numbers the points, by which the program chooses versions."""
    domain = _domain(context)
    number: int = 0
    for each in context.ranges.dimensions:
        number = number * (each.most - each.least + 1) + (dimension(domain, each.name) - each.least)
    context.size_loads[str(number)] = number  # type: ignore[assignment]  # a size: versions differ by it
    return str(number)


def _choose(out: Emitter, name: str, number: Array) -> None:
    """Jumps to the version of the point whose number is in t0."""
    runs = [(int(version), len(list(group))) for version, group in groupby(number)]
    if len(runs) <= _MOST_RUNS:
        end = 0
        for version, count in runs[:-1]:
            end += count
            out.instruction("li", "t1", str(end))
            out.instruction("bge", "t0", "t1", "1f")
            out.instruction("j", f"{name}.version{version}")
            out.label("1")
        out.instruction("j", f"{name}.version{runs[-1][0]}")
        return
    out.directive(".rodata")
    out.label(f"{name}.versions")
    for begin in range(0, len(number), 32):
        out.directive(f".byte {', '.join(map(str, number[begin : begin + 32]))}")
    out.directive(".text")
    out.instruction("la", "t1", f"{name}.versions")
    out.instruction("add", "t1", "t1", "t0")
    out.instruction("lbu", "t0", "0(t1)")
    for version in range(int(number.max())):
        out.instruction("li", "t1", str(version))
        out.instruction("bne", "t0", "t1", "1f")
        out.instruction("j", f"{name}.version{version}")
        out.label("1")
    out.instruction("j", f"{name}.version{int(number.max())}")
