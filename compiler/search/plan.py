"""Plans: the decisions of a search as a file. A program made from a plan needs no search."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from compiler.graph import GraphError
from compiler.lowering.record import Cut

from .search import SearchResult

_FORMAT = 1


class PlannedCut(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A cut in a plan."""

    tiles: dict[str, int] = {}
    sizes: dict[str, int] = {}
    choices: dict[str, str] = {}

    def cut(self) -> Cut:
        return Cut(tuple(self.tiles.items()), tuple(self.sizes.items()), tuple(self.choices.items()))


class PlannedTemplate(msgspec.Struct, forbid_unknown_fields=True):
    """The decision for one template: a cut, or None for the lowering's own rule, and the expected cycles.

    ``ends`` are the least and the most cycles over the ranges of the machine's figures, if they are known.
    """

    cut: PlannedCut | None
    cycles: int
    ends: tuple[int, int] | None = None


class Plan(msgspec.Struct, forbid_unknown_fields=True):
    """The decisions of a compilation, by the keys of the templates."""

    format: int
    templates: dict[str, PlannedTemplate]

    def decision(self, key: str, node: str) -> PlannedTemplate:
        """The decision for a template; GraphError when the plan has none, with the name of a node of it."""
        if key not in self.templates:
            raise GraphError(
                [f"the plan has no entry for node '{node}': it was made for another graph or other options"]
            )
        return self.templates[key]


def planned(cut: Cut | None) -> PlannedCut | None:
    """A cut in the form that plans and reports have."""
    return None if cut is None else PlannedCut(dict(cut.tiles), dict(cut.sizes), dict(cut.choices))


def plan_of(results: Iterable[SearchResult]) -> Plan:
    """The plan that has the decisions of a search."""
    chosen = {
        result.key: PlannedTemplate(planned(result.best.cut), result.best.cycles or 0, result.best.ends)
        for result in results
    }
    return Plan(_FORMAT, chosen)


def plan_text(plan: Plan) -> str:
    """A plan as JSON."""
    return msgspec.json.format(msgspec.json.encode(plan)).decode() + "\n"


def read_plan(path: Path) -> Plan:
    """The plan in a file; GraphError if the file is not a plan."""
    try:
        plan = msgspec.json.decode(path.read_bytes(), type=Plan)
    except msgspec.DecodeError as error:
        raise GraphError([f"{path}: not a plan: {error}"]) from None
    if plan.format != _FORMAT:
        raise GraphError([f"{path}: plan of format {plan.format}; known is {_FORMAT}"])
    return plan
