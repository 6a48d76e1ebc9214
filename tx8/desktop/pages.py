"""Manual pages of the command lines, made from their parsers: ``man tx8emu``."""

from __future__ import annotations

import re
from argparse import SUPPRESS, Action, ArgumentParser, HelpFormatter
from collections.abc import Iterator
from pathlib import Path

from tx8isa.tools.files import write_together
from tx8isa.tools.version import VERSION

from .parsers import TOOLS, hyphened, parser_of

_WIDTH = 10_000
"""A width at which the formatter of argparse breaks no line."""


def roff(text: str) -> str:
    """Escape the characters of a text that roff would interpret."""
    plain = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", plain, flags=re.MULTILINE)


def page(parser: ArgumentParser) -> str:
    """Return the manual page of a tool."""
    formatter = HelpFormatter(parser.prog, width=_WIDTH)
    usage = " ".join(parser.format_usage().removeprefix("usage: ").split())
    description = " ".join((parser.description or "").split())
    lines = [
        f'.TH {parser.prog.upper()} 1 "" "tx8 {VERSION}" "tx8"',
        *(".SH NAME", f"{parser.prog} \\- {roff(description[:1].lower() + description[1:].rstrip('.'))}"),
        *(".SH SYNOPSIS", roff(usage)),
        *(".SH DESCRIPTION", roff(description)),
    ]
    for group in parser._action_groups:
        actions = [action for action in group._group_actions if action.help != SUPPRESS]
        if actions:
            lines.append(f".SH {roff((group.title or '').upper())}")
            lines += [line for action in actions for line in _entry(formatter, action)]
    return "\n".join((*lines, *_after(parser.epilog or ""))) + "\n"


def _entry(formatter: HelpFormatter, action: Action) -> Iterator[str]:
    """Yield the lines of an argument and its explanation."""
    yield ".TP"
    yield f".B {roff(formatter._format_action_invocation(action))}"
    yield roff(" ".join(formatter._expand_help(action).split()) if action.help else "")


def _after(epilog: str) -> Iterator[str]:
    """Format the end of the help (examples, exit statuses, places): each paragraph has a word and a colon."""
    for paragraph in epilog.strip().split("\n\n"):
        title, _, text = paragraph.partition(":")
        yield from (f".SH {roff(title.upper())}", ".nf", roff(text.strip("\n")), ".fi")


def write_pages(folder: Path) -> list[Path]:
    """Write a page for each tool into a folder, such as ``tx8emu-judge.1``; return the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {folder / f"{hyphened(tool)}.1": [page(parser_of(tool)).encode()] for tool in TOOLS}
    write_together(files)
    return list(files)
