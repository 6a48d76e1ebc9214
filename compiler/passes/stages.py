"""Programs of pipelines: a compilation for each stage, and one text and image of all.

A chip has the code of all stages and the constants of its own. A program of several networks has the same
stages of each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from asm.image import Image
from asm.image.chips import REPLACED
from compiler.codegen.program import Data
from compiler.graph import Graph, GraphError
from compiler.passes.ddr.chip_constants import BEGIN, PlacedConstants, with_overlaid
from compiler.search.chips import SENT, Degrees, PipelinedGraph, node_prices, pipelined_graph
from compiler.search.plan import Plan
from tx8isa.machine.description import Machine
from tx8isa.tools.files import Bytes

from .base import Context
from .compilation import AfterPass, assembled, recorded, run_passes, sealed
from .emit import Network, constants_of, entry_record, foreign_buffers, stages_text
from .report import decisions, estimated_phases

Networks = Mapping[str, Network]
"""Networks whose passes have run, by the names of entries; a single one has an empty name."""
StageSets = Mapping[tuple[int, ...], Networks]
"""What chips of a stage compute, by the chips that have the same constants."""
Begin = Callable[..., Context]
"""Begins the compilation of a graph, as ``compiler.passes.compilation.context_of``."""


def pipelined_graphs(
    graphs: Mapping[str, Graph], machine: Machine, degrees: Degrees, begin: Begin
) -> dict[str, PipelinedGraph]:
    """Graphs as stages on the chips of a machine; the keys are the names of entries.

    The chips that have a state of one of them have it in all. GraphError, with the entry, for a graph that
    has not so many stages.
    """

    def prices(part: Graph) -> dict[str, float]:
        alone = begin(part, spread=True, patterns="none", search="fast", residency="off")
        phases = estimated_phases(run_passes(alone, {}, None))
        return node_prices(part, {phase.name: phase.cycles for phase in phases})

    found: dict[str, PipelinedGraph] = {}
    owners: dict[str, int] = {}
    for name, graph in graphs.items():
        with_format = begin(graph, spread=True)
        bytes_each, tiles = with_format.compute.bits // 8, with_format.tiles
        try:
            made = pipelined_graph(graph, machine, degrees, bytes_each, tiles, prices, owners)
        except GraphError as error:
            raise _of_entry(name, error) from None
        found[name], owners = made, owners | made.states
    return found


def compiled_stages(
    pipelines: Mapping[str, PipelinedGraph],
    begin: Begin,
    timing: dict[str, float],
    after_pass: AfterPass | None,
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
                context = begin(pipelines[name].stage_graph(place), spread=True)
                context.prefix = f"{name}.s{number}." if name else f"s{number}."
                context.plan = plans.get(name)
                try:
                    module = run_passes(context, timing, after_pass if chips[0] == 0 else None)
                except GraphError as error:
                    raise _of_entry(name, error) from None
                networks[name] = context, module
                if name not in plans and (plan := decisions(context, module)).templates:
                    plans[name] = plan
        stages.append(sets)
    return stages


def _sets(
    pipelines: Mapping[str, PipelinedGraph], stage: int
) -> dict[tuple[int, ...], dict[str, tuple[int, int]]]:
    """The chips of a stage that have the same constants in all networks, with a place of them in each."""
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


def written_in_stages(stages: Sequence[StageSets], machine: Machine) -> tuple[str, Bytes, Image]:
    """The text of pipelines whose passes have run, the bytes of its constants' file, and its image.

    The code of all chips of a stage is the same. The constants of all stages begin at the same place, for a
    chip has only its own. GraphError for chips of a stage that would need other code.
    """
    firsts = [next(iter(sets.values())) for sets in stages]
    numbers = {chip: stage for stage, sets in enumerate(stages) for chips in sets for chip in chips}
    lines, constants = with_overlaid([_placed_alike(sets, machine) for sets in stages])
    code = stages_text(firsts, [numbers[chip] for chip in range(len(numbers))])
    for context, _ in (network for sets in stages for each in sets.values() for network in each.values()):
        context.data.clear()
    first, _ = next(iter(firsts[0].values()))
    head = [f"# {' '.join(first.graph.name.split())} in {first.compute.token}, made by tx8cc", ""]
    text = "\n".join([*head, *lines, *code])
    image = assembled(text, constants, machine)
    records = "".join(_records(firsts, image))
    found = recorded(records, machine)
    if found.entry_points:
        image = replace(image, entry=found.entry, entry_points=found.entry_points)
    else:
        image = replace(image, buffers=found.buffers)
    return sealed(text, constants) + records, constants, image


def _records(stages: Sequence[Networks], image: Image) -> Iterator[str]:
    """Lines with the inputs and outputs of each entry, and where it starts."""
    for name in stages[0]:
        if name:
            yield f"{entry_record(name, image)}\n"
        buffers = [
            record
            for networks in stages
            for record in foreign_buffers(*networks[name], image).splitlines(keepends=True)
            if SENT not in record
        ]
        yield from dict.fromkeys(buffers)


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
    """Where constants are, from the beginning of a bank on, and their bytes there."""
    begin = f"        .section .ddr\n        .balign {data.bank}\n{BEGIN}:\n        .text\n        ecall\n"
    lines = "\n".join(data.out.lines)
    image = assembled(f"{begin}{lines}\n        .section .ddr\n        .byte 0\n", data.blob, machine)
    segment = next(each for each in image.segments if each.section == REPLACED)
    first = image.symbols[BEGIN].address
    places = {name: found.address - first for name, found in image.symbols.items() if first <= found.address}
    del places[BEGIN]
    return PlacedConstants(places, bytes(segment.data[first - segment.address :]), data.bank)
