"""Slices that go backwards and pads with elements of the operand: choices of elements by known indices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.parts import gathered, sliced
from compiler.operators.record import OPERATORS, Call

from . import movement, slicing  # noqa: F401  (their records get expansions here)
from .slicing import pad_widths, slice_ranges


def _slice(build: Builder, call: Call) -> tuple[str, ...] | None:
    ranges, x = slice_ranges(call), call.name(0)
    if all(chosen.step > 0 for chosen in ranges):
        return None
    for axis, chosen in enumerate(ranges):
        if chosen.step < 0:
            x = build("Gather", x, build.constant(np.array(chosen), "int64"), axis=axis)
        elif chosen != range(call.shape(0)[axis]):
            x = sliced(build, x, axis, chosen.start, chosen.stop, chosen.step)
    return (x,)


def _pad(build: Builder, call: Call) -> tuple[str, ...] | None:
    mode, x = call.string("mode"), call.name(0)
    if mode == "constant":
        return None
    for axis, (begin, end) in enumerate(pad_widths(call)):
        if begin or end:
            size = call.shape(0)[axis]
            kept = np.arange(size)[max(-begin, 0) : size - max(-end, 0)]
            widths = (max(begin, 0), max(end, 0))
            chosen = np.pad(kept, widths, mode=mode)  # type: ignore[call-overload]
            x = gathered(build, x, axis, chosen)
    return (x,)


def _concat(build: Builder, call: Call) -> tuple[str, ...] | None:
    """Pieces without elements are left out."""
    filled = [tensor.name for tensor in call.inputs if tensor is not None and tensor.size]
    if len(filled) == len(call.inputs) or not filled:
        return None
    return (build("Concat", *filled, axis=call.integer("axis")),)


for _op, _expansion in (("Slice", _slice), ("Pad", _pad), ("Concat", _concat)):
    OPERATORS[_op] = replace(OPERATORS[_op], expansion=_expansion)
