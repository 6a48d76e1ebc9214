"""The options that a file of several entries takes."""

from __future__ import annotations

import argparse

from .parser import make_parser

_TAKEN = frozenset(
    (
        *("graphs", "output", "dtype", "tiles", "machine", "operators", "text_only", "state", "patterns"),
        *("search", "residency", "quiet", "verbose", "no_cache", "seed", "chips", "parallel"),
    )
)


def beside_entries(options: argparse.Namespace) -> str:
    """Return a given option that is about a single graph; empty when there is none."""
    parser = make_parser()
    given = {name for name, value in vars(options).items() if value != parser.get_default(name)}
    for action in parser._actions:
        if action.dest in given - _TAKEN:
            return action.option_strings[-1]
    return ""
