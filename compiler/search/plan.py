"""Plans: the decisions of a compilation as a file. A program made from a plan needs no search.

A plan has the decisions and not their costs. Cycles are estimated again if a program depends on them; equal
code has equal estimates.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from compiler.graph import GraphError
from compiler.lowering.record import Cut

FORMAT = 2
"""The version of this layout."""
OTHER = "it was made for another graph or other options"
"""The reason why a plan does not fit."""

Runs = list[tuple[int, int]]
"""Numbers in ascending order: those from the first of each pair to before the second."""


class PlanMisfit(GraphError):
    """Raised if a plan does not fit the compilation."""


class PlannedCut(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A cut in a plan."""

    tiles: dict[str, int] = {}
    sizes: dict[str, int] = {}
    choices: dict[str, str] = {}

    def cut(self) -> Cut:
        return Cut(tuple(self.tiles.items()), tuple(self.sizes.items()), tuple(self.choices.items()))


class PlannedTemplate(msgspec.Struct, forbid_unknown_fields=True):
    """The division of the groups of a template: a cut, or None for the lowering's own rule.

    ``node`` is a node of one of them, for readers of the file.
    """

    node: str
    cut: PlannedCut | None


class PlannedSequence(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Groups that became one group, by their names, in order.

    A group has the name that its phase has before sequences are formed; a sequence has the name of its first
    group. ``kind`` is the table of the patterns that allows it. ``grown``: other groups may need its
    intermediate values, and it takes the place of the first group.
    """

    kind: str
    groups: list[str]
    grown: bool = False


class PlannedPart(msgspec.Struct, forbid_unknown_fields=True):
    """Stages of a sequence, from ``begin`` to before ``end``, that a version computes as one part."""

    begin: int
    end: int
    cut: PlannedCut | None


class PlannedVersion(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Code of a phase for some sizes of a range.

    ``number`` distinguishes its symbols, and ``at`` are the sizes for which it is made. ``way`` is the origin
    of its division: the group's own cut (decided), another ``cut`` (together, searched), ``parts`` of a
    sequence, or the lowering (rule). ``right_for`` are the combinations of sizes, by number, for which its
    code has to be right; None for all. ``used_for`` are the sizes for which it is chosen; None for all of
    ``right_for``.
    """

    number: int
    at: dict[str, int]
    way: Literal["decided", "together", "searched", "rule"]
    cut: PlannedCut | None = None
    parts: list[PlannedPart] = []
    right_for: Runs | None = None
    used_for: Runs | None = None


class Plan(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """The decisions about a graph, and about the graphs that its control flow executes.

    ``format``: only the outermost plan of a file has it. ``templates`` are by key. ``searched``: True if
    cycles were estimated. ``sequences`` are in the order in which they were formed. ``versions`` are those of
    each phase of a range of sizes, by name. ``sizes`` are those that the program computes, in the order of
    its table. ``bodies`` are the plans of the graphs of a node. ``parallel`` are the degrees by which chips
    share the graph. With stages of a pipeline, ``cuts`` are the first node of each stage and the end, and
    ``stages`` their plans.
    """

    format: int | UnsetType = UNSET
    parallel: str = ""
    cuts: list[int] = []
    templates: dict[str, PlannedTemplate]
    searched: bool = True
    sequences: list[PlannedSequence] = []
    versions: dict[str, list[PlannedVersion]] = {}
    sizes: list[str] = []
    bodies: dict[str, list[Plan]] = {}
    stages: list[Plan] = []

    def decision(self, key: str, node: str) -> PlannedTemplate:
        """The decision for a template; GraphError, with the name of one of its nodes, if the plan has
        none."""
        if key not in self.templates:
            raise PlanMisfit([f"the plan has no entry for node '{node}': {OTHER}"])
        return self.templates[key]

    def of_body(self, node: str, number: int) -> Plan:
        """The plan of a graph that a node executes; empty if there is none."""
        found = self.bodies.get(node, [])
        return found[number] if number < len(found) else Plan(templates={})


class _Head(msgspec.Struct):
    """The fields that every layout of a plan has."""

    format: int


def planned(cut: Cut | None) -> PlannedCut | None:
    """A cut in the form that plans and reports have."""
    return None if cut is None else PlannedCut(dict(cut.tiles), dict(cut.sizes), dict(cut.choices))


def cut_of_plan(cut: PlannedCut | None) -> Cut | None:
    """The cut of a plan, in the form that lowerings take."""
    return None if cut is None else cut.cut()


def plan_text(plan: Plan) -> str:
    """A plan as JSON."""
    return msgspec.json.format(msgspec.json.encode(plan)).decode() + "\n"


def read_plan(path: Path) -> Plan:
    """The plan in a file; GraphError if the file is not a plan."""
    return plan_of(path.read_bytes(), str(path))


def plan_of(text: bytes, name: str = "plan") -> Plan:
    """The plan in a text; ``name`` names its file in messages. GraphError if the text is not a plan."""
    try:
        head: _Head = msgspec.json.decode(text, type=_Head)
        if head.format != FORMAT:
            fix = "write it again with --save-plan"
            raise GraphError([f"{name}: plan of format {head.format}; known is {FORMAT}: {fix}"])
        return msgspec.json.decode(text, type=Plan)
    except msgspec.DecodeError as error:
        raise GraphError([f"{name}: not a plan: {error}"]) from None
