"""Compiles a graph: the initial context, the passes in order, the text and its image."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import VerifyException

import asm
from asm.diagnostics import AsmError
from asm.image import Image
from asm.image.chips import REPLACED
from compiler.codegen import CONSTANTS_FILE, DEFAULT_TILES
from compiler.codegen.program import Data, checksums
from compiler.dialect.verifier import Verifier
from compiler.evaluation.storage import compute_format, default_dtype
from compiler.graph import Graph, GraphError
from compiler.passes.ddr.chip_constants import BEGIN, PlacedConstants, same_code, with_chips, with_overlaid
from compiler.passes.patterns import load_patterns
from compiler.search import EFFORTS, read_plan
from compiler.search.chips import Degrees, PipelinedGraph, node_prices, pipelined_graph
from compiler.search.plan import Plan, PlanMisfit
from tx8isa.machine.description import Machine, load_machine
from tx8isa.tools.command_line import one_line
from tx8isa.tools.files import Bytes
from tx8isa.tools.suggestions import hint

from . import PIPELINE
from .base import Context, Pass, RangedContext, RangedSource
from .emit import Network, constants_of, program_text, stages_text
from .graph_operations import with_constants_as_inputs
from .report import decisions, estimated_phases

RESIDENCY = ("on", "off")
"""True if values between groups may stay in the scratchpads."""
_BARRIER_TILES = 64
"""A barrier names its tiles by the bits of one register."""

Networks = Mapping[str, Network]
"""Networks whose passes have run, by the names of entries; a single one has an empty name."""
StageSets = Mapping[tuple[int, ...], Networks]
"""The networks of a stage of a pipeline, for each set of its chips that have the same constants."""
Begin = Callable[..., Context]
"""Begins the compilation of a graph, as ``compiler.passes.compilation.context_of``."""
KnownPrices = dict[tuple[Any, ...], Mapping[str, float]]
"""Cycles by the names of nodes, for each part of the batch and sharing between chips."""
AfterPass = Callable[[str, ModuleOp], None]
"""Is called after every pass with its name and the module."""


def context_of(
    graph: Graph,
    dtype: str | None,
    tiles: int | None,
    machine: Machine | None,
    patterns: str = "default",
    search: str = "fast",
    plan: Path | None = None,
    residency: str = "on",
    spread: bool = False,
    ranges: RangedSource | None = None,
) -> Context:
    """The context in which the passes start; the arguments are those of ``compiler.driver.compile_graph``.

    ``ranges``: the dynamic sizes. ``spread``: the graph is the part of one of several chips, with
    the exchanges between them.
    """
    machine = machine if machine is not None else load_machine(None)
    tiles = min(DEFAULT_TILES, machine.tiles) if tiles is None else tiles
    most = min(machine.tiles, _BARRIER_TILES)
    if not 1 <= tiles <= most:
        raise GraphError([f"{tiles} tiles: expected 1 to {most} on machine {machine.name}"])
    if machine.chip_count > 1 and not spread:
        ways = "--parallel says how they share the work, such as tp=2"
        raise GraphError([f"machine {machine.name} has {machine.chip_count} chips: {ways}"])
    if search not in EFFORTS:
        near = hint(search, EFFORTS)
        raise GraphError([f"unknown search '{search}'; allowed are {', '.join(EFFORTS)}{near}"])
    if residency not in RESIDENCY:
        near = hint(residency, RESIDENCY)
        raise GraphError([f"unknown residency '{residency}'; allowed are {', '.join(RESIDENCY)}{near}"])
    compute = compute_format(dtype or default_dtype(graph))
    made = Context if ranges is None else partial(RangedContext, source=ranges)
    return made(
        with_constants_as_inputs(graph),
        machine,
        tiles,
        compute,
        patterns=load_patterns(patterns),
        residency=residency == "on",
        effort=EFFORTS[search],
        plan=None if plan is None else read_plan(plan),
        replaceable={name: graph.constants[name] for name in sorted(graph.replaceable)},
    )


def run_passes(context: Context, timing: dict[str, float], after_pass: AfterPass | None) -> ModuleOp:
    """The module after all passes, which is verified after each; ``timing`` gets the seconds of each."""
    module, verifier = ModuleOp([]), Verifier()
    for step in PIPELINE:
        start = time.perf_counter()
        run_pass(step, context, module)
        try:
            if step is PIPELINE[-1]:
                module.verify()
            else:
                verifier.verify(module)
        except VerifyException as error:
            raise RuntimeError(f"pass {step.name} left an invalid module: {error}") from error
        timing[step.name] = time.perf_counter() - start
        if after_pass is not None:
            after_pass(step.name, module)
    return module


def run_passes_alike(
    start: Callable[[], Context],
    known: Plan | None,
    given: Plan | None,
    timing: dict[str, float],
    after_pass: AfterPass | None,
) -> tuple[Context, ModuleOp]:
    """Compile for one chip with the decisions for other chips; returns the context, and the final module.

    Without ``known`` decisions of other chips, the ``given`` plan decides, or a search. A search also decides
    if this chip's constants do not fit the known decisions.
    """
    context = start()
    context.plan = given if known is None else known
    try:
        return context, run_passes(context, timing, after_pass)
    except PlanMisfit:
        if known is None:
            raise
    context = start()
    return context, run_passes(context, timing, after_pass)


def started(begin: Begin, graph: Graph, prefix: str = "") -> Context:
    """The context of a graph that one of several chips computes; its symbols begin with ``prefix``."""
    context = begin(graph, spread=True)
    context.prefix = prefix
    return context


def run_pass(step: Pass, context: Context, module: ModuleOp) -> None:
    """Run a pass on the graphs that control flow executes, and then on the module."""
    for _, inner, body in list(context.regions(module)):
        run_pass(step, inner, body)
    step.run(context, module)


def written(context: Context, module: ModuleOp) -> tuple[str, Bytes, Image]:
    """The text of a program whose passes have run, the bytes of its constants' file, and its image."""
    return written_together({"": (context, module)})


def written_together(networks: Networks) -> tuple[str, Bytes, Image]:
    """The text of a program of several networks, whose passes have run, with the results of ``written``; the
    contexts have different scopes. GraphError when they cannot share their states."""
    text, constants = program_text(networks)
    for context, _ in networks.values():
        context.data.clear()  # the constants' file contains them now
    machine = next(iter(networks.values()))[0].machine
    return _sealed(text, constants), constants, _assembled(text, constants, machine)


def _sealed(text: str, constants: Bytes) -> str:
    """The text with the checksum of its constants, so that the assembler need not compute it once more."""
    return "".join(f"{line}\n" for line in (text.rstrip("\n"), *checksums(constants)))


def written_for_chips(
    parts: Mapping[tuple[int, ...], tuple[str, Bytes, Image]], machine: Machine
) -> tuple[str, Bytes, Image]:
    """The program of all chips, from one program for each set of chips with the same constants, chip 0 first.

    GraphError if their texts differ, as when constants of special values lead to different code.
    """
    (_, (text, constants, image)), *others = parts.items()
    for chips, (other, _, _) in others:
        if not same_code(text, other):
            what = "some of its constants are alike, or zeros, only there"
            raise GraphError([f"chip {chips[0]} would need other code than chip 0: {what}"])
    if not others:
        return text, constants, image
    made = {chips: part[2] for chips, part in others}
    text, constants = with_chips(text, constants, image, made)
    return text, constants, _assembled(text, constants, machine)


def pipelined_graphs(
    graphs: Mapping[str, Graph], machine: Machine, degrees: Degrees, begin: Begin, known: KnownPrices
) -> dict[str, PipelinedGraph]:
    """Graphs as stages on the chips of a machine; the keys are the names of entries.

    The chips that have a state of one graph have it in all graphs. ``known`` caches prices of nodes between
    degrees. GraphError, with the entry, for a graph that has fewer stages.
    """

    def prices(name: str, part: Graph) -> Mapping[str, float]:
        key = name, degrees.sp, degrees.ep, degrees.tp, tuple(tensor.shape for tensor in part.inputs)
        if key not in known:
            alone = begin(part, spread=True, patterns="none", search="fast", residency="off")
            phases = estimated_phases(run_passes(alone, {}, None))
            known[key] = node_prices(part, {phase.name: phase.cycles for phase in phases})
        return known[key]

    found: dict[str, PipelinedGraph] = {}
    owners: dict[str, int] = {}
    for name, graph in graphs.items():
        with_format = begin(graph, spread=True)
        bytes_each, tiles = with_format.compute.bits // 8, with_format.tiles
        try:
            own = partial(prices, name)
            made = pipelined_graph(graph, machine, degrees, bytes_each, tiles, own, owners)
        except GraphError as error:
            raise _of_entry(name, error) from None
        found[name], owners = made, owners | made.states
    return found


def made_in_stages(
    pipelines: Mapping[str, PipelinedGraph],
    machine: Machine,
    begin: Begin,
    timing: dict[str, float],
    after_pass: AfterPass | None = None,
    given: Sequence[Plan] = (),
) -> tuple[list[Networks], tuple[str, Bytes, Image]]:
    """The program of pipelines: the networks of the first chip of each stage, and the results of ``written``.

    ``given`` are plans of the stages of a single network.
    """
    stages = compiled_stages(pipelines, begin, timing, after_pass, given)
    start = time.perf_counter()
    made = written_in_stages(stages, machine, {name: each.graph for name, each in pipelines.items()})
    timing["assemble"] = time.perf_counter() - start
    return [next(iter(sets.values())) for sets in stages], made


def compiled_stages(
    pipelines: Mapping[str, PipelinedGraph],
    begin: Begin,
    timing: dict[str, float],
    after_pass: AfterPass | None,
    given: Sequence[Plan] = (),
) -> list[StageSets]:
    """Each stage of pipelines, with a compilation for each set of its constants."""
    first = next(iter(pipelines.values()))
    stages: list[StageSets] = []
    for number in range(first.stages):
        plans: dict[str, Plan] = {}
        sets: dict[tuple[int, ...], Networks] = {}
        for chips, places in _sets(pipelines, number).items():
            networks = sets[chips] = {}
            for name, place in places.items():
                prefix = f"{name}.s{number}." if name else f"s{number}."
                start = partial(started, begin, pipelines[name].stage_graph(place), prefix)
                plan, after = given[number] if given else None, after_pass if chips[0] == 0 else None
                try:
                    networks[name] = run_passes_alike(start, plans.get(name), plan, timing, after)
                except GraphError as error:
                    raise _of_entry(name, error) from None
                if name not in plans:
                    plans[name] = decisions(*networks[name])
        stages.append(sets)
    return stages


def _sets(
    pipelines: Mapping[str, PipelinedGraph], stage: int
) -> dict[tuple[int, ...], dict[str, tuple[int, int]]]:
    """Groups the chips of a stage that have equal constants in all networks; returns a place for each
    network."""
    own = {
        name: {chip: place for chips, place in pipeline.parts[stage].items() for chip in chips}
        for name, pipeline in pipelines.items()
    }
    found: dict[tuple[tuple[int, int], ...], list[int]] = {}
    for chip in sorted(next(iter(own.values()))):
        found.setdefault(tuple(places[chip] for places in own.values()), []).append(chip)
    return {tuple(chips): dict(zip(own, places, strict=True)) for places, chips in found.items()}


def _of_entry(name: str, error: GraphError) -> GraphError:
    return GraphError([f"entry {name}: {problem}" if name else problem for problem in error.messages])


def written_in_stages(
    stages: Sequence[StageSets], machine: Machine, graphs: Mapping[str, Graph]
) -> tuple[str, Bytes, Image]:
    """The text of pipelines whose passes have run, the bytes of its constants' file, and its image.

    ``graphs`` are the undivided ones, by entry. All chips of a stage have the same code. The constants of all
    stages begin at the same place, because a chip has only its own. GraphError for chips of a stage that
    would need different code.
    """
    firsts = [next(iter(sets.values())) for sets in stages]
    numbers = {chip: stage for stage, sets in enumerate(stages) for chips in sets for chip in chips}
    lines, constants = with_overlaid([_placed_alike(sets, machine) for sets in stages])
    code = stages_text(firsts, [numbers[chip] for chip in range(len(numbers))], graphs)
    for context, _ in (network for sets in stages for each in sets.values() for network in each.values()):
        context.data.clear()
    first, _ = next(iter(firsts[0].values()))
    head = [f"# {one_line(first.graph.name)} in {first.compute.token}, made by tx8cc", ""]
    text = "\n".join([*head, *lines, *code])
    return _sealed(text, constants), constants, _assembled(text, constants, machine)


def _placed_alike(sets: StageSets, machine: Machine) -> dict[tuple[int, ...], PlacedConstants]:
    """The constants of the chips of a stage; GraphError if these would need different code."""
    found = {chips: _placed(constants_of([*networks.values()]), machine) for chips, networks in sets.items()}
    phases = {
        chips: [lines for context, _ in networks.values() for _, lines in context.phases]
        for chips, networks in sets.items()
    }
    first, *others = sets
    for chips in others:
        if found[chips].places != found[first].places or phases[chips] != phases[first]:
            what = "some of its constants are alike, or zeros, only there"
            raise GraphError([f"chip {chips[0]} would need other code than chip {first[0]}: {what}"])
    return found


def _placed(data: Data, machine: Machine) -> PlacedConstants:
    """Place constants from the beginning of a bank; returns their places and total bytes."""
    begin = f"        .section .ddr\n        .balign {data.bank}\n{BEGIN}:\n        .text\n        ecall\n"
    lines = "\n".join(data.out.lines)
    image = _assembled(f"{begin}{lines}\n        .section .ddr\n        .byte 0\n", data.blob, machine)
    segment = next(each for each in image.segments if each.section == REPLACED)
    first = image.symbols[BEGIN].address
    places = {name: found.address - first for name, found in image.symbols.items() if first <= found.address}
    del places[BEGIN]
    return PlacedConstants(places, bytes(segment.data[first - segment.address :]), data.bank)


def _assembled(text: str, constants: Bytes, machine: Machine) -> Image:
    try:
        return asm.assemble(text, "prog.s", machine=machine, given={CONSTANTS_FILE: constants})
    except AsmError as error:
        first = str(error).partition("\n")[0]
        raise GraphError([f"internal error: the generated assembly is wrong: {first}"]) from error


def pass_names() -> Sequence[str]:
    """The names of the passes, in order."""
    return [step.name for step in PIPELINE]
