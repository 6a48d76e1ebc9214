"""Scalar instructions: positional operands to templates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from asm.diagnostics import Fault
from asm.syntax.expressions import Address, Atom, Node, Paren, Value, evaluate, number_of
from asm.syntax.parse import Operand, RegisterOffset, Term
from tx8isa.riscv.format import Encoding, Field
from tx8isa.riscv.registers import (
    CSRS,
    FLOAT_REGISTER_NAMES,
    FLOAT_REGISTERS,
    REGISTER_NAMES,
    REGISTERS,
    ROUNDING_MODES,
)

from .operands import expression
from .template import Place, Slot, Template


@dataclass(frozen=True, slots=True)
class Constant:
    """An operand that a pseudo-instruction supplies."""

    text: str
    negative: bool = False


Given = Term | Constant


_LARGER_NUMBER = "li puts a larger number into a register, which add, and, or, xor and slt take"


class FieldSlot(Slot):
    """A field of a scalar instruction that takes a number."""

    def __init__(self, node: Node, shift: int, field: Field) -> None:
        super().__init__(node, shift)
        self.field = field

    def bits(self, value: int) -> int:
        problem = self.field.problem(value)
        if problem:
            wide = (self.field.minimum, self.field.maximum) == (-2048, 2047)
            raise Fault(problem, self.node.at, _LARGER_NUMBER if wide else "")
        return self.field.insert(value) << self.shift


_REGISTERS = "registers: x0..x31, or zero ra sp gp tp t0..t6 s0..s11 a0..a7 fp"


class RegisterSlot(FieldSlot):
    """An x register."""

    def special(self, text: str, negative: bool) -> int | None:
        if text not in REGISTERS or negative:
            raise Fault(f"{text} is not an x register", self.node.at, _REGISTERS)
        return _register_bits(self, text, REGISTERS[text], REGISTER_NAMES)

    def number(self, atoms: Sequence[str], place: Place) -> int:
        raise Fault("an x register is expected, found an expression", self.node.at, _REGISTERS)


_FLOAT_REGISTERS = "registers: f0..f31, or ft0..ft11 fs0..fs11 fa0..fa7"


class FloatSlot(FieldSlot):
    """An f register."""

    def special(self, text: str, negative: bool) -> int | None:
        if text not in FLOAT_REGISTERS or negative:
            raise Fault(f"{text} is not an f register", self.node.at, _FLOAT_REGISTERS)
        return _register_bits(self, text, FLOAT_REGISTERS[text], FLOAT_REGISTER_NAMES)

    def number(self, atoms: Sequence[str], place: Place) -> int:
        raise Fault("an f register is expected, found an expression", self.node.at, _FLOAT_REGISTERS)


def _register_bits(slot: FieldSlot, text: str, number: int, names: Sequence[str]) -> int:
    """The bits of a register; Fault for one that this field cannot name."""
    field = slot.field
    if field.problem(number):
        known = (names[n] for n in range(field.minimum, field.maximum + 1) if not field.problem(n))
        raise Fault(f"{text} cannot stand here", slot.node.at, f"registers: {' '.join(known)}")
    return field.insert(number) << slot.shift


class GivenSlot(Slot):
    """A register that an instruction always has, and that is written nevertheless."""

    def __init__(self, node: Node, shift: int, name: str) -> None:
        super().__init__(node, shift)
        self.name = name

    def special(self, text: str, negative: bool) -> int | None:
        if REGISTERS.get(text) != REGISTERS[self.name] or negative:
            raise Fault(f"{self.name} is expected here, found {text}", self.node.at)
        return 0

    def bits(self, value: int) -> int:
        raise Fault(f"{self.name} is expected here, found an expression", self.node.at)


class RoundingSlot(FieldSlot):
    """A rounding mode by name."""

    def special(self, text: str, negative: bool) -> int | None:
        if text not in ROUNDING_MODES or negative:
            modes = " ".join(ROUNDING_MODES)
            raise Fault(f"{text} is not a rounding mode", self.node.at, f"rounding modes: {modes}")
        return self.field.insert(ROUNDING_MODES[text]) << self.shift

    def number(self, atoms: Sequence[str], place: Place) -> int:
        raise Fault("a rounding mode is expected, found an expression", self.node.at)


class CsrSlot(FieldSlot):
    """A control and status register, by name or number."""

    def special(self, text: str, negative: bool) -> int | None:
        if text in CSRS and not negative:
            return self.field.insert(CSRS[text]) << self.shift
        return None


class OrderSlot(FieldSlot):
    """A set of the letters i, o, r, w."""

    def special(self, text: str, negative: bool) -> int | None:
        if text[0].isdigit():
            return None
        order = [letter for letter in "iorw" if letter in text]
        if text != "".join(order) or negative:
            raise Fault(
                f"{text} is not a set of accesses", self.node.at, "write some of i o r w in this order"
            )
        return self.field.insert(sum(8 >> "iorw".index(letter) for letter in order)) << self.shift


class TargetSlot(FieldSlot):
    """A label, encoded as its distance."""

    needs_place = jumps = True

    def __init__(self, node: Node, shift: int, field: Field, mnemonic: str) -> None:
        super().__init__(node, shift, field)
        self.mnemonic = mnemonic

    def number(self, atoms: Sequence[str], place: Place) -> int:
        return distance(evaluate(self.node, atoms, place), place.here, self.shift // 8)

    def bits(self, value: int) -> int:
        field = self.field
        if not field.minimum <= value <= field.maximum:
            message = (
                f"the target is {value} bytes away; {self.mnemonic} reaches {field.minimum}..{field.maximum}"
            )
            raise Fault(message, self.node.at, "use tail or call, or la and jr")
        return super().bits(value)


def distance(target: Value, here: Value, offset: int) -> int:
    """Bytes from the instruction at ``here`` + offset to the target; UnknownValue before the layout."""
    if isinstance(target, Address) and isinstance(here, Address) and target.section == here.section:
        return target.offset - here.offset - offset
    return number_of(target) - number_of(here) - offset


def scalar_template(record: Encoding, given: Sequence[Given]) -> Template:
    """The template of one scalar instruction."""
    base, slots = place_scalar(record, given, 0)
    return Template(record.size, base, slots)


def place_scalar(record: Encoding, given: Sequence[Given], shift: int) -> tuple[int, list[Slot]]:
    """Bits and slots of an instruction that begins ``shift`` bits into a statement."""
    if record.omitted is not None and len(given) == len(record.operands) - 1:
        rounding = record.operands[-1] == "rm"
        given = [*given, Constant(rounding_name(record.omitted) if rounding else str(record.omitted))]
    if len(given) != len(record.operands):
        takes = f"it takes {record.syntax}" if record.syntax else "it takes no operand"
        raise Fault(f"{record.mnemonic}: {_count(len(given))}", None, f"{takes}, as in '{record.example}'")
    parts: dict[str, Node | Constant] = {}
    for wanted, term in zip(record.operands, given, strict=True):
        parts.update(_parts(record, wanted, term))
    return place_fields(record, parts, shift)


def place_fields(
    record: Encoding, parts: Mapping[str, Node | Constant], shift: int
) -> tuple[int, list[Slot]]:
    """Place parts as ``place_scalar`` does, field by field."""
    base = record.match << shift
    slots: list[Slot] = []
    for name, part in parts.items():
        slot = _slot(record, name, part, shift)
        if isinstance(part, Constant):
            base |= slot.plain(part.text, part.negative)
        else:
            slots.append(slot)
    return base, slots


def rounding_name(code: int) -> str:
    """A rounding mode as written in assembly."""
    return next(name for name, number in ROUNDING_MODES.items() if number == code)


def _count(number: int) -> str:
    return f"{number} operand{'s' if number != 1 else ''} found"


def _parts(record: Encoding, wanted: str, term: Given) -> list[tuple[str, Node | Constant]]:
    """Field names of one operand as written, with the expressions that fill them."""
    if "(" not in wanted:
        return [(wanted, term if isinstance(term, Constant) else expression(term, wanted))]
    offset, _, base = wanted.rstrip(")").partition("(")
    if isinstance(term, RegisterOffset):
        return [(offset, term.offset), (base, term.base)]
    if isinstance(term, Paren):
        return [(offset, Constant("0")), (base, term.inner)]
    at = None if isinstance(term, Constant) else term.at
    raise Fault(f"{record.mnemonic}: {wanted} is expected here", at, f"as in '{record.example}'")


_NOWHERE = Atom(0, 0)
_SLOTS = {
    "register": RegisterSlot,
    "float": FloatSlot,
    "rounding": RoundingSlot,
    "csr": CsrSlot,
    "order": OrderSlot,
}


def _slot(record: Encoding, name: str, part: Node | Constant, shift: int) -> Slot:
    node = _NOWHERE if isinstance(part, Constant) else part
    if name in REGISTERS:
        return GivenSlot(node, shift, name)
    field = record.field(name)
    if field.kind == "target":
        return TargetSlot(node, shift, field, record.mnemonic)
    return _SLOTS.get(field.kind, FieldSlot)(node, shift, field)


def positional(mnemonic: str, items: Sequence[Operand]) -> list[Term]:
    """The operands of a scalar instruction; Fault for ``name=value``."""
    for item in items:
        if item.name:
            raise Fault(f"{mnemonic} takes positional operands, not {item.name}=", item.at)
    return [item.term for item in items]
