"""Refuses options that a file of several entries, or a kernel of Triton, does not take."""

from __future__ import annotations

import argparse
from pathlib import Path

from tx8isa.errors import Tx8Error
from tx8isa.tools.command_line import given_besides

from .parser import make_parser

_OF_ALL = ("graphs", "output", "tiles", "machine", "text_only", "quiet", "no_cache")
_OF_ENTRIES = frozenset(
    (*(*_OF_ALL, "dtype", "operators", "state", "patterns", "search", "residency", "chips"), "parallel")
)
_OF_KERNELS = frozenset((*_OF_ALL, "issue", "grid", "arguments", "prove"))


def check_entries(options: argparse.Namespace, path: Path) -> None:
    """Raise Tx8Error for a given option that a file of several entries does not take."""
    if option := given_besides(make_parser(), options, _OF_ENTRIES):
        raise Tx8Error(f"{path}: {option} is about one graph, this file has several entries")


def check_kernel(options: argparse.Namespace, path: Path) -> None:
    """Raise Tx8Error for a given option that a kernel of Triton does not take."""
    if option := given_besides(make_parser(), options, _OF_KERNELS | ({"seed"} if options.prove else set())):
        advice = "; run the image: tx8emu prog.bin" if option in ("--run", "--input") else ""
        raise Tx8Error(f"{path}: {option} is for graphs; this is a kernel of Triton{advice}")
    if options.prove is True:
        raise Tx8Error(f"{path}: --prove needs the graph that the kernel must compute: --prove=GRAPH")
