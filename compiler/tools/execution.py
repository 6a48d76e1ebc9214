"""The work of tx8cc after compiling: runs programs, judges outputs, verifies nodes.

Importing this module loads neither NumPy nor the emulator.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tx8isa.errors import Tx8Error
from tx8isa.tools.command_line import INPUT_AT_FAULT, error_line, named_file, note, one_line, print_out, tell

from .outputs import chosen_folder, files_of_run, program_folder

if TYPE_CHECKING:
    from compiler.driver import Program
    from compiler.evaluation.judgement import FloatModel
    from compiler.evaluation.sizes.ranges import Ranges
    from compiler.frontend import ModelFile, Reader
    from compiler.graph import Array, Graph
    from compiler.passes.base import RangedSource
    from compiler.search.chips import Degrees

    from .run import Outcome, RunFault, Watch
    from .verification.nodes import Verification

_MOST_MISTAKES = 20
"""The most mistakes of a graph that are printed."""

RUN_FAILED = 3
"""The exit status after a fault or a wrong output; the help text lists all."""


def compile_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of ``compile_graph`` that decide the program: part of its key in the cache."""
    plan = Path(options.plan) if options.plan else None
    return {
        "dtype": float_format(options),
        "tiles": options.tiles,
        "patterns": options.patterns,
        "search": options.search,
        "residency": options.residency,
        "plan": plan,
        "parallel": parallel_of(options),
    }


def parallel_of(options: argparse.Namespace) -> Degrees | None:
    """Return the degrees by which chips share the work; None without --parallel."""
    if options.parallel is None:
        return None
    from compiler.search.chips import parsed_degrees

    return parsed_degrees(options.parallel)


def float_format(options: argparse.Namespace) -> str | None:
    """Return the format of floats that was asked for; None for the graph's own."""
    return None if options.dtype is None else str(options.dtype)


def mistakes(tool: str, error: Tx8Error) -> list[str]:
    """Return a line for each mistake: a graph can have many."""
    from compiler.graph import GraphError

    if not isinstance(error, GraphError):
        return [error_line(tool, str(error))]
    from compiler.evaluation.survey import grouped

    found = grouped([error])
    rest = len(found) - _MOST_MISTAKES
    if rest > 0:
        found = [*found[:_MOST_MISTAKES], f"{rest} more mistakes; --check lists all"]
    return [error_line(tool, text) for text in found]


def say(options: argparse.Namespace, text: str) -> None:
    """Print a message for people: on standard error if JSON goes to standard output."""
    if options.stats == "json" or options.report == "-" or options.json:
        note(text)
    else:
        print_out(text)


def report_text(program: Program, outcome: Outcome | None) -> str:
    """Return the report, with the measurements of the run if there was one."""
    assert program.report is not None
    known = program.report if outcome is None else program.report.with_run(outcome.phases, outcome.report)
    return known.json()


def bound_reader(
    options: argparse.Namespace, model: ModelFile, sizes: Mapping[str, int] | None = None
) -> Reader:
    """Return the function that reads a model, with the values that the options bind for its inputs and loops.

    ``sizes``: sizes of the dimensions of --dim, by default the usual ones.
    """
    shapes, bounds = dict(options.shape), dict(options.bound)
    if sizes is None and options.dim:
        ranges = _ranges(options)
        sizes = ranges.model_sizes(ranges.usual)
    return model.reader(shapes, options.batch, _constants_of(options), sizes, bounds)


def _constants_of(options: argparse.Namespace) -> dict[str, Any]:
    """Return the values of --constant: numbers, and arrays of files. Tx8Error for a file without an array."""
    if not any(isinstance(value, Path) for _, value in options.constant):
        return dict(options.constant)
    from .run import array_of_file

    return {
        name: array_of_file(value) if isinstance(value, Path) else value for name, value in options.constant
    }


def stateful(options: argparse.Namespace, graph: Graph) -> Graph:
    """Return the graph with the states and constants of --state and --replaceable.

    GraphError for names that cannot be states or replaceable constants.
    """
    if not options.state and not options.replaceable:
        return graph
    from compiler.evaluation.states import with_states
    from compiler.passes.graph_operations import with_replaceable

    stated = with_states(graph, dict(options.state), ranged=bool(options.dim and _ranges(options).dimensions))
    return with_replaceable(stated, options.replaceable)


def _ranges(options: argparse.Namespace) -> Ranges:
    """Return the ranges of --dim; GraphError for an impossible one."""
    from compiler.evaluation.sizes.ranges import ranges_of

    return ranges_of(dict(options.dim), states=bool(options.state))


def ranged_source(
    options: argparse.Namespace, model: ModelFile, graph_at: Callable[[Mapping[str, int]], Graph]
) -> RangedSource | None:
    """Return the ranges of --dim with the function that reads the graph at a point; None for one size.

    GraphError for a range that is impossible, or that the model cannot have.
    """
    if not options.dim:
        return None
    from compiler.passes.base import RangedSource

    ranges = _ranges(options)
    if not ranges.dimensions:
        return None
    model.check_ranges(ranges)
    source = RangedSource(ranges, lambda point: graph_at(ranges.model_sizes(point)))
    return source.with_growth() if options.state else source


def at_sizes_of_inputs(
    options: argparse.Namespace, program: Program, source: RangedSource
) -> tuple[Program, dict[str, Array]]:
    """Return the program with its graph at the sizes of the arrays of --input, and the inputs of a run.

    Sizes that no array determines are the usual ones. Tx8Error for arrays that the program cannot take.
    """
    from . import run

    sizes = run.sizes_of_files(program, options.input)
    program = replace(program, graph=source.graph_at(sizes))
    return program, inputs_of(options, program.graph)


def inputs_of(options: argparse.Namespace, graph: Graph) -> dict[str, Array]:
    """Return the arrays of --input, and random ones for the other inputs.

    Tx8Error for arrays that the graph cannot take.
    """
    from . import run

    if not options.quiet:
        run.announce_compilation("tx8cc")
    known = [tensor.name for tensor in graph.inputs]
    pairs = [named_file(argument, known) for argument in options.input]
    given = run.read_inputs((pair for pair in pairs if pair is not None), graph)
    return run.random_inputs(graph, given, options.seed)


def say_random(options: argparse.Namespace, graph: Graph) -> None:
    """Print the names of random inputs."""
    known = [tensor.name for tensor in graph.inputs]
    given = {found[0] for argument in options.input if (found := named_file(argument, known))}
    missing = [name for name in known if name not in given]
    if missing:
        say(options, one_line(f"random inputs (seed {options.seed}): {', '.join(missing)}"))


def execute(
    options: argparse.Namespace,
    program: Program,
    inputs: Mapping[str, Array],
    graph: Path,
    source: FloatModel | None,
) -> tuple[int, Outcome | None]:
    """Run the program, judge its outputs, and write and print as the options say.

    Return the exit status and the outcome, None after a fault. ``source``: the network of floats that was
    quantised.
    """
    from . import run

    if options.save_inputs:
        run.write_arrays(chosen_folder(options, options.save_inputs, graph), inputs)
    try:
        outcome = run.check(program, inputs, _watch(options, graph, program), source)
    except run.RunFault as fault:
        return faulted(options, program, fault), None
    if options.output_dir:
        run.write_arrays(chosen_folder(options, options.output_dir, graph), outcome.outputs)
    say(options, run.table(outcome))
    for line in outcome.statistics:
        print_out(line)
    _write_report(options, program, outcome)
    if options.json:
        from .verdicts import run_document

        print_out(run_document(program, _asked(options, program), outcome))
    status = 0 if outcome.ok else RUN_FAILED
    unwritten = [tell(error_line("tx8cc", text), INPUT_AT_FAULT) for text in outcome.unwritten]
    return max([status, *unwritten]), outcome


def _asked(options: argparse.Namespace, program: Program) -> str:
    """Return the --dtype as given, or by default the program's format."""
    return options.asked_dtype or program.dtype


def faulted(options: argparse.Namespace, program: Program | None, fault: RunFault) -> int:
    """Print why a program stopped; return the exit status. A kernel has no ``program``."""
    note(f"tx8cc: fault: {fault}")
    for text in fault.unwritten:
        tell(error_line("tx8cc", text), INPUT_AT_FAULT)
    if options.json and program is not None:
        from .verdicts import fault_document

        print_out(fault_document(program, _asked(options, program), fault))
    return RUN_FAILED


def _write_report(options: argparse.Namespace, program: Program, outcome: Outcome) -> None:
    from tx8isa.tools.files import write_whole

    if options.report == "-":
        print_out(report_text(program, outcome))
    elif options.report:
        write_whole(options.report, report_text(program, outcome).encode())


def _watch(options: argparse.Namespace, graph: Path, program: Program) -> Watch:
    from .run import Watch

    return Watch(
        timed=True,
        statistics=options.stats,
        progress=not options.quiet,
        phases=bool(options.report or options.view),
        title=str(program_folder(options, graph) / "prog.bin"),
        page=options.html,
        trace=options.trace,
        strict=options.strict,
        gdb=options.gdb,
        files=files_of_run(options, graph, program.graph),
    )


def verify_nodes(
    options: argparse.Namespace,
    program: Program,
    inputs: Mapping[str, Array],
    folder: Path,
    source: FloatModel | None,
) -> tuple[int, Verification | None]:
    """Verify every node; write the first that differs to the folder ``wrong`` next to the program.

    Return the exit status and the verdicts, None after a fault.
    """
    from compiler.driver import compile_graph

    from . import run
    from .verification import nodes

    chosen = compile_options(options) | {"dtype": program.dtype, "plan": None}
    try:
        found = nodes.verify(
            program.graph,
            inputs,
            lambda graph: compile_graph(graph, machine=program.machine, **chosen),
            source,
        )
    except run.RunFault as fault:
        return faulted(options, program, fault), None
    say(options, nodes.table(found))
    if options.json:
        from .verdicts import nodes_document

        print_out(nodes_document(program, _asked(options, program), found))
    _write_part(options, program, found, folder)
    return 0 if found.ok else RUN_FAILED, found


def check_viewed(path: Path) -> None:
    """Raise Tx8Error for a file that --view cannot show."""
    from .view import checked_source

    checked_source(path)


def view(
    options: argparse.Namespace,
    program: Program,
    path: Path,
    outcome: Outcome | None,
    verified: Verification | None,
) -> None:
    """Write the network with the known facts about its nodes (--view)."""
    from compiler.frontend import ModelFile

    from .view import write_view

    checks = None if verified is None else verified.checks
    files = write_view(options.view, path, bound_reader(options, ModelFile(path)), program, outcome, checks)
    say(options, one_line(f"view: {', '.join(map(str, files))}"))


def _write_part(options: argparse.Namespace, program: Program, found: Verification, folder: Path) -> None:
    """Write the smallest wrong graph, and print how to run it."""
    from .verification.excerpt import write_excerpt

    if found.part is not None:
        files = write_excerpt(folder / "wrong", found.part.graph, found.part.inputs)
        given = "".join(f" --input {file.stem}={file}" for file in files)
        machine = f" --machine {options.machine}" if options.machine else ""
        what = f"--dtype {program.dtype} --tiles {program.tiles}{machine} --run{given}"
        say(options, f"to see it alone: tx8cc {folder / 'wrong' / 'graph.json'} {what}")
    elif found.at is not None:
        say(options, "no smaller graph shows it")
