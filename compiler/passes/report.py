"""What a compilation decided, for ``tx8cc --report``: groups, divisions, scratchpad and DDR maps, cycles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import msgspec
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp

from asm.image import Image
from compiler.dialect.attributes import decoded
from compiler.dialect.ops import GroupOp, TensorOperation
from compiler.passes.ddr.ddr_range import Range, range_of
from compiler.search import Found
from compiler.search.plan import Plan, PlannedCut, plan_of, planned

from .base import Context, computes, operations
from .codegen import phase_names
from .work import cut_of


class Member(msgspec.Struct, frozen=True):
    """An operation of a group: its graph node and its operator."""

    node: str
    operator: str


class Buffer(msgspec.Struct, frozen=True):
    """Bytes of a tile's scratchpad; ``second`` is where its other copy begins if it has two."""

    name: str
    address: int
    size: int
    second: int | None = None


class Region(msgspec.Struct, frozen=True):
    """Bytes of DDR; ``address`` is that of the first."""

    name: str
    address: int
    size: int


class Phase(msgspec.Struct, frozen=True):
    """A group as it runs. ``estimate`` and ``simulated`` are cycles, None when nobody asked."""

    name: str
    tag: str
    members: list[Member]
    template: int | None
    tiles: int
    cut: PlannedCut | None
    barrier: bool
    reads: list[Region]
    writes: list[Region]
    spm: list[Buffer]
    estimate: int | None
    simulated: float | None = None


class Tried(msgspec.Struct, frozen=True):
    """A candidate of the search; without cut it is the lowering's own rule."""

    cut: PlannedCut | None
    cycles: int | None
    spm_bytes: int
    problem: str


class TemplateReport(msgspec.Struct, frozen=True):
    """Equal groups, and what was tried for them; the first candidate is the lowering's rule, but for stacks.

    ``groups`` is 0 for a stack that was not made, and for groups that all went into stacks.
    """

    key: str
    node: str
    groups: int
    chosen: PlannedCut | None
    cycles: int | None
    tried: list[Tried]


class Report(msgspec.Struct, frozen=True):
    """A compilation."""

    graph: str
    dtype: str
    tiles: int
    machine: str
    phases: list[Phase]
    templates: list[TemplateReport]
    ddr: list[Region]
    plan: Plan

    def with_cycles(self, cycles: Mapping[str, float]) -> Report:
        """The same with the simulated cycles of each phase, by its name."""
        phases = [msgspec.structs.replace(p, simulated=cycles.get(p.name, 0.0)) for p in self.phases]
        return msgspec.structs.replace(self, phases=phases)

    def json(self) -> str:
        return msgspec.json.format(msgspec.json.encode(self)).decode() + "\n"


def report_of(context: Context, module: ModuleOp, image: Image) -> Report:
    """The report of a compilation whose passes have run."""
    phases = [operation for operation in operations(module) if computes(operation)]
    return Report(
        context.graph.name,
        context.compute.token,
        context.tiles,
        context.machine.name,
        [_phase(name, op, image) for name, op in zip(phase_names(phases), phases, strict=True)],
        list(_templates(context)),
        list(_ddr(image)),
        plan_of([*context.found, *(found for t, found in context.others if t.work.op != "Stack")]),
    )


def _phase(name: str, operation: TensorOperation, image: Image) -> Phase:
    grouped = operation if isinstance(operation, GroupOp) else None
    members = grouped.members if grouped is not None else [operation]
    tiles = operation.tile_parallel
    return Phase(
        name,
        grouped.tag.data if grouped is not None and grouped.tag is not None else "copy",
        [Member(member.node.data, member.op) for member in members],
        None if grouped is None or grouped.template is None else grouped.template.value.data,
        0 if tiles is None else tiles.value.data,
        None if grouped is None else planned(cut_of(grouped)),
        operation.barrier is not None,
        [_region(range_of(value), image) for value in operation.operands],
        [_region(range_of(value), image) for value in operation.results],
        list(_buffers(operation)),
        None if grouped is None or grouped.estimate is None else grouped.estimate.value.data,
    )


def _region(found: Range, image: Image) -> Region:
    """A range of DDR; a constant that was packed when compiling has no place of its own."""
    symbol = image.symbols.get(found.symbol)
    return Region(found.symbol, 0 if symbol is None else symbol.address + found.begin, found.size)


def _buffers(operation: TensorOperation) -> Iterator[Buffer]:
    entries = operation.dev_info.data.get("spm") if operation.dev_info is not None else None
    for entry in entries.data if isinstance(entries, ArrayAttr) else ():
        if isinstance(entry, DictionaryAttr):
            yield Buffer(**{name: decoded(value) for name, value in entry.data.items()})


def _templates(context: Context) -> Iterator[TemplateReport]:
    found: list[Found | None] = [*context.found, *([None] * (len(context.templates) - len(context.found)))]
    others = [(replace(template, count=0), found) for template, found in context.others]
    for template, decision in [*zip(context.templates, found, strict=True), *others]:
        trials = decision.trials if decision is not None else ()
        tried = [Tried(planned(t.cut), t.cycles, t.spm_bytes, t.problem) for t in trials]
        best = decision.best if decision is not None else None
        yield TemplateReport(
            template.key,
            template.work.name,
            template.count,
            planned(best.cut) if best is not None else None,
            best.cycles if best is not None else None,
            tried,
        )


def _ddr(image: Image) -> Iterator[Region]:
    """What lies in DDR, by address."""
    placed = [(s.address, s.size, name) for name, s in image.symbols.items() if s.section.startswith(".ddr")]
    for address, size, name in sorted(placed):
        yield Region(name, address, size)
