"""The options of tx8cc about several chips."""

from __future__ import annotations

import argparse

from tx8isa.tools.command_line import mesh

_OF_ONE_CHIP = ("stats", "html", "trace", "gdb", "verify_nodes", "calibrate", "plan")
_WITH_TX8EMU = ("stats", "html", "trace")


def add_chip_options(parser: argparse.ArgumentParser) -> None:
    """How many chips there are, and how they share the work."""
    parser.add_argument(
        "--chips",
        type=mesh,
        metavar="XxY",
        help="compile for X times Y linked chips, such as 2x2 (docs/chips.md); needs --parallel",
    )
    parser.add_argument(
        "--parallel",
        metavar="DEGREES",
        help="how chips share the work: dp=N deals the batch to N of them, tp=N the columns and rows of "
        "products; dp=2,tp=2 does both",
    )


def check_chips(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Exit with a usage error for options that are for one chip."""
    if options.chips is not None and options.parallel is None:
        parser.error("--chips needs --parallel, which says how they share the work, such as tp=2")
    if options.parallel is None:
        return
    for name in _OF_ONE_CHIP:
        if getattr(options, name) not in (None, False):
            other = "; tx8emu has it for several" if name in _WITH_TX8EMU else ""
            parser.error(f"--{name.replace('_', '-')} is for one chip, without --parallel{other}")
