"""Texts of a trace about an instruction: its name, operands as the assembler spells them, line and node.

Instructions with one program counter differ only in operands that came from registers. So each program
counter gets a template, and a slice costs one ``%``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from asm.image import Image
from emulator.engines.tables import records
from emulator.watch.bins import Ints
from tx8isa.numbers.formats import Format
from tx8isa.records.record import Instruction, Operand
from tx8isa.riscv.compressed import COMPRESSED_BYTES
from tx8isa.table import compressed as rvc
from tx8isa.table.encoding import DecodedInstruction, decode, unpack_lanes

_MOST_OTHERS = 1000
CAUSES = ("", "queue full", "dependency", "bank", "DDR", "NoC", "copies", "arrival", "barrier", "program")
"""Names of waits, by ``Cause``."""


def value_text(operand: Operand, value: int) -> str:
    """Return a value in the form of assembly."""
    for name, code in operand.choices:
        if code == value:
            return name
    if operand.lanes and value:
        return f"[{', '.join(map(str, unpack_lanes(operand, value)))}]"
    return f"{value:#x}" if _is_hex(operand) else str(value)


def _is_hex(operand: Operand) -> bool:
    return operand.is_address or operand.scalar or operand.high >= 1 << 32


def operand_texts(record: Instruction, values: Sequence[int], registers: int = 0) -> dict[int, str]:
    """Return the text of each operand that assembly names, by position.

    ``registers`` marks those always named.
    """
    texts = {}
    for index, operand in enumerate(record.operands):
        if operand.hidden or operand.name == "format":
            continue
        if operand.switched_by:
            given = values[record.index(operand.switched_by)] != 0
        else:
            default = operand.default
            usual = values[record.index(default)] if isinstance(default, str) else default
            given = bool(registers >> index & 1) or values[index] != usual
        if given:
            texts[index] = value_text(operand, values[index])
    return texts


def full_name(record: Instruction, values: Sequence[int]) -> str:
    """Return the mnemonic with its format."""
    if not record.formats:
        return record.mnemonic
    return f"{record.mnemonic}.{Format(values[record.index('format')]).token}"


class Text:
    """The name and the first arguments of the slices of one instruction, as the middle of a JSON object."""

    def __init__(self, place: str, record: Instruction, decoded: DecodedInstruction | None) -> None:
        self._place, self._record = place, record
        self._template: str | None = None
        self._others: dict[tuple[int, ...], str] = {}
        self._fixed: list[int] = []
        self._expected: list[int] = []
        """Operands that are fixed in the text, and their values."""
        self._varying: list[int] = []
        """Operands that come from registers."""
        if decoded is not None:
            self._learn(decoded)

    def _learn(self, decoded: DecodedInstruction) -> None:
        record, values, marks = self._record, decoded.values, decoded.registers
        self._fixed = [i for i in range(len(record.operands)) if not marks >> i & 1]
        self._expected = [values[i] for i in self._fixed]
        texts = operand_texts(record, values, marks)
        self._varying = [i for i in texts if marks >> i & 1]
        texts = {i: text.replace("%", "%%") for i, text in texts.items()}
        texts |= {i: _placeholder(record.operands[i]) for i in self._varying}
        self._template = self._object(full_name(record, values), texts, self._place.replace("%", "%%"))
        self._is_plain = not any(_is_spelt(record.operands[i]) for i in self._varying)

    def of(self, values: Sequence[int]) -> str:
        """Return the text for these operand values, DDR addresses as the program gave them."""
        if self._template is not None and [values[i] for i in self._fixed] == self._expected:
            return self._filled([values[i] for i in self._varying])
        # stores to registers issued it, or the program has changed its text
        key = tuple(values)
        if key not in self._others:
            if len(self._others) == _MOST_OTHERS:
                self._others.clear()
            name, texts = full_name(self._record, values), operand_texts(self._record, values)
            self._others[key] = self._object(name, texts, self._place)
        return self._others[key]

    def of_all(self, values: Ints) -> list[str] | str:
        """Return the texts for many rows of operand values; one when they are the same."""
        if self._template is None or not (values[:, self._fixed] == self._expected).all():
            return [self.of(row) for row in values.tolist()]
        if not self._varying:
            return self._template % ()
        rows, template = values[:, self._varying].tolist(), self._template
        return [template % tuple(row) for row in rows] if self._is_plain else list(map(self._filled, rows))

    def _filled(self, values: Sequence[int]) -> str:
        """Return the template with the values of the varying operands."""
        template = self._template or ""
        if self._is_plain:
            return template % tuple(values)
        operands = self._record.operands
        pairs = ((operands[i], value) for i, value in zip(self._varying, values, strict=True))
        return template % tuple(value_text(o, value) if _is_spelt(o) else value for o, value in pairs)

    def _object(self, name: str, texts: dict[int, str], place: str) -> str:
        operands = ", ".join(f"{self._record.operands[i].name}={text}" for i, text in sorted(texts.items()))
        engine = self._record.engine.name
        return f'"cat":"{engine}","name":"{name}","args":{{"operands":"{operands}",{place}'


def _is_spelt(operand: Operand) -> bool:
    """Return True if the values are spelt with names."""
    return bool(operand.choices or operand.lanes)


def _placeholder(operand: Operand) -> str:
    if _is_spelt(operand):
        return "%s"
    return "%#x" if _is_hex(operand) else "%d"


class Same:
    """The middle of the slices of an instruction without operands."""

    def __init__(self, text: str) -> None:
        self._text = text

    def of(self, values: Sequence[int]) -> str:
        return self._text

    def of_all(self, values: Ints) -> str:
        return self._text


class Texts:
    """The texts about the instructions of a program."""

    def __init__(self, image: Image) -> None:
        self._image = image
        self._code = [s for s in image.segments if "x" in s.flags]

    def instruction(self, pc: int, record: int) -> Text:
        """Return the text about a record that was issued at a program counter."""
        decoded, known = self._decode(pc), records()[record]
        found = decoded if isinstance(decoded, DecodedInstruction) and decoded.instruction is known else None
        return Text(self._place(pc), known, found)

    def copy(self, pc: int) -> Same:
        """Return the text about a copy that was started by stores to the registers of a DTE block."""
        return Same(f'"cat":"DTE","name":"copy","args":{{{self._place(pc)}')

    def wait(self, pc: int, cause: int) -> Same:
        """Return the text about a core that waits at a program counter."""
        decoded = self._decode(pc)
        name = decoded.instruction.mnemonic if isinstance(decoded, DecodedInstruction) else decoded
        at = f'"instruction":"{name}",' if name else ""
        return Same(f'"cat":"core","name":"wait: {CAUSES[cause]}","args":{{{at}{self._place(pc)}')

    def node(self, pc: int) -> str:
        """Return the graph node of an instruction, or an empty text."""
        return self._image.nodes.get(pc, "")

    def _place(self, pc: int) -> str:
        """Return members of ``args`` with line and node of an instruction; each ends with a comma."""
        text = f'"pc":"{pc:#x}",'
        line, node = self._image.lines.get(pc), self.node(pc)
        if line:
            text += f'"source":{json.dumps(f"{line[0]}:{line[1]}", ensure_ascii=False)},'
        if node:
            text += f'"node":{json.dumps(node, ensure_ascii=False)},'
        return text

    def _decode(self, pc: int) -> DecodedInstruction | str | None:
        """Return the instruction that the image has at an address: an engine instruction, or the mnemonic of
        any other."""
        for segment in self._code:
            at = pc - segment.address
            if 0 <= at < len(segment.data) and pc % COMPRESSED_BYTES == 0:
                found = decode(segment.data, at)
                if isinstance(found, DecodedInstruction):
                    return found
                scalar = rvc.decode_at(segment.data, at)
                return scalar[0].mnemonic if scalar else None
        return None
