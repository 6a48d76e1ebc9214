"""Command line: tx8cc."""

from __future__ import annotations

import argparse
import atexit
import gc
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import compiler.tools.cache  # noqa: F401  (first: it notes when the process began)
from compiler.tools.progress import Stages, timing_table
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

VERSION = "0.1.0"
"""As in pyproject.toml; importlib.metadata would cost start-up time."""

_EXAMPLES = """examples:
  tx8cc graph.json                                  writes graph/prog.s and graph/prog.bin beside it
  tx8cc model.onnx --dtype fp16 -o build --run      runs it on random inputs, compares with the reference
  tx8cc graph.json --run --input x=x.npy --output-dir out
  tx8cc graph.json --print-ir-after layout -S
  tx8cc examples/batchnorm/*.json --run --dtype fp16

exit status: 0 done, and every output within its tolerance; 1 the input is at fault; 2 usage;
3 the program faulted, or an output is wrong"""

_COLLECT_AFTER = 1_000_000
"""Objects between garbage collections: nearly all that a compilation makes is kept, and collecting as often
as Python does by itself takes an eighth of the time."""

INPUT_AT_FAULT, USAGE, RUN_FAILED = 1, 2, 3


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tx8cc",
        description="Compile a graph of ONNX operators for the TX81.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add(
        "graphs",
        metavar="graph",
        nargs="+",
        help="an ONNX model (docs/onnx.md), a graph "
        "(docs/graph_json.md), a program of torch.export, or several",
    )
    add(
        "-o",
        dest="output",
        metavar="DIR",
        help="folder of prog.s, prog.const and prog.bin (default: the "
        "graph's name without suffix, beside it); with several graphs, of a folder for each",
    )
    add("--dtype", help="fp32, tf32, fp16 or bf16: how floats are stored and computed (default: the graph's)")
    add("--tiles", type=int, metavar="N", help="tiles that take part (default: 16)")
    add("--machine", metavar="FILE.toml", help="machine description (default: TX81)")
    add("-S", dest="text_only", action="store_true", help="write the assembly text and no image")
    _add_run_options(parser)
    add(
        "--search",
        default="fast",
        metavar="EFFORT",
        help="how many ways of dividing the work among "
        "tiles and in time are tried: off, fast or full (default: fast)",
    )
    add(
        "--patterns",
        default="default",
        metavar="SET",
        help="which operators run in one phase: default, none or FILE.toml (docs/compiler.md)",
    )
    add("--plan", metavar="FILE.json", help="divide the work as --save-plan wrote it, without search")
    add("--save-plan", metavar="FILE.json", help="write how the work was divided")
    add(
        "--report",
        metavar="FILE.json",
        help="write groups, divisions, memory maps and cycles, "
        "with --run also simulated ones; - for standard output",
    )
    add("--print-ir-after", metavar="PASS", help="print the module after a pass, or after all of them")
    add("--timing", action="store_true", help="print how long every pass took")
    add("--no-cache", action="store_true", help="compile again what was compiled before, and keep nothing")
    add("-q", "--quiet", action="store_true", help="say nothing but errors and what was asked for")
    add("-v", "--verbose", action="store_true", help="say what every pass did to the size of the module")
    add("--version", action="version", version=f"tx8cc {VERSION}")
    return parser


def _add_run_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--run", action="store_true", help="run the program and compare its outputs with the reference")
    add(
        "--verify-nodes",
        action="store_true",
        help="run it so that every value can be seen, compare each "
        "node with its reference, and write the first that differs as a graph of its own",
    )
    add(
        "--input",
        action="append",
        default=[],
        metavar="NAME=FILE.npy",
        help="input for --run and --verify-nodes (default: random)",
    )
    add(
        "--stats",
        nargs="?",
        const="text",
        choices=("text", "json"),
        help="with --run, print where the time went, in simulated cycles; with =json for machines",
    )
    add("--seed", type=int, default=0, metavar="N", help="of random inputs (default: 0)")
    add(
        "--output-dir",
        metavar="DIR",
        help="with --run, write one .npy file per output; with several graphs, into a folder for each",
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; the exit status is that of the help text."""
    parser = _parser()
    given = with_operand(with_value(arguments, "--stats", "text"), "--input")
    options = parser.parse_args(given)
    _check_usage(parser, options)
    gc.set_threshold(_COLLECT_AFTER)
    atexit.register(gc.freeze)  # Python would look for garbage once more, which takes a tenth of a short run
    try:
        return max(_one_graph(options, Path(graph)) for graph in options.graphs)
    except KeyboardInterrupt:
        print("tx8cc: interrupted", file=sys.stderr)
        return 130


def _one_graph(options: argparse.Namespace, graph: Path) -> int:
    """Exit status of one graph; the others are compiled whatever it is."""
    try:
        return _run(options, graph)
    except Tx8Error as error:
        return _fail(str(error))
    except OSError as error:
        return _fail(": ".join(str(part) for part in (error.filename, error.strerror or error) if part))


def _fail(text: str) -> int:
    print(f"tx8cc: error: {one_line(text)}", file=sys.stderr)
    return INPUT_AT_FAULT


def _check_usage(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    stems = [Path(graph).stem for graph in options.graphs]
    if len(set(stems)) < len(stems) and (options.output or options.output_dir):
        parser.error("graphs of one name cannot share the folder of -o or --output-dir")
    if options.print_ir_after not in (None, "all"):
        from .driver import pass_names

        names = pass_names()
        if options.print_ir_after not in names:
            wrong = f"'{options.print_ir_after}' is not all or one of {' '.join(names)}"
            parser.error(f"argument --print-ir-after: {wrong}")
    if not options.run and (options.output_dir or options.stats):
        parser.error("--output-dir and --stats need --run")
    if options.input and not (options.run or options.verify_nodes):
        parser.error("--input needs --run or --verify-nodes")
    if len(stems) > 1 and (options.plan or options.save_plan or options.report):
        parser.error("--plan, --save-plan and --report are for a single graph")
    if options.text_only and (options.run or options.verify_nodes):
        wanted = "--run" if options.run else "--verify-nodes"
        parser.error(f"-S makes no image that {wanted} could run")
    if options.quiet and options.verbose:
        parser.error("-q and -v: say nothing, or say more")
    for argument in options.input:
        if named_file(argument, ()) is None:
            parser.error(f"argument --input: '{argument}' is not NAME=FILE.npy")


def _run(options: argparse.Namespace, path: Path) -> int:
    with interrupts_held():
        import compiler.driver  # noqa: F401  (now, as it takes most of the start)

        from .frontend import reader

        read = reader(path)
    from tx8isa.machine.description import load_machine

    machine = load_machine(options.machine)
    graph = read(path)
    program = _compiled(options, graph, machine)
    folder = _folder(options, options.output, path) if options.output else path.with_suffix("")
    program.write(folder, options.text_only, _beside(options, program))
    if not options.quiet:
        _say(options, _summary(program, folder))
    if options.timing:
        print_out(timing_table(program.timing))
    status = _execute(options, program, path) if options.run else 0
    if options.report == "-" and not options.run:
        print_out(_report(program, None))
    return max(status, _verify(options, program, folder)) if options.verify_nodes else status


def _compiled(options: argparse.Namespace, graph: Graph, machine: Machine) -> Program:
    """The program, from the cache unless the passes are to be watched."""
    from compiler.tools.cache import compile_cached

    from .driver import compile_graph, pass_names

    chosen = _options_of(options)
    with Stages(graph.name, pass_names(), None if options.quiet else sys.stderr) as stages:
        observer = _observer(options, stages)
        if options.no_cache:
            return compile_graph(
                graph, machine=machine, after_pass=observer, watch=stages.searching, **chosen
            )

        def say(text: str) -> None:
            if options.verbose:
                print(f"tx8cc: {text}", file=sys.stderr)

        watched = options.timing or options.print_ir_after or options.report or options.save_plan
        return compile_cached(graph, machine, chosen, observer, say, not watched, stages.searching)


def _options_of(options: argparse.Namespace) -> dict[str, Any]:
    """What ``compile_graph`` is told; all of it, with the files it names, is the name of a cached program."""
    plan = Path(options.plan) if options.plan else None
    return {
        "dtype": options.dtype,
        "tiles": options.tiles,
        "patterns": options.patterns,
        "search": options.search,
        "plan": plan,
    }


def _say(options: argparse.Namespace, text: str) -> None:
    """Print for people: on standard error when standard output is for a machine."""
    if options.stats == "json" or options.report == "-":
        print(text, file=sys.stderr)
    else:
        print_out(text)


def _folder(options: argparse.Namespace, given: str, graph: Path) -> Path:
    """A folder the user named; each of several graphs gets its own in it."""
    return Path(given) / graph.stem if len(options.graphs) > 1 else Path(given)


def _observer(options: argparse.Namespace, stages: Stages) -> Callable[[str, ModuleOp], None]:
    """What to do after each pass."""
    wanted = options.print_ir_after

    def after(name: str, module: ModuleOp) -> None:
        stages.after_pass(name, module)
        if options.verbose or wanted in (name, "all"):
            stages.clear()
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


def _beside(options: argparse.Namespace, program: Program) -> dict[Path, list[bytes]]:
    """What is written with the program: the plan, and the report if no run adds to it."""
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
    """Compare node by node; the first that differs is written to the folder ``wrong`` beside the program."""
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
