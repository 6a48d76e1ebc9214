"""Finds the axes along which a call can be divided, by asking its record for the operands of parts."""

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
    """The division of an operand along with a result.

    Units i to j of the result need the elements step * i - before to step * j + after of ``axis``, clipped to
    the tensor, and all of the other axes.
    """

    axis: int
    step: int
    before: int
    after: int

    def part(self, whole: Box, span: tuple[int, int], shape: Shape) -> Box | None:
        """Return the box of an operand that a span of units needs, where the whole result needs ``whole``."""
        begin, end = span[0] * self.step - self.before, span[1] * self.step + self.after
        found = whole.along(self.axis, begin, end).within(shape)
        return found if found.size else None


@dataclass(frozen=True)
class Division:
    """An axis of a result that can be divided into units of ``unit`` elements.

    ``operands`` has None for an operand that all units need equally: it is replicated, or not read.
    """

    axis: int
    unit: int
    operands: tuple[Following | None, ...]


def divisions(record: Operator, call: Call, number: int = 0) -> tuple[Division, ...]:
    """Return the axes along which a result can be divided, each with its smallest possible unit.

    At least one operand is divided too, along one axis. Axes of one element are omitted.
    """
    return tuple(_divisions(record, call, number))


def followings(
    record: Operator, call: Call, axis: int, unit: int, number: int = 0
) -> dict[int, Following | None]:
    """Return how each operand is divided when an axis of a result is divided into two or more units.

    The keys are positions of operands. None means that every unit needs the same part of the operand, or
    nothing. Operands that are not divided along one axis in the order of the units are missing.

    A search asks the same about a call for each sequence in which it may be, so answers are cached. A dynamic
    size records each comparison for the code that is being written. So for calls with dynamic sizes the
    answer is computed again.
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
    """Return True if the first wanted result can be divided along an axis."""
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
    """Return the function that gives the boxes for a part of a result: an axis, its begin and its end.

    Its last argument is True if padding belongs to the boxes.
    """
    whole = Box.whole(shape)

    @cache
    def needed(axis: int, begin: int, end: int, with_padding: bool = False) -> _Boxes:
        part = whole.along(axis, begin, end)
        return record.needed(call, [None] * number + [part], with_padding)

    return needed


def _divided(axis: int, unit: int, count: int, call: Call, needed: _Needed) -> Division | None:
    """Return the division into ``count`` units, at least two; None if it is impossible."""
    found = _followings(call, axis, unit, count, needed)
    operands = tuple(found[at] for at in sorted(found))
    return Division(axis, unit, operands) if any(operands) and len(found) == len(call.inputs) else None


def _followings(call: Call, axis: int, unit: int, count: int, needed: _Needed) -> dict[int, Following | None]:
    """Return the divisions of the operands for ``count`` units.

    Operands that cannot be divided are missing.
    """
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
    """Return how an operand is divided, from the boxes of spans; None unless it is along one axis in order.

    ``padded``: the boxes of two units with padding. Each of two units is at a border. So their boxes, clipped
    to the operand, do not show where windows beyond the border begin.
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
