"""Refuses combinations of tx8cc's options in one line that says what to do.

Every mode that makes no program, or not from one graph, lists the options that it takes. So a new option is
refused there until it does something.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tx8isa.tools.command_line import check_needs, given_besides, named_file, report_form

from .dimensions import check_binding, option_that_runs
from .quantising import check_quantising
from .spreading import check_chips

_OF_READING = ("graphs", "operators", "quiet", "no_cache", "shape", "batch", "dim", "constant", "bound")
_OF_MODES = {
    "--check": frozenset((*_OF_READING, "check", "json")),
    "--estimate": frozenset(
        (
            *(*_OF_READING, "estimate", "state", "replaceable", "dtype", "tiles", "machine", "issue"),
            *("patterns", "residency", "chips", "parallel"),
        )
    ),
}
"""Options that the modes without a program take. Other options would have no effect there."""
_MAKES = {"--check": "compiles nothing", "--estimate": "makes no program"}
_OF_A_RUN = ("output_dir", "stats", "html", "trace", "strict", "gdb", "save_inputs")
_NEEDS = {
    **dict.fromkeys(_OF_A_RUN, ("--run",)),
    "json": ("--check", "--run", "--verify-nodes"),
    "seed": ("--run", "--verify-nodes", "--prove", "--dtype auto"),
}
_OF_ONE_GRAPH = ("plan", "save_plan", "report", "view", "html", "trace", "gdb", "calibrate")


def check_usage(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Exit with a usage error for options that do not go together."""
    stems = [Path(graph).stem for graph in options.graphs]
    if len(set(stems)) < len(stems) and (options.output or options.output_dir):
        parser.error("graphs of one name cannot share the folder of -o or --output-dir")
    _check_pass(parser, options)
    _check_modes(parser, options)
    _check_report(parser, options)
    check_binding(parser, options)
    check_quantising(parser, options)
    check_chips(parser, options)
    check_needs(parser, options, _NEEDS)
    _check_json(parser, options)
    if options.plan and options.search != parser.get_default("search"):
        parser.error("--plan replaces the search: leave out --search, or --plan")
    if options.input and not (options.run or options.verify_nodes or (options.prove and options.dim)):
        parser.error("--input needs --run or --verify-nodes, or --prove and --dim")
    for name in _OF_ONE_GRAPH:
        if len(stems) > 1 and getattr(options, name) is not None:
            parser.error(f"--{name.replace('_', '-')} is for a single graph")
    wanted = option_that_runs(options)
    if options.text_only and wanted is not None:
        parser.error(f"-S makes no image that {wanted} could run")
    for argument in options.input:
        if named_file(argument, ()) is None:
            parser.error(f"argument --input: '{argument}' is not NAME=FILE.npy")


def _check_pass(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Exit with a usage error for an unknown pass in --print-ir-after."""
    if options.print_ir_after in (None, "all"):
        return
    from compiler.passes.compilation import pass_names

    names = pass_names()
    if options.print_ir_after not in names:
        wrong = f"'{options.print_ir_after}' is not all or one of {' '.join(names)}"
        parser.error(f"argument --print-ir-after: {wrong}")


def _check_modes(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Exit with a usage error for an option without effect in a mode that makes no program."""
    for mode, taken in _OF_MODES.items():
        if not getattr(options, mode.lstrip("-")):
            continue
        if other := given_besides(parser, options, taken):
            parser.error(f"{mode} {_MAKES[mode]}, so {other} has no effect: leave out {other}, or {mode}")


def _check_json(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Exit with a usage error for a second JSON document on standard output."""
    if options.json and (options.stats == "json" or options.report == "-"):
        other = "--stats=json" if options.stats == "json" else "--report -"
        parser.error(f"--json and {other} would both write to standard output: use --report FILE.json")


def _check_report(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Turn a --report that is a page into an equivalent --html."""
    if options.report is None or report_form(options.report) != "html":
        return
    if options.html is not None:
        parser.error("--html and --report FILE.html both name the page")
    if not options.run:
        parser.error("--report FILE.html is a page about a run: it needs --run")
    options.html, options.report = options.report, None
