"""The options of tx8cc."""

from __future__ import annotations

import argparse
from pathlib import Path

from compiler.evaluation.integers import INTEGERS
from tx8isa.tools.caches import add_cache_options
from tx8isa.tools.command_line import ToolParser, html_file, port, report_file
from tx8isa.tools.version import VERSION

from .dimensions import dimension
from .quantising import add_quantising_options
from .spreading import add_chip_options

_EXAMPLES = """examples:
  tx8cc graph.json                                  writes graph/prog.s and graph/prog.bin beside it
  tx8cc model.onnx --dtype fp16 -o build --run      runs it on random inputs, compares with the reference
  tx8cc model.onnx --check                          how each operator will run, and what is refused
  tx8cc graph.json --run --input x=x.npy --output-dir out
  tx8cc graph.json --print-ir-after align_opt -S
  tx8cc examples/batchnorm/*.json --run --dtype fp16
  tx8cc kernel.ttir --grid 4 --arg x=4096 --arg y=4096 --arg out=4096 --arg n=4096

exit status: 0 done, and every output within its tolerance; 1 the input is at fault; 2 usage;
3 the program faulted, or an output is wrong

documents: python -m tx8 prints where they are"""


def make_parser() -> argparse.ArgumentParser:
    """Make the parser of the command line."""
    parser = ToolParser("tx8cc", "Compile a neural network for the TX81.", _EXAMPLES)
    parser.add_argument(
        "graphs",
        metavar="graph",
        nargs="+",
        help="an ONNX model (docs/onnx.md), a module of StableHLO (docs/stablehlo.md), a graph "
        "(docs/graph_json.md), a program of torch.export, a kernel of Triton (docs/triton.md), or several; "
        "or a file of several entries for one program (docs/sessions.md)",
    )
    group = parser.add_argument_group
    _add_target_options(group("what is made"))
    add_chip_options(group("several chips"))
    _add_binding_options(group("inputs and sizes of the model"))
    _add_state_options(group("states and constants of sessions"))
    _add_launch_options(group("kernels of Triton"))
    _add_run_options(group("running the program"))
    _add_search_options(group("dividing the work"))
    add_quantising_options(parser)
    _add_message_options(group("messages, reports and the cache"))
    return parser


def _add_target_options(parser: argparse._ArgumentGroup) -> None:
    """Add the options of the target: its formats, tiles and output."""
    add = parser.add_argument
    add(
        "-o",
        dest="output",
        metavar="DIR",
        help="folder of prog.s, prog.const and prog.bin (default: the graph's name without suffix, beside "
        "it); with several graphs, of a folder for each",
    )
    add(
        "--dtype",
        help="fp32, tf32, fp16 or bf16: how floats are stored and computed (default: the graph's); with "
        "--calibrate int8: bytes where that can be, and fp16 for the rest; auto: the fastest formats that "
        "lose no more than --max-loss",
    )
    add("--tiles", type=int, metavar="N", help="tiles that take part (default: 16)")
    add("--machine", metavar="FILE.toml", help="machine description (default: TX81)")
    add(
        "--issue",
        choices=("text", "c-runtime"),
        help="what submits the commands whose time is estimated and simulated: the program's text, or the "
        "vendor's C runtime, which takes longer (default: as the machine description says)",
    )
    add(
        "--operators",
        action="append",
        default=[],
        metavar="FILE.py",
        help="Python file with operators of your own (docs/custom_operators.md); may be given for several",
    )
    add(
        "--check",
        action="store_true",
        help="compile nothing: print every operator, how it will run, and everything that is refused",
    )
    add("-S", dest="text_only", action="store_true", help="write the assembly text and no image")


def _add_binding_options(parser: argparse._ArgumentGroup) -> None:
    """Add the options that bind free parts of the inputs of an ONNX model or a program of torch.export."""
    add = parser.add_argument
    add(
        "--shape",
        action="append",
        default=[],
        type=shape,
        metavar="NAME=1x3x224x224",
        help="shape of an input whose dimensions the model leaves free; may be given for several inputs",
    )
    add("--batch", type=int, metavar="N", help="extent of the first axis of every input where it is free")
    add(
        "--dim",
        action="append",
        default=[],
        type=dimension,
        metavar="NAME=1:128:512",
        help="the size of a free dimension of the model, n=8, or its least, usual and most size: the program "
        "runs all sizes in between (docs/dynamic_shapes.md); or the sum it is, total=past+new; "
        "may be given for several",
    )
    add(
        "--constant",
        action="append",
        default=[],
        type=constant,
        metavar="NAME=VALUE",
        help="what an input always is: a number, true or false, or FILE.npy; may be given for several",
    )
    add(
        "--bound",
        action="append",
        default=[],
        type=bound,
        metavar="NODE=MOST",
        help="the most steps of an ONNX Loop that collects results, or the most that a node such as NonZero "
        "finds; may be given for several",
    )


def _add_state_options(parser: argparse._ArgumentGroup) -> None:
    """Add the options about memory that persists from run to run, and constants that may be replaced."""
    parser.add_argument(
        "--state",
        action="append",
        default=[],
        type=state,
        metavar="INPUT=OUTPUT",
        help="an input and an output that are the same memory, so that a run finds what the one before left "
        "there (docs/sessions.md); may be given for several",
    )
    parser.add_argument(
        "--replaceable",
        action="append",
        default=[],
        metavar="NAME",
        help="a constant of the model that sessions may replace; may be given for several",
    )


def _add_launch_options(parser: argparse._ArgumentGroup) -> None:
    """Add the options of the launch for which a kernel of Triton is compiled."""
    add = parser.add_argument
    add(
        "--grid",
        metavar="4x2x1",
        help="for a kernel of Triton: how many programs along one to three axes (default: 1)",
    )
    add(
        "--arg",
        dest="arguments",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="for a kernel of Triton: the number that an argument is, or the shape of its array, as in 64x32",
    )


def _add_run_options(parser: argparse._ArgumentGroup) -> None:
    """Add the options that run the program and verify its nodes."""
    add = parser.add_argument
    add("--run", action="store_true", help="run the program and compare its outputs with the reference")
    _add_verifying_options(parser)
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
    add("--html", type=html_file, metavar="FILE.html", help="with --run, a page about it (docs/report.md)")
    add("--trace", metavar="FILE", help="with --run, a trace for Perfetto; .gz: compressed (docs/trace.md)")
    add("--strict", action="store_true", help="with --run, look for hazards (docs/strict.md)")
    add("--gdb", type=port, metavar="PORT", help="a debugger that connects to PORT controls the run (0: any)")
    add("--save-inputs", metavar="DIR", help="with --run, write one .npy file per input, random ones too")
    add("--seed", type=int, default=0, metavar="N", help="of random inputs (default: 0)")
    add(
        "--output-dir",
        metavar="DIR",
        help="with --run, write one .npy file per output; with several graphs, into a folder for each",
    )


def _add_verifying_options(parser: argparse._ArgumentGroup) -> None:
    """Add the options that judge more than the outputs of a run."""
    parser.add_argument(
        "--verify-nodes",
        action="store_true",
        help="run it so that every value can be seen, compare each node with its reference, and write the "
        "first that differs as a graph of its own",
    )
    parser.add_argument(
        "--prove",
        nargs="?",
        default=False,
        type=lambda image: Path(image) if image else True,
        metavar="FILE",
        help="execute program and graph in prime fields, where they must be equal (docs/proving.md); =FILE: "
        "the program in this image, made of the graph with the same options, or the graph of a Triton kernel",
    )
    parser.add_argument(
        "--prove-order",
        action="store_true",
        help="judge the order of all accesses, at every size of a range (docs/proving.md)",
    )


def _add_search_options(parser: argparse._ArgumentGroup) -> None:
    """Add the options about groups and the division of their work, with the files of these decisions."""
    add = parser.add_argument
    add(
        "--search",
        default="fast",
        metavar="EFFORT",
        help="how many ways of dividing the work among tiles and in time are tried: off, fast or full "
        "(default: fast)",
    )
    add(
        "--patterns",
        default="default",
        metavar="SET",
        help="which operators run in one phase: default, none or FILE.toml (docs/groups.md)",
    )
    add(
        "--residency",
        default="on",
        metavar="on|off",
        help="whether values between groups may stay in the scratchpads, or all are stored to DDR (default: "
        "on)",
    )
    add(
        "--integers",
        choices=INTEGERS,
        help="whether convolutions and sums of bytes give exactly the integers of ONNX, or those or the ones "
        "beside them, which is faster (default: exact; near for a network that --calibrate quantises)",
    )
    add("--plan", metavar="FILE.json", help="divide the work as --save-plan wrote it, without search")
    add("--save-plan", metavar="FILE.json", help="write how the work was divided")


def _add_message_options(parser: argparse._ArgumentGroup) -> None:
    """Add the options about printing, reports and the program cache."""
    add = parser.add_argument
    add(
        "--report",
        type=report_target,
        metavar="FILE.json|FILE.html",
        help="write groups, divisions, memory maps and cycles, with --run also simulated ones, - for "
        "standard output; FILE.html is the page of --html",
    )
    add(
        "--view",
        metavar="DIR",
        help="write an ONNX model with phase, cycles, bytes and errors of each node, for Netron and Model "
        "Explorer (docs/compiler_tools.md)",
    )
    add("--print-ir-after", metavar="PASS", help="print the module after a pass, or after all of them")
    add(
        "--json",
        action="store_true",
        help="print what --check, --run or --verify-nodes find as JSON, a document for each graph",
    )
    add("--pass-times", dest="timing", action="store_true", help="print how long every pass took")
    add("--no-cache", action="store_true", help="compile again what was compiled before, and keep nothing")
    add("-q", "--quiet", action="store_true", help="print nothing but errors and what was asked for")
    add("-v", "--verbose", action="store_true", help="print what every pass did to the size of the module")
    add_cache_options(parser)
    add("--version", action="version", version=f"tx8cc {VERSION}")


def shape(text: str) -> tuple[str, tuple[int, ...]]:
    """Parse an input's name and shape from ``x=1x3x224x224``."""
    name, _, extents = text.rpartition("=")
    try:
        found = tuple(int(extent) for extent in extents.split("x"))
    except ValueError:
        found = ()
    if not name or not found or min(found) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=1x3x224x224, extents of 1 or more")
    return name, found


def constant(text: str) -> tuple[str, float | Path]:
    """Parse an input's name and value from ``rate=16000``, ``flag=true`` or ``table=FILE.npy``."""
    name, _, value = text.rpartition("=")
    if not name:
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=VALUE")
    if value in ("true", "false"):
        return name, value == "true"
    if value.endswith(".npy"):
        return name, Path(value)
    for kind in (int, float):
        try:
            return name, kind(value)
        except ValueError:
            continue
    raise argparse.ArgumentTypeError(f"'{value}' in '{text}' is not a number, true, false or FILE.npy")


def bound(text: str) -> tuple[str, int]:
    """Parse a node and the most steps of its loop, or the most that it finds, from ``search=100``."""
    node, _, most = text.rpartition("=")
    if not node or not most.isdecimal() or not int(most):
        raise argparse.ArgumentTypeError(f"'{text}' is not NODE=MOST, a number of 1 or more")
    return node, int(most)


def state(text: str) -> tuple[str, str]:
    """Parse an input and the output in the same memory from ``past=present``."""
    past, _, present = text.partition("=")
    if not past or not present:
        raise argparse.ArgumentTypeError(f"'{text}' is not INPUT=OUTPUT, such as past=present")
    return past, present


def report_target(text: str) -> str:
    """Check the value of ``--report``: a file with a known suffix, or standard output for data."""
    return text if text == "-" else report_file(text)
