"""``tx8-lsp``: the language server for editors, over standard input and output (docs/editors.md)."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from tx8isa.errors import Tx8Error
from tx8isa.tools.command_line import ToolParser, guarded, parsed
from tx8isa.tools.version import VERSION

_EPILOG = """examples, of what an editor starts (docs/editors.md says how):
  tx8-lsp
  tx8-lsp -I include --machine mine.toml

exit status: 0 the editor ended it, 1 it cannot start, 2 usage"""


def make_parser() -> argparse.ArgumentParser:
    """Build the parser of ``tx8-lsp``'s options."""
    parser = ToolParser("tx8-lsp", "Answer an editor's questions about TX8 assembly.", _EPILOG)
    parser.add_argument("--version", action="version", version=f"tx8-lsp {VERSION}")
    parser.add_argument(
        "-I", dest="include", metavar="DIR", action="append", default=[], help="folder of included files"
    )
    parser.add_argument("--machine", metavar="FILE", help="machine description in TOML (default: TX81)")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``tx8-lsp``; returns the exit status."""
    options = parsed(make_parser(), arguments)
    return guarded("tx8-lsp", lambda: _serve(options))


def _serve(options: argparse.Namespace) -> int:
    from tx8isa.machine.description import load_machine

    try:
        from .protocol import AssemblyServer
    except ImportError as error:
        raise Tx8Error(f"the language server needs {error.name}: pip install pygls pygments") from None
    server = AssemblyServer(load_machine(options.machine), options.include)
    server.rest.begin()
    server.start_io()
    return 0
