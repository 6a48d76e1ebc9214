"""Compressed forms of scalar instructions, chosen as GNU as chooses them under ``.option rvc``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from asm.diagnostics import Fault
from asm.syntax.expressions import Address, UnknownValue, evaluate
from tx8isa.riscv.compressed import COMPRESSED_BYTES
from tx8isa.riscv.format import SCALAR_BYTES
from tx8isa.table import compressed as rvc
from tx8isa.table import scalar as rv

from .scalar import TargetSlot
from .template import ANY, Place, Template


class ShortenedStatement(NamedTuple):
    """The bytes of a statement, and the offsets of its instructions."""

    code: bytes
    steps: tuple[int, ...]


@lru_cache(maxsize=65536)
def shortened(code: bytes, allowed: frozenset[str] | None) -> ShortenedStatement:
    """Scalar instructions, with the compressed form in place of each that has one.

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
    """A jump or branch to a label in two bytes, and in four; ``target`` is the label in the short form."""

    short: Template
    long: Template
    target: TargetSlot


def jump_forms(template: Template, atoms: Sequence[str], place: Place) -> JumpForms | None:
    """The forms of a statement; None when it is not a jump or branch to a label that can be compressed.

    UnknownValue when an operand other than the label is decided by later text.
    """
    targets = [slot for slot in template.slots if isinstance(slot, TargetSlot)]
    if len(targets) != 1 or len(template.steps) != 1 or template.allowed is not ANY:
        return None
    (target,) = targets
    word = template.base
    for slot in template.slots:
        if slot is not target:
            try:
                word |= slot.resolve(atoms, place)
            except Fault:
                return None  # told where the statement itself is resolved
    bits: int | None = word
    if template.size == SCALAR_BYTES:
        decoded = rv.decode(word)
        bits = rvc.shorten(*decoded) if decoded is not None else None
    found = rvc.decode(bits) if bits is not None else None
    if bits is None or found is None:
        return None
    full, values = rvc.expand(bits) or (None, {})
    assert full is not None  # it was decoded
    slots = [TargetSlot(target.node, 0, r.field("target"), r.mnemonic) for r in (found[0], full)]
    long = Template(SCALAR_BYTES, full.encode(values), slots[1:])
    return JumpForms(Template(COMPRESSED_BYTES, bits, slots[:1]), long, slots[0])


def jump_target(template: Template, atoms: Sequence[str], place: Place) -> Address | None:
    """The target of one of ``JumpForms`` before the final layout; None when it is in no section."""
    (slot,) = template.slots
    try:
        value = evaluate(slot.node, atoms, place)
    except (Fault, UnknownValue, RecursionError):
        return None
    return value if isinstance(value, Address) else None
