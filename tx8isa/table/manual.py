"""What the manual says of each instruction, taken from the records, and the families it is arranged in.

``docs/generate.py`` makes the pages of ``docs/isa`` of this, ``tx8emu --instructions`` its text: neither says
anything of an instruction itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from tx8isa.errors import Tx8Error
from tx8isa.records.record import Engine, Instruction, Operand
from tx8isa.riscv.format import Scalar
from tx8isa.riscv.registers import REGISTERS
from tx8isa.tools.suggestions import hint

from . import encoding
from . import scalar as rv
from .registry import instructions

_MEMORIES = {"spm": "SPM address", "ddr": "DDR address", "any": "SPM or DDR address"}
_ROLES = {"read": "read", "write": "written", "update": "read and written"}


class ManualError(Tx8Error):
    """A name or pattern that no instruction has."""


@dataclass(frozen=True, slots=True)
class Family:
    """Engine instructions that are described together."""

    page: str
    """Name of the page, without suffix."""
    title: str
    engines: tuple[Engine, ...]
    opcodes: tuple[range, ...]
    sections: tuple[str, ...]
    """The sections of the chip's page that tell how they behave."""

    def has(self, instruction: Instruction) -> bool:
        return instruction.engine in self.engines and any(instruction.opcode in r for r in self.opcodes)


@dataclass(frozen=True, slots=True)
class ScalarGroup:
    """Scalar instructions of one extension: those of one module of ``insns``."""

    module: str
    title: str


_VECTOR = (Engine.CT, Engine.TDMA)
_ALL = (range(256),)


def _codes(*bounds: tuple[int, int]) -> tuple[range, ...]:
    return tuple(range(first, last + 1) for first, last in bounds)


FAMILIES = (
    Family("arithmetic", "Arithmetic", _VECTOR, _codes((0, 29)), ("Vector forms", "Arithmetic")),
    Family("relations", "Relations", _VECTOR, _codes((30, 77)), ("Vector forms", "Relations")),
    Family("logic", "Logic", _VECTOR, _codes((78, 97), (181, 181)), ("Vector forms", "Logic")),
    Family("functions", "Functions", _VECTOR, _codes((98, 110)), ("Functions",)),
    Family("reductions", "Reductions", _VECTOR, _codes((111, 114)), ("Reductions",)),
    Family(
        "pooling",
        "Pooling and resizing",
        _VECTOR,
        _codes((115, 123), (182, 182)),
        ("Pooling", "Unpool", "Bilinear resize"),
    ),
    Family(
        "moves",
        "Moves and fills",
        _VECTOR,
        _codes((124, 133), (135, 135), (138, 138), (179, 179)),
        ("Moves", "Loop nests"),
    ),
    Family(
        "selection",
        "Masked moves and tables",
        _VECTOR,
        _codes((134, 134), (136, 137), (183, 184)),
        ("Masked moves", "Tables"),
    ),
    Family("converts", "Converts", _VECTOR, _codes((139, 174)), ("Converts",)),
    Family(
        "counts",
        "Counts, extremes and factors",
        _VECTOR,
        _codes((175, 178), (180, 180)),
        ("Returned values", "Factors"),
    ),
    Family("random", "Random numbers", _VECTOR, _codes((185, 186)), ("Random numbers",)),
    Family(
        "matrix",
        "Matrix engine",
        (Engine.NE,),
        _ALL,
        ("GEMM", "Convolution", "Depthwise convolution", "Backward convolution", "Post-processing", "INT8"),
    ),
    Family("dma", "Loads and stores", (Engine.RDMA, Engine.WDMA), _ALL, ("Loads and stores",)),
    Family("scalar", "The scalar unit", (Engine.SCALAR,), _ALL, ("The scalar unit",)),
    Family("dte", "Copies between tiles", (Engine.DTE,), _ALL, ("Copies between tiles",)),
    Family("waiting", "Waiting", (Engine.NCC,), _ALL, ("Queues and order", "Barriers")),
)
"""CT and TDMA share one numbering of opcodes, so a family of theirs is a set of opcodes."""

SCALAR_GROUPS = (
    ScalarGroup("i", "RV64I"),
    ScalarGroup("w", "RV64I, 32-bit operations"),
    ScalarGroup("m", "M: multiply and divide"),
    ScalarGroup("f", "F: single precision"),
    ScalarGroup("d", "D: double precision"),
    ScalarGroup("zicsr", "Zicsr: control and status registers"),
    ScalarGroup("zifencei", "Zifencei"),
    ScalarGroup("priv", "Machine mode"),
)


def families() -> dict[Family, list[Instruction]]:
    """The engine instructions by family; ValueError for a record that is in none, or in several."""
    found: dict[Family, list[Instruction]] = {family: [] for family in FAMILIES}
    for instruction in instructions():
        found[family_of(instruction)].append(instruction)
    return {family: members for family, members in found.items() if members}


def family_of(instruction: Instruction) -> Family:
    """The one family of an instruction."""
    homes = [family for family in FAMILIES if family.has(instruction)]
    if len(homes) != 1:
        names = " ".join(family.page for family in homes) or "none"
        raise ValueError(f"{instruction.mnemonic} must be in one family of the manual, it is in {names}")
    return homes[0]


def scalar_groups() -> dict[ScalarGroup, list[Scalar]]:
    """The scalar instructions by group; ValueError for a record of a module that has no group."""
    by_module = {group.module: group for group in SCALAR_GROUPS}
    found: dict[ScalarGroup, list[Scalar]] = {group: [] for group in SCALAR_GROUPS}
    for record in rv.scalar_instructions():
        module = record.body.__module__.rpartition(".")[2]
        if module not in by_module:
            raise ValueError(f"{record.mnemonic}: module {module} has no group in the manual")
        found[by_module[module]].append(record)
    return found


# --- one instruction ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OperandRow:
    """What the manual says of one operand."""

    operand: Operand
    place: str
    """``2, bits 11:8``, ``2, bit 7``, ``5, mark 1`` or ``6-7, mark 2``: word, and bits or mark."""
    allowed: str
    default: str
    use: str
    """What it is; empty when the packet field says it all."""


def formats(instruction: Instruction) -> str:
    """The format suffixes, or a dash."""
    return " ".join(fmt.token for fmt in instruction.formats) or "-"


def summary(text: str) -> str:
    """The first sentence of a description, on one line."""
    return " ".join(text.split()).split(". ")[0].split("; ")[0].rstrip(".")


def syntax(instruction: Instruction) -> str:
    """The instruction with its operands; those in brackets have a default."""
    suffix = f".{{{'|'.join(f.token for f in instruction.formats)}}}" if instruction.formats else ""
    parts = [f"{o.name}=" if o.default is None else f"[{o.name}=]" for o in instruction.visible]
    return f"{instruction.mnemonic}{suffix} {', '.join(parts)}".rstrip()


def scalar_syntax(record: Scalar) -> str:
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


def find(pattern: str) -> tuple[list[Instruction], list[Scalar]]:
    """The instructions whose mnemonic, with or without format suffix, is ``pattern`` or matches it as a glob.

    ManualError when there is none; for a name it says which one is near.
    """
    engine = [i for i in instructions() if any(fnmatchcase(name, pattern) for name in _names(i))]
    scalar = [r for r in rv.scalar_instructions() if fnmatchcase(r.mnemonic, pattern)]
    if not engine and not scalar:
        raise ManualError(f"no instruction is called '{pattern}'{_near(pattern)}")
    return engine, scalar


def _names(instruction: Instruction) -> Iterator[str]:
    yield instruction.mnemonic
    yield from (f"{instruction.mnemonic}.{fmt.token}" for fmt in instruction.formats)


def _near(pattern: str) -> str:
    known = [*(n for i in instructions() for n in _names(i)), *rv.scalar_by_mnemonic()]
    word = pattern.lower()
    if word not in known and any(name.startswith(f"{word}.") for name in known):
        return f"; did you mean '{word}.*'?"
    return hint(word, known) or "; --instructions alone shows all of them"
