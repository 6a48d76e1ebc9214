"""The options of tx8emu, their values, and the combinations that are refused."""

from __future__ import annotations

import argparse
from collections.abc import Collection
from typing import Any

from tx8isa.tools.caches import add_cache_options
from tx8isa.tools.command_line import (
    ToolParser,
    check_needs,
    given_besides,
    given_options,
    html_file,
    mesh,
    named_file,
    port,
    report_file,
    report_form,
)
from tx8isa.tools.version import VERSION

from .warm import Warm

_EPILOG = """examples:
  tx8emu net/prog.bin --input x=images.npy --output-dir out
  tx8emu net/prog.bin --random 0 --stats
  tx8emu several/prog.bin --entry decode --random 0
  tx8emu prog.bin --trace run.json.gz
  tx8emu prog.bin --report run.html
  tx8emu prog.bin --dump-spm --tile 3
  tx8emu prog.bin --dump-ddr 0x280000000:256
  tx8emu prog.bin --dump-tensor 3:0x10000:fp16:4x1000
  tx8emu prog.bin --save-state half.state --at 1000000
  tx8emu prog.bin --load-state half.state --output-dir out
  tx8emu prog.bin --on-exception drop --max-instructions 5000000
  tx8emu net/prog.bin --random 0 --strict --json
  tx8emu prog.bin --chips 2x2 --random 0 --stats
  mpiexec -n 2 tx8emu prog.bin --chips 2x2 --random 0 --output-dir out
  tx8emu prog.bin --gdb 5555
  tx8emu --instructions ct.add.vv

a kernel and what it must compute: tx8emu judge --help

exit status: 0 success; 1 the input was at fault; 2 usage; 3 the program ran and faulted,
or --strict or --explore found something.
documents: python -m tx8 prints where they are."""


class _Instructions(argparse.Action):
    """Like ``--help``: print and exit, whatever the other arguments are."""

    def __call__(self, parser: argparse.ArgumentParser, _: Any, values: Any, option: Any = None) -> None:
        from .manual import show

        show(values)
        parser.exit()


def make_parser() -> argparse.ArgumentParser:
    """Make the parser; its help text shows examples and exit statuses."""
    parser = ToolParser("tx8emu", "Run a program image on an emulated TX81 chip.", _EPILOG)
    parser.add_argument("program", help="program image made by tx8as or tx8cc")
    group = parser.add_argument_group
    add = group("inputs, outputs and memory").add_argument
    add("--input", action="append", default=[], metavar="NAME=FILE.npy", help="array for a named input")
    add("--random", type=_number, metavar="SEED", help="random arrays for the inputs without --input")
    add("--output-dir", metavar="DIR", help="write one .npy file for each named output")
    add(
        "--dump-spm",
        nargs="?",
        const="-",
        metavar="FILE",
        help="hex dump of the written SPM; with =FILE, the raw bytes of one tile (see --tile)",
    )
    add("--dump-ddr", action="append", default=[], metavar="ADDR:LEN", help="hex dump of DDR, engines' view")
    add(
        "--dump-tensor",
        action="append",
        default=[],
        metavar="SPEC[=FILE.npy]",
        help="print or save a tensor: the NAME of a buffer, TILE:ADDRESS:FORMAT:SHAPE[:LAYOUT] in SPM, or "
        "ddr:ADDRESS:... in DDR",
    )
    add("--tile", type=_number, metavar="N", help="the tile --dump-spm shows (all; 0 for a file)")
    _add_views(group("time, traces and reports"))
    add = group("the run").add_argument
    add("--max-instructions", type=_number, metavar="N", help="stop a tile after N instructions, exit 3")
    add("--threads", type=_number, default=1, metavar="N", help="host threads that share the tiles (1)")
    add("--cycles-only", action="store_true", help="simulate time without data: there are no results")
    add("--serial", action="store_true", help="start with serial_mode = 1: one queue, program order")
    _add_proof(group("proofs"))
    _add_rules(group("how the chip behaves"))
    _add_states(group("saved states, sessions and debuggers"))
    add = parser.add_argument
    add("--gdb", type=port, metavar="PORT", help="a debugger that connects to PORT controls the run (0: any)")
    add("-q", "--quiet", action="store_true", help="no messages about compiled kernels")
    add("-v", "--verbose", action="store_true", help="say which kernels are compiled, and how long it took")
    _add_leaving(group("manual and caches"))
    return parser


def _add_leaving(parser: argparse._ArgumentGroup) -> None:
    """Add options like ``--help``, after which the tool ends."""
    add = parser.add_argument
    add(
        "--instructions",
        action=_Instructions,
        nargs="?",
        metavar="NAME",
        help="print the manual of all instructions and exit, or of those whose mnemonic is NAME or matches "
        "it as a pattern, such as 'ct.add.*'",
    )
    add("--warm", action=Warm, nargs=0, help="compile 600 kernels, 8 MB, into the cache (minutes), exit")
    add_cache_options(parser)
    add("--version", action="version", version=f"tx8emu {VERSION}")


def _add_views(parser: argparse._ArgumentGroup) -> None:
    """Add options that show events of the run."""
    add = parser.add_argument
    add(
        "--stats",
        nargs="?",
        const="text",
        choices=("text", "json"),
        help="print where the time went, in simulated cycles, and executed instructions; =json for machines",
    )
    add("--against", metavar="OLD.json", help="print what differs from a run that --report has written")
    add("--json", action="store_true", help="print what became of the run, as one JSON object")
    add("--timed", action="store_true", help="simulate time beside the run: programs that read it see cycles")
    add(
        "--timing",
        choices=("least", "middle", "most"),
        default="middle",
        help="which values of the model's figures: least or most time that their ranges allow (middle)",
    )
    add(
        "--issue",
        choices=("text", "c-runtime"),
        help="how long the core takes to submit a command: its packet lies ready in the program (text), or "
        "the vendor's C runtime builds it (as the program was compiled)",
    )
    add("--trace", metavar="FILE", help="write what each engine did when, for Perfetto; .gz: compressed")
    add(
        "--html",
        type=html_file,
        metavar="FILE.html",
        help="write a page for a browser: what took how long, and why",
    )
    add(
        "--report",
        type=report_file,
        metavar="FILE.html|FILE.json",
        help="write that page, or its data: what --stats=json prints, as key 'run'; the suffix says which",
    )


def _add_states(parser: argparse._ArgumentGroup) -> None:
    """Add options about saved states and sessions."""
    add = parser.add_argument
    add("--entry", metavar="NAME", help="which network runs, of a program that has several")
    add("--save-state", metavar="FILE", help="run as far as --at says, write the state to FILE and stop")
    add(
        "--at",
        metavar="N|LABEL",
        help="where: after N instructions of a tile, or when the first tile comes to LABEL; without it where "
        "--max-instructions stops the run",
    )
    add("--load-state", metavar="FILE", help="go on from a saved state of the program; inputs are part of it")
    add(
        "--session",
        metavar="SCRIPT.json",
        help="run the program step by step, with states that stay between the steps (docs/sessions.md)",
    )


def _add_proof(parser: argparse._ArgumentGroup) -> None:
    """Add the option that the installed command gives to compiler and emulator together."""
    parser.add_argument(
        "--prove",
        nargs="?",
        metavar="GRAPH",
        help="prove that a program of tx8cc computes this graph (docs/proving.md; tx8emu --prove --help)",
    )
    parser.add_argument(
        "--prove-order",
        action="store_true",
        help="judge the order of all accesses of engines, copies and cores, at every size that the program "
        "can run (docs/order.md); exit 3 if it is not proved",
    )


def _add_rules(parser: argparse._ArgumentGroup) -> None:
    """Add options that choose between rules of the machine."""
    add = parser.add_argument
    add(
        "--on-exception",
        choices=("stop", "drop"),
        default="stop",
        help="a refused engine instruction ends the run with exit 3 (stop), or is dropped: the exception "
        "register shows it and the program goes on",
    )
    add(
        "--write-span",
        choices=("exact", "hostile"),
        default="exact",
        help="what CT and NE write after a result, up to the end of its 256-byte line: nothing (exact), or "
        "a poison value that shows a program that keeps data there (hostile)",
    )
    add(
        "--ne-post",
        choices=("ignore", "proposed"),
        default="ignore",
        help="bias, scale and activation of the matrix engine in float formats: without effect, as on the "
        "board (ignore), or computed (proposed)",
    )
    add("--explore", type=_number, default=0, metavar="N", help="run N other orders; exit 3 if one differs")
    add("--explore-seed", type=_number, default=1, metavar="S", help="which orders --explore runs (1)")
    add("--strict", action="store_true", help="look for hazards (docs/strict.md); exit 3 when there are any")
    add(
        "--machine",
        metavar="FILE.toml",
        help="machine description, or the name of a packaged one (the image's)",
    )
    add("--chips", type=mesh, metavar="XxY", help="run it on X times Y linked chips, such as 2x2")
    add(
        "--placement",
        default="block",
        metavar="RULE",
        help="which rank of mpiexec has which chips: block (neighbours together), cyclic, or that of each "
        "chip, such as 0,0,1,1",
    )
    add("--chip", type=_number, default=0, metavar="N", help="the chip whose memories are dumped (0)")


def _number(text: str) -> int:
    try:
        value = int(text, 0)
    except ValueError:
        value = -1
    if not 0 <= value < 1 << 62:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number from 0 to 2**62-1")
    return value


def tensor_file(text: str, names: Collection[str]) -> tuple[str, str | None]:
    """Split text into a tensor and the .npy file that saves it; the file is None to print the tensor.
    ``names`` are the buffers' names."""
    found = None if text in names else named_file(text, names)
    return found if found else (text, None)


_OF_ALL = ("program", "machine", "quiet", "verbose")
_OF_MODES = {
    "--session": frozenset(
        (
            *(*_OF_ALL, "session", "threads", "max_instructions", "serial", "timed", "timing", "issue"),
            *("on_exception", "write_span", "ne_post"),
        )
    ),
    "--prove-order": frozenset((*_OF_ALL, "prove_order", "entry")),
}
"""Options that the modes other than a single run take. Other options would have no effect there."""
_OF_DATA = frozenset(
    (
        *("output_dir", "dump_spm", "dump_ddr", "dump_tensor", "strict", "explore", "session", "save_state"),
        *("load_state", "gdb", "write_span", "ne_post"),
    )
)
"""Options about data, which --cycles-only does not compute."""
_SHOWS_TIME = ("--timed", "--cycles-only", "--stats", "--against", "--trace", "--html", "--report")
_NEEDS = {
    "tile": ("--dump-spm",),
    "chip": ("--dump-spm", "--dump-ddr", "--dump-tensor"),
    "explore_seed": ("--explore",),
    **dict.fromkeys(("timing", "issue"), _SHOWS_TIME),
}


def check_usage(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Exit with a usage error for options that do not go together."""
    if not 1 <= options.threads <= 256:
        parser.error(f"argument --threads: {options.threads} is outside 1..256")
    if options.prove:
        parser.error("argument --prove: needs the compiler too: start the command tx8emu")
    if options.html and options.report and report_form(options.report) == "html":
        parser.error("--html and --report FILE.html both name the page")
    if options.json and (other := _prints(options)):
        parser.error(f"argument --json: not with {other}, which prints to standard output too")
    if options.against and options.stats == "json":
        parser.error("argument --against: not with --stats=json, which prints one JSON object")
    for mode, taken in _OF_MODES.items():
        if getattr(options, mode[2:].replace("-", "_")) and (other := given_besides(parser, options, taken)):
            parser.error(f"argument {mode}: not with {other}, which is about a single run")
    if options.cycles_only:
        given = given_options(parser, options)
        other = next((name for dest, name in given.items() if dest in _OF_DATA), "")
        if other:
            parser.error(f"argument --cycles-only: not with {other}, which is about data")
    if options.load_state and (options.strict or options.explore):
        parser.error("--strict and --explore watch a run from its start: not with --load-state")
    check_needs(parser, options, _NEEDS)


def _prints(options: argparse.Namespace) -> str:
    """Return a given option that prints to standard output; empty when there is none."""
    given = {
        "--stats": options.stats,
        "--against": options.against,
        "--dump-spm without a file": options.dump_spm == "-",
        "--dump-ddr": options.dump_ddr,
        "--dump-tensor without a file": any(not text.endswith(".npy") for text in options.dump_tensor),
    }
    return next((name for name, value in given.items() if value), "")


def ddr_range(text: str) -> tuple[int, int]:
    """Parse address and length of ``--dump-ddr``; exit with status 2 for another text."""
    address, colon, size = text.partition(":")
    try:
        if not colon:
            raise ValueError
        return int(address, 0), int(size, 0)
    except ValueError:
        make_parser().error(f"argument --dump-ddr: '{text}' is not ADDR:LEN, for example 0x280000000:256")
