"""The command tx8cc."""

from __future__ import annotations

import argparse
import atexit
import gc
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import compiler.tools.cache  # noqa: F401  (first: it notes when the process began)
from compiler.tools.options import check_usage, make_parser
from compiler.tools.progress import ProgressLine, timing_table
from tx8isa.errors import Tx8Error
from tx8isa.tools.command_line import (
    interrupts_held,
    named_file,
    one_line,
    print_out,
    with_operand,
    with_value,
)

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from compiler.tools.run import Watch
    from tx8isa.machine.description import Machine

    from .driver import Program
    from .graph import Array, Graph

_COLLECT_AFTER = 1_000_000
"""Objects between garbage collections: a compilation keeps nearly all objects that it makes, and collecting
as often as Python does by default takes an eighth of the time."""

INPUT_AT_FAULT, USAGE, RUN_FAILED = 1, 2, 3


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point; the help text lists the exit statuses."""
    parser = make_parser()
    given = with_operand(with_value(arguments, "--stats", "text"), "--input")
    options = parser.parse_args(given)
    check_usage(parser, options)
    gc.set_threshold(_COLLECT_AFTER)
    atexit.register(gc.freeze)  # the collection at exit would take a tenth of a short run
    try:
        return max(_one_graph(options, Path(graph)) for graph in options.graphs)
    except KeyboardInterrupt:
        print("tx8cc: interrupted", file=sys.stderr)
        return 130


def _one_graph(options: argparse.Namespace, graph: Path) -> int:
    """Compile one graph; a failure is an exit status, so that the other graphs are compiled as well."""
    try:
        return _run(options, graph)
    except Tx8Error as error:
        return _fail(str(error))
    except OSError as error:
        return _fail(": ".join(str(part) for part in (error.filename, error.strerror or error) if part))


def _fail(text: str) -> int:
    print(f"tx8cc: error: {one_line(text)}", file=sys.stderr)
    return INPUT_AT_FAULT


def _run(options: argparse.Namespace, path: Path) -> int:
    with interrupts_held():
        import compiler.driver  # noqa: F401  (imported here because it takes most of the start)

        from .frontend import reader

        read = reader(path, dict(options.shape), options.batch)
    from tx8isa.machine.description import load_machine

    machine = load_machine(options.machine)
    graph = read(path)
    program = _compiled(options, graph, machine)
    folder = _folder(options, options.output, path) if options.output else path.with_suffix("")
    program.write(folder, options.text_only, _extra_files(options, program))
    if not options.quiet:
        _say(options, _summary(program, folder))
    if options.timing:
        print_out(timing_table(program.timing))
    status = _execute(options, program, path) if options.run else 0
    if options.report == "-" and not options.run:
        print_out(_report(program, None))
    return max(status, _verify(options, program, folder)) if options.verify_nodes else status


def _compiled(options: argparse.Namespace, graph: Graph, machine: Machine) -> Program:
    """The program; it comes from the cache only if no option needs the passes to run."""
    from compiler.tools.cache import compile_cached

    from .driver import compile_graph, pass_names

    chosen = _options_of(options)
    with ProgressLine(graph.name, pass_names(), None if options.quiet else sys.stderr) as progress:
        after_pass = _after_pass(options, progress)
        if options.no_cache:
            return compile_graph(
                graph, machine=machine, after_pass=after_pass, search_progress=progress.searching, **chosen
            )

        def say(text: str) -> None:
            if options.verbose:
                print(f"tx8cc: {text}", file=sys.stderr)

        observed = options.timing or options.print_ir_after or options.report or options.save_plan
        return compile_cached(graph, machine, chosen, after_pass, say, not observed, progress.searching)


def _options_of(options: argparse.Namespace) -> dict[str, Any]:
    """The arguments of ``compile_graph`` that decide about the program: part of its key in the cache."""
    plan = Path(options.plan) if options.plan else None
    return {
        "dtype": options.dtype,
        "tiles": options.tiles,
        "patterns": options.patterns,
        "search": options.search,
        "plan": plan,
    }


def _say(options: argparse.Namespace, text: str) -> None:
    """Print a message for people: on standard error if JSON goes to standard output."""
    if options.stats == "json" or options.report == "-":
        print(text, file=sys.stderr)
    else:
        print_out(text)


def _folder(options: argparse.Namespace, given: str, graph: Path) -> Path:
    """The folder that the user named, or a folder of its own in it for each of several graphs."""
    return Path(given) / graph.stem if len(options.graphs) > 1 else Path(given)


def _after_pass(options: argparse.Namespace, progress: ProgressLine) -> Callable[[str, ModuleOp], None]:
    """The function that is called after every pass; it prints what the options ask for."""
    wanted = options.print_ir_after

    def after(name: str, module: ModuleOp) -> None:
        progress.after_pass(name, module)
        if options.verbose or wanted in (name, "all"):
            progress.clear()
        if options.verbose:
            print(f"tx8cc: pass {name}: {sum(1 for _ in module.walk())} operations", file=sys.stderr)
        if wanted in (name, "all"):
            print_out(f"// after {name}\n{module!s}")

    return after


def _summary(program: Program, folder: Path) -> str:
    lines, size = program.text.count("\n"), len(program.constants)
    what = f"{len(program.graph.nodes)} nodes, {program.dtype}, {program.tiles} tiles"
    made = f"{lines:,} lines of assembly, {size:,} bytes of constants in {folder}"
    return one_line(f"{program.graph.name}: {what}; {made}")


def _execute(options: argparse.Namespace, program: Program, graph: Path) -> int:
    from tx8isa.tools.files import write_whole

    from .tools import run

    inputs = _inputs(options, program)
    try:
        outcome = run.check(program, inputs, _watch(options))
    except run.RunFault as fault:
        print(f"tx8cc: fault: {fault}", file=sys.stderr)
        return RUN_FAILED
    if options.output_dir:
        run.write_outputs(_folder(options, options.output_dir, graph), outcome.outputs)
    _say(options, run.table(outcome))
    for line in outcome.statistics:
        print_out(line)
    if options.report == "-":
        print_out(_report(program, outcome.phases))
    elif options.report:
        write_whole(options.report, _report(program, outcome.phases).encode())
    return 0 if outcome.ok else RUN_FAILED


def _watch(options: argparse.Namespace) -> Watch:
    from compiler.tools.run import Watch

    return Watch(True, options.stats, not options.quiet, bool(options.report))


def _extra_files(options: argparse.Namespace, program: Program) -> dict[Path, list[bytes]]:
    """The files that are written with the program: the plan, and the report if no run completes it."""
    from compiler.search.plan import plan_text

    files: dict[Path, list[bytes]] = {}
    if options.save_plan:
        assert program.report is not None
        files[Path(options.save_plan)] = [plan_text(program.report.plan).encode()]
    if options.report not in (None, "-") and not options.run:
        files[Path(options.report)] = [_report(program, None).encode()]
    return files


def _report(program: Program, cycles: Mapping[str, float] | None) -> str:
    """The report, with the simulated cycles of the phases if there was a run."""
    assert program.report is not None
    return (program.report if cycles is None else program.report.with_cycles(cycles)).json()


def _inputs(options: argparse.Namespace, program: Program) -> dict[str, Array]:
    """The arrays of --input, and random ones for the other inputs."""
    from .tools import run

    if not options.quiet:
        run.announce_compilation("tx8cc")
    known = [tensor.name for tensor in program.graph.inputs]
    pairs = [named_file(argument, known) for argument in options.input]
    given = run.read_inputs(pair for pair in pairs if pair is not None)
    missing = [tensor.name for tensor in program.graph.inputs if tensor.name not in given]
    if missing and not options.quiet:
        _say(options, f"random inputs (seed {options.seed}): {', '.join(missing)}")
    return run.random_inputs(program.graph, given, options.seed)


def _verify(options: argparse.Namespace, program: Program, folder: Path) -> int:
    """Verify every node; the first that differs is written to the folder ``wrong`` beside the program."""
    from compiler.tools.excerpt import write_excerpt

    from .driver import compile_graph
    from .tools import run, verify

    chosen = _options_of(options) | {"dtype": program.dtype, "plan": None}
    try:
        found = verify.verify(
            program.graph,
            _inputs(options, program),
            lambda graph: compile_graph(graph, machine=program.machine, **chosen),
        )
    except run.RunFault as fault:
        print(f"tx8cc: fault: {fault}", file=sys.stderr)
        return RUN_FAILED
    _say(options, verify.table(found))
    if found.part is not None:
        files = write_excerpt(folder / "wrong", found.part.graph, found.part.inputs)
        given = "".join(f" --input {file.stem}={file}" for file in files)
        machine = f" --machine {options.machine}" if options.machine else ""
        what = f"--dtype {program.dtype} --tiles {program.tiles}{machine} --run{given}"
        _say(options, f"to see it alone: tx8cc {folder / 'wrong' / 'graph.json'} {what}")
    elif found.at is not None:
        _say(options, "no smaller graph shows it")
    return 0 if found.ok else RUN_FAILED


if __name__ == "__main__":
    raise SystemExit(main())
