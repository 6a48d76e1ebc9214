"""The axes along which a call can be divided, found by asking its record what parts of the result need."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import cast

from compiler.graph import Box, Shape
from compiler.operators.record import Call, Operator

_Boxes = tuple[Box | None, ...]
_Needed = Callable[[int, int, int, bool], _Boxes]
_Span = tuple[int, int]


@dataclass(frozen=True)
class Following:
    """How an operand is divided along with a result.

    Units i to j of the result need the elements step * i - before to step * j + after of ``axis``, as far as
    there are such elements, and the other axes whole.
    """

    axis: int
    step: int
    before: int
    after: int

    def part(self, whole: Box, span: tuple[int, int], shape: Shape) -> Box | None:
        """What a span of units needs of an operand of a shape, of which the result needs ``whole``."""
        begin, end = span[0] * self.step - self.before, span[1] * self.step + self.after
        found = whole.along(self.axis, begin, end).within(shape)
        return found if found.size else None


@dataclass(frozen=True)
class Division:
    """An axis of a result that can be divided into units of ``unit`` elements.

    ``operands`` has None for those of which every unit needs the same: they are replicated, or not read.
    """

    axis: int
    unit: int
    operands: tuple[Following | None, ...]


def divisions(record: Operator, call: Call, number: int = 0) -> tuple[Division, ...]:
    """The axes along which a result can be divided, each with the smallest unit that is possible.

    At least one operand is divided too, along one axis. Axes of one element are left out.
    """
    return tuple(_divisions(record, call, number))


def followings(
    record: Operator, call: Call, axis: int, unit: int, number: int = 0
) -> dict[int, Following | None]:
    """How each operand follows a result of which an axis is divided into units, at least two.

    By the position of the operand; None: every unit needs the same of it, or nothing. Operands that do not
    follow along one axis in the order of the units are missing.

    A search asks the same of a call for each sequence that it may be in. A size that a run decides remembers
    each comparison for the code that is being written, so it is asked anew.
    """
    if not call.has_known_sizes:
        return _followings_anew(record, call, axis, unit, number)
    asked = ("followings", record.name, axis, unit, number)
    if asked not in call.answers:
        call.answers[asked] = _followings_anew(record, call, axis, unit, number)
    return cast(dict[int, Following | None], call.answers[asked])


def _followings_anew(
    record: Operator, call: Call, axis: int, unit: int, number: int
) -> dict[int, Following | None]:
    shape = record.shapes(call)[number]
    return _followings(call, axis, unit, shape[axis] // unit, _needed_by(record, call, shape, number))


def is_divisible(record: Operator, call: Call) -> bool:
    """Whether the first result that is wanted can be divided along an axis."""
    number = next(at for at, name in enumerate(call.outputs) if name)
    return next(_divisions(record, call, number), None) is not None


def _divisions(record: Operator, call: Call, number: int) -> Iterator[Division]:
    shape = record.shapes(call)[number]
    needed = _needed_by(record, call, shape, number)
    for axis, size in enumerate(shape if math.prod(shape) else ()):
        units = (unit for unit in range(1, size // 2 + 1) if size % unit == 0)
        ways = (_divided(axis, unit, size // unit, call, needed) for unit in units)
        yield from itertools.islice((way for way in ways if way is not None), 1)


def _needed_by(record: Operator, call: Call, shape: Shape, number: int) -> _Needed:
    """What a part of a result needs; the part is given by an axis, and where it begins and ends there.

    The last argument says whether padding is part of that.
    """
    whole = Box.whole(shape)

    @cache
    def needed(axis: int, begin: int, end: int, with_padding: bool = False) -> _Boxes:
        part = whole.along(axis, begin, end)
        return record.needed(call, [None] * number + [part], with_padding)

    return needed


def _divided(axis: int, unit: int, count: int, call: Call, needed: _Needed) -> Division | None:
    """The division into ``count`` units, at least two; None if that is none."""
    found = _followings(call, axis, unit, count, needed)
    operands = tuple(found[at] for at in sorted(found))
    return Division(axis, unit, operands) if any(operands) and len(found) == len(call.inputs) else None


def _followings(call: Call, axis: int, unit: int, count: int, needed: _Needed) -> dict[int, Following | None]:
    """How the operands follow that do, of ``count`` units."""
    middle = (count - 1) // 2
    spans = {(0, count), (0, 1), (1, count), (0, middle + 1), (middle + 1, count), (count - 1, count)}
    spans |= {(middle, middle + 1), (middle + 1, middle + 2)}
    boxes = {span: needed(axis, span[0] * unit, span[1] * unit, False) for span in sorted(spans)}
    halves = [needed(axis, at * unit, (at + 1) * unit, True) for at in (0, 1)] if count == 2 else []
    operands: dict[int, Following | None] = {}
    for at in range(len(call.inputs)):
        own = {span: found[at] for span, found in boxes.items()}
        same = len(set(own.values())) == 1
        padded = [half[at] for half in halves]
        following = None if same else _following(own, count, call.shape(at), padded)
        if same or following is not None:
            operands[at] = following
    return operands


def _following(
    boxes: Mapping[_Span, Box | None], count: int, shape: Shape, padded: list[Box | None]
) -> Following | None:
    """How an operand follows, of which spans of units need boxes; None if not along one axis in order.

    ``padded``: the boxes of two units with padding. No unit of two is without a border, so what the operand
    has of their boxes does not say where windows begin that reach beyond it.
    """
    whole, middle = boxes[0, count], (count - 1) // 2
    one, next_one = boxes[middle, middle + 1], boxes[middle + 1, middle + 2]
    if whole is None or one is None or next_one is None:
        return None
    axes = [axis for axis in range(len(shape)) if one.intervals[axis] != whole.intervals[axis]]
    if len(axes) != 1:
        return None
    (axis,) = axes
    (first, end), (next_first, _) = one.intervals[axis], next_one.intervals[axis]
    if padded and padded != [one, next_one]:
        (first, end), (next_first, _) = (each.intervals[axis] for each in padded if each is not None)
        found = Following(axis, next_first - first, -first, end - (next_first - first))
        step = found.step
    elif count == 2:  # the first begins, and the last ends, at a border
        step = shape[axis] // 2
        found = Following(axis, step, step - next_first, end - step)
    else:
        step = next_first - first
        found = Following(axis, step, step * middle - first, end - step * (middle + 1))
    expected = {span: found.part(whole, span, shape) for span in boxes}
    return found if step > 0 and expected == boxes else None
