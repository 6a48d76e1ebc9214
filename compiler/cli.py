"""The command tx8cc."""

from __future__ import annotations

import argparse
import atexit
import gc
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import compiler.tools.cache  # noqa: F401  (first: it notes when the process began)
from compiler.evaluation.integers import with_integers
from compiler.tools.execution import (
    at_sizes_of_inputs,
    bound_reader,
    check_viewed,
    compile_options,
    execute,
    inputs_of,
    mistakes,
    parallel_of,
    ranged_source,
    report_text,
    say,
    say_random,
    stateful,
    verify_nodes,
    view,
)
from compiler.tools.extensions import failure_in, load_all
from compiler.tools.options import check_entries, check_kernel, check_usage, chosen, make_parser
from compiler.tools.options.proving import prove, prove_kernel
from compiler.tools.outputs import check_files, check_files_of, check_files_of_entries, program_folder
from compiler.tools.progress import ProgressLine, timing_table
from tx8isa.errors import Tx8Error
from tx8isa.tools.command_line import (
    INPUT_AT_FAULT,
    INTERRUPTED,
    guarded,
    interrupts_held,
    note,
    one_line,
    parsed,
    print_out,
    with_operand,
    with_value,
)
from tx8isa.tools.overwrite import run_of_tool

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from compiler.quantise import DecisionTable
    from tx8isa.machine.description import Machine

    from .driver import Program
    from .frontend.json.entries import EntryFile
    from .graph import Graph
    from .passes.base import RangedSource

_COLLECT_AFTER = 1_000_000
"""Objects between garbage collections: a compilation keeps nearly all objects that it makes, and collecting
as often as Python does by default takes an eighth of the time."""


@run_of_tool()
def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point; the help text lists the exit statuses."""
    parser = make_parser()
    given = with_value(with_value(arguments, "--stats", "text"), "--prove", "")
    given = with_operand(given, "--input")
    options = parsed(parser, given)
    options.asked_dtype = options.dtype  # with a network of floats, the chosen format becomes its --dtype
    check_usage(parser, options)
    gc.set_threshold(_COLLECT_AFTER)
    atexit.register(gc.freeze)  # the collection at exit would take a tenth of a short run

    def run() -> int:
        check_files(options)
        load_all(options.operators)
        statuses, lines = [], partial(mistakes, "tx8cc")
        for graph in options.graphs:  # a failure is a status, so that the other graphs are compiled as well
            statuses.append(guarded("tx8cc", partial(_one_graph, options, Path(graph)), lines=lines))
            if statuses[-1] == INTERRUPTED:
                break
        return max(statuses)

    return guarded("tx8cc", run)


def _one_graph(options: argparse.Namespace, graph: Path) -> int:
    """Compile one graph."""
    from .frontend.formats import is_ttir

    if options.view:
        check_viewed(graph)
    try:
        if is_ttir(graph):
            return _run_kernel(options, graph)
        if options.grid is not None or options.arguments:
            raise Tx8Error(f"{graph}: --grid and --arg are for kernels of Triton (.ttir); this is a graph")
        if options.estimate:
            return _estimate(options, graph)
        if (entries := _entries(graph)) is not None:
            return _run_entries(options, graph, entries)
        return _check(options, graph) if options.check else _run(options, graph)
    except (Tx8Error, OSError, MemoryError):
        raise
    except Exception as error:
        if (text := failure_in(options.operators, error)) is None:
            raise
        raise Tx8Error(text) from None


def _check(options: argparse.Namespace, path: Path) -> int:
    """Print how the operators of a model will run."""
    from compiler.tools.check import check_model, table

    from .frontend import ModelFile

    found = check_model(bound_reader(options, ModelFile(path)), path)
    print_out(found.json() if options.json else table(found))
    return 0 if found.supported else INPUT_AT_FAULT


def _one_chip(options: argparse.Namespace) -> Machine:
    """Return the machine that --machine names, with the submission of commands that --issue chooses."""
    from tx8isa.machine.description import load_machine

    machine = load_machine(options.machine)
    return machine.issued_by(options.issue) if options.issue else machine


def _estimate(options: argparse.Namespace, path: Path) -> int:
    """Print the estimated cycles of a graph, phase by phase."""
    from compiler.search.chips import priced_machine
    from compiler.tools.progress import estimate_table

    from .driver import estimate_graph
    from .frontend import ModelFile

    graph = stateful(options, bound_reader(options, ModelFile(path))(path))
    machine = _one_chip(options)
    if options.chips is not None:
        machine = priced_machine(machine, *options.chips)
    wanted = compile_options(options)
    found = estimate_graph(
        graph,
        machine=machine,
        **{name: wanted[name] for name in ("dtype", "tiles", "patterns", "residency", "parallel")},
    )
    if found.chosen is not None:
        for tried in found.chosen.tried:
            print_out(f"tried {tried}")
        one = "one of which takes:"
        if found.times is not None:
            parts = f"parts of the batch: {found.parts}"
            one = f"{parts}; a chip of stage {found.times.longest}, which has most to do, takes:"
        print_out(f"{found.chosen.degrees} on {machine.chip_count} chips, {one}")
    print_out(estimate_table(found))
    return 0


def _machine(options: argparse.Namespace) -> Machine:
    """The machine, with as many chips as --chips says."""
    machine = _one_chip(options)
    return machine if options.chips is None else machine.of_chips(*options.chips)


def _run(options: argparse.Namespace, path: Path) -> int:
    ranges, read = _reading(options, path)
    machine = _machine(options)
    graph = stateful(options, read(path))
    check_files_of(options, path, graph)
    inputs = inputs_of(options, graph) if (options.run or options.verify_nodes) and ranges is None else {}
    made = chosen(options, graph, machine)
    if made is not None:
        graph, options = made.graph, argparse.Namespace(**{**vars(options), "dtype": made.dtype})
    program = _compiled(options, with_integers(graph, options.integers), machine, ranges)
    if ranges is not None and options.run:
        program, inputs = at_sizes_of_inputs(options, program, ranges)
    if made is not None and made.wide is not None:
        program = replace(program, wide=made.wide.joined(program.wide))
    table, source = (None, None) if made is None else (made.table, made.source)
    folder = program_folder(options, path)
    program.write(folder, options.text_only, _extra_files(options, program, table))
    if not options.quiet:
        _say_what_is_made(options, program, folder, table)
    if options.timing:
        print_out(timing_table(program.timing))
    status, outcome = execute(options, program, inputs, path, source) if options.run else (0, None)
    if options.report == "-" and not options.run:
        print_out(report_text(program, None))
    verified = None
    if options.verify_nodes:
        failed, verified = verify_nodes(options, program, inputs, folder, source)
        status = max(status, failed)
    if options.view:
        view(options, program, path, outcome, verified)
    if options.prove or options.prove_order:
        status = max(status, prove(options, program))
    return status


def _reading(options: argparse.Namespace, path: Path) -> tuple[RangedSource | None, Callable[[Path], Graph]]:
    """Return the ranges of --dim, None without it, and the reader of the graph at the usual sizes."""
    from .frontend import ModelFile

    with interrupts_held():
        model = ModelFile(path)
        at = partial(bound_reader, options, model)
        ranges = ranged_source(options, model, lambda sizes: stateful(options, at(sizes)(path)))
        return ranges, at()


def _say_what_is_made(
    options: argparse.Namespace, program: Program, folder: Path, table: DecisionTable | None
) -> None:
    """Print a summary of the program, and remarks about it."""
    say(options, _summary(program, folder))
    if table is not None:
        say(options, table.summary())
    for line in _notes(program):
        say(options, line)
    if options.run or options.verify_nodes:
        say_random(options, program.graph)


def _entries(path: Path) -> EntryFile | None:
    """The entries of a file that has several networks."""
    if path.suffix.lower() != ".json":
        return None
    from .frontend.json.entries import read_entries

    return read_entries(path)


def _run_entries(options: argparse.Namespace, path: Path, entries: EntryFile) -> int:
    """Compile several networks into one program."""
    from .driver import compile_entries
    from .frontend import load

    check_entries(options, path)
    models = entries.models(path)
    check_files_of_entries(options, path, models)
    graphs = {name: load(model) for name, model in models.items()}
    machine = _machine(options)
    program = compile_entries(
        graphs,
        {**entries.state, **dict(options.state)},
        dtype=options.dtype,
        tiles=options.tiles,
        machine=machine,
        patterns=options.patterns,
        search=options.search,
        residency=options.residency,
        parallel=parallel_of(options),
    )
    folder = program_folder(options, path)
    program.write(folder, options.text_only)
    if not options.quiet:
        lines, size = program.text.count("\n"), len(program.constants)
        what = f"entries {', '.join(graphs)}, {program.dtype}, {program.tiles} tiles"
        notes = [*program.states]
        if program.spreads is not None:
            degrees = next(iter(program.spreads.values())).degrees
            what += f" of each of {machine.chip_count} chips ({degrees})"
            notes = [*(f"tried {each}" for each in program.tried), *notes]
        made = f"{lines:,} lines of assembly, {size:,} bytes of constants in {folder}"
        say(options, one_line(f"{path.stem}: {what}; {made}"))
        for line in notes:
            say(options, line)
    return 0


def _run_kernel(options: argparse.Namespace, path: Path) -> int:
    """Compile a kernel of Triton for one launch."""
    from compiler.frontend.triton.kernels.command import compile_launch

    check_kernel(options, path)
    program = compile_launch(path, options, _one_chip(options))
    folder = program_folder(options, path)
    program.write(folder, options.text_only)
    if not options.quiet:
        say(options, f"{program}; in {folder}")
    return prove_kernel(options, program) if options.prove else 0


def _compiled(
    options: argparse.Namespace, graph: Graph, machine: Machine, ranges: RangedSource | None
) -> Program:
    """The program; it comes from the cache only if no option needs the passes to run."""
    from compiler.tools.cache import compile_cached

    def compiled() -> Program:
        return _compile(options, graph, machine, ranges)

    def say(text: str) -> None:
        if options.verbose:
            note(f"tx8cc: {text}")

    # The cache has programs for one chip and one size.
    if options.no_cache or options.parallel is not None or machine.chip_count > 1 or ranges is not None:
        return compiled()
    observed = options.timing or options.print_ir_after or options.report or options.save_plan or options.view
    return compile_cached(graph, machine, compile_options(options), compiled, say, not observed)


def _compile(
    options: argparse.Namespace, graph: Graph, machine: Machine, ranges: RangedSource | None
) -> Program:
    """Run the passes and show how far they are."""
    with interrupts_held():
        from compiler.passes.compilation import pass_names  # here, for it takes most of the start

        from .driver import compile_graph

    with ProgressLine(graph.name, pass_names(), None if options.quiet else sys.stderr) as progress:
        return compile_graph(
            graph,
            machine=machine,
            after_pass=_after_pass(options, progress),
            search_progress=progress.searching,
            ranges=ranges,
            **compile_options(options),
        )


def _after_pass(options: argparse.Namespace, progress: ProgressLine) -> Callable[[str, ModuleOp], None]:
    """The function that is called after every pass; it prints what the options ask for."""
    wanted = options.print_ir_after

    def after(name: str, module: ModuleOp) -> None:
        progress.after_pass(name, module)
        if options.verbose or wanted in (name, "all"):
            progress.clear()
        if options.verbose:
            note(f"tx8cc: pass {name}: {sum(1 for _ in module.walk())} operations")
        if wanted in (name, "all"):
            print_out(f"// after {name}\n{module!s}")

    return after


def _summary(program: Program, folder: Path) -> str:
    lines, size = program.text.count("\n"), len(program.constants)
    what = f"{len(program.graph.nodes)} nodes, {program.dtype}, {program.tiles} tiles"
    if program.spread is not None:
        said = ", as the model says" if program.graph.shardings else ""
        what += f" of each of {program.machine.chip_count} chips ({program.spread.degrees}{said})"
    made = f"{lines:,} lines of assembly, {size:,} bytes of constants in {folder}"
    return one_line(f"{program.graph.name}: {what}; {made}")


def _notes(program: Program) -> list[str]:
    """Remarks about the program for its user."""
    notes = [each for each in (program.core_work, program.wide) if each is not None]
    tried = [f"tried {each}" for each in program.tried]
    doubles = _doubles(program.graph.doubles)
    return [*tried, *map(str, notes), *doubles, *_unused_shardings(program), *program.states]


def _doubles(nodes: Sequence[str]) -> list[str]:
    """The nodes that lose digits because the chip does not compute in float64."""
    some = ", ".join(f"'{name}'" for name in nodes[:3]) + (", ..." if len(nodes) > 3 else "")
    return [f"computed in float32 instead of float64: {len(nodes)} nodes ({some})"] if nodes else []


def _unused_shardings(program: Program) -> list[str]:
    """A remark if the model says how several devices share it, but the program is for one chip."""
    if program.spread is not None or not program.graph.shardings:
        return []
    known = ", ".join(str(each.devices) for each in program.graph.shardings)
    return [f"the model says how {known} devices share it; this program is for one chip (--chips)"]


def _extra_files(
    options: argparse.Namespace, program: Program, table: DecisionTable | None
) -> dict[Path, list[bytes]]:
    """The files that are written with the program: formats, plan, and the report if no run completes it."""
    files: dict[Path, list[bytes]] = {}
    if options.save_formats and table is not None:
        files[Path(options.save_formats)] = [table.json().encode()]
    if options.save_plan:
        from compiler.search.plan import plan_text

        assert program.report is not None
        files[Path(options.save_plan)] = [plan_text(program.report.plan).encode()]
    if options.report not in (None, "-") and not options.run:
        files[Path(options.report)] = [report_text(program, None).encode()]
    return files


if __name__ == "__main__":
    raise SystemExit(main())
