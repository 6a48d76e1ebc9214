"""Command lines: tx8as and tx8dis."""

from __future__ import annotations

import argparse
import atexit
import gc
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tx8isa.errors import Tx8Error
from tx8isa.tools.command_line import ToolParser, error_line, guarded, note, parsed, tell
from tx8isa.tools.overwrite import check_outputs, run_of_tool
from tx8isa.tools.version import VERSION

if TYPE_CHECKING:
    from .diagnostics import Diagnostic

_AS_EXAMPLES = """examples:
  tx8as prog.s                         writes prog.bin beside it
  tx8as prog.s -o out.bin -l prog.lst  with a listing of addresses, bytes and lines
  tx8as -I include -D TILES=16 prog.s  an include folder and a symbol
  tx8dis prog.bin | tx8as -            reads a pipe; writes a.bin here

exit status: 0 assembled, perhaps with warnings, 1 the program is at fault, 2 usage"""

_DIS_EXAMPLES = """examples:
  tx8dis prog.bin                      the whole program
  tx8dis prog.bin -s .text             one section
  tx8dis prog.bin | tx8as - -o q.bin   q.bin has the same bytes as prog.bin

exit status: 0 done, 1 the file is at fault, 2 usage"""


@run_of_tool()
def assemble_main(arguments: Sequence[str] | None = None) -> int:
    """Run ``tx8as``; returns the exit status."""
    return _guarded("tx8as", _assemble, parsed(assemble_parser(), arguments))


def disassemble_main(arguments: Sequence[str] | None = None) -> int:
    """Run ``tx8dis``; returns the exit status."""
    return _guarded("tx8dis", _disassemble, parsed(disassemble_parser(), arguments))


def _parser(name: str, description: str, examples: str) -> argparse.ArgumentParser:
    parser = ToolParser(name, description, examples)
    parser.add_argument("--version", action="version", version=f"{name} {VERSION}")
    parser.add_argument("-q", "--quiet", action="store_true", help="say nothing but errors")
    return parser


def assemble_parser() -> argparse.ArgumentParser:
    """Build the parser of ``tx8as``'s options."""
    parser = _parser("tx8as", "Assemble a TX8 program.", _AS_EXAMPLES)
    parser.add_argument("file", help="the program; - reads standard input")
    parser.add_argument(
        "-o", dest="output", metavar="FILE", help="the image (default: the name with .bin; a.bin for -)"
    )
    parser.add_argument(
        "-I", dest="include", metavar="DIR", action="append", default=[], help="folder of included files"
    )
    parser.add_argument(
        "-D",
        dest="define",
        metavar="NAME=EXPR",
        action="append",
        default=[],
        help="define a symbol (1 without =)",
    )
    parser.add_argument(
        "--short-branches",
        action="store_true",
        help="refuse a branch that does not reach its label; without it, it is reversed around a jump",
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="print address and size of each section")
    doubts = parser.add_mutually_exclusive_group()
    doubts.add_argument("-W", "--no-warn", action="store_true", help="say no warnings; neither does -q")
    doubts.add_argument(
        "--fatal-warnings", action="store_true", help="with a warning, write nothing and exit 1"
    )
    parser.add_argument("-l", dest="listing", metavar="FILE", help="write a listing")
    parser.add_argument("--machine", metavar="FILE", help="machine description in TOML (default: TX81)")
    return parser


def disassemble_parser() -> argparse.ArgumentParser:
    """Build the parser of ``tx8dis``'s options."""
    parser = _parser("tx8dis", "Print a program image as assembly that makes the same bytes.", _DIS_EXAMPLES)
    parser.add_argument("file", help="the image; - reads standard input")
    parser.add_argument("-s", "--section", metavar="NAME", help="print this section alone")
    return parser


def _guarded(name: str, action: Callable[[argparse.Namespace], None], options: argparse.Namespace) -> int:
    """Run a command; a user's mistake becomes a message and exit status 1."""

    def run() -> int:
        action(options)
        sys.stdout.flush()
        return 0

    def lines(error: Tx8Error) -> list[str]:
        from .diagnostics import AsmError

        return str(error).splitlines() if isinstance(error, AsmError) else [error_line(name, str(error))]

    return guarded(name, run, lines=lines)


def _assemble(options: argparse.Namespace) -> None:
    from tx8isa.machine.description import load_machine
    from tx8isa.tools.files import write_together

    from .assembler import assemble_text
    from .image import write_image
    from .output import image_of, listing_text

    gc.disable()  # nearly all objects live to the end of the process
    atexit.register(gc.freeze)  # skips the collection at exit, which would visit all of them again
    text, name = _input_text(options.file)
    output = options.output or _default_output(options.file)
    _check_outputs(options, output, [])
    machine = load_machine(options.machine)
    defines = dict(_definition(text) for text in options.define)
    assembly = assemble_text(
        *(text, name, options.include, defines, machine),
        listing=bool(options.listing),
        short_branches=options.short_branches,
    )
    _check_outputs(options, output, assembly.included.paths())
    _tell_warnings(sorted(assembly.warnings.values()), options)
    image = image_of(assembly)
    data = write_image(image)
    files = {Path(output): [data]}
    if options.listing:
        files[Path(options.listing)] = [listing_text(assembly).encode()]
    write_together(files)
    if options.verbose:
        for segment in image.segments:
            place = f"{segment.address:#x}  {segment.size} bytes, {len(segment.data)} in the file"
            note(f"tx8as: {segment.section:10} {place}")
    if options.output is None and not options.quiet:
        note(f"tx8as: {output}: {len(data)} bytes")


def _tell_warnings(warnings: Sequence[Diagnostic], options: argparse.Namespace) -> None:
    """Print warnings; Tx8Error under --fatal-warnings."""
    if not warnings:
        return
    from .diagnostics import listed

    if options.fatal_warnings or not (options.quiet or options.no_warn):
        tell(listed(warnings), 0)
    if options.fatal_warnings:
        raise Tx8Error(
            f"nothing is written: with --fatal-warnings no warning is allowed, found {len(warnings)}"
        )


def _check_outputs(options: argparse.Namespace, output: str, included: Iterable[Path]) -> None:
    """Refuse to overwrite an input. Called after assembly, when the included files are known."""
    inputs = [("the program", options.file), ("the machine description", options.machine)]
    inputs += [("a file that the program includes", path) for path in included]
    check_outputs([("the image", output), ("the listing", options.listing)], inputs)


def _input_text(file: str) -> tuple[str, str]:
    from tx8isa.tools.files import as_text, read_text

    if file == "-":
        return as_text(sys.stdin.buffer.read(), "<stdin>"), "<stdin>"
    return read_text(file), file


def _default_output(file: str) -> str:
    return "a.bin" if file == "-" else str(Path(file).with_suffix(".bin"))


def _definition(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    return name, value if equals else "1"


def _disassemble(options: argparse.Namespace) -> None:
    from tx8isa.tools.files import read_bytes

    from .disassembler import disassemble_image
    from .image import read_image

    name = "<stdin>" if options.file == "-" else options.file
    data = sys.stdin.buffer.read() if options.file == "-" else read_bytes(options.file)
    sys.stdout.write(disassemble_image(read_image(data, name), options.section))
