"""Constants that move along with a state that grows: masks and places of the rows that a step adds.

What a model computes from the numbers of the new rows is the part from ``past`` on of something longer: of a
line of numbers, or of a band, whose elements depend on how far the column is from the row. So the program has
the longer one, for all rows that there can be, and a Slice takes the rows of the step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations

import numpy as np

from compiler.graph import Array, Graph

from .corners import are_corners, constants_of_all, is_beginning, with_slice
from .formulas import Point
from .growth import GrowingState
from .sums import sum_of


def with_windows(
    graphs: Sequence[Graph], points: Sequence[Point], states: Sequence[GrowingState]
) -> list[Graph]:
    """Graphs of one structure, the last one at the largest sizes, with a Slice for each such constant."""
    found = list(graphs)
    if not states:
        return found
    for names, arrays in constants_of_all(graphs):
        window = next(_windows(arrays, points, states), None) if _moves(arrays) else None
        if window is not None:
            whole, starts = window
            each = zip(found, names, starts, strict=True)
            found = [with_slice(graph, name, whole, start) for graph, name, start in each]
    return found


def _moves(arrays: Sequence[Array]) -> bool:
    """Whether a constant does something else than to grow at its ends."""
    return not all(is_beginning(array, arrays[-1]) for array in arrays) and not are_corners(arrays)


def _windows(
    arrays: Sequence[Array], points: Sequence[Point], states: Sequence[GrowingState]
) -> Iterator[tuple[Array, list[tuple[int, ...]]]]:
    """Larger constants of which the arrays are parts, and the place at which each array begins in them."""
    rank = arrays[0].ndim
    if any(array.ndim != rank or array.dtype != arrays[0].dtype for array in arrays):
        return
    for state in states:
        before = [point[state.before] for point in points]
        new = [sum_of(state.new, point) for point in points]
        total = [b + n for b, n in zip(before, new, strict=True)]
        for row, column in [*permutations(range(rank), 2), *((axis, None) for axis in range(rank))]:
            if [array.shape[row] for array in arrays] != new:
                continue
            if column is not None and [array.shape[column] for array in arrays] != total:
                continue
            if column is None:
                whole = _line(arrays, row, before, total[-1])
            else:
                whole = _band(arrays[-1], row, column)
            starts = [tuple(first if axis == row else 0 for axis in range(rank)) for first in before]
            if whole is not None and all(map(_is_window, arrays, starts, [whole] * len(arrays))):
                yield whole, starts


def _is_window(array: Array, start: tuple[int, ...], whole: Array) -> bool:
    window = whole[tuple(slice(at, at + size) for at, size in zip(start, array.shape, strict=True))]
    return window.shape == array.shape and window.tobytes() == array.tobytes()


def _line(arrays: Sequence[Array], axis: int, before: Sequence[int], total: int) -> Array | None:
    """Equally distant numbers along an axis, from that of row 0 on; None if there is no such line."""
    firsts = [np.take(array, [0], axis) for array in arrays]
    steps = before[-1] - before[0]
    if arrays[0].dtype.kind not in "iuf" or not steps or firsts[0].shape != firsts[-1].shape:
        return None
    slope = (firsts[-1] - firsts[0]) / steps
    shape = [-1 if at == axis else 1 for at in range(arrays[0].ndim)]
    places = np.arange(total).reshape(shape) - before[-1]
    line: Array = (firsts[-1] + slope * places).astype(arrays[0].dtype)
    return line


def _band(largest: Array, row: int, column: int) -> Array:
    """The matrix of which the largest array has the last rows, if what it holds depends on column - row.

    Where a column is further right of a row than any that a step has, it repeats the last one.
    """
    matrix = np.moveaxis(largest, (row, column), (-2, -1))
    new, total = matrix.shape[-2:]
    apart = np.minimum(np.arange(total) - np.arange(total)[:, None], new - 1)
    from_last, from_first = matrix[..., -1, :], matrix[..., 0, total - new :]
    below = from_last[..., np.minimum(apart, 0) + total - 1]
    above = from_first[..., np.maximum(apart, 0)]
    return np.ascontiguousarray(np.moveaxis(np.where(apart > 0, above, below), (-2, -1), (row, column)))
