"""``tx8emu PROGRAM --prove GRAPH``: proves that a program computes a graph (docs/proving.md).

Image and code show how tx8cc made it of a graph: its states, its ranges of sizes, its format and its tiles.
With these the graph is compiled again, so that the proof knows the meaning of the image's bytes. Any other
program, such as a kernel of Triton, has no constants of the graph, and is proved as it is.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asm.image import names_nodes
from compiler.tools.execution import mistakes
from compiler.tools.options.dimensions import dimension
from tx8isa.errors import Tx8Error
from tx8isa.tools.command_line import ToolParser, error_line, guarded, note, parsed, print_lines

if TYPE_CHECKING:
    from compiler.tools.verification.findings import Proof

_EPILOG = """examples:
  tx8emu net/prog.bin --prove net.onnx
  tx8emu net/prog.bin --prove net.onnx --search full

What the image does not say must be as it was when the program was made; tx8cc GRAPH --prove=PROGRAM takes
all options of tx8cc. A program that tx8cc has not made of a graph, such as a kernel of Triton, has the inputs
and outputs of the graph by name; an array that it reads and stores to is the input x and the output x.after.

exit status: 0 the program computes the graph; 1 the input was at fault; 2 usage; 3 the program is wrong or
faulted, or something is open.
documents: docs/proving.md."""

_FORMATS = re.compile(r"\.(fp16|bf16|tf32)\b")
"""A format of an instruction."""
_FEWER = re.compile(r"\b(?:addi t0, zero,|li t0,) (\d+)\n(?:\.loc.*\n)?\s*bltu s11, t0,")
"""The beginning of a program whose other tiles end at once."""
_OF_COMPILING = "dtype", "tiles", "dim", "search", "residency"
"""Options with which tx8cc compiled the graph."""
NOT_PROVED = 3
"""An exit status; the help text lists all."""


def make_parser() -> argparse.ArgumentParser:
    """Make the parser; its help text shows examples and exit statuses."""
    parser = ToolParser("tx8emu", "Prove in prime fields that a program computes a graph.", _EPILOG)
    add = parser.add_argument
    add("program", help="program image")
    add("--prove", nargs="?", metavar="GRAPH", help="the graph: ONNX, StableHLO or JSON")
    add("--dtype", metavar="FORMAT", help="of floats: fp32, tf32, fp16, bf16 (that of the instructions)")
    add("--tiles", type=int, metavar="N", help="tiles that take part (as the program begins)")
    add("--dim", action="append", type=dimension, default=[], metavar="NAME=SIZES", help="as for tx8cc")
    add("--search", default="fast", metavar="EFFORT", help="off, fast or full, as for tx8cc (fast)")
    add("--residency", default="on", choices=("on", "off"), help="as for tx8cc (on)")
    add("--seed", type=int, default=0, help="of the random elements; default 0")
    add("--machine", metavar="FILE.toml", help="description of the machine (that of the image)")
    add("-q", "--quiet", action="store_true", help="no messages about compiled kernels")
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run the command; the help text lists the exit statuses."""
    options = parsed(make_parser(), sys.argv[1:] if arguments is None else arguments)
    if options.prove is None:
        make_parser().error("argument --prove: expected a graph")
    return guarded("tx8emu", partial(_proved, options), lines=partial(mistakes, "tx8emu"))


def _proved(options: argparse.Namespace) -> int:
    import tx8
    from compiler.tools.run import RunFault
    from compiler.tools.verification.field_run import told_faults
    from compiler.tools.verification.findings import lines

    program = tx8.load(options.program, machine=options.machine)
    holds = True
    for proof in _proofs(program, options):
        try:
            with told_faults():
                found = proof()
        except RunFault as fault:
            note(error_line(str(options.program), f"fault: {fault}"))
            return NOT_PROVED
        print_lines(lines(found))
        holds = holds and found.holds
    return 0 if holds else NOT_PROVED


def _proofs(program: Any, options: argparse.Namespace) -> list[Callable[[], Proof]]:
    """The proofs of a program: one for each of some sizes if it runs a range of them."""
    import tx8
    from compiler.tools.verification.prove import Prover

    graph = Path(options.prove)
    if not names_nodes(program.image):
        _check_made_otherwise(program, options)
        return [partial(program.prove, graph, seed=options.seed)]
    chosen = _made_with(program, options)
    made = tx8.compile(graph, machine=program.machine, **chosen).compiled
    assert made is not None
    prover = Prover(made, options.seed, program.image)
    return [partial(prover.at, point) for point in prover.points]


def _check_made_otherwise(program: Any, options: argparse.Namespace) -> None:
    """Refuse options about a compilation of the graph for a program that was not compiled from it."""
    parser = make_parser()
    for name in _OF_COMPILING:
        if getattr(options, name) != parser.get_default(name):
            what = "no instruction names a node of a graph, so tx8cc has not made it of one"
            raise Tx8Error(f"{options.program}: {what}; --{name} is about programs that it has")


def _made_with(program: Any, options: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of ``tx8.compile`` with which a program was made; Tx8Error for another program."""
    image, name = program.image, options.program
    if program.machine.chip_count > 1:
        what = (
            f"runs on {program.machine.chip_count} chips, and an image does not say how they share the work"
        )
        raise Tx8Error(f"{name}: {what}; try tx8cc GRAPH --prove={name} with its --chips and --parallel")
    if program.entries:
        names = ", ".join(program.entries)
        raise Tx8Error(f"{name}: has the networks {names}; --prove takes programs of one network")
    dims: dict[str, Any] = {}
    if image.shapes is not None:
        dims = {each.name: (each.least, each.usual, each.most) for each in image.shapes.dimensions}
    text = program.text
    formats = Counter(_FORMATS.findall(text))
    fewer = _FEWER.search(text)
    return {
        "dtype": options.dtype or (formats.most_common(1)[0][0] if formats else "fp32"),
        "tiles": options.tiles or (int(fewer[1]) if fewer else None),
        "state": dict(program.states),
        "dims": {**dims, **dict(options.dim)} or None,
        "search": options.search,
        "residency": options.residency,
    }
