"""Instructions whose last operand is a register or a number, as GNU as reads ``add a0, a0, 4`` for addi."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from asm.syntax.expressions import Atom, Function, Node, literal
from asm.syntax.parse import Term
from tx8isa.riscv.registers import REGISTERS

from .template import Encode, Place, SymbolicLine, Template

WITH_NUMBER = {
    **{name: f"{name}i" for name in ("add", "and", "or", "xor", "sll", "srl", "sra", "slt")},
    **{f"{name}w": f"{name}iw" for name in ("add", "sll", "srl", "sra")},
    "sltu": "sltiu",
    **{name: f"{name}i" for name in ("csrw", "csrs", "csrc", "csrrw", "csrrs", "csrrc")},
}
"""The instruction that replaces one whose last operand is a number."""


def with_number(
    mnemonic: str, terms: Sequence[Term], make: Callable[[str, Sequence[Term]], Template]
) -> Template | None:
    """The template of an instruction whose last operand may be a number; None for other instructions."""
    if mnemonic not in WITH_NUMBER or not terms or not isinstance(terms[-1], Node):
        return None
    if isinstance(terms[-1], Function) and terms[-1].name == "tprel_add":
        return None
    if not isinstance(terms[-1], Atom):
        return make(WITH_NUMBER[mnemonic], terms)
    return EitherTemplate(make(mnemonic, terms), make(WITH_NUMBER[mnemonic], terms), terms[-1])


class EitherTemplate(Template):
    """Templates for a register and for a number; the text of one atom decides between them."""

    def __init__(self, register: Template, number: Template, last: Atom) -> None:
        self.register, self.number, self.last = register, number, last
        super().__init__(0, 0, ())

    def choose(self, atoms: Sequence[str], place: Place) -> Template:
        text = atoms[self.last.index]
        if text in REGISTERS:
            return self.register
        if literal(text, self.last.at) is not None or place.is_number(text):
            return self.number
        return self.register  # it refuses a word that is neither

    def _encoder(self) -> Encode:
        def encode(atoms: Sequence[str]) -> bytes:
            text = atoms[self.last.index]
            if text in REGISTERS:
                return self.register.encode(atoms)
            if text[0].isdigit():
                return self.number.encode(atoms)
            raise SymbolicLine

        return encode
