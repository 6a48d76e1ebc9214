"""Finds forms of instructions with other lengths, as GNU as chooses them: compressed ones, and branches
around a jump."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from asm.diagnostics import Fault
from asm.syntax.expressions import Address, Atom, Binary, Node, evaluate
from tx8isa.riscv.compressed import COMPRESSED_BYTES
from tx8isa.riscv.format import SCALAR_BYTES, Field
from tx8isa.table import compressed as rvc
from tx8isa.table import scalar as rv

from .scalar import TargetSlot
from .template import ANY, Place, Slot, Template


class ShortenedStatement(NamedTuple):
    """The bytes of a statement, and the offsets of its instructions."""

    code: bytes
    steps: tuple[int, ...]


@lru_cache(maxsize=65536)
def shortened(code: bytes, allowed: frozenset[str] | None) -> ShortenedStatement:
    """Scalar instructions, with the compressed form of each that has one.

    ``allowed``: the compressed instructions that may be chosen, None for all.
    """
    found, steps = b"", list[int]()
    for at in range(0, len(code), SCALAR_BYTES):
        piece = code[at : at + SCALAR_BYTES]
        steps.append(len(found))
        found += _short_of(piece, allowed) if len(piece) == SCALAR_BYTES else piece
    return ShortenedStatement(found, tuple(steps))


def _short_of(piece: bytes, allowed: frozenset[str] | None) -> bytes:
    decoded = rv.decode(int.from_bytes(piece, "little"))
    bits = rvc.shorten(*decoded) if decoded is not None else None
    chosen = rvc.decode(bits) if bits is not None else None
    if bits is None or chosen is None or (allowed is not None and chosen[0].mnemonic not in allowed):
        return piece
    return bits.to_bytes(COMPRESSED_BYTES, "little")


class JumpForms(NamedTuple):
    """A jump or branch to a label in all its lengths.

    ``templates`` are for the distances that each field of ``reach`` holds, for longer ones, and for a target
    in another section. ``target`` is the expression of the label.
    """

    templates: tuple[Template, ...]
    reach: tuple[Field, ...]
    target: Node

    def form(self, target: Address | None, here: Address) -> int:
        """The number of the form for a target; None if it is in no section, or may be replaced."""
        if target is None or target.section != here.section:
            return len(self.templates) - 1
        distance = target.offset - here.offset
        for number, field in enumerate(self.reach):
            if field.minimum <= distance <= field.maximum:
                return number
        return len(self.reach)


def jump_forms(
    template: Template, atoms: Sequence[str], place: Place, compressed: bool, reverse: bool
) -> JumpForms | None:
    """The forms of a statement; None when it is not a jump or branch to a label, or has one length only.

    ``compressed``: two bytes are allowed. ``reverse``: a branch may become the opposite branch around a jump.
    UnknownValue if later text decides an operand other than the label.
    """
    if template.label is None or len(template.steps) != 1 or template.allowed is not ANY:
        return None
    bits = _compressed(template, atoms, place) if compressed else None
    if bits is not None:
        return _compressed_forms(bits, template.label.node, reverse)
    return _branch_forms(template) if reverse and template.base & _MAJOR == _BRANCH else None


_MAJOR, _BRANCH, _OPPOSITE = 0x7F, 0x63, 1 << 12
"""Mask of the major opcode, the opcode of branches, and the bit that inverts a branch."""


@lru_cache(maxsize=256)
def _branch_forms(template: Template) -> JumpForms:
    """A branch in four bytes, and reversed around a jump."""
    label = template.label
    assert isinstance(label, TargetSlot)
    others = [slot for slot in template.slots if slot is not label]
    opposite = template.base ^ _OPPOSITE | label.field.insert(2 * SCALAR_BYTES)
    far = _around(opposite, SCALAR_BYTES, others, label.node)
    return JumpForms((template, far, far), (label.field,), label.node)


def _compressed(template: Template, atoms: Sequence[str], place: Place) -> int | None:
    """The bits of a jump's compressed form without its target; None when it has none."""
    word = template.base
    for slot in template.slots:
        if slot is not template.label:
            try:
                word |= slot.resolve(atoms, place)
            except Fault:
                return None  # reported where the statement itself is resolved
    if template.size != SCALAR_BYTES:
        return word
    decoded = rv.decode(word)
    return rvc.shorten(*decoded) if decoded is not None else None


def _compressed_forms(bits: int, node: Node, reverse: bool) -> JumpForms | None:
    """A jump in two and four bytes, a branch also reversed around a jump."""
    found = rvc.decode(bits)
    if found is None:
        return None
    full, values = rvc.expand(bits) or (None, {})
    assert full is not None  # it was decoded
    short, long = (TargetSlot(node, 0, r.field("target"), r.mnemonic) for r in (found[0], full))
    templates = (
        Template(COMPRESSED_BYTES, bits, (short,)),
        Template(SCALAR_BYTES, full.encode(values), (long,)),
    )
    if not reverse or full.match & _MAJOR != _BRANCH:
        return JumpForms((*templates, templates[1]), (short.field,), node)
    names = rvc.compressed_by_mnemonic()
    opposite = bits ^ names["c.beqz"].match ^ names["c.bnez"].match
    opposite |= short.field.insert(COMPRESSED_BYTES + SCALAR_BYTES)
    far = _around(opposite, COMPRESSED_BYTES, (), node)
    return JumpForms(
        (*templates, far, _branch_forms(templates[1]).templates[-1]), (short.field, long.field), node
    )


def _around(branch: int, size: int, slots: Sequence[Slot], node: Node) -> Template:
    """A branch of ``size`` bytes over a jump to the target."""
    jump = rv.scalar_by_mnemonic()["jal"]
    slot = TargetSlot(node, 8 * size, jump.field("target"), jump.mnemonic)
    template = Template(size + SCALAR_BYTES, branch | jump.match << 8 * size, (*slots, slot))
    template.steps = (0, size)
    return template


def jump_target(node: Node, atoms: Sequence[str], place: Place) -> Address | None:
    """The target of a jump; None if it is in no section, or weak, because a linker may then choose another
    one.

    UnknownValue when later text decides.
    """
    value, symbol = evaluate(node, atoms, place), node
    while isinstance(symbol, Binary):
        symbol = symbol.left
    weak = isinstance(symbol, Atom) and place.is_weak(atoms[symbol.index])
    return value if isinstance(value, Address) and not weak else None
