"""Completion of the command lines in shells, made by shtab (the extra ``shell``)."""

from __future__ import annotations

from tx8isa.errors import Tx8Error
from tx8isa.tools.suggestions import hint

from .parsers import TOOLS, parser_of, takes


def completion(shell: str) -> str:
    """Return the script that completes all five tools in a shell.

    Tx8Error if it is unknown or shtab missing.
    """
    try:
        import shtab
    except ImportError:
        raise Tx8Error("completion needs shtab: pip install shtab") from None
    known = list(shtab.SUPPORTED_SHELLS)
    if shell not in known:
        raise Tx8Error(f"no completion for shell {shell!r}: known are {' '.join(known)}{hint(shell, known)}")
    kinds = {"file": shtab.FILE, "folder": shtab.DIRECTORY}
    scripts = []
    for tool in TOOLS:
        parser = parser_of(tool)
        for action in parser._actions:
            if kind := takes(action):
                action.complete = kinds[kind]  # type: ignore[attr-defined]  # where shtab looks for it
        scripts.append(shtab.complete(parser, shell))
    return "\n".join(scripts)
