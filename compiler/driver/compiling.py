"""Compiles a graph: runs the passes, writes the assembly text and assembles it."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from compiler.graph import GraphError
from tx8isa.machine.description import Machine, load_machine
from tx8isa.tools.collector import seldom_collected

from .estimates import check_one_chip, chosen_degrees
from .programs import EntryProgram, Program, Written

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from compiler.graph import Graph
    from compiler.passes.base import Context, RangedSource, Twin
    from compiler.passes.compilation import AfterPass
    from compiler.passes.report import Report
    from compiler.search import SearchProgress
    from compiler.search.chips import ChosenDegrees, Degrees, SharedGraph, TriedDegrees
    from compiler.search.plan import Plan


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

    Equal constants are stored once; the first entry is the default. ``states`` are inputs and outputs that
    are the same memory, also across graphs that have them. The other arguments are those of
    ``compile_graph``; the default of ``dtype`` is that of the first graph. GraphError for graphs that cannot
    be compiled, with the entry, or cannot share a state.
    """
    from compiler.evaluation.states import with_states_of_entries
    from compiler.evaluation.storage import default_dtype
    from compiler.passes.compilation import context_of, made_in_stages, written_together

    found = with_states_of_entries(graphs, states or {})
    dtype = dtype or default_dtype(next(iter(found.values())))
    machine = load_machine(None) if machine is None else machine
    options: dict[str, Any] = {"patterns": patterns, "search": search, "residency": residency}
    begin: Callable[..., Context] = partial(context_of, dtype=dtype, tiles=tiles, machine=machine, **options)
    spreads: Mapping[str, SharedGraph] | None = None
    tried: tuple[TriedDegrees, ...] = ()
    if parallel is not None or machine.chip_count > 1:
        chosen = chosen_degrees(found, dtype, tiles, machine, parallel, begin)
        spreads, tried = chosen.shared, chosen.tried
        if chosen.pipelines:
            of_stages, made = made_in_stages(chosen.pipelines, machine, begin, {})
        else:
            networks, made = _shared_entries(chosen, machine, begin)
            of_stages = [networks]
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
) -> tuple[dict[str, tuple[Context, ModuleOp]], Written]:
    """Compile the networks for several chips.

    Return those of the first chip, and the program of all chips.
    """
    from compiler.passes.compilation import written_for_chips, written_together

    plans: dict[str, Plan] = {}
    each = {
        chips: _networks(chosen.graphs_at(places), begin, plans) for chips, places in chosen.places.items()
    }
    made = written_for_chips({chips: written_together(own) for chips, own in each.items()}, machine)
    return next(iter(each.values())), made


def _networks(
    graphs: Mapping[str, Graph], begin: Callable[..., Context], plans: dict[str, Plan]
) -> dict[str, tuple[Context, ModuleOp]]:
    """Return the networks of a program after all passes; ``plans`` has their decisions, or receives them."""
    from compiler.passes.compilation import run_passes_alike, started
    from compiler.passes.report import decisions

    networks = {}
    for name, graph in graphs.items():
        try:
            start = partial(started, begin, graph, f"{name}.")
            networks[name] = run_passes_alike(start, plans.get(name), None, {}, None)
        except GraphError as error:
            raise GraphError([f"entry {name}: {problem}" for problem in error.messages]) from None
        if name not in plans:
            plans[name] = decisions(*networks[name])
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
    plan: Path | Plan | None = None,
    search_progress: SearchProgress | None = None,
    residency: str = "on",
    parallel: Degrees | None = None,
    ranges: RangedSource | None = None,
    twin: Twin | None = None,
) -> Program:
    """Compile a checked graph.

    ``dtype`` (fp32, tf32, fp16, bf16) is the format in which floats are stored and computed, by default that
    of the graph's first float input. ``tiles`` is the number of tiles: by default 16, or all of a smaller
    machine. ``after_pass`` is called after every pass, ``search_progress`` before every candidate of the
    search. ``patterns`` names a set of patterns or a file of them (docs/groups.md); with ``none`` every
    operation is a separate phase. ``search`` (off, fast, full) limits the divisions of the work that are
    tried. A ``plan`` of an earlier compilation, or its file, replaces the search and the choice of degrees.
    With ``residency`` off, all values between groups are in DDR. With ``ranges`` the program runs any size in
    them; ``graph`` is then the one at the usual sizes.

    ``parallel`` tells how the chips of a machine share the graph. By default it is the model's own sharding,
    or the degrees with the fewest estimated cycles. ``twin`` returns other constants for the graph after its
    rewrites, on several chips before them; proofs use it. GraphError for a graph that cannot be compiled.
    """
    from compiler.passes.compilation import context_of, run_passes, written
    from compiler.passes.report import report_of
    from compiler.search import read_plan

    machine = load_machine(None) if machine is None else machine
    given = read_plan(plan) if isinstance(plan, Path) else plan
    options: dict[str, Any] = {"patterns": patterns, "search": search, "residency": residency}
    options |= {"tiles": tiles, "machine": machine, "ranges": ranges}
    again = partial(compile_graph, graph, dtype, parallel=parallel, **options)
    graph = _with_room(graph, ranges, twin if machine.chip_count > 1 else None)
    begin: Callable[..., Context] = partial(context_of, dtype=dtype, **options)
    if parallel is not None or machine.chip_count > 1:
        chosen = chosen_degrees({"": graph}, dtype, tiles, machine, parallel, begin, given)
        made_of = _compile_pipeline if chosen.pipelines else _compile_for_chips
        return _repeatable(made_of(chosen, machine, begin, after_pass, given), again)
    check_one_chip(given)
    context = begin(graph)
    context.plan, context.search_progress, context.twin = given, search_progress, twin
    timing: dict[str, float] = {}
    module = run_passes(context, timing, after_pass)
    start = time.perf_counter()
    made = written(context, module)
    timing["assemble"] = time.perf_counter() - start
    program = _program(graph, context, made, timing, report_of(context, module, made[2]))
    return dataclasses.replace(_repeatable(program, again), ranges=ranges)


def _with_room(graph: Graph, ranges: RangedSource | None, twin: Twin | None) -> Graph:
    """The graph with room for the largest sizes, and with other constants."""
    graph = graph if ranges is None else ranges.with_room(graph)
    return graph if twin is None else twin(graph)


def _repeatable(program: Program, again: Callable[..., Program]) -> Program:
    """A program, and the function that compiles it again with the same decisions."""
    assert program.report is not None
    return dataclasses.replace(program, again=partial(again, plan=program.report.plan))


def _compile_for_chips(
    chosen: ChosenDegrees,
    machine: Machine,
    begin: Callable[..., Context],
    after_pass: AfterPass | None,
    given: Plan | None,
) -> Program:
    """Compile one program for all chips: once for each set of constants, with the decisions of chip 0."""
    from compiler.passes.compilation import run_passes_alike, started, written, written_for_chips
    from compiler.passes.report import report_of

    spread = chosen.spread
    timing: dict[str, float] = {}
    parts: dict[tuple[int, ...], Written] = {}
    first: tuple[Context, Report] | None = None
    for place, chips in spread.parts.items():
        known, after = (None, after_pass) if first is None else (first[1].plan, None)
        start = partial(started, begin, spread.graph_of(place))
        context, module = run_passes_alike(start, known, given, timing, after)
        parts[chips] = written(context, module)
        first = first or (context, report_of(context, module, parts[chips][2]))
    assert first is not None
    begun = time.perf_counter()
    made = written_for_chips(parts, machine)
    timing["assemble"] = time.perf_counter() - begun
    report = _of_chips(first[1], chosen, replace(first[1].plan, parallel=str(chosen.degrees)))
    return _program(spread.graph, first[0], made, timing, report, spread, chosen.tried)


def _of_chips(report: Report, chosen: ChosenDegrees, plan: Plan) -> Report:
    """Return a report with the degrees that were tried, and the plan."""
    report = replace(report, plan=plan)
    return replace(report, degrees=[*chosen.tried]) if chosen.tried else report


def _compile_pipeline(
    chosen: ChosenDegrees,
    machine: Machine,
    begin: Callable[..., Context],
    after_pass: AfterPass | None,
    given: Plan | None,
) -> Program:
    """Compile one program of several stages, each once for each set of its constants."""
    from compiler.passes.compilation import made_in_stages
    from compiler.passes.report import decisions, report_of
    from compiler.search.plan import FORMAT, Plan

    timing: dict[str, float] = {}
    plans = () if given is None else given.stages
    stages, made = made_in_stages(chosen.pipelines, machine, begin, timing, after_pass, plans)
    networks = [each[""] for each in stages]
    updates = [each for context, _ in networks for each in context.updates]
    report = replace(report_of(*networks[0], made[2]), states=updates)
    pipeline = chosen.pipelines[""]
    own = [decisions(*each) for each in networks]
    plan = Plan(parallel=str(chosen.degrees), cuts=[*pipeline.cuts], templates={}, stages=own)
    report = _of_chips(report, chosen, replace(plan, format=FORMAT))
    return _program(pipeline.graph, networks[0][0], made, timing, report, pipeline, chosen.tried)


def _program(
    graph: Graph,
    context: Context,
    made: Written,
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
