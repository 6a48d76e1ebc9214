"""The options that bind names, such as --dim, and the list of options that run the program."""

from __future__ import annotations

import argparse


def dimension(text: str) -> tuple[str, tuple[int, ...] | str]:
    """Parse the name of a dimension and its value.

    A range from ``seq=1:128:512`` or ``seq=1:512``; one size from ``seq=128``; a sum from ``total=past+new``.
    """
    name, _, sizes = text.rpartition("=")
    if name and "+" in sizes:
        return name, sizes
    try:
        numbers = [int(size) for size in sizes.split(":")]
    except ValueError:
        numbers = []
    if not name or len(numbers) not in (1, 2, 3):
        wanted = "NAME=LEAST:USUAL:MOST, such as seq=1:128:512, nor NAME=SIZE, such as seq=128"
        raise argparse.ArgumentTypeError(f"'{text}' is neither {wanted}")
    return name, tuple(numbers)


_RUNS = ("--run", "--verify-nodes", "--prove", "--prove-order")
"""Options that run the program."""


def given(options: argparse.Namespace, name: str) -> bool:
    """Return True if an option was given a value that is not empty."""
    return bool(getattr(options, name[2:].replace("-", "_")))


def option_that_runs(options: argparse.Namespace) -> str | None:
    """Return the first option that makes the program run; empty if there is none."""
    return next((name for name in _RUNS if given(options, name)), None)


def check_binding(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Exit with a usage error for extents that no axis can have, and inputs with two values."""
    if options.batch is not None and options.batch < 1:
        parser.error(f"argument --batch: {options.batch} is less than 1")
    for option in ("constant", "bound", "dim", "state"):
        names = [name for name, _ in getattr(options, option)]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            parser.error(f"argument --{option}: '{twice}' is given twice")
    others = {name: given(options, name) for name in ("--verify-nodes", "--parallel", "--gdb")}
    others |= {"--calibrate": options.calibrate, "--dtype auto": options.dtype == "auto"}
    others |= {"--chips": options.chips}
    wrong = next((name for name, value in others.items() if value), None)
    if any(isinstance(sizes, str) or sizes[0] < sizes[-1] for _, sizes in options.dim) and wrong is not None:
        parser.error(
            f"--dim and {wrong} exclude each other: a program that runs a range of sizes has no {wrong}"
        )
