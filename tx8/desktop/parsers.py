"""The parsers of the command lines."""

from __future__ import annotations

from argparse import Action, ArgumentParser
from importlib import import_module

_MAKERS = {
    "tx8as": ("asm.cli", "assemble_parser"),
    "tx8dis": ("asm.cli", "disassemble_parser"),
    "tx8emu": ("emulator.cli.options", "make_parser"),
    "tx8cc": ("compiler.tools.options", "make_parser"),
    "tx8opt": ("compiler.tools.opt", "make_parser"),
    "tx8-lsp": ("tx8.desktop.server", "make_parser"),
    "tx8emu judge": ("tx8.judge.command", "make_parser"),
}
"""Module and function that make the parser of each tool."""
TOOLS = tuple(_MAKERS)


def parser_of(tool: str) -> ArgumentParser:
    """Return the parser of a tool."""
    module, function = _MAKERS[tool]
    made: ArgumentParser = getattr(import_module(module), function)()
    return made


def hyphened(tool: str) -> str:
    """Return the name of a tool as one word: a command of a tool follows a hyphen, as ``man`` expects it."""
    return tool.replace(" ", "-")


def takes(action: Action) -> str:
    """Return ``file`` or ``folder`` for an argument that names one; an empty text for all others."""
    metavar = action.metavar if isinstance(action.metavar, str) else action.dest
    if "FILE" in metavar or action.dest in ("file", "program", "graphs", "kernel"):
        return "file"
    return "folder" if "DIR" in metavar else ""
