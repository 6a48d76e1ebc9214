"""Estimates the cycles that bytes save at each node, from the compiler's estimates of phases."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from compiler.driver import compile_graph
from compiler.graph import Graph

from .quantiser import Quantiser


@dataclass(frozen=True)
class PhaseCycles:
    """The expected cycles of one phase, and the names of the nodes that run in it."""

    nodes: tuple[str, ...]
    cycles: int


CyclesOf = Callable[[Graph], Iterable[PhaseCycles]]
"""Compiles a graph and returns the cycles of its phases."""


def compiled_cycles(**options: Any) -> CyclesOf:
    """Return a function that compiles a graph with these options and returns the estimates of its phases."""

    def cycles(graph: Graph) -> list[PhaseCycles]:
        report = compile_graph(graph, **options).report
        assert report is not None
        return [
            PhaseCycles(tuple(member.node for member in phase.members), phase.estimate or 0)
            for phase in report.phases
        ]

    return cycles


def cycles_won(quantiser: Quantiser, cycles: CyclesOf) -> dict[str, int]:
    """Return, for each candidate, the cycles in the float network less those with all candidates as bytes.

    The cycles of a phase are divided among its nodes by their work.
    """
    owners = _owners(quantiser)
    candidates = quantiser.places.candidates
    floats = _by_owner(quantiser, owners, cycles(quantiser.graph({})))
    as_bytes = _by_owner(quantiser, owners, cycles(quantiser.graph(dict.fromkeys(candidates, "int8"))))
    return {name: round(floats[name] - as_bytes[name]) for name in candidates}


def _owners(quantiser: Quantiser) -> dict[str, str]:
    """Return the candidate that each node of the float network belongs to."""
    owners = {}
    for name, node in quantiser.places.candidates.items():
        owners[name] = name
        owners |= {later.name: name for later in quantiser.places.tail(node)}
    return owners


def _by_owner(
    quantiser: Quantiser, owners: Mapping[str, str], phases: Iterable[PhaseCycles]
) -> dict[str, float]:
    """Add up the cycles of each candidate."""
    found: dict[str, float] = defaultdict(float)
    for phase in phases:
        inside = {owner for name in phase.nodes if (owner := _owner(owners, name)) is not None}
        work = {name: _work(quantiser, name) for name in sorted(inside)}
        for name, part in work.items():
            found[name] += phase.cycles * part / sum(work.values())
    return found


def _owner(owners: Mapping[str, str], name: str) -> str | None:
    """Return the owner of a node, or of the node from which it was made, whose name a dot follows."""
    while name not in owners:
        name, dot, _ = name.rpartition(".")
        if not dot:
            return None
    return owners[name]


def _work(quantiser: Quantiser, name: str) -> int:
    """Return the number of multiplications of a product, or of additions of a sum."""
    node = quantiser.places.node(name)
    known, result = quantiser.places.weights(node), quantiser.source.tensors[node.outputs[0]]
    return result.size * (1 if known is None else known.values.size // known.values.shape[known.axis])
