"""The entries of the manual, derived from the records, page by page.

``docs/generate.py`` formats them as the pages of ``docs/isa``, ``tx8emu --instructions`` as text; neither
adds facts about an instruction.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from tx8isa.errors import Tx8Error
from tx8isa.records.record import Instruction, Operand
from tx8isa.riscv.format import Encoding
from tx8isa.riscv.registers import REGISTERS
from tx8isa.tools.suggestions import hint

from . import compressed as rvc
from . import encoding
from . import scalar as rv
from .pages import PAGES, SCALAR_GROUPS, Page, ScalarGroup, page_of
from .registry import instructions

_MEMORIES = {"spm": "SPM address", "ddr": "DDR address", "any": "SPM or DDR address"}
_ROLES = {"read": "read", "write": "written", "update": "read and written"}


class ManualError(Tx8Error):
    """No instruction matches a name or pattern."""


def pages() -> dict[Page, list[Instruction]]:
    """The engine instructions by page, in the order of the manual."""
    found: dict[Page, list[Instruction]] = {page: [] for page in PAGES}
    for instruction in instructions():
        page = page_of(instruction)
        assert page is not None  # the proof of the table has checked it
        found[page].append(instruction)
    return found


def scalar_groups() -> dict[ScalarGroup, tuple[Encoding, ...]]:
    """The scalar instructions by group, in the order of the manual."""
    return {
        group: rvc.compressed_instructions() if group.module == rvc.GROUP else rv.scalar_group(group.module)
        for group in SCALAR_GROUPS
    }


# --- one instruction ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OperandRow:
    """The manual's row of one operand."""

    operand: Operand
    place: str
    """``2, bits 11:8``, ``2, bit 7``, ``5, mark 1`` or ``6-7, mark 2``: word, and bits or mark."""
    allowed: str
    default: str
    use: str
    """A description; empty when the name of the packet field suffices."""


def formats(instruction: Instruction) -> str:
    """The format suffixes, or a dash."""
    return " ".join(fmt.token for fmt in instruction.formats) or "-"


def summary(text: str) -> str:
    """The first sentence of a description, on one line."""
    return " ".join(text.split()).split(". ")[0].split("; ")[0].rstrip(".")


def syntax(instruction: Instruction) -> str:
    """Write the instruction with its operands; operands in brackets have a default."""
    suffix = f".{{{'|'.join(f.token for f in instruction.formats)}}}" if instruction.formats else ""
    parts = [f"{o.name}=" if o.default is None else f"[{o.name}=]" for o in instruction.visible]
    return f"{instruction.mnemonic}{suffix} {', '.join(parts)}".rstrip()


def scalar_syntax(record: Encoding) -> str:
    """A scalar instruction with its operands."""
    return f"{record.mnemonic} {record.syntax}".rstrip()


def header(instruction: Instruction) -> str:
    """The header word and the length."""
    code = encoding.encoder(instruction)
    return f"Header 0x{code.header:08x} (worker 0): opcode {instruction.opcode}, {code.length} words"


def operand_rows(instruction: Instruction) -> list[OperandRow]:
    """All operands, hidden ones too, in the order of their words."""
    return [
        OperandRow(o, _place(instruction, o), _allowed(o), _default(o), _use(instruction, o))
        for o in instruction.operands
    ]


def _place(instruction: Instruction, operand: Operand) -> str:
    if not operand.words:
        high = operand.at + operand.width - 1
        return f"2, bit {high}" if operand.width == 1 else f"2, bits {high}:{operand.at}"
    before = instruction.word_operands[: instruction.word_operands.index(operand)]
    first = 3 + sum(o.words for o in before)
    words = str(first) if operand.words == 1 else f"{first}-{first + 1}"
    return f"{words}, mark {len(before)}"


def _allowed(operand: Operand) -> str:
    if dict(operand.choices) == REGISTERS:
        return "an x register, x0..x31 or by its ABI name"
    if operand.choices:
        return " ".join(f"{name} ({code})" for name, code in operand.choices)
    if operand.lanes:
        ranges = ", ".join(f"{lane.name} {lane.low}..{lane.high}" for lane in operand.lanes)
        return f"[{ranges}]"
    if operand.is_address or operand.scalar or operand.high > 0xFFFFFFFF:
        return f"0x{operand.low:x}..0x{operand.high:x}"
    return f"{operand.low}..{operand.high}"


def _default(operand: Operand) -> str:
    if operand.name == "format":
        return "suffix"
    if operand.switched_by:
        return "absent"
    if operand.hidden:
        return "by use"
    if operand.default is None:
        return "required"
    if isinstance(operand.default, str):
        return f"that of {operand.default}"
    if operand.lanes:
        return str(list(encoding.unpack_lanes(operand, operand.default)))
    names = [name for name, code in operand.choices if code == operand.default]
    return names[0] if names else str(operand.default)


def _use(instruction: Instruction, operand: Operand) -> str:
    if operand.is_address:
        return f"{_MEMORIES[operand.memory]}, {_ROLES[operand.role]}"
    if operand.hidden:
        users = [o.name for o in instruction.operands if o.switched_by == operand.name]
        return f"1 when {users[0]} is given" if users else ""
    return "raw bits of one element, or a decimal fraction" if operand.scalar else ""


# --- looking up ---------------------------------------------------------------------------


def find(pattern: str) -> tuple[list[Instruction], list[Encoding]]:
    """The instructions whose mnemonic, with or without format suffix, is ``pattern`` or matches it as a glob.

    ManualError when there is none; it suggests a similar name.
    """
    engine = [i for i in instructions() if any(fnmatchcase(name, pattern) for name in _names(i))]
    records: tuple[Encoding, ...] = (*rv.scalar_instructions(), *rvc.compressed_instructions())
    scalar = [r for r in records if fnmatchcase(r.mnemonic, pattern)]
    if not engine and not scalar:
        raise ManualError(f"no instruction is called '{pattern}'{_near(pattern)}")
    return engine, scalar


def _names(instruction: Instruction) -> Iterator[str]:
    yield instruction.mnemonic
    yield from (f"{instruction.mnemonic}.{fmt.token}" for fmt in instruction.formats)


def _near(pattern: str) -> str:
    known = [*(n for i in instructions() for n in _names(i)), *rv.scalar_by_mnemonic()]
    known += rvc.compressed_by_mnemonic()
    word = pattern.lower()
    if word not in known and any(name.startswith(f"{word}.") for name in known):
        return f"; did you mean '{word}.*'?"
    return hint(word, known) or "; --instructions alone shows all of them"
