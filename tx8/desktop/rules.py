"""The assembly language as patterns with kinds, for every kind of editor.

``states`` gives the patterns of each state. A statement begins in the state ``statement``; its head, a
mnemonic or a directive, says in which state its operands are read. The words come from the records and from
the assembler's tables. The patterns use only syntax that Python and the regular expressions of TextMate
share.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

import asm.assembler  # noqa: F401  (it registers the directives)
from asm.directives.buffers import DTYPES
from asm.directives.call import BLOCKS, HANDLERS
from asm.instructions.pseudo import NAMES, SIMPLE
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import Layout
from tx8isa.riscv.registers import CSRS, FLOAT_REGISTERS, REGISTERS, ROUNDING_MODES
from tx8isa.table import registry
from tx8isa.table.compressed import compressed_by_mnemonic
from tx8isa.table.scalar import scalar_by_mnemonic

STATEMENT = "statement"
"""The state in which a line begins."""
TENSORS = (".input", ".output", ".const", ".buffer")
"""Directives whose operands have formats, shapes and layouts."""

NAME = r"[A-Za-z_.$][\w.$]*"
_END = r"(?![\w.$])"


@dataclass(frozen=True)
class TextRule:
    """A pattern with the kind of its text, or of its groups. A head names the state of its operands."""

    pattern: str
    kinds: tuple[str, ...]
    operands: str = ""


def one_of(words: Iterable[str]) -> str:
    """Return a pattern that matches any of the words as a whole, trying the longest first."""
    return f"(?:{'|'.join(re.escape(word) for word in sorted(words, key=lambda w: (-len(w), w)))}){_END}"


def engine_mnemonics() -> list[str]:
    """Return the mnemonics of engine instructions, with their formats."""
    return sorted(registry.full_mnemonics())


def core_mnemonics() -> list[str]:
    """Return the mnemonics of the kernel core, compressed and pseudo-instructions included."""
    return sorted({*scalar_by_mnemonic(), *compressed_by_mnemonic(), *NAMES})


def directives() -> list[str]:
    return sorted({*HANDLERS, *BLOCKS})


def registers() -> list[str]:
    return sorted({*REGISTERS, *FLOAT_REGISTERS})


def choices() -> dict[str, list[str]]:
    """Return the words that each operand of engine instructions takes, except registers."""
    found: dict[str, set[str]] = {}
    for instruction in registry.instructions():
        for operand in instruction.operands:
            words = {word for word, _ in operand.choices} - set(REGISTERS)
            if words and not operand.hidden:
                found.setdefault(operand.name, set()).update(words)
    return {name: sorted(words) for name, words in sorted(found.items())}


def _taking(kind: str) -> set[str]:
    """Return the core's mnemonics whose text has an operand of a kind, such as ``csr``."""
    records = scalar_by_mnemonic()
    found = {name for name, record in records.items() if any(field.kind == kind for field in record.fields)}
    for name, lines in SIMPLE.items():
        real, *operands = lines[0].split()
        if real in found and len(lines) == 1:
            fields = records[real].operands
            if any(
                given.startswith("$") and records[real].field(field).kind == kind
                for field, given in zip(fields, operands, strict=False)
                if "(" not in field and field not in REGISTERS
            ):
                found.add(name)
    return found


def _orders() -> list[str]:
    """Return the sets of accesses that a fence takes: some of the letters i, o, r, w in this order."""
    return ["".join(letters) for size in range(1, 5) for letters in combinations("iorw", size)]


SPECIAL = {"csr": [*CSRS], "rounding": [*ROUNDING_MODES], "order": _orders()}
"""The words that a field takes, for the kinds of field whose operands need a state of their own."""


def _always() -> list[TextRule]:
    """Return the patterns of every state: blanks and comments."""
    return [TextRule(r"[ \t\r\f\v]+", ("blank",)), TextRule(r"#[^\n]*|//[^\n]*", ("comment",))]


def _heads() -> list[TextRule]:
    """Return the patterns for the beginnings of a statement."""
    special = {kind: _taking(kind) for kind in SPECIAL}
    plain = set(core_mnemonics()).difference(*special.values())
    others = set(directives()) - set(TENSORS)
    return [
        TextRule(rf"(?:{NAME}|\d+)(?=\s*:(?!:))", ("label",)),
        TextRule(":", ("punctuation",)),
        TextRule(rf"{NAME}(?=\s*==?(?!=))", ("symbol",), "data"),
        TextRule(f"(?i:{one_of(TENSORS)})", ("directive",), "tensor"),
        TextRule(f"(?i:{one_of(others)})", ("directive",), "data"),
        TextRule(f"(?i:{one_of(engine_mnemonics())})", ("engine",), "engine"),
        *(TextRule(f"(?i:{one_of(words)})", ("core",), state) for state, words in special.items()),
        TextRule(f"(?i:{one_of(plain)})", ("core",), "core"),
        TextRule(NAME, ("macro",), "core"),
        TextRule(r"\\[\w@()]+", ("parameter",), "core"),
    ]


def _values(words: Iterable[TextRule]) -> list[TextRule]:
    """Return the patterns of operands; ``words`` are the patterns for the names in this state."""
    return [
        TextRule(r"'(?:\\.[0-7]*|[^'\\\n])'?", ("character",)),
        TextRule(r"\\[\w@()]+", ("parameter",)),
        TextRule(r"%[a-z_]+(?=\s*\()|@plt", ("function",)),
        *words,
        TextRule(rf"\d+[fb]{_END}", ("label",)),
        TextRule(rf"0[xX][0-9a-fA-F]+{_END}|0[bB][01]+{_END}", ("number",)),
        TextRule(rf"(?:\d+\.\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+){_END}", ("number",)),
        TextRule(rf"(?:0[oO]?[0-7]+|0|[1-9]\d*){_END}", ("number",)),
        TextRule(r"\d[\w.$]*", ("wrong",)),
        TextRule(NAME, ("name",)),
        TextRule(r"==|!=|<>|<=|>=|<<|>>|&&|\|\||[-+*/%|^&~!<>=]", ("operator",)),
        TextRule(r"[,()\[\]{}:@?]", ("punctuation",)),
    ]


def states() -> dict[str, list[TextRule]]:
    """Return the patterns of each state in the order in which they are tried; strings are the lexer's own."""
    x_and_f = TextRule(one_of(registers()), ("register",))
    operand = TextRule(r"[A-Za-z_][\w.$]*(?=\s*=(?!=))", ("operand",))
    chosen = [
        TextRule(rf"({name})(\s*=\s*)({one_of(words)})", ("operand", "operator", "word"))
        for name, words in choices().items()
    ]
    types = [*(fmt.token for fmt in Format), *(layout.name.lower() for layout in Layout), *DTYPES, "scalar"]
    shape = TextRule(rf"\d+(?:x\d+)+{_END}", ("number",))
    found = {
        STATEMENT: [*_always(), *_heads()],
        "data": [*_always(), *_values([])],
        "tensor": [*_always(), *_values([TextRule(one_of(types), ("type",)), shape])],
        "engine": [*_always(), *_values([*chosen, operand, x_and_f])],
        "core": [*_always(), *_values([x_and_f])],
    }
    for kind, words in SPECIAL.items():
        found[kind] = [*_always(), *_values([TextRule(one_of(words), ("word",)), x_and_f])]
    return found
