"""Constants that move along with a growing state: masks and positions of the rows that a step adds.

Some values that a model computes from the positions of the new rows are a part of a longer constant, from row
``past``. Such a value is a range of numbers; a band, whose elements depend on column - row; or a table,
such as that of a rotary embedding. So the program has the longer constant, for all possible rows, and a Slice
takes the rows of the step. A table has the constant's values in a step that writes all rows to an empty
cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import permutations

import numpy as np

from compiler.graph import Array, Graph

from .corners import are_corners, constants_of_all, is_beginning, with_slice
from .formulas import Point
from .growth import GrowingState
from .sums import sum_of

_Window = tuple[Array, list[tuple[int, ...]]]
"""A larger constant, and the places at which the constants of the graphs begin in it."""

AllRows = Callable[[GrowingState], Graph | None]
"""Gives the graph of a step that fills an empty state with all rows that it can have; None if there is no
such step, or its graph has other nodes than those of the others."""


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
            found = _with_slices(found, names, window)
    return found


def with_windows_of_tables(
    graphs: Sequence[Graph], points: Sequence[Point], states: Sequence[GrowingState], all_rows: AllRows
) -> list[Graph]:
    """Like ``with_windows``, with a Slice for each constant that moves along as part of a table."""
    found = list(graphs)
    moving = [
        names
        for names, arrays in constants_of_all(graphs)
        if states and _moves(arrays) and next(_windows(arrays, points, states), None) is None
    ]
    whole = all_rows(states[0]) if moving else None  # all growing states have one length
    if whole is None:
        return found
    before = [point[states[0].before] for point in points]
    for names, arrays in constants_of_all([*graphs, whole]):
        window = _window_of_table(arrays, before) if names[:-1] in moving else None
        if window is not None:
            found = _with_slices(found, names[:-1], window)
    return found


def _with_slices(graphs: Sequence[Graph], names: Sequence[str], window: _Window) -> list[Graph]:
    whole, starts = window
    each = zip(graphs, names, starts, strict=True)
    return [with_slice(graph, name, whole, start) for graph, name, start in each]


def _moves(arrays: Sequence[Array]) -> bool:
    """True if a constant changes otherwise than by growing at its ends."""
    return not all(is_beginning(array, arrays[-1]) for array in arrays) and not are_corners(arrays)


def _windows(
    arrays: Sequence[Array], points: Sequence[Point], states: Sequence[GrowingState]
) -> Iterator[_Window]:
    """Larger constants that contain the arrays, and the place in them at which each array begins."""
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
            if whole is not None and (starts := _starts(arrays, row, before, whole)) is not None:
                yield whole, starts
        yield from _numbers(arrays, ((0, before), (1, total)))


def _window_of_table(arrays: Sequence[Array], before: Sequence[int]) -> _Window | None:
    """Arrays as parts of the last one, which is from a step of all rows."""
    *parts, whole = arrays
    each = (_starts(parts, row, before, whole) for row in range(whole.ndim))
    starts = next((found for found in each if found is not None), None)
    return None if starts is None else (whole, starts)


def _starts(
    arrays: Sequence[Array], row: int, before: Sequence[int], whole: Array
) -> list[tuple[int, ...]] | None:
    """The places at which arrays begin in a larger one, ``before`` along an axis; None if they are no parts
    of it."""
    if any(array.ndim != whole.ndim or array.dtype != whole.dtype for array in arrays):
        return None
    starts = [tuple(first if axis == row else 0 for axis in range(whole.ndim)) for first in before]
    return starts if all(map(_is_window, arrays, starts, [whole] * len(arrays))) else None


def _numbers(arrays: Sequence[Array], lengths: Sequence[tuple[int, Sequence[int]]]) -> Iterator[_Window]:
    """Single integers at a constant distance from a length, as parts of the range of all values.

    ``lengths`` has the least value of each.
    """
    if any(array.shape != (1,) or array.dtype.kind != "i" for array in arrays):
        return
    numbers = [int(array[0]) for array in arrays]
    for least, sizes in lengths:
        apart = {number - size for number, size in zip(numbers, sizes, strict=True)}
        if len(apart) == 1 and least + min(apart) >= 0:
            yield np.arange(max(numbers) + 1, dtype=arrays[0].dtype), [(number,) for number in numbers]


def _is_window(array: Array, start: tuple[int, ...], whole: Array) -> bool:
    window = whole[tuple(slice(at, at + size) for at, size in zip(start, array.shape, strict=True))]
    return window.shape == array.shape and window.tobytes() == array.tobytes()


def _line(arrays: Sequence[Array], axis: int, before: Sequence[int], total: int) -> Array | None:
    """Equally spaced numbers along an axis, beginning with row 0; None if the array has no such form."""
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
    """The matrix whose last rows are the largest array, if its elements depend on column - row.

    Where a column is further right of a row than in any step, the last element is repeated.
    """
    matrix = np.moveaxis(largest, (row, column), (-2, -1))
    new, total = matrix.shape[-2:]
    apart = np.minimum(np.arange(total) - np.arange(total)[:, None], new - 1)
    from_last, from_first = matrix[..., -1, :], matrix[..., 0, total - new :]
    below = from_last[..., np.minimum(apart, 0) + total - 1]
    above = from_first[..., np.maximum(apart, 0)]
    return np.ascontiguousarray(np.moveaxis(np.where(apart > 0, above, below), (-2, -1), (row, column)))
