"""Engine instructions: named operands to templates, with the checks of their records."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import or_
from typing import TypeVar

from asm.diagnostics import Fault
from asm.syntax.expressions import Node, fraction
from asm.syntax.parse import Lanes, Operand, Operands, Term
from tx8isa.machine.description import Machine
from tx8isa.numbers.formats import EXPONENT_BITS, MANTISSA_BITS, STORAGE_BITS, Format, narrow, widen
from tx8isa.numbers.limits import LANE_MASK
from tx8isa.records.record import Engine, Extent, Instruction, Lane, Rule
from tx8isa.records.record import Operand as Field
from tx8isa.riscv.registers import REGISTERS
from tx8isa.table.encoding import WORKERS, encoder, value_error
from tx8isa.tools.suggestions import did_you_mean

from .template import Limits, Slot, Template

_MASK, _CONTROL, _WORDS = 32, 64, 96
"""Bit at which the register mask, the control word and the operand words start."""
_WORKER = 29
_NO_LIMITS: Limits = ()


class _FieldSlot(Slot):
    """An operand of an engine instruction."""

    def __init__(
        self, node: Node, shift: int, field: Field, mask: int, fmt: Format | None, decisive: bool
    ) -> None:
        super().__init__(node, shift)
        self.field, self.mask, self.fmt = field, mask, fmt
        self.decisive = decisive
        self.wary = field.scalar and fmt is not None and fmt.is_float
        self.choices = dict(field.choices)

    def special(self, text: str, negative: bool) -> int | None:
        if text in self.choices and not negative:
            return self.choices[text] << self.shift
        if text in REGISTERS and not negative:
            if not self.mask:
                raise Fault(f"operand '{self.field.name}' takes no register, found {text}", self.node.at)
            return REGISTERS[text] << self.shift | self.mask
        number = fraction(text) if self.field.scalar else None
        return None if number is None else self._fraction(-number if negative else number, text)

    def _fraction(self, number: float, text: str) -> int:
        if self.fmt is None or not self.fmt.is_float:
            name = self.fmt.token if self.fmt is not None else "integer"
            raise Fault(
                f"operand '{self.field.name}': {text} is a fraction, the format is {name}", self.node.at
            )
        exponent, mantissa = EXPONENT_BITS[self.fmt], MANTISSA_BITS[self.fmt]
        pattern = narrow(number, exponent, mantissa, 0, 0)
        if self.fmt is Format.TF32:
            pattern <<= 13  # TF32 occupies the upper bits of an FP32 word
        return pattern << self.shift

    def bits(self, value: int) -> int:
        error = value_error(self.field, value)
        if not error and self.field.scalar and self.fmt is not None and value >> self.fmt.bits:
            error = f"{value:#x} does not fit the {self.fmt.bits} bits of {self.fmt.token}"
        if error:
            help = f"write {value}.0 for the number" if self.wary and value < 0 else ""
            raise Fault(f"operand '{self.field.name}': {error}", self.node.at, help)
        return value << self.shift

    def doubt(self, text: str, negative: bool) -> Fault | None:
        """Warns of a small whole number in decimal for a float: as raw bits it means a tiny float."""
        if not self.wary or self.fmt is None or not _DECIMAL.fullmatch(text):
            return None
        bits, fmt = int(text), Format.FP32 if self.fmt is Format.TF32 else self.fmt
        value = widen(bits, EXPONENT_BITS[fmt], MANTISSA_BITS[fmt])
        if not 0 < value < _TINY:
            return None
        message = (
            f"operand '{self.field.name}': {text} is the raw bits {bits:#x}, {value:.3g} in {self.fmt.token}"
        )
        return Fault(message, self.node.at, f"write {text}.0 for the number, {bits:#x} for the bits")


_DECIMAL = re.compile(r"[1-9][0-9]{0,9}")
_TINY = 1e-3
"""Floats below it that are written as bits in decimal are probably mistakes; above it, such bits are
accepted."""


class _LaneSlot(Slot):
    """One number of a packed operand."""

    def __init__(self, node: Node, shift: int, field: Field, lane: Lane) -> None:
        super().__init__(node, shift)
        self.field, self.lane = field, lane

    def bits(self, value: int) -> int:
        if not self.lane.low <= value <= self.lane.high:
            name, low, high = self.lane.name, self.lane.low, self.lane.high
            raise Fault(
                f"operand '{self.field.name}': {name} = {value} is outside {low}..{high}", self.node.at
            )
        return value << self.shift


class _WorkerSlot(Slot):
    """``worker=N``."""

    def bits(self, value: int) -> int:
        if not 0 <= value < WORKERS:
            raise Fault(f"worker {value} is outside 0..{WORKERS - 1}", self.node.at)
        return value << self.shift


@dataclass(frozen=True, slots=True)
class _Layout:
    """The places of a record's operands in a statement: shift, bits, and the bit that marks a register."""

    shifts: tuple[int, ...]
    widths: tuple[int, ...]
    masks: tuple[int, ...]


def _layout(instruction: Instruction) -> _Layout:
    shifts, masks, at, position = [], [], _WORDS, 0
    for operand in instruction.operands:
        if operand.words:
            shifts.append(at)
            masks.append(1 << _MASK + position)
            at, position = at + 32 * operand.words, position + 1
        else:
            shifts.append(_CONTROL + operand.at)
            masks.append(0)
    widths = (32 * operand.words or operand.width for operand in instruction.operands)
    return _Layout(tuple(shifts), tuple(widths), tuple(masks))


@dataclass(frozen=True, slots=True)
class _Source:
    """The place of an argument of a rule or an extent in a statement.

    ``stored``: the argument is the storage bits of the format in this operand. ``fixed``: the value of a
    constant.
    """

    shift: int
    mask: int
    register: int = 0
    stored: bool = False
    fixed: int = 0

    def value(self, word: int) -> int:
        found = word >> self.shift & self.mask
        return STORAGE_BITS[found] if self.stored else found | self.fixed


def _source(instruction: Instruction, layout: _Layout, argument: str | int) -> _Source:
    if isinstance(argument, int):
        return _Source(0, 0, fixed=argument)
    name, _, part = argument.removeprefix("@").partition(".")
    index = instruction.index(name)
    shift, mask = layout.shifts[index], (1 << layout.widths[index]) - 1
    if part:
        shift, mask = shift + instruction.operands[index].lane_shift(part), LANE_MASK
    return _Source(shift, mask, layout.masks[index], argument.startswith("@"))


Answer = TypeVar("Answer")


class _Answers(dict[int, Answer]):
    """The results of a rule or an extent, cached by the ``bits`` of a statement that it depends on."""

    def __init__(self, ask: Callable[..., Answer], sources: Sequence[_Source], unknown: Answer) -> None:
        super().__init__()
        self._ask, self._sources, self._unknown = ask, sources, unknown
        self._registers = reduce(or_, (source.register for source in sources), 0)
        self.bits = reduce(or_, (source.mask << source.shift for source in sources), self._registers)

    def __missing__(self, key: int) -> Answer:
        known = not key & self._registers
        self[key] = self._ask(*[s.value(key) for s in self._sources]) if known else self._unknown
        return self[key]


class _Checks:
    """Rules and extents of a record; the emulator checks the rules that depend on a register.

    All lines of a shape share them, with the results that earlier lines needed.
    """

    def __init__(self, instruction: Instruction, layout: _Layout, machine: Machine) -> None:
        self.instruction, self.layout, self.spm_bytes = instruction, layout, machine.spm.bytes
        self.tiles = _tile_limits(instruction, layout, machine.tiles)
        self.rules = [(rule, _Answers(rule.holds, self._sources(rule), True)) for rule in instruction.rules]
        self.extents = [
            _Answers(partial(self._limit, index, operand.extent), self._sources(operand.extent), _NO_LIMITS)
            for index, operand in enumerate(instruction.operands)
            if operand.extent is not None
        ]

    def _sources(self, user: Rule | Extent) -> list[_Source]:
        return [_source(self.instruction, self.layout, argument) for argument in user.arguments]

    def limits(self, word: int) -> Limits:
        """The highest address of every SPM operand; Fault for a broken rule."""
        for rule, holds in self.rules:
            if not holds[word & holds.bits]:
                raise Fault(f"{self.instruction.mnemonic}: {rule.text}; found {self._found(rule, word)}")
        limits = self.tiles
        for extent in self.extents:
            limits += extent[word & extent.bits]
        return limits

    def _limit(self, index: int, extent: Extent, *arguments: int) -> Limits:
        """The highest address of one operand and its alignment; none when it touches nothing.

        The amount of DDR depends on the run.
        """
        length = extent.length(*arguments)
        if not length:
            return _NO_LIMITS
        leave = f"the {length} bytes from there leave the SPM of {self.spm_bytes:#x} bytes"
        operand, first = self.instruction.operands[index], extent.arguments[0]
        message = f"operand '{operand.name}': {{value:#x}} and {leave}"
        highest = self.spm_bytes - length if operand.memory == "spm" else 0xFFFFFFFF
        typed = isinstance(first, int) or first.startswith("@")
        element = arguments[0] + 7 >> 3 if typed else 1
        return ((self.layout.shifts[index], highest, element - 1, self.layout.masks[index], message),)

    def _found(self, rule: Rule, word: int) -> str:
        return ", ".join(
            f"{name.removeprefix('@')} = {source.value(word)}{' bits' if name.startswith('@') else ''}"
            for name, source in zip(rule.arguments, self._sources(rule), strict=True)
            if isinstance(name, str)
        )


def _tile_limits(instruction: Instruction, layout: _Layout, tiles: int) -> Limits:
    """The limits of operands that name tiles of the chip, by number or by the bits of a set."""
    found: list[tuple[int, int, int, int, str]] = []
    for index, operand in enumerate(instruction.operands):
        if operand.name not in _TILE_OPERANDS or not operand.words:
            continue
        highest = tiles - 1 if operand.name == "tile" else (1 << tiles) - 1
        message = f"operand '{operand.name}': {{value:#x}} names a tile outside 0..{tiles - 1}"
        for word in range(operand.words):
            limit = highest >> 32 * word & 0xFFFFFFFF
            found.append((layout.shifts[index] + 32 * word, limit, 0, layout.masks[index], message))
    return tuple(found)


_TILE_OPERANDS = ("tile", "tiles")


def engine_template(
    instruction: Instruction, fmt: Format | None, operands: Operands, machine: Machine
) -> Template:
    """The template of an engine instruction with these operands; Fault for one that does not belong."""
    layout = _layout(instruction)
    code = encoder(instruction)
    given = _by_name(instruction, operands)
    base = code.header
    slots: list[Slot] = []
    if "worker" in given:
        slots.append(_WorkerSlot(_node(given.pop("worker")), _WORKER))
    for index, field in enumerate(instruction.operands):
        named = given.get(field.name)
        if named is None and isinstance(field.default, str):
            named = given.get(field.default)
        if named is not None:
            slots += _slots(instruction, field, named, layout, index, fmt)
        else:
            base |= _default(instruction, field, given, fmt) << layout.shifts[index]
    checks = _Checks(instruction, layout, machine)
    check = checks if checks.rules or checks.extents or checks.tiles else None
    return Template(code.size, base, slots, wide=True, check=check)


def _by_name(instruction: Instruction, operands: Operands) -> dict[str, Operand]:
    fields = {field.name: field for field in instruction.visible}
    has_worker = instruction.engine not in (Engine.DTE,)
    known = [*fields, "worker"] if has_worker else list(fields)
    found: dict[str, Operand] = {}
    for item in operands.items:
        if not item.name:
            raise Fault(f"{instruction.mnemonic}: operands are written name=value", item.at, _takes(known))
        if item.name not in known:
            message = f"{instruction.mnemonic} has no operand '{item.name}'"
            raise Fault(message, item.at, did_you_mean(item.name, known) or _takes(known))
        if item.name in found:
            raise Fault(f"operand '{item.name}' is given twice", item.at)
        found[item.name] = item
    missing = [f.name for f in fields.values() if f.default is None and f.name not in found]
    if missing:
        plural = "s" if len(missing) > 1 else ""
        raise Fault(
            f"{instruction.mnemonic}: operand{plural} {', '.join(missing)} missing", None, _takes(known)
        )
    return found


def _takes(names: Sequence[str]) -> str:
    return f"it takes {', '.join(names)}" if names else "it takes no operand"


def _slots(
    instruction: Instruction, field: Field, item: Operand, layout: _Layout, index: int, fmt: Format | None
) -> list[Slot]:
    shift, term = layout.shifts[index], item.term
    if isinstance(term, Lanes):
        return _lane_slots(field, term, shift)
    decisive = not field.is_address or any(field.name in _names(rule) for rule in instruction.rules)
    return [_FieldSlot(_node(item), shift, field, layout.masks[index], fmt, decisive)]


def _names(rule: Rule) -> set[str]:
    return {a.removeprefix("@").partition(".")[0] for a in rule.arguments if isinstance(a, str)}


def _lane_slots(field: Field, term: Lanes, shift: int) -> list[Slot]:
    if len(term.parts) != len(field.lanes):
        wanted = f"[{', '.join(lane.name for lane in field.lanes)}]" if field.lanes else "one value"
        raise Fault(f"operand '{field.name}' takes {wanted}, found {len(term.parts)} numbers", term.at)
    return [
        _LaneSlot(part, shift + field.lane_shift(lane.name), field, lane)
        for part, lane in zip(term.parts, field.lanes, strict=True)
    ]


def _node(item: Operand) -> Node:
    return expression(item.term, f"operand '{item.name}'")


def expression(term: Term, what: str) -> Node:
    """The term as an expression; Fault when it is something else."""
    if isinstance(term, Node):
        return term
    raise Fault(f"{what}: an expression is expected", term.at)


def _default(instruction: Instruction, field: Field, given: dict[str, Operand], fmt: Format | None) -> int:
    """The value of an operand that the text omits."""
    if field.name == "format":
        if fmt is None:
            raise TypeError(f"{instruction.mnemonic} has an operand 'format' and no formats")
        return int(fmt)
    if field.hidden:
        return int(
            any(other.switched_by == field.name and other.name in given for other in instruction.operands)
        )
    if isinstance(field.default, str):
        return _default(instruction, instruction.operand(field.default), given, fmt)
    if field.default is None:
        raise TypeError(f"{instruction.mnemonic}: required operand {field.name} has no value")
    return field.default
