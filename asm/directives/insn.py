"""``.insn``: an instruction by its bits, or by the fields of a format of the RISC-V manual."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from asm.assembly import Fixup
from asm.diagnostics import Fault
from asm.instructions.operands import expression
from asm.instructions.scalar import FieldSlot, TargetSlot
from asm.instructions.template import Slot, Template
from asm.syntax.expressions import Node, UnknownValue
from asm.syntax.parse import Operands, RegisterOffset, Term
from tx8isa.riscv.compressed import COMPRESSED_BYTES
from tx8isa.riscv.format import SCALAR_BYTES, Field
from tx8isa.riscv.registers import FLOAT_REGISTERS, REGISTERS
from tx8isa.table.compressed import compressed_by_mnemonic, length
from tx8isa.table.scalar import scalar_by_mnemonic
from tx8isa.tools.suggestions import hint

from .call import Call, handler

_FORMATS = {
    "r": "major 3@12 7@25 x@7 x@15 x@20",
    "r4": "major 3@12 2@25 x@7 x@15 x@20 x@27",
    "i": "major 3@12 x@7 x@15 addi.imm",
    "i()": "major 3@12 x@7 addi.imm(x@15)",
    "s()": "major 3@12 x@20 sw.imm(x@15)",
    "b": "major 3@12 x@15 x@20 beq.target",
    "u": "major x@7 lui.imm",
    "j": "major x@7 jal.target",
    "cr": "quarter 4@12 x@7 x@2",
    "ci": "quarter 3@13 x@7 signed",
    "ciw": "quarter 3@13 c@2 8@5",
    "css": "quarter 3@13 x@2 6@7",
    "cl()": "quarter 3@13 c@2 split(c@7)",
    "cs()": "quarter 3@13 c@2 split(c@7)",
    "ca": "quarter 6@10 2@5 c@7 c@2",
    "cb": "quarter 3@13 c@7 c.beqz.target",
    "cj": "quarter 3@13 c.j.target",
}
"""The operands of each format: ``w@b`` is a number of w bits at bit b, ``x`` and ``c`` are registers."""

_OTHER_NAMES = {"sb": "b", "uj": "j"}
_OPCODES = {
    **{"LOAD": 0x03, "LOAD_FP": 0x07, "CUSTOM_0": 0x0B, "MISC_MEM": 0x0F, "OP_IMM": 0x13, "AUIPC": 0x17},
    **{"OP_IMM_32": 0x1B, "STORE": 0x23, "STORE_FP": 0x27, "CUSTOM_1": 0x2B, "AMO": 0x2F, "OP": 0x33},
    **{"LUI": 0x37, "OP_32": 0x3B, "MADD": 0x43, "MSUB": 0x47, "NMSUB": 0x4B, "NMADD": 0x4F, "OP_FP": 0x53},
    **{"CUSTOM_2": 0x5B, "BRANCH": 0x63, "JALR": 0x67, "JAL": 0x6F, "SYSTEM": 0x73, "CUSTOM_3": 0x7B},
    **{"C0": 0, "C1": 1, "C2": 2},
}
_OPERAND = re.compile(r"[^\s()]+(?:\([^)]*\))?")


class _OpcodeSlot(FieldSlot):
    """A major opcode, by name or number; in instructions of four bytes its two lowest bits are 1."""

    def bits(self, value: int) -> int:
        if self.field.maximum == 0x7F and value & 3 != 3:
            raise Fault(f"opcode {value:#x}: the two lowest bits must be 1", self.node.at)
        return super().bits(value)

    def special(self, text: str, negative: bool) -> int | None:
        return None if negative or text not in _OPCODES else self.bits(_OPCODES[text])


class _AnyRegisterSlot(FieldSlot):
    """An x or f register."""

    def special(self, text: str, negative: bool) -> int | None:
        number = REGISTERS.get(text, FLOAT_REGISTERS.get(text))
        if number is None or negative:
            raise Fault(f"{text} is not a register", self.node.at)
        return self.bits(number)


def _field(spec: str) -> Field:
    """Return the field that an operand of ``_FORMATS`` describes."""
    if spec == "major":
        return Field("opcode", "unsigned", ((0, 0, 7),), 3, 0x7F, 1)
    if spec == "quarter":
        return Field("opcode", "unsigned", ((0, 0, 2),), 0, 2, 1)
    if spec == "signed":
        return Field("imm", "signed", ((2, 0, 5), (12, 5, 1)), -32, 31, 1)
    if spec == "split":
        return Field("imm", "unsigned", ((5, 0, 2), (10, 2, 3)), 0, 31, 1)
    kind, _, at = spec.partition("@")
    if kind == "c":
        return Field("register", "register", ((int(at), 0, 3),), 8, 15, 1, first=8)
    if at:
        width = 5 if kind == "x" else int(kind)
        return Field(
            "operand",
            "register" if kind == "x" else "unsigned",
            ((int(at), 0, width),),
            0,
            (1 << width) - 1,
            1,
        )
    mnemonic, _, name = spec.rpartition(".")
    record = compressed_by_mnemonic().get(mnemonic) or scalar_by_mnemonic()[mnemonic]
    return record.field(name)


def _slot(spec: str, node: Node) -> Slot:
    field = _field(spec)
    if field.kind == "target":
        return TargetSlot(node, 0, field, spec.rpartition(".")[0])
    if spec in ("major", "quarter"):
        return _OpcodeSlot(node, 0, field)
    return (_AnyRegisterSlot if field.kind == "register" else FieldSlot)(node, 0, field)


def _slots(spec: str, term: Term) -> Iterator[Slot]:
    """The slots of one operand, which may be ``offset(base)``."""
    outer, _, inner = spec.rstrip(")").partition("(")
    if not inner:
        yield _slot(spec, expression(term, ".insn"))
        return
    if not isinstance(term, RegisterOffset):
        raise Fault(".insn: offset(register) is expected", term.at)
    yield _slot(outer, term.offset)
    yield _slot(inner, term.base)


@handler(".insn")
def _insn(call: Call) -> None:
    """``.insn BITS``, ``.insn LENGTH, BITS``, or ``.insn FORMAT OPERANDS``."""
    named = re.match(r"\s*([a-z]+4?)\s", call.text[call.start :])
    if named is None:
        _by_bits(call)
        return
    name = _OTHER_NAMES.get(named[1], named[1])
    call.assembly.check_place()
    operands = replace(call, start=call.start + named.end()).operands()
    terms = [item.term for item in operands.items]
    if name == "r" and len(terms) == 7:
        name = "r4"
    spec = _FORMATS.get(f"{name}()" if any(isinstance(term, RegisterOffset) for term in terms) else name)
    if spec is None or len(terms) != len(_OPERAND.findall(spec)):
        known = sorted({key.strip("()") for key in _FORMATS})
        help = f"formats: {' '.join(known)}{hint(name, known)}"
        raise Fault(f".insn: no format {named[1]} has {len(terms)} operands", None, help)
    pieces = zip(_OPERAND.findall(spec), terms, strict=True)
    slots = [slot for piece, term in pieces for slot in _slots(piece, term)]
    size = SCALAR_BYTES if spec.startswith("major") else COMPRESSED_BYTES
    _append(call, Template(size, 0, slots), operands)


def _append(call: Call, template: Template, operands: Operands) -> None:
    """Append the instruction; if its label comes later, a fix-up completes it."""
    assembly, spot, atoms = call.assembly, call.spot, operands.atoms
    template.fixed = True
    try:
        code = template.resolve(atoms, spot)
    except UnknownValue:
        code = bytes(template.size)
        where = (assembly.section, spot.at.offset)
        fixup = Fixup(call.source, call.index, call.start, operands.start, *where, template, operands, atoms)
        assembly.fixups.append(fixup)
    assembly.append(call.source, call.index, code, template)


def _by_bits(call: Call) -> None:
    """Append an instruction given by its bits; a length before them must agree with the lowest bits."""
    *given, word = call.numbers(1, 2)
    size = length(word)
    if not 0 <= word < 1 << 8 * size:
        raise Fault(f".insn: {word:#x} does not fit {8 * size} bits")
    if given not in ([], [size]):
        raise Fault(f".insn: {word:#x} has {size} bytes by its lowest bits, found the length {given[0]}")
    call.assembly.check_place()
    template = Template(size, 0, ())
    template.fixed = True
    call.assembly.append(call.source, call.index, word.to_bytes(size, "little"), template)
