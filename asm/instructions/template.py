"""Statements as templates: a fixed bit pattern and slots that values are put into.

A statement, one instruction or several, is one number of ``8 * size`` bits. A slot turns a value into its
bits of that number. Where a slot holds a single atom, the bits of every text seen are remembered, so that an
ordinary line costs a few dictionary look-ups.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from operator import getitem, itemgetter, or_
from typing import Protocol

from asm.diagnostics import Fault
from asm.syntax.expressions import Atom, Node, Scope, Unary, Value, evaluate, has_function, literal, number_of
from tx8isa.riscv.format import SCALAR_BYTES


class SymbolicLine(Exception):
    """A line whose bytes depend on symbols or on its address."""


class Place(Scope, Protocol):
    """The scope and the address of a statement that is resolved."""

    @property
    def here(self) -> Value:
        """Address of the statement."""

    def is_far(self, section: str) -> bool:
        """Return True if a section is addressed in the engines' view."""

    def is_weak(self, name: str) -> bool:
        """Return True if a symbol is weak."""

    def is_missing(self, name: str) -> bool:
        """Return True if a symbol is weak and defined nowhere."""

    def is_number(self, name: str) -> bool:
        """Return True if a symbol has a known number."""


class Slot(ABC):
    """A part of a statement that takes one value.

    ``shift``: lowest bit. Subclasses define the values: ``special`` words such as registers,
    ``bits`` of numbers.
    """

    needs_place = False
    """True when the bits depend on the address of the statement."""
    decisive = True
    """True if the checks of the statement depend on the value; addresses only have a limit."""
    jumps = False
    """True when the operand is the label of a jump."""
    wary = False
    """True when some allowed values are probably not meant (``doubt``)."""

    def __init__(self, node: Node, shift: int) -> None:
        self.node = node
        self.shift = shift
        self.atom, self.negative = single_atom(node)
        """The index of the single atom that the slot holds, perhaps negative; None for another expression."""
        self.known = _Bits(self)
        """The bits of single atoms."""

    def special(self, text: str, negative: bool) -> int | None:
        """Bits of a word that is not a number or symbol here, else None."""
        return None

    def doubt(self, text: str, negative: bool) -> Fault | None:
        """The reason why an allowed word is probably a mistake; None for most words."""
        return None

    @abstractmethod
    def bits(self, value: int) -> int:
        """Bits of a number; Fault when it is not allowed."""

    def plain(self, text: str, negative: bool) -> int:
        """Bits of a single atom, from its text alone; SymbolicLine for a symbol, and if in doubt."""
        if self.wary and self.doubt(text, negative) is not None:
            raise SymbolicLine
        found = self.special(text, negative)
        if found is not None:
            return found
        number = literal(text, self.node.at)
        if number is None or self.needs_place:
            raise SymbolicLine
        return self.bits(-number if negative else number)

    def resolve(self, atoms: Sequence[str], place: Place) -> int:
        """Bits of the slot's expression."""
        try:
            if self.atom is not None:
                text = atoms[self.atom]
                found = self.known.get(text)
                if found is None:
                    found = self.special(text, self.negative)
                if found is not None:
                    return found
            return self.bits(self.number(atoms, place))
        except Fault as fault:
            if fault.at is None:
                fault.at = self.node.at
            raise

    def number(self, atoms: Sequence[str], place: Place) -> int:
        """Value of the slot's expression; an address counts from the beginning of its window."""
        return number_of(evaluate(self.node, atoms, place), self.node.at)


def single_atom(node: Node) -> tuple[int | None, bool]:
    """Return (index, negative) of an expression that is one atom, perhaps with a minus; otherwise (None,
    False)."""
    negative = False
    if isinstance(node, Unary) and node.op == "-":
        node, negative = node.operand, True
    return (node.index, negative) if isinstance(node, Atom) else (None, False)


class _Bits(dict[str, int]):
    """The bits of a slot by text, where the text alone decides; computed on first use."""

    def __init__(self, slot: Slot) -> None:
        super().__init__()
        self._slot = slot

    def __missing__(self, text: str) -> int:
        bits = self._slot.plain(text, self._slot.negative)
        self[text] = bits
        return bits


Encode = Callable[[Sequence[str]], bytes]
Limits = tuple[tuple[int, int, int, int, str], ...]


class Check(Protocol):
    """Conditions between the operands of a statement."""

    def limits(self, word: int) -> Limits:
        """The limits of each address and each set of tiles in the instruction ``word``: shift, highest value,
        low bits that must be 0, bits that lift the limit, message. Fault for a broken rule.
        """


ANY = None
"""Every compressed instruction."""


class Template:
    """A shape of a statement.

    ``steps``: offsets of its instructions. ``wide``: data to a RISC-V disassembler. ``allowed``: the
    compressed instructions that may take their place under ``.option rvc``, None for all.
    """

    def __init__(
        self, size: int, base: int, slots: Sequence[Slot], *, wide: bool = False, check: Check | None = None
    ) -> None:
        self.size = size
        self.base = base
        self.slots = tuple(slots)
        self.wary = tuple(slot for slot in self.slots if slot.wary)
        self.wide = wide
        self.check = check
        self.steps: tuple[int, ...] = (0,) if wide else tuple(range(0, size, SCALAR_BYTES))
        self.allowed: frozenset[str] | None = ANY
        self.fixed = wide or any(slot.needs_place or has_function(slot.node) for slot in self.slots)
        """True when its bytes are never shortened: GNU as shortens only statements of plain numbers."""
        targets = [slot for slot in self.slots if slot.jumps]
        self.label = targets[0] if len(targets) == 1 else None
        """The slot of the label of a jump; None for other statements."""
        self.encode = self._encoder()

    def doubts(self, atoms: Sequence[str]) -> Iterator[Fault]:
        """Warns of operands that are allowed but probably not meant."""
        for slot in self.wary:
            doubt = slot.doubt(atoms[slot.atom], slot.negative) if slot.atom is not None else None
            if doubt is not None:
                yield doubt

    def choose(self, atoms: Sequence[str], place: Place) -> Template:
        """The template of fixed length to use at this place."""
        return self

    def resolve(self, atoms: Sequence[str], place: Place) -> bytes:
        """Bytes of the statement; Fault if something is wrong, UnknownValue if a value is not known yet."""
        word = self.base
        for slot in self.slots:
            word ^= slot.resolve(atoms, place)  # a slot may complement bits of the base
        if self.check is not None:
            verify(word, self.check.limits(word))
        return word.to_bytes(self.size, "little")

    def _encoder(self) -> Encode:
        """The fast path: each atom is a slot of its own."""
        ordered = sorted(
            (slot for slot in self.slots if slot.atom is not None), key=lambda slot: slot.atom or 0
        )
        if [slot.atom for slot in ordered] != list(range(len(self.slots))):
            return not_plain
        tables = [slot.known for slot in ordered]
        if self.check is None:
            return _plain_encoder(self.base, self.size, tables)
        decisive = [index for index, slot in enumerate(ordered) if slot.decisive]
        return _checked_encoder(self.base, self.size, tables, decisive, self.check)


def not_plain(atoms: Sequence[str]) -> bytes:
    raise SymbolicLine


def _plain_encoder(base: int, size: int, tables: list[_Bits]) -> Encode:
    def encode(atoms: Sequence[str]) -> bytes:
        word = reduce(or_, map(getitem, tables, atoms), base)
        return word.to_bytes(size, "little")

    return encode


def _checked_encoder(base: int, size: int, tables: list[_Bits], decisive: list[int], check: Check) -> Encode:
    """A ``_plain_encoder`` whose limits are cached by the texts of the ``decisive`` atoms."""
    known: dict[str | tuple[str, ...], Limits] = {}
    decided_by = itemgetter(*decisive) if decisive else _nothing

    def encode(atoms: Sequence[str]) -> bytes:
        word = reduce(or_, map(getitem, tables, atoms), base)
        key = decided_by(atoms)
        limits = known.get(key)
        if limits is None:
            limits = known[key] = check.limits(word)
        for shift, high, low, excused, _ in limits:
            value = word >> shift & 0xFFFFFFFF
            if (value > high or value & low) and not word & excused:
                verify(word, limits)
        return word.to_bytes(size, "little")

    return encode


def _nothing(atoms: Sequence[str]) -> tuple[str, ...]:
    """The key of a shape whose checks depend on no atom."""
    return ()


def verify(word: int, limits: Limits) -> None:
    """Fault for a value above its limit, where it replaces ``{value}`` in the message, or not aligned."""
    for shift, high, low, excused, message in limits:
        value = word >> shift & 0xFFFFFFFF
        if word & excused:
            continue
        if value > high:
            raise Fault(message.format(value=value))
        if value & low:
            raise Fault(f"{message.partition(':')[0]} = {value:#x} must be a multiple of {low + 1}")
