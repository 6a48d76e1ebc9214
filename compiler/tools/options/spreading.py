"""The options of tx8cc about several chips."""

from __future__ import annotations

import argparse

from tx8isa.tools.command_line import mesh

_OF_ONE_CHIP = ("stats", "html", "trace", "gdb", "verify_nodes", "prove_order", "calibrate")
_WITH_TX8EMU = ("stats", "html", "trace")


def add_chip_options(parser: argparse._ArgumentGroup) -> None:
    """Add the options for the number of chips, and for how they share the work."""
    parser.add_argument(
        "--chips",
        type=mesh,
        metavar="XxY",
        help="compile for X times Y linked chips, such as 2x2 (docs/chips.md)",
    )
    parser.add_argument(
        "--estimate",
        action="store_true",
        help="make no program: print the estimated cycles of every phase, for up to 4096 chips",
    )
    parser.add_argument(
        "--parallel",
        metavar="DEGREES",
        help="how chips share the work: dp=N divides the batch among N of them, tp=N the columns and rows of "
        "products, sp=N the rows of sequences, ep=N experts, pp=N stages of layers; dp=2,tp=2 does both "
        "(default: dp, tp, sp, ep or pp, also with dp, with the fewest estimated cycles)",
    )


def check_chips(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Exit with a usage error for options of one chip."""
    if options.chips is None and options.parallel is None:
        return
    for name in _OF_ONE_CHIP:
        if getattr(options, name) not in (None, False):
            other = "; tx8emu has it for several" if name in _WITH_TX8EMU else ""
            parser.error(f"--{name.replace('_', '-')} is for one chip, without --chips and --parallel{other}")
