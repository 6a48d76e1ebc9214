"""Explanations of words and proposals of next words for an editor, both from the records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from asm.directives.call import BLOCKS, HANDLERS, split_arguments
from asm.instructions.pseudo import SIMPLE
from asm.place import LOCAL, SymbolEntry
from asm.syntax.expressions import Address
from emulator.cli import manual as text_manual
from tx8.desktop.rules import SPECIAL, core_mnemonics, directives, engine_mnemonics
from tx8isa.records.record import Instruction
from tx8isa.riscv.registers import CSRS, FLOAT_REGISTER_NAMES, FLOAT_REGISTERS, REGISTER_NAMES, REGISTERS
from tx8isa.table import manual, registry
from tx8isa.table.compressed import compressed_by_mnemonic
from tx8isa.table.scalar import scalar_by_mnemonic

from .text import Reading, Word, head_before


def hover(reading: Reading, line: int, column: int) -> tuple[Word, str] | None:
    """Explain the word under the cursor by the records and the assembly, as Markdown."""
    word = reading.word_at(line, column)
    if word is None:
        return None
    head = head_before(reading.words(line), word.start)
    text = _about(reading, word, head)
    return (word, f"```text\n{text}\n```") if text else None


def _about(reading: Reading, word: Word, head: Word | None) -> str:
    name = word.text.lower()
    if word.kind in ("engine", "core"):
        return _instruction(name)
    if word.kind == "directive":
        function = HANDLERS.get(name) or BLOCKS.get(name)
        return (
            " ".join((function.__doc__ or "").split())
            or f"{name}: a directive (assembly.md of the documents)"
        )
    if word.kind == "operand" and head is not None:
        found = registry.find(head.text.lower())
        rows = manual.operand_rows(found[0]) if found is not None else []
        return next((f"{row.operand.name}: {_row(row)}" for row in rows if row.operand.name == word.text), "")
    if word.kind == "register":
        return _register(word.text)
    if word.kind == "word" and word.text in CSRS:
        return f"{word.text}: control and status register {CSRS[word.text]:#x}"
    symbol = reading.assembly.program.symbols.get(word.text)
    return _symbol(word.text, symbol) if symbol is not None and symbol.defined else ""


def _instruction(name: str) -> str:
    """Return the manual's entry of an instruction, or the expansion of a pseudo-instruction."""
    if registry.find(name) is None and name not in {**scalar_by_mnemonic(), **compressed_by_mnemonic()}:
        stands = "; ".join(SIMPLE.get(name, ())).replace("$", "operand ")
        return f"{name}: a pseudo-instruction" + (f" for {stands}" if stands else "")
    return "\n".join(text_manual.lines(name)).strip()


def _row(row: manual.OperandRow) -> str:
    """The legal values of an operand, its default and its use."""
    return "; ".join(filter(None, (row.allowed, row.default, row.use)))


def _register(name: str) -> str:
    if name in REGISTERS:
        return f"{REGISTER_NAMES[REGISTERS[name]]}: register x{REGISTERS[name]}"
    return f"{FLOAT_REGISTER_NAMES[FLOAT_REGISTERS[name]]}: register f{FLOAT_REGISTERS[name]}"


def _symbol(name: str, symbol: SymbolEntry) -> str:
    """The value or place of a symbol, its size, and where it is defined."""
    value = symbol.value
    if isinstance(value, Address):
        shown = f"{value.section} + {value.offset:#x}"
    else:
        shown = "an expression of later symbols" if value is None else f"{value:#x} ({value})"
    size = f", {symbol.size} bytes" if symbol.size else ""
    return f"{name} = {shown}{size}; defined at {symbol.where or 'the command line'}"


# --- completion ---------------------------------------------------------------------------


class Proposal(NamedTuple):
    """A word that can come next; ``kind`` is the lexer's, ``detail`` names the operands or values."""

    text: str
    kind: str
    detail: str = ""


def completions(reading: Reading, line: int, column: int) -> list[Proposal]:
    """Propose words for the cursor; the editor filters them by the letters typed."""
    if line >= len(reading.lines):
        return []
    words = reading.words(line)
    typed = reading.word_at(line, column)
    head = head_before(words, typed.start if typed is not None and typed.kind != "punctuation" else column)
    if head is None:
        return list(_heads(reading))
    before = reading.lines[line][head.end : column]
    arguments = split_arguments(before) or [""]
    found = registry.find(head.text.lower())
    if found is not None:
        return list(_engine_operands(reading, found[0], arguments))
    return list(_core_operands(reading, head, len(arguments) - 1))


def _heads(reading: Reading) -> Iterator[Proposal]:
    """Propose beginnings of a statement: mnemonics, directives, macros of the text."""
    for name in engine_mnemonics():
        found = registry.find(name)
        assert found is not None  # the name comes from this table
        yield Proposal(name, "engine", manual.summary(found[0].doc))
    records = scalar_by_mnemonic()
    for name in core_mnemonics():
        yield Proposal(name, "core", manual.scalar_syntax(records[name]) if name in records else "")
    yield from (Proposal(name, "directive") for name in directives())
    yield from (Proposal(name, "macro") for name in reading.assembly.macros)


def _engine_operands(reading: Reading, instruction: Instruction, arguments: list[str]) -> Iterator[Proposal]:
    """Propose missing operands with their legal values; after ``=`` words and symbols."""
    rows = {row.operand.name: row for row in manual.operand_rows(instruction)}
    name, equals, _ = arguments[-1].partition("=")
    if not equals:
        given = {argument.partition("=")[0].strip() for argument in arguments[:-1]}
        for operand in instruction.visible:
            if operand.name not in given:
                yield Proposal(f"{operand.name}=", "operand", _row(rows[operand.name]))
        return
    row = rows.get(name.strip())
    if row is None:
        return
    detail = _row(row)
    if row.operand.choices:
        yield from (Proposal(word, "word", detail) for word, _ in row.operand.choices)
        return
    if row.operand.words:
        yield from (Proposal(register, "register", detail) for register in REGISTER_NAMES)
    yield from _symbols(reading)


_REGISTERS = {"register": REGISTER_NAMES, "float": FLOAT_REGISTER_NAMES}


def _core_operands(reading: Reading, head: Word, position: int) -> Iterator[Proposal]:
    """Propose words for an operand of a core instruction; symbols for all other statements."""
    record = scalar_by_mnemonic().get(head.text.lower())
    if head.kind != "core":
        yield from _symbols(reading)
    elif record is None:
        yield from (Proposal(name, "register") for name in REGISTER_NAMES)
        yield from _symbols(reading)
    elif position < len(record.operands):
        wanted = record.operands[position]
        kinds = [record.field(name).kind for name in wanted.rstrip(")").split("(") if name not in REGISTERS]
        for kind in kinds:
            words: Iterable[str] = _REGISTERS.get(kind, SPECIAL.get(kind, ()))
            yield from (
                Proposal(word, "register" if kind in _REGISTERS else "word", wanted) for word in words
            )
        if not {*kinds} & {*_REGISTERS, *SPECIAL} or "(" in wanted:
            yield from _symbols(reading)


def _symbols(reading: Reading) -> Iterator[Proposal]:
    for name, symbol in reading.assembly.program.symbols.items():
        if symbol.defined and LOCAL not in name:
            yield Proposal(name, "name", _symbol(name, symbol))
