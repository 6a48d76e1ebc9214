"""The command tx8opt: runs single passes on textual IR."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compiler.tools.execution import mistakes
from compiler.tools.extensions import load_all
from tx8isa.errors import Tx8Error
from tx8isa.tools.command_line import ToolParser, guarded, interrupts_held, parsed, print_out
from tx8isa.tools.overwrite import Role, check_outputs, run_of_tool

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from compiler.passes import Context, Pass
    from tx8isa.machine.description import Machine

_EXAMPLES = """examples:
  tx8opt model.onnx --until align_opt -o a.mlir   the passes up to align_opt; constants go to a.npz
  tx8opt a.mlir --passes cse                      one more pass, on the text
  tx8opt a.mlir --pipeline                        all that are left
  tx8opt a.mlir                                   parse and verify
  tx8opt model.onnx                               the graph as the first pass imports it

exit status: 0 done; 1 the input is at fault; 2 usage"""


def make_parser() -> argparse.ArgumentParser:
    description = "Run passes of tx8cc on a graph or on textual IR, and print the module."
    parser = ToolParser("tx8opt", description, _EXAMPLES)
    add = parser.add_argument
    add("file", help="a graph, as for tx8cc, or .mlir that this tool has written")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--passes", metavar="A,B,C", help="run these passes, in this order")
    which.add_argument("--until", metavar="PASS", help="run the remaining passes, up to this one")
    which.add_argument("--pipeline", action="store_true", help="run all remaining passes")
    add(
        "-o",
        dest="output",
        metavar="FILE.mlir",
        help="write there instead of printing; constants of more "
        "than 64 bytes go to an .npz file of that name, and are left out of what is printed",
    )
    add("--dtype", help="of a graph: fp32, tf32, fp16 or bf16 (default: the graph's)")
    add("--tiles", type=int, metavar="N", help="of a graph: tiles that take part (default: 16)")
    add(
        "--patterns",
        default="default",
        metavar="SET",
        help="a set of patterns or a file of them (default: default)",
    )
    add("--search", metavar="EFFORT", help="off, fast or full (default: as tx8cc)")
    add("--residency", default="on", metavar="on|off", help="as the option of tx8cc")
    add("--plan", metavar="FILE", help="decisions of an earlier compilation, in place of a search")
    add("--machine", metavar="FILE.toml", help="machine description (default: TX81)")
    add("--operators", action="append", default=[], metavar="FILE.py", help="as the option of tx8cc")
    return parser


@run_of_tool()
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return the exit status, which the help text lists."""
    parser = make_parser()
    options = parsed(parser, arguments)
    path = Path(options.file)
    if path.suffix == ".mlir" and (options.dtype or options.tiles):
        parser.error("--dtype and --tiles are for graphs; textual IR has them in it")
    if options.output and Path(options.output).suffix != ".mlir":
        parser.error(f"argument -o: '{options.output}' does not end in .mlir")
    if options.plan and options.search:
        parser.error("--plan replaces the search: leave out --search, or --plan")

    def run() -> int:
        _check_files(options, path)
        load_all(options.operators)
        return _run(options, path)

    return guarded("tx8opt", run, lines=partial(mistakes, "tx8opt"))


def _run(options: argparse.Namespace, path: Path) -> int:
    with interrupts_held():
        from .opt_text import as_text
    from tx8isa.machine.description import load_machine
    from tx8isa.tools.files import write_together

    machine = load_machine(options.machine)
    named = options.passes.split(",") if options.passes else [options.until] if options.until else []
    _check_names(named)
    context, module, done = _start(options, path, machine)
    _check_files(options, path, context.graph.files)
    for step in _chosen(options, named, done):
        _apply(step, context, module, done)
        done.append(step.name)
    target = Path(options.output) if options.output else None
    text, constants = as_text(context, module, done, archive=target is not None)
    if target is None:
        print_out(text)
    else:
        archive = {} if constants is None else {target.with_suffix(".npz"): [constants]}
        write_together({**archive, target: [text.encode()]})
    return 0


def _check_files(options: argparse.Namespace, path: Path, constants: Sequence[Path] = ()) -> None:
    """Raise Tx8Error when an output would replace an input: textual IR has its constants in a second file.

    ``constants`` are the files that a graph names.
    """
    outputs: list[Role] = [("the text", options.output)]
    inputs: list[Role] = [("the input", path), ("the machine description", options.machine)]
    inputs += [("--plan", options.plan), ("the file of --patterns", options.patterns)]
    inputs += [("a file of --operators", file) for file in options.operators]
    inputs += [("a file with constants of the input", file) for file in constants]
    if options.output:
        outputs.append(("the constants", Path(options.output).with_suffix(".npz")))
    if path.suffix == ".mlir":
        inputs.append(("the constants of the input", path.with_suffix(".npz")))
    check_outputs(outputs, inputs)


def _check_names(named: Sequence[str]) -> None:
    from compiler.graph import GraphError
    from compiler.passes.compilation import pass_names
    from tx8isa.tools.suggestions import hint

    known = pass_names()
    for name in named:
        if name not in known:
            listed = ", ".join(known)
            raise GraphError([f"unknown pass '{name}'; the passes are {listed}{hint(name, known)}"])


def _start(options: argparse.Namespace, path: Path, machine: Machine) -> tuple[Context, ModuleOp, list[str]]:
    """Return the compilation that a file holds: context, module, and the names of the passes already run."""
    from xdsl.dialects.builtin import ModuleOp

    from compiler.frontend import load
    from compiler.passes.compilation import context_of

    from .opt_text import read_text_file

    given: dict[str, Any] = {"patterns": options.patterns, "residency": options.residency}
    if options.search:
        given["search"] = options.search
    if options.plan:
        given["plan"] = Path(options.plan)
    if path.suffix == ".mlir":
        return read_text_file(path, machine, given)
    context = context_of(load(path), options.dtype, options.tiles, machine, **given)
    return context, ModuleOp([]), []


def _chosen(options: argparse.Namespace, named: Sequence[str], done: Sequence[str]) -> list[Pass]:
    """Return the passes to run; the rest of the pipeline begins after its last pass that was run."""
    from compiler.graph import GraphError
    from compiler.passes import PIPELINE
    from compiler.passes.compilation import pass_names

    if options.passes:
        return [next(step for step in PIPELINE if step.name == name) for name in named]
    names = list(pass_names())
    first = max((names.index(name) + 1 for name in done if name in names), default=0)
    if options.pipeline:
        return list(PIPELINE[first:])
    if not options.until:
        return [] if done else list(PIPELINE[:1])
    last = names.index(options.until)
    if last < first:
        found = f"pass {options.until} was run already; the text was written after {names[first - 1]}"
        raise GraphError([f"{options.file}: {found}"])
    return list(PIPELINE[first : last + 1])


def _apply(step: Pass, context: Context, module: ModuleOp, done: Sequence[str]) -> None:
    """Run one pass and verify the module after it; GraphError when the pass cannot work on this module."""
    from xdsl.utils.exceptions import VerifyException

    from compiler.graph import GraphError
    from compiler.passes import PIPELINE
    from compiler.passes.compilation import run_pass

    before = ", ".join(done) or "no pass"
    if (step is PIPELINE[0]) != (not done):
        wanted = "must be the first" if done else f"needs the pass {PIPELINE[0].name} before it"
        raise GraphError([f"pass {step.name} {wanted}; run so far: {before}"])
    try:
        run_pass(step, context, module)
        module.verify()
    except VerifyException as error:
        raise GraphError([f"pass {step.name} left an invalid module: {error}"]) from None
    except Tx8Error:
        raise
    except Exception as error:  # a pass relies on earlier ones, and the user may have chosen another order
        found = f"{type(error).__name__}: {error}".rstrip(": ")
        raise GraphError(
            [f"pass {step.name} does not work on this module ({found}); run so far: {before}"]
        ) from None
