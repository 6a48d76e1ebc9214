"""Compiles a graph: runs the passes, writes the assembly text and assembles it.

What a program is can be known without the passes: they are imported when there is a graph to compile.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from asm.image import Image, image_parts
from compiler.codegen import DEFAULT_TILES, write_program
from tx8isa.machine.description import Machine, load_machine
from tx8isa.tools.collector import seldom_collected
from tx8isa.tools.files import Bytes

from .graph import GraphError

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from compiler.evaluation.core_work import CoreWork
    from compiler.evaluation.wide_values import WideValues
    from compiler.passes.base import Context, RangedSource
    from compiler.passes.compilation import AfterPass
    from compiler.passes.report import EstimatedPhase, Report
    from compiler.search.chips import ChipBounds, ChosenDegrees, Degrees, SharedGraph, TriedDegrees

    from .graph import Graph
    from .search import SearchProgress
    from .search.plan import Plan

_Written = tuple[str, Bytes, Image]
"""The assembly text, the bytes of the constants and the image."""


@dataclass(frozen=True, repr=False)
class Program:
    """A compiled graph. The text includes ``constants`` as the file ``prog.const``."""

    graph: Graph
    dtype: str
    tiles: int
    text: str
    constants: Bytes
    image: Image
    machine: Machine
    timing: dict[str, float] = field(default_factory=dict)
    """Seconds per pass, and of the assembler."""
    report: Report | None = None
    """The decisions of the compilation; None for a program from the cache."""
    states: tuple[str, ...] = ()
    """A line for each state of the graph: what writes its new value, or why that is copied."""
    core_work: CoreWork | None = None
    """What the kernel core computes element by element, which is slow; None if that hardly counts."""
    wide: WideValues | None = None
    """Values that stay in FP32 because FP16 cannot hold them, as far as constants say it."""
    spread: SharedGraph | None = None
    """How several chips share the graph; None on one."""
    tried: tuple[TriedDegrees, ...] = ()
    """The degrees of parallelism that a search has tried."""

    def __repr__(self) -> str:
        size = f"{len(self.text.splitlines()):,} lines, {len(self.constants):,} bytes of constants"
        return f"<compiler.Program {self.graph.name}: {self.dtype}, {self.tiles} tiles, {size}>"

    @cached_property
    def image_file(self) -> Sequence[Bytes]:
        """The bytes of prog.bin in pieces, so that large constants, which the image has, are not copied."""
        return image_parts(self.image)

    def write(
        self, folder: Path, text_only: bool = False, more: Mapping[Path, Sequence[Bytes]] | None = None
    ) -> None:
        """Write prog.s, prog.const, prog.bin unless ``text_only``, and ``more`` files, given in pieces.

        Either all files are written or none.
        """
        write_program(folder, self.text, self.constants, None if text_only else self.image_file, more)


@dataclass(frozen=True, repr=False)
class EntryProgram:
    """Several compiled graphs in one image, by name, with constants and states in common."""

    graphs: Mapping[str, Graph]
    dtype: str
    tiles: int
    text: str
    constants: Bytes
    image: Image
    machine: Machine
    states: tuple[str, ...]
    """A line for each state of each graph, as ``Program.states``."""
    spreads: Mapping[str, SharedGraph] | None = None
    """How several chips share the graphs, by entry; None on one."""
    tried: tuple[TriedDegrees, ...] = ()
    """The degrees of parallelism that were tried, with their estimates; nothing if they were given."""

    def __repr__(self) -> str:
        return f"<compiler.EntryProgram {', '.join(self.graphs)}: {self.dtype}, {self.tiles} tiles>"

    def write(self, folder: Path, text_only: bool = False) -> None:
        """Write prog.s, prog.const, and prog.bin unless ``text_only``; either all files or none."""
        write_program(folder, self.text, self.constants, None if text_only else image_parts(self.image))


@seldom_collected()
def compile_entries(
    graphs: Mapping[str, Graph],
    states: Mapping[str, str] | None = None,
    *,
    dtype: str | None = None,
    tiles: int | None = None,
    machine: Machine | None = None,
    patterns: str = "default",
    search: str = "fast",
    residency: str = "on",
    parallel: Degrees | None = None,
) -> EntryProgram:
    """Compile several checked graphs into one image; the keys are the names of its entries.

    Equal constants are stored once; the first entry is the usual one. ``states`` are inputs and outputs that
    are the same memory, also in all graphs that have them. The other arguments are those of
    ``compile_graph``; ``dtype`` is by default that of the first graph. GraphError for graphs that cannot be
    compiled, with the entry, or cannot share a state.
    """
    from compiler.evaluation.states import with_states_of_entries
    from compiler.passes.compilation import context_of, default_dtype, made_in_stages, written_together

    found = with_states_of_entries(graphs, states or {})
    dtype = dtype or default_dtype(next(iter(found.values())))
    machine = load_machine(None) if machine is None else machine
    options: dict[str, Any] = {"patterns": patterns, "search": search, "residency": residency}
    begin: Callable[..., Context] = partial(context_of, dtype=dtype, tiles=tiles, machine=machine, **options)
    spreads: Mapping[str, SharedGraph] | None = None
    tried: tuple[TriedDegrees, ...] = ()
    if parallel is not None and parallel.pp > 1:
        spreads, of_stages, made = made_in_stages(found, machine, parallel, begin, {})
    elif parallel is not None or machine.chip_count > 1:
        chosen = chosen_degrees(found, dtype, tiles, machine, parallel, begin)
        networks, made = _shared_entries(chosen, machine, begin)
        spreads, tried, of_stages = chosen.spreads, chosen.tried, [networks]
    else:
        of_stages = [_networks(found, begin, {})]
        made = written_together(of_stages[0])
    context = next(iter(of_stages[0].values()))[0]
    lines = tuple(
        f"entry {name}: {each}" for name in found for own in of_stages for each in own[name][0].updates
    )
    return EntryProgram(found, context.compute.token, context.tiles, *made, machine, lines, spreads, tried)


def _shared_entries(
    chosen: ChosenDegrees, machine: Machine, begin: Callable[..., Context]
) -> tuple[dict[str, tuple[Context, ModuleOp]], _Written]:
    """The networks of the first chip, and the program of all, each of which has its part of them."""
    from compiler.passes.compilation import written_for_chips, written_together

    plans: dict[str, Plan] = {}
    each = {
        chips: _networks(chosen.graphs_at(places), begin, plans, spread=True)
        for chips, places in chosen.places.items()
    }
    made = written_for_chips({chips: written_together(own) for chips, own in each.items()}, machine)
    return next(iter(each.values())), made


def _networks(
    graphs: Mapping[str, Graph], begin: Callable[..., Context], plans: dict[str, Plan], spread: bool = False
) -> dict[str, tuple[Context, ModuleOp]]:
    """The networks of a program after all passes; ``plans`` has the decisions about them, or gets them."""
    from compiler.passes.compilation import run_passes
    from compiler.passes.report import decisions

    networks = {}
    for name, graph in graphs.items():
        try:
            context = begin(graph, spread=spread)
            context.prefix, context.plan = f"{name}.", plans.get(name)
            module = run_passes(context, {}, None)
        except GraphError as error:
            raise GraphError([f"entry {name}: {problem}" for problem in error.messages]) from None
        networks[name] = context, module
        if name not in plans and (plan := decisions(context, module)).templates:
            plans[name] = plan
    return networks


@seldom_collected()
def compile_graph(
    graph: Graph,
    dtype: str | None = None,
    tiles: int | None = None,
    machine: Machine | None = None,
    after_pass: AfterPass | None = None,
    patterns: str = "default",
    search: str = "fast",
    plan: Path | None = None,
    search_progress: SearchProgress | None = None,
    residency: str = "on",
    parallel: Degrees | None = None,
    ranges: RangedSource | None = None,
) -> Program:
    """Compile a checked graph.

    ``dtype`` (fp32, tf32, fp16, bf16) is the format in which floats are stored and computed, by default that
    of the graph's first float input. ``tiles`` is how many tiles take part: by default 16, or all of a
    smaller machine. ``after_pass`` is called after every pass, ``search_progress`` before every candidate of
    the search. ``patterns`` names a set of patterns or a file of them (docs/groups.md); with ``none`` every
    operation has a phase of its own. ``search`` (off, fast, full) says how many ways of dividing the work are
    tried; a ``plan`` of an earlier compilation takes its place. With ``residency`` off, all values between
    groups are in DDR. With ``ranges`` the program runs any size of them; the graph is that at the usual ones.
    ``parallel`` says how the chips of a machine with several share the graph, by default as its model says,
    or else by the degrees with the fewest estimated cycles. GraphError for a graph that cannot be compiled.
    """
    from compiler.passes.compilation import context_of, run_passes, written
    from compiler.passes.report import report_of
    from compiler.search.chips import said_degrees

    machine = load_machine(None) if machine is None else machine
    graph = graph if ranges is None else ranges.with_room(graph)
    options: dict[str, Any] = {"patterns": patterns, "search": search, "plan": plan}
    options |= {"residency": residency, "ranges": ranges}
    begin: Callable[..., Context] = partial(context_of, dtype=dtype, tiles=tiles, machine=machine, **options)
    parallel = said_degrees({"": graph}, machine, parallel)
    if parallel is not None and parallel.pp > 1:
        return _compile_pipeline(graph, machine, parallel, begin, after_pass)
    if parallel is not None or machine.chip_count > 1:
        chosen = chosen_degrees({"": graph}, dtype, tiles, machine, parallel, begin)
        return _compile_for_chips(chosen, machine, begin, after_pass)
    context = begin(graph)
    context.search_progress = search_progress
    timing: dict[str, float] = {}
    module = run_passes(context, timing, after_pass)
    start = time.perf_counter()
    made = written(context, module)
    timing["assemble"] = time.perf_counter() - start
    return _program(graph, context, made, timing, report_of(context, module, made[2]))


@dataclass(frozen=True)
class EstimatedProgram:
    """What a graph takes on the chips of a machine, in estimated cycles; nothing was run.

    ``chosen`` is how several chips share it, None on one; ``bounds`` are those of one of the chips.
    """

    machine: Machine
    phases: list[EstimatedPhase]
    bounds: ChipBounds
    chosen: ChosenDegrees | None = None

    @property
    def cycles(self) -> int:
        return sum(phase.cycles for phase in self.phases)

    @property
    def exchanges(self) -> int:
        """Cycles of exchanges between chips."""
        return sum(phase.cycles for phase in self.phases if phase.exchange)


def estimate_graph(
    graph: Graph,
    dtype: str | None = None,
    tiles: int | None = None,
    machine: Machine | None = None,
    patterns: str = "default",
    residency: str = "on",
    parallel: Degrees | None = None,
) -> EstimatedProgram:
    """Price a graph without making a program; the arguments are those of ``compile_graph``.

    The machine may have more chips than programs can have (``compiler.search.chips.priced_machine``).
    """
    from compiler.passes.compilation import compute_format, context_of, default_dtype, run_passes
    from compiler.passes.report import estimated_phases
    from compiler.search.chips import bounds_of

    machine = load_machine(None) if machine is None else machine
    begin = partial(
        context_of, dtype=dtype, tiles=tiles, machine=machine, patterns=patterns, residency=residency
    )
    chosen, local = None, graph
    if parallel is not None or machine.chip_count > 1:
        chosen = chosen_degrees({"": graph}, dtype, tiles, machine, parallel, begin)
        local = chosen.spread.graph_of((0, 0))
    phases = estimated_phases(run_passes(begin(local, spread=chosen is not None), {}, None))
    bytes_each = compute_format(dtype or default_dtype(graph)).bits // 8
    bounds = bounds_of(local, machine, bytes_each, tiles or DEFAULT_TILES)
    return EstimatedProgram(machine, phases, bounds, chosen)


def chosen_degrees(
    graphs: Mapping[str, Graph],
    dtype: str | None,
    tiles: int | None,
    machine: Machine,
    parallel: Degrees | None,
    begin: Callable[..., Context],
) -> ChosenDegrees:
    """Graphs divided over the chips of a machine, by given degrees or by those that are estimated best.

    The keys are names of entries; a single graph has an empty one.
    """
    from compiler.passes.compilation import compute_format, default_dtype, run_passes
    from compiler.passes.report import estimated_phases
    from compiler.search.chips import choose_degrees

    def estimate(local: Graph) -> tuple[int, int]:
        phases = estimated_phases(run_passes(begin(local, spread=True, search="fast"), {}, None))
        exchanges = sum(phase.cycles for phase in phases if phase.exchange)
        return sum(phase.cycles for phase in phases), exchanges

    first = next(iter(graphs.values()))
    bytes_each = compute_format(dtype or default_dtype(first)).bits // 8
    return choose_degrees(graphs, machine, parallel, bytes_each, tiles or DEFAULT_TILES, estimate)


def _compile_for_chips(
    chosen: ChosenDegrees, machine: Machine, begin: Callable[..., Context], after_pass: AfterPass | None
) -> Program:
    """One program for all chips: a compilation for each set of constants, with the decisions of chip 0."""
    from compiler.passes.compilation import run_passes, written, written_for_chips
    from compiler.passes.report import report_of

    spread = chosen.spread
    timing: dict[str, float] = {}
    parts: dict[tuple[int, ...], _Written] = {}
    first: tuple[Context, Report] | None = None
    for place, chips in spread.parts.items():
        context = begin(spread.graph_of(place), spread=True)
        if first is not None and first[1].plan.templates:
            context.plan = first[1].plan
        module = run_passes(context, timing, after_pass if first is None else None)
        parts[chips] = written(context, module)
        first = first or (context, report_of(context, module, parts[chips][2]))
    assert first is not None
    start = time.perf_counter()
    made = written_for_chips(parts, machine)
    timing["assemble"] = time.perf_counter() - start
    report = replace(first[1], degrees=[*chosen.tried]) if chosen.tried else first[1]
    return _program(spread.graph, first[0], made, timing, report, spread, chosen.tried)


def _compile_pipeline(
    graph: Graph,
    machine: Machine,
    parallel: Degrees,
    begin: Callable[..., Context],
    after_pass: AfterPass | None,
) -> Program:
    """One program of several stages, each with a compilation for each set of its constants."""
    from compiler.passes.compilation import made_in_stages
    from compiler.passes.report import report_of

    timing: dict[str, float] = {}
    pipelines, stages, made = made_in_stages({"": graph}, machine, parallel, begin, timing, after_pass)
    networks = [each[""] for each in stages]
    updates = [each for context, _ in networks for each in context.updates]
    report = replace(report_of(*networks[0], made[2]), states=updates)
    return _program(graph, networks[0][0], made, timing, report, spread=pipelines[""])


def _program(
    graph: Graph,
    context: Context,
    made: _Written,
    timing: dict[str, float],
    report: Report,
    spread: SharedGraph | None = None,
    tried: tuple[TriedDegrees, ...] = (),
) -> Program:
    return Program(
        graph,
        context.compute.token,
        context.tiles,
        *made,
        context.machine,
        timing,
        report,
        tuple(map(str, report.states)),
        report.core_work,
        context.wide,
        spread,
        tried,
    )
