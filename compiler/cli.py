"""Command line: tx8cc."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tx8isa.command_line import with_value
from tx8isa.errors import Tx8Error

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from compiler.driver import Program

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

INPUT_AT_FAULT, USAGE, RUN_FAILED = 1, 2, 3


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tx8cc", description="Compile a graph of ONNX operators for the TX81.", epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    add = parser.add_argument
    add("graphs", metavar="graph", nargs="+", help="an ONNX model (docs/onnx.md) or a graph "
        "(docs/graph_json.md), or several")  # fmt: skip
    add("-o", dest="output", metavar="DIR", help="folder of prog.s, prog.const and prog.bin (default: the "
        "graph's name without suffix, beside it); with several graphs, of a folder for each")  # fmt: skip
    add("--dtype", help="fp32, tf32, fp16 or bf16: how floats are stored and computed (default: the graph's)")
    add("--tiles", type=int, metavar="N", help="tiles that take part (default: 16)")
    add("--machine", metavar="FILE.toml", help="machine description (default: TX81)")
    add("-S", dest="text_only", action="store_true", help="write the assembly text and no image")
    add("--run", action="store_true", help="run the program and compare its outputs with the reference")
    add(
        "--input",
        action="append",
        default=[],
        metavar="NAME=FILE.npy",
        help="input for --run (default: random)",
    )
    add(
        "--stats",
        nargs="?",
        const="text",
        choices=("text", "json"),
        help="with --run, print where the time went, in simulated cycles; with =json for machines",
    )
    add("--seed", type=int, default=0, metavar="N", help="of random inputs (default: 0)")
    add("--output-dir", metavar="DIR",
        help="with --run, write one .npy file per output; with several "
        "graphs, into a folder for each")  # fmt: skip
    add("--print-ir-after", metavar="PASS", help="print the module after a pass, or after all of them")
    add("--timing", action="store_true", help="print the seconds every pass took")
    add("-q", "--quiet", action="store_true", help="say nothing but errors and what was asked for")
    add("-v", "--verbose", action="store_true", help="say what every pass did to the size of the module")
    add("--version", action="version", version=f"tx8cc {VERSION}")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; the exit status is that of the help text."""
    parser = _parser()
    options = parser.parse_args(with_value(arguments, "--stats", "text"))
    _check_usage(parser, options)
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
    print(f"tx8cc: error: {' '.join(text.split())}", file=sys.stderr)
    return INPUT_AT_FAULT


def _check_usage(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    stems = [Path(graph).stem for graph in options.graphs]
    if len(set(stems)) < len(stems) and (options.output or options.output_dir):
        parser.error("graphs of one name cannot share the folder of -o or --output-dir")
    if options.print_ir_after not in (None, "all"):
        from compiler.driver import pass_names

        names = pass_names()
        if options.print_ir_after not in names:
            wrong = f"'{options.print_ir_after}' is not all or one of {' '.join(names)}"
            parser.error(f"argument --print-ir-after: {wrong}")
    if not options.run and (options.input or options.output_dir or options.stats):
        parser.error("--input, --output-dir and --stats need --run")
    if options.run and options.text_only:
        parser.error("-S makes no image that --run could run")
    for argument in options.input:
        name, _, file = argument.partition("=")
        if not name or not file:
            parser.error(f"argument --input: '{argument}' is not NAME=FILE.npy")


def _run(options: argparse.Namespace, path: Path) -> int:
    from compiler.driver import compile_graph
    from compiler.frontend import load
    from tx8isa.machine import load_machine

    machine = load_machine(options.machine)
    graph = load(path)
    program = compile_graph(graph, options.dtype, options.tiles, machine, _observer(options))
    folder = _folder(options, options.output, path) if options.output else path.with_suffix("")
    program.write(folder, text_only=options.text_only)
    if not options.quiet:
        _say(options, _summary(program, folder))
    if options.timing:
        print(_timing(program))
    return _execute(options, program, path) if options.run else 0


def _say(options: argparse.Namespace, text: str) -> None:
    """Print for people: on standard error when standard output is for a machine."""
    print(text, file=sys.stderr if options.stats == "json" else sys.stdout)


def _folder(options: argparse.Namespace, given: str, graph: Path) -> Path:
    """A folder the user named; each of several graphs gets its own in it."""
    return Path(given) / graph.stem if len(options.graphs) > 1 else Path(given)


def _observer(options: argparse.Namespace) -> Callable[[str, ModuleOp], None] | None:
    """What to do after each pass."""
    wanted = options.print_ir_after
    if wanted is None and not options.verbose:
        return None

    def after(name: str, module: ModuleOp) -> None:
        if options.verbose:
            print(f"tx8cc: pass {name}: {sum(1 for _ in module.walk())} operations", file=sys.stderr)
        if wanted in (name, "all"):
            print(f"// after {name}\n{module!s}")

    return after


def _summary(program: Program, folder: Path) -> str:
    lines, size = program.text.count("\n"), len(program.constants)
    what = f"{len(program.graph.nodes)} nodes, {program.dtype}, {program.tiles} tiles"
    return (
        f"{program.graph.name}: {what}; {lines:,} lines of assembly, {size:,} bytes of constants in {folder}"
    )


def _timing(program: Program) -> str:
    rows = [f"{name:<12}{1000 * seconds:>10.1f} ms" for name, seconds in program.timing.items()]
    return "\n".join([*rows, f"{'total':<12}{1000 * sum(program.timing.values()):>10.1f} ms"])


def _execute(options: argparse.Namespace, program: Program, graph: Path) -> int:
    from compiler import run

    if not options.quiet:
        run.announce_compilation("tx8cc")
    given = run.read_inputs(_pair(argument) for argument in options.input)
    inputs = run.random_inputs(program.graph, given, options.seed)
    missing = [tensor.name for tensor in program.graph.inputs if tensor.name not in given]
    if missing and not options.quiet:
        _say(options, f"random inputs (seed {options.seed}): {', '.join(missing)}")
    try:
        outcome = run.check(program, inputs, run.Watch(True, options.stats, not options.quiet))
    except run.RunFault as fault:
        print(f"tx8cc: fault: {fault}", file=sys.stderr)
        return RUN_FAILED
    if options.output_dir:
        run.write_outputs(_folder(options, options.output_dir, graph), outcome.outputs)
    _say(options, run.table(outcome))
    for line in outcome.statistics:
        print(line)
    return 0 if outcome.ok else RUN_FAILED


def _pair(argument: str) -> tuple[str, str]:
    name, _, file = argument.partition("=")
    return name, file


if __name__ == "__main__":
    raise SystemExit(main())
