"""Pass ``codegen``: the lowering of each operation writes the assembly of its phase."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from operator import itemgetter

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, ModuleOp, StringAttr, i64
from xdsl.ir import Attribute, SSAValue

from compiler.codegen.kernel import Kernel
from compiler.codegen.program import node_line
from compiler.codegen.program import phase as phase_text
from compiler.codegen.schedule.phases import ScheduledPhase, schedule, still_running
from compiler.dialect.ops import ControlOperation, LoadConstOp, TensorOperation
from compiler.graph import GraphError
from compiler.lowering.generate import DOES_NOT_FIT, generate
from compiler.lowering.movement.control import place_of_body
from compiler.passes.ddr.barrier_opt import settled_operands
from compiler.passes.ddr.early_loads import came_early, early_bytes
from compiler.passes.ranges.choice import chosen_version
from compiler.passes.ranges.finishing import finished
from compiler.passes.ranges.phase_code import PhaseCode
from compiler.passes.ranges.planned import plan_of_version, versions_as_planned
from compiler.passes.ranges.versions import Version, improve, join, versions_of
from compiler.search import Trial
from compiler.search.plan import OTHER, PlanMisfit

from .base import Context, RangedContext, operations, phase_names
from .groups.group_load_store import check_homes
from .work import symbol_of, target_of, work_of

_ROUNDS = 3
"""Most rounds of writing the phases: the first one, one with possible early loads, one with the actual
ones."""


class CodegenPass:
    """Fills ``context.phases`` and ``context.data``, and adds the scratchpad buffers to dev_info."""

    name = "codegen"

    def run(self, context: Context, module: ModuleOp) -> None:
        check_homes(context, module)
        if isinstance(context, RangedContext):
            self._run_ranges(context, module)
            return
        if context.plan is not None and context.plan.versions:
            raise PlanMisfit([f"the plan is for a range of sizes, and the program for one: {OTHER}"])
        settled = dict(settled_operands(module))
        constants = {op.symbol for op in operations(module) if isinstance(op, LoadConstOp) and op.results}
        found = self._phases(context, settled, constants)
        kernels = [phase.kernel for phase in found]
        for kernel in kernels:
            context.data += [*kernel.constants, *kernel.scratches]
            context.used |= kernel.used
        for operation, phase in zip(settled, found, strict=True):
            lines = phase.lines()
            if isinstance(operation, ControlOperation):
                lines = list(_with_bodies(context, operation, phase, lines))
            context.phases.append((phase.name, lines))
            if phase.kernel.on_core:
                context.on_core.add(phase.name)
            _describe(operation, phase.kernel)

    def _run_ranges(self, context: RangedContext, module: ModuleOp) -> None:
        """Write the phases of a program of a range of sizes, where a phase may have several versions."""
        settled = dict(settled_operands(module))
        searches: dict[str, Trial | None] = {}
        codes = {
            name: PhaseCode(context, number, operation, values, searches)
            for number, (name, (operation, values)) in enumerate(
                zip(phase_names([*settled]), settled.items(), strict=True)
            )
        }
        found = [
            [finished(context, code, version) for version in versions]
            for code, versions in zip(codes.values(), _versions(context, codes), strict=True)
        ]
        constants = {op.symbol for op in operations(module) if isinstance(op, LoadConstOp) and op.results}
        for kernel in (version.kernel for versions in found for version in versions):
            context.data += [*kernel.constants, *kernel.scratches]
            constants |= {constant.symbol for constant in kernel.constants}
            context.used |= kernel.used
        usual = [versions[0].kernel for versions in found]
        context.phases += _ranged_phases(context, list(zip(codes, found, strict=True)), constants)
        for name, operation, kernel in zip(codes, settled, usual, strict=True):
            if kernel.on_core:
                context.on_core.add(name)
            _describe(operation, kernel)

    def _phases(
        self, context: Context, settled: Mapping[TensorOperation, Sequence[SSAValue]], constants: Set[str]
    ) -> list[ScheduledPhase]:
        """Write all phases. A phase whose weights can be loaded before it begins is written again to do so.

        If not all of these weights can come early, the phases are written again for the possible part.
        """
        early: dict[int, int] = {}
        for _ in range(_ROUNDS):
            kernels = [
                self._kernel(context, number, *each, early.get(number, 0))
                for number, each in enumerate(settled.items())
            ]
            if not early:
                early = early_bytes(kernels, context.machine)
                if early:
                    continue
            own = {constant.symbol for kernel in kernels for constant in kernel.constants}
            names = [*zip(phase_names([*settled]), kernels, strict=True)]
            found = [*_scheduled(settled, names, constants | own)]
            came = came_early(found, early)
            if came == early:
                break
            early = came
        return found

    def _kernel(
        self,
        context: Context,
        number: int,
        operation: TensorOperation,
        settled: Sequence[SSAValue],
        early: int = 0,
    ) -> Kernel:
        # The search prices plain code, which takes less time to write.
        work, target = work_of(context, operation), replace(target_of(context), small=True)
        symbols = frozenset(symbol_of(value) for value in settled)
        prefix, waits = f"{context.prefix}p{number}", operation.barrier is not None
        try:
            if early:
                with suppress(*DOES_NOT_FIT):
                    return generate(prefix, replace(work, early=early), target, waits, symbols)
            return generate(prefix, work, target, waits, symbols)
        except DOES_NOT_FIT as overflow:
            raise GraphError([f"node '{work.name}' ({work.op}): {overflow}"]) from None


def _versions(context: RangedContext, codes: Mapping[str, PhaseCode]) -> list[list[Version]]:
    """Return the versions of each phase of a range: those of a plan, or the best ones found."""
    if context.plan is not None:
        found = versions_as_planned(context, codes, context.plan)
    else:
        found = [versions_of(context, code) for code in codes.values()]
        phases = [*zip(codes.values(), found, strict=True)]
        improve(context, phases)
        join(context, phases)
    for name, versions in zip(codes, found, strict=True):
        context.versions[name] = [plan_of_version(each, context.ranges) for each in versions]
    return found


def _ranged_phases(
    context: RangedContext, phases: Sequence[tuple[str, list[Version]]], constants: Set[str]
) -> Iterator[tuple[str, list[str]]]:
    """Name and text of each phase. Constants are loaded early only where phases have one version."""
    single: list[tuple[str, Kernel]] = []
    before: Sequence[ScheduledPhase] = ()
    for number, (name, versions) in enumerate(phases):
        if len(versions) == 1:
            single.append((name, versions[0].kernel))
            continue
        found = schedule(single, constants, before)
        yield from ((phase.name, phase.lines()) for phase in found)
        single = []
        made = [schedule([(name, each.kernel)], constants)[0] for each in versions]
        meets = all(each.kernel.met_at is not None for each in made)
        before = made if meets else [*still_running([*before, *found]), *made]
        yield name, list(chosen_version(context, f"p{number}", versions, [each.lines() for each in made]))
    yield from ((phase.name, phase.lines()) for phase in schedule(single, constants, before))


def _scheduled(
    operations: Iterable[TensorOperation], phases: Sequence[tuple[str, Kernel]], constants: Set[str]
) -> Iterator[ScheduledPhase]:
    """Return the phases with placed buffers; no head begins before or in a phase of control flow.

    Tiles have met before a graph that control flow executes, but not after it. Its last phases may still be
    running when the next phase of this graph begins.
    """
    alone = True
    frames = [isinstance(operation, ControlOperation) for operation in operations]
    for frame, found in groupby(zip(frames, phases, strict=True), key=itemgetter(0)):
        several = [phase for _, phase in found]
        for part in ([phase] for phase in several) if frame else [several]:
            yield from schedule(part, constants, alone=alone)
            alone = False


def _with_bodies(
    context: Context, operation: ControlOperation, frame: ScheduledPhase, lines: Iterable[str]
) -> Iterator[str]:
    """The code of a frame with the phases of its graphs in their places."""
    bodies = context.bodies[operation.node.data]
    for scratch in frame.kernel.scratches:  # a loop has no other input
        bodies[0].step_symbol = scratch.symbol
    places = [place_of_body(frame.kernel.prefix, number) for number in range(len(operation.modules))]
    by_place = dict(zip(places, bodies, strict=True))
    context.used |= {symbol_of(value) for value in (*operation.operands, *operation.results)}
    for line in lines:
        yield line
        if line in by_place:
            for name, code in by_place[line].phases:
                yield from phase_text(name, code)
            yield node_line(frame.name)


def _describe(operation: TensorOperation, kernel: Kernel) -> None:
    """Add the scratchpad buffers to dev_info, each with its name, address and size."""
    buffers: list[Attribute] = []
    for buffer in kernel.spm.buffers:
        if buffer.address >= 0:
            entry = {
                "name": StringAttr(buffer.symbol),
                "address": IntegerAttr(buffer.address, i64),
                "size": IntegerAttr(buffer.size, i64),
            }
            if buffer.second >= 0:
                entry["second"] = IntegerAttr(buffer.second, i64)
            buffers.append(DictionaryAttr(entry))
    assert operation.dev_info is not None
    entries = dict(operation.dev_info.data)
    operation.attributes["dev_info"] = DictionaryAttr({**entries, "spm": ArrayAttr(buffers)})
