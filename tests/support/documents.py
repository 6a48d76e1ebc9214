"""Parses documents and runs their listings, for the tests of the documentation.

A code block is run according to its language. ``console``: lines that begin with ``$`` are commands for a
shell. The other lines are their output, including standard error. ``...`` matches any lines, and within a
line any characters; ``[3]`` is the exit status. A file that is shown with ``$ cat`` and does not exist yet is
created with the shown content. ``asm``: a program that assembles. ``python``: a program that runs.

python tests/support/documents.py docs/stats.md ...

replaces output that no longer matches by the present output of the commands. Output that matches stays
unchanged, with its dots.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import asm
from paths import ROOT

INSTALLED = Path(sys.executable).parent
"""The folder with the commands and ``python``."""

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_STATUS = re.compile(r"\[(\d+)\]")
_ELLIPSIS = "..."
_LONGEST = 600
"""Seconds after which a command hangs; the slowest takes some ten on an idle machine."""
_PASSING = "tx8emu: compiling kernels"
"""A message that appears once on a machine, so no document shows it."""
_OPTIONS_OF_THIS_RUN = ("PYTEST_ADDOPTS",)
"""Variables for the tests themselves, which would change the output of a reader's commands."""


@dataclass(frozen=True)
class Block:
    """A code block of a document; ``line`` is that of its first line."""

    language: str
    text: str
    line: int


@dataclass(frozen=True)
class Command:
    """A shell command with its documented output and exit status."""

    text: str
    output: list[str]
    status: int


def blocks(document: str) -> Iterator[Block]:
    """The fenced code blocks."""
    for match in _FENCE.finditer(document):
        yield Block(match[1], match[2], document.count("\n", 0, match.start()) + 2)


def region(page: str, name: str) -> str | None:
    """Return the text between ``<!-- name -->`` and ``<!-- end of name -->``; None if a mark is missing."""
    begin, end = _marks(name)
    inside, found, _ = page.partition(begin)[2].partition(end)
    return inside if found else None


def with_region(page: str, name: str, made: Callable[[str], str]) -> str:
    """Return a page whose region has the text that ``made`` returns for the old one.

    SystemExit if it has no such region.
    """
    begin, end = _marks(name)
    inside = region(page, name)
    if inside is None:
        raise SystemExit(f"the page has no region {begin.strip()} ... {end.strip()}")
    before, _, rest = page.partition(begin)
    return f"{before}{begin}{made(inside)}{end}{rest.partition(end)[2]}"


def _marks(name: str) -> tuple[str, str]:
    """Return the comments before and after a region, with their line ends."""
    return f"<!-- {name} -->\n", f"\n<!-- end of {name} -->"


def commands(text: str) -> list[Command]:
    """The commands of a console block."""
    found: list[Command] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append(Command(line[2:], [], 0))
        elif not found:
            raise ValueError(f"a console block begins with a command, found: {line}")
        elif status := _STATUS.fullmatch(line):
            found[-1] = Command(found[-1].text, found[-1].output, int(status[1]))
        else:
            found[-1].output.append(line)
    return found


def matches(expected: list[str], found: list[str]) -> bool:
    """Return True if lines are as expected; an ellipsis matches any number of lines."""
    if not expected:
        return not found
    if expected[0] == _ELLIPSIS:
        return any(matches(expected[1:], found[start:]) for start in range(len(found) + 1))
    return bool(found) and same_line(expected[0], found[0]) and matches(expected[1:], found[1:])


def same_line(expected: str, found: str) -> bool:
    """Return True if a line is as expected; an ellipsis matches any characters."""
    pattern = ".*".join(re.escape(part) for part in expected.split(_ELLIPSIS))
    return re.fullmatch(pattern, found) is not None


def carried_out(command: Command, folder: Path, programs: Path = INSTALLED) -> tuple[list[str], int]:
    """Run a command; return its output lines and exit status. Programs are searched in ``programs`` first."""
    name = command.text.removeprefix("cat ")
    if name != command.text and re.fullmatch(r"[\w.]+", name) and not (folder / name).exists():
        (folder / name).write_text("\n".join(command.output) + "\n", encoding="utf-8")
    path = os.pathsep.join((str(programs), str(INSTALLED), os.environ.get("PATH", "")))
    others = {key: value for key, value in os.environ.items() if key not in _OPTIONS_OF_THIS_RUN}
    done = subprocess.run(
        ["bash", "-c", command.text],
        cwd=folder,
        env={**others, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_LONGEST,
        check=False,
    )
    printed = [line.rstrip() for line in done.stdout.splitlines() if not line.startswith(_PASSING)]
    return printed, done.returncode


def run_command(command: Command, folder: Path, programs: Path = INSTALLED) -> None:
    """Run a command; AssertionError for another output or status than documented."""
    printed, status = carried_out(command, folder, programs)
    shown = "\n".join(printed)
    assert matches([line.rstrip() for line in command.output], printed), f"$ {command.text}\n{shown}"
    assert status == command.status, f"$ {command.text}\n{shown}\nexit status {status}"


def run_block(block: Block, folder: Path, programs: Path = INSTALLED) -> None:
    """Run a code block in a folder; blocks of a language without a rule are not run."""
    if block.language == "console":
        for command in commands(block.text):
            run_command(command, folder, programs)
    elif block.language == "asm":
        asm.assemble(block.text, f"line {block.line}")
    elif block.language == "python":
        run = subprocess.run(
            [programs / "python", "-c", block.text],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=_LONGEST,
            check=False,
        )
        assert run.returncode == 0, run.stderr


def cells(line: str) -> list[str]:
    """The cells of a row of a Markdown table."""
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def anchors(document: str) -> set[str]:
    """Targets of links into a document, as GitHub makes them from its headings."""
    headings = re.findall(r"^#+ (.*)$", _FENCE.sub("", document), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def as_it_is(command: Command, folder: Path) -> str:
    """Return a command and its output as in a console block; AssertionError for a missing program."""
    printed, status = carried_out(command, folder)
    missing = [line for line in printed if line.startswith("bash: ") and line.endswith(": command not found")]
    assert not missing, f"$ {command.text}\n{missing}: install it before the document is updated"
    output = command.output if matches([line.rstrip() for line in command.output], printed) else printed
    ending = [f"[{status}]"] if status else []
    return "".join(f"{line}\n" for line in [f"$ {command.text}", *output, *ending])


def updated(document: str, folder: Path) -> str:
    """Return the document with its commands' present output in ``folder``; other code blocks are run, too."""
    parts, end = [], 0
    for match, block in zip(_FENCE.finditer(document), blocks(document), strict=True):
        if block.language != "console":
            run_block(block, folder)
            continue
        parts += [document[end : match.start(2)], *(as_it_is(c, folder) for c in commands(block.text))]
        end = match.end(2)
    return "".join(parts) + document[end:]


def main(names: list[str]) -> int:
    """Update documents; exit status."""
    for name in names:
        path = Path(name)
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "examples").symlink_to(ROOT / "examples")
            before = path.read_text(encoding="utf-8")
            after = updated(before, Path(folder))
        print(f"{name}: {'as it was' if after == before else 'changed'}")
        path.write_text(after, encoding="utf-8")
    return 0 if names else 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
