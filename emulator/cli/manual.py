"""The manual as text for a terminal: ``tx8emu --instructions``.

An entry begins with the mnemonic in the first column, so that ``grep '^ct'`` gives a list of one line each.
The rest of the entry is indented.
"""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterator

from tx8isa.records.record import Instruction
from tx8isa.riscv.format import Encoding
from tx8isa.table import manual
from tx8isa.table.pages import Page

WIDTH = 100
_NAME = 26
_HEAD = """\
Engine instructions are written mnemonic[.format] name=value, ...; operands in brackets have a default.
An operand's line gives its word and bits, or its word and mark (bit of word 1 that makes it the number of
an x register); then the legal values, the default, and the field of the chip's packet. Evidence is told
in words that the page of the chip explains (isa.md in the documents), and See names topics that it lists.
"""


def show(pattern: str | None) -> None:
    """Print the entries that a name or glob selects, or all; through a pager on a terminal that is too short.

    ManualError when there is no such instruction.
    """
    text = "\n".join(lines(pattern)) + "\n"
    tty = sys.stdout is not None and sys.stdout.isatty()
    if not tty or text.count("\n") < shutil.get_terminal_size().lines:
        print(text, end="", flush=True)
        return
    import pydoc  # imported here, because it loads slowly

    pydoc.pager(text)


def lines(pattern: str | None) -> Iterator[str]:
    """Yield the lines of the manual, or of the part that a name or glob selects."""
    if pattern is None:
        yield _HEAD
    engine, scalar = manual.find("*" if pattern is None else pattern)
    for page, members in manual.pages().items():
        chosen = [i for i in members if i in engine]
        if chosen:
            yield from _title(page.title)
            for instruction in chosen:
                yield from (*_engine_entry(instruction, page), "")
    for group, records in manual.scalar_groups().items():
        listed = [r for r in records if r in scalar]
        if listed:
            yield from _title(f"Kernel core, {group.title}")
            for record in listed:
                yield from (*_scalar_entry(record), "")


def _title(text: str) -> tuple[str, ...]:
    return (f"== {text} ==", "")


def _engine_entry(instruction: Instruction, page: Page) -> Iterator[str]:
    where = f"{instruction.engine.name} {instruction.opcode}"
    yield f"{instruction.mnemonic:<{_NAME}} {where:<9} {manual.summary(instruction.doc)}"
    yield from _wrapped(instruction.doc)
    yield ""
    yield from _wrapped(manual.syntax(instruction))
    yield ""
    for row in manual.operand_rows(instruction):
        use = f"{row.use}; " if row.use else ""
        word = "words" if row.operand.words == 2 else "word"
        text = f"{word} {row.place}; {row.allowed}; {row.default}; {use}field {row.operand.field}"
        yield from _wrapped(f"{row.operand.name:<14}{text}", hanging=14)
    yield ""
    yield from _wrapped(f"{manual.header(instruction)}.")
    for rule in instruction.rules:
        yield from _wrapped(f"Rule: {rule.text}.", hanging=6)
    yield from _wrapped(f"Evidence: {instruction.evidence}.", hanging=10)
    yield f"    Example: {instruction.example}"  # in one piece, to be copied
    yield from _wrapped(f"See: the chip, {', '.join(page.sections)}", hanging=5)


def _scalar_entry(record: Encoding) -> Iterator[str]:
    yield f"{record.mnemonic:<{_NAME}} {'core':<9} {manual.summary(record.doc)}"
    yield from _wrapped(" ".join(record.doc.split()))
    yield ""
    yield f"    {manual.scalar_syntax(record)}"
    yield f"    Bits 31..0: {record.pattern}"
    yield f"    Example: {record.example}"


def _wrapped(text: str, hanging: int = 0) -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=" " * 4,
        subsequent_indent=" " * (4 + hanging),
        break_long_words=False,
        break_on_hyphens=False,
    )
