"""Completion of the command lines in shells, made by shtab (the extra ``shell``)."""

from __future__ import annotations

from tx8isa.errors import Tx8Error
from tx8isa.tools.suggestions import hint

from .parsers import TOOLS, hyphened, parser_of, takes

_COMMANDS = """
_tx8_{tool}() {{
  if [[ "${{COMP_WORDS[1]}}" == {command} ]] && (( COMP_CWORD > 1 )); then
    COMP_WORDS=({tool}-{command} "${{COMP_WORDS[@]:2}}")
    (( COMP_CWORD-- ))
    _shtab_{tool}_{command} "$@"
  else
    _shtab_{tool} "$@"
    if (( COMP_CWORD == 1 )) && [[ {command} == "${{COMP_WORDS[1]}}"* ]]; then COMPREPLY+=({command}); fi
  fi
}}
complete -o bashdefault -F _tx8_{tool} {tool}
"""
"""For bash: a tool whose first word may be a command with options of its own."""


def completion(shell: str) -> str:
    """Return the script that completes all tools in a shell; commands of a tool are completed in bash only.

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
    for name in TOOLS:
        tool, _, command = name.partition(" ")
        if command and shell != "bash":
            continue
        parser = parser_of(name)
        parser.prog = hyphened(name)
        for action in parser._actions:
            if kind := takes(action):
                action.complete = kinds[kind]  # type: ignore[attr-defined]  # where shtab looks for it
        scripts.append(shtab.complete(parser, shell))
        if command:
            scripts.append(_COMMANDS.format(tool=tool, command=command))
    return "\n".join(scripts)
