"""Compiles a graph or prices it: ``compile_graph``, ``compile_entries``, ``estimate_graph``.

The records of programs (``programs``) need no passes, which are imported when there is a graph to compile.
"""

from .compiling import compile_entries, compile_graph
from .estimates import EstimatedProgram, estimate_graph
from .programs import EntryProgram, Program

__all__ = [
    "EntryProgram",
    "EstimatedProgram",
    "Program",
    "compile_entries",
    "compile_graph",
    "estimate_graph",
]
