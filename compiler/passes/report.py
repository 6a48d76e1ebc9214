"""The report of ``tx8cc --report``: groups and their divisions, maps of scratchpad and DDR, cycles."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp

from asm.image import Image
from compiler.dialect.attributes import decoded
from compiler.dialect.ops import ControlOperation, GroupOp, TensorOperation
from compiler.dialect.types import format_of, stored_bytes
from compiler.evaluation.remarks import CoreWork
from compiler.operators.domains.chips.collectives import COLLECTIVES, RECEIVE, SEND
from compiler.passes.ddr.placement import DdrRange, range_of
from compiler.search import SearchResult, Trial
from compiler.search.chips import EstimatedPhase, Receiving, Sending, TriedDegrees
from compiler.search.plan import FORMAT, Plan, PlannedCut, PlannedTemplate, planned

from .base import Context, RangedContext, StateUpdate, computes, operations, phase_names
from .work import cut_of, operand_positions

_LEAST_SHARE = 0.01
"""Work of the kernel core is worth a message if it takes at least this share of the cycles."""


class Member(msgspec.Struct, frozen=True):
    """A member of a group: its graph node, its operator, and the format of its result."""

    node: str
    operator: str
    format: str = ""


class Buffer(msgspec.Struct, frozen=True):
    """A buffer in the scratchpad of a tile; ``second`` is the address of its second copy if it has two."""

    name: str
    address: int
    size: int
    second: int | None = None


class DdrRegion(msgspec.Struct, frozen=True):
    """A range of DDR with its symbol.

    ``address`` is None for a constant that is not stored unchanged: a lowering has packed it, or it is in
    the code.
    """

    name: str
    address: int | None
    size: int


class Phase(msgspec.Struct, frozen=True):
    """A phase. ``estimate`` and ``simulated`` are cycles; None without a search, and without a run.

    ``kernel_core``: True if the core of a tile computes elements one by one.
    """

    name: str
    tag: str
    members: list[Member]
    template: int | None
    cut: PlannedCut | None
    barrier: bool
    reads: list[DdrRegion]
    writes: list[DdrRegion]
    spm: list[Buffer]
    estimate: int | None
    kernel_core: bool
    simulated: float | None = None


class TriedCut(msgspec.Struct, frozen=True):
    """A candidate of the search; a cut of None is the lowering's own rule.

    ``cycles_least`` and ``cycles_most`` are its cycles at the ends of the ranges of the machine's figures;
    None for a candidate that was too slow to contend.
    """

    cut: PlannedCut | None
    cycles: int | None
    cycles_least: int | None
    cycles_most: int | None
    spm_bytes: int
    problem: str


class TemplateReport(msgspec.Struct, frozen=True):
    """A template, and the candidates that were tried for it.

    ``groups`` is the number of groups with this template in the program. It is 0 for a stack that was not
    made, and if all groups went into stacks.
    """

    key: str
    node: str
    groups: int
    chosen: PlannedCut | None
    cycles: int | None
    cycles_least: int | None
    cycles_most: int | None
    tried: list[TriedCut]


class Report(msgspec.Struct, frozen=True):
    """The decisions of a compilation."""

    graph: str
    dtype: str
    tiles: int
    machine: str
    phases: list[Phase]
    templates: list[TemplateReport]
    ddr: list[DdrRegion]
    states: list[StateUpdate]
    plan: Plan
    degrees: list[TriedDegrees] | UnsetType = UNSET
    """The degrees of parallelism that were tried; unset where none were looked for."""
    run: Mapping[str, Any] | None = None
    """The report of a run, as ``tx8emu --report FILE.json`` writes it; null without a run."""

    @property
    def core_work(self) -> CoreWork | None:
        """The work that the kernel core does element by element; None if it is nothing, or hardly counts."""
        slow = [phase for phase in self.phases if phase.kernel_core]
        if not slow:
            return None
        estimates = [phase.estimate for phase in self.phases]
        if None in estimates or not sum(map(_cycles, self.phases)):
            return CoreWork(len(slow), None)
        share = sum(map(_cycles, slow)) / sum(map(_cycles, self.phases))
        return CoreWork(len(slow), share) if share >= _LEAST_SHARE else None

    def with_run(self, cycles: Mapping[str, float], run: Mapping[str, Any] | None) -> Report:
        """The report with the simulated cycles of the phases, by name, and the statistics of a run."""
        phases = [
            msgspec.structs.replace(phase, simulated=cycles.get(phase.name, 0.0)) for phase in self.phases
        ]
        return msgspec.structs.replace(self, phases=phases, run=run)

    def json(self) -> str:
        """The report as JSON."""
        return msgspec.json.format(msgspec.json.encode(self)).decode() + "\n"


def estimated_phases(module: ModuleOp) -> list[EstimatedPhase]:
    """The phases of a module after all passes, with their estimated cycles, which are 0 without a search."""
    phases = [operation for operation in operations(module) if computes(operation)]
    return [
        EstimatedPhase(
            name,
            op.estimate.value.data if isinstance(op, GroupOp) and op.estimate is not None else 0,
            isinstance(op, GroupOp) and any(member.op in COLLECTIVES for member in op.members),
            _message(op),
        )
        for name, op in zip(phase_names(phases), phases, strict=True)
    ]


def _message(operation: TensorOperation) -> Sending | Receiving | None:
    """The message that a phase sends to another stage of a pipeline, or receives."""
    members = operation.members if isinstance(operation, GroupOp) else [operation]
    member = next((each for each in members if each.op in (SEND, RECEIVE)), None)
    if member is None or member.attributes_of_node is None:
        return None
    attrs = {name: decoded(value) for name, value in member.attributes_of_node.data.items()}
    pairs = tuple(zip(attrs["chips"][::2], attrs["chips"][1::2], strict=True))
    if member.op == RECEIVE:
        return Receiving(attrs["inbox"], pairs, bool(attrs["again"]))
    size, after = stored_bytes(member.operands[0].type), 2 in operand_positions(member)
    return Sending(attrs["inbox"], attrs["channel"], size, pairs, attrs["full"], attrs["background"], after)


def decisions(context: Context, module: ModuleOp) -> Plan:
    """The decisions of a compilation after all passes, from which another one can make the program."""
    results: list[SearchResult | None] = [*context.results] or [None] * len(context.templates)
    chosen = {
        template.key: PlannedTemplate(
            template.work.name, planned(None if result is None else result.best.cut)
        )
        for template, result in zip(context.templates, results, strict=True)
    }
    bodies: dict[str, list[Plan]] = {}
    for operation, inner, body in context.regions(module):
        bodies.setdefault(operation.node.data, []).append(decisions(inner, body))
    return Plan(
        templates=chosen,
        searched=bool(context.results),
        sequences=context.sequences,
        versions=context.versions if isinstance(context, RangedContext) else {},
        sizes=[*context.size_loads] if isinstance(context, RangedContext) else [],
        bodies=bodies,
    )


def report_of(context: Context, module: ModuleOp, image: Image) -> Report:
    """The report of a compilation after all passes."""
    contexts = [context, *(inner for _, inner, _ in context.all_regions(module))]
    return Report(
        context.graph.name,
        context.compute.token,
        context.tiles,
        context.machine.name,
        list(_phases(context, module, image)),
        [template for each in contexts for template in _templates(each)],
        list(_ddr(image)),
        context.updates,
        msgspec.structs.replace(decisions(context, module), format=FORMAT),
    )


def _phases(context: Context, module: ModuleOp, image: Image) -> Iterator[Phase]:
    """The phases of a module, each followed by those of the graphs that it executes."""
    phases = [operation for operation in operations(module) if computes(operation)]
    bodies: dict[TensorOperation, list[Phase]] = defaultdict(list)
    for executing, inner, body in context.regions(module):
        bodies[executing] += _phases(inner, body, image)
    for name, operation in zip(phase_names(phases), phases, strict=True):
        yield _phase(context, name, operation, image)
        yield from bodies[operation]


def _cycles(phase: Phase) -> int:
    return phase.estimate or 0


def _phase(context: Context, name: str, operation: TensorOperation, image: Image) -> Phase:
    grouped = operation if isinstance(operation, GroupOp) else None
    tag = "control" if isinstance(operation, ControlOperation) else "copy"
    members = grouped.members if grouped is not None else [operation]
    return Phase(
        name,
        grouped.tag.data if grouped is not None and grouped.tag is not None else tag,
        [Member(member.node.data, member.op, _format(member)) for member in members],
        None if grouped is None or grouped.template is None else grouped.template.value.data,
        None if grouped is None else planned(cut_of(grouped)),
        operation.barrier is not None,
        [_region(range_of(value), image) for value in operation.operands],
        [_region(range_of(value), image) for value in operation.results],
        list(_buffers(operation)),
        None if grouped is None or grouped.estimate is None else grouped.estimate.value.data,
        name in context.on_core,
    )


def _format(member: TensorOperation) -> str:
    """The format of the first result; empty without a result."""
    return next((format_of(result.type).token for result in member.results), "")


def _region(ddr_range: DdrRange, image: Image) -> DdrRegion:
    symbol = image.symbols.get(ddr_range.symbol)
    address = None if symbol is None else symbol.address + ddr_range.begin
    return DdrRegion(ddr_range.symbol, address, ddr_range.size)


def _buffers(operation: TensorOperation) -> Iterator[Buffer]:
    entries = operation.dev_info.data.get("spm") if operation.dev_info is not None else None
    for entry in entries.data if isinstance(entries, ArrayAttr) else ():
        if isinstance(entry, DictionaryAttr):
            yield Buffer(**{name: decoded(value) for name, value in entry.data.items()})


def _templates(context: Context) -> Iterator[TemplateReport]:
    missing = len(context.templates) - len(context.results)
    results: list[SearchResult | None] = [*context.results, *([None] * missing)]
    others = [(replace(template, count=0), result) for template, result in context.other_results]
    for template, result in [*zip(context.templates, results, strict=True), *others]:
        trials = result.trials if result is not None else ()
        tried = [_tried(trial) for trial in trials]
        best = _tried(result.best) if result is not None else TriedCut(None, None, None, None, 0, "")
        yield TemplateReport(
            template.key,
            template.work.name,
            template.count,
            best.cut,
            best.cycles,
            best.cycles_least,
            best.cycles_most,
            tried,
        )


def _tried(trial: Trial) -> TriedCut:
    least, most = trial.ends or (None, None)
    return TriedCut(planned(trial.cut), trial.cycles, least, most, trial.spm_bytes, trial.problem)


def _ddr(image: Image) -> Iterator[DdrRegion]:
    """The symbols in DDR, by address."""
    placed = [(s.address, s.size, name) for name, s in image.symbols.items() if s.section.startswith(".ddr")]
    for address, size, name in sorted(placed):
        yield DdrRegion(name, address, size)
