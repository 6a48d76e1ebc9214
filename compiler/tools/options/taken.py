"""The options that a file of several entries takes, and those that a kernel of Triton takes."""

from __future__ import annotations

import argparse
from collections.abc import Collection

from .parser import make_parser

_OF_ALL = ("graphs", "output", "tiles", "machine", "text_only", "quiet", "verbose", "no_cache")
_OF_ENTRIES = frozenset(
    (
        *(*_OF_ALL, "dtype", "operators", "state", "patterns", "search", "residency", "seed", "chips"),
        "parallel",
    )
)
_OF_KERNELS = frozenset((*_OF_ALL, "issue", "grid", "arguments"))


def beside_entries(options: argparse.Namespace) -> str:
    """Return a given option that a file of several entries does not take; empty when there is none."""
    return _other(options, _OF_ENTRIES)


def beside_kernel(options: argparse.Namespace) -> str:
    """Return a given option that a kernel of Triton does not take; empty when there is none."""
    return _other(options, _OF_KERNELS)


def _other(options: argparse.Namespace, taken: Collection[str]) -> str:
    parser = make_parser()
    given = {name for name, value in vars(options).items() if value != parser.get_default(name)}
    for action in parser._actions:
        if action.dest in given.difference(taken):
            return action.option_strings[-1]
    return ""
