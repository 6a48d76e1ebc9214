"""Plans: what a search decided, as a file. A program made from one needs no search."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from compiler.graph import GraphError
from compiler.lowering.record import Cut

from .search import Found

_FORMAT = 1


class PlannedCut(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A cut as a plan has it."""

    tiles: dict[str, int] = {}
    sizes: dict[str, int] = {}
    choices: dict[str, str] = {}

    def cut(self) -> Cut:
        return Cut(tuple(self.tiles.items()), tuple(self.sizes.items()), tuple(self.choices.items()))


class PlannedTemplate(msgspec.Struct, forbid_unknown_fields=True):
    """The decision for one template; without cut the lowering's own rule is used."""

    cut: PlannedCut | None
    cycles: int


class Plan(msgspec.Struct, forbid_unknown_fields=True):
    """The decisions of a compilation, by key of the template."""

    format: int
    templates: dict[str, PlannedTemplate]

    def decision(self, key: str, node: str) -> PlannedTemplate:
        """What was decided for a template; GraphError when the plan is for something else."""
        if key not in self.templates:
            raise GraphError(
                [f"the plan has no entry for node '{node}': it was made for another graph or other options"]
            )
        return self.templates[key]


def planned(cut: Cut | None) -> PlannedCut | None:
    """A cut for a plan."""
    return None if cut is None else PlannedCut(dict(cut.tiles), dict(cut.sizes), dict(cut.choices))


def plan_of(found: Iterable[Found]) -> Plan:
    """The decisions of a search."""
    chosen = {each.key: PlannedTemplate(planned(each.best.cut), each.best.cycles or 0) for each in found}
    return Plan(_FORMAT, chosen)


def plan_text(plan: Plan) -> str:
    """A plan as JSON."""
    return msgspec.json.format(msgspec.json.encode(plan)).decode() + "\n"


def read_plan(path: Path) -> Plan:
    """The plan in a file; GraphError for a file that holds none."""
    try:
        plan = msgspec.json.decode(path.read_bytes(), type=Plan)
    except msgspec.DecodeError as error:
        raise GraphError([f"{path}: not a plan: {error}"]) from None
    if plan.format != _FORMAT:
        raise GraphError([f"{path}: plan of format {plan.format}; known is {_FORMAT}"])
    return plan
