"""Strided views: moved, cut and shaped as NumPy moves, cuts and shapes arrays without a copy."""

from __future__ import annotations

import math

import numpy as np
import pytest

from compiler.operators.linear.strided import StridedView, compact


def _shape_of_as_many(rng: np.random.Generator, size: int) -> tuple[int, ...]:
    """Extents of a random shape with ``size`` elements."""
    shape = [1] * int(rng.integers(0, 3))
    while size > 1:
        factor = int(rng.choice([k for k in range(2, size + 1) if size % k == 0]))
        shape.append(factor)
        size //= factor
    return tuple(int(size) for size in rng.permutation(shape)) or (1,)


@pytest.mark.parametrize("seed", range(4))
def test_views_are_those_of_numpy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(300):
        shape = tuple(int(size) for size in rng.choice([1, 1, 2, 3, 4, 6], rng.integers(1, 5)))
        whole, order = np.arange(math.prod(shape)).reshape(shape), rng.permutation(len(shape)).tolist()
        view: StridedView | None = compact(shape).transposed(order)
        assert view is not None
        array = whole.transpose(order)
        taken = [range(int(rng.integers(size)), size, int(rng.integers(1, 3))) for size in view.shape]
        if rng.random() < 0.4:
            view = view.sliced(taken)
            array = array[tuple(slice(part.start, part.stop, part.step) for part in taken)]
        assert view is not None
        if rng.random() < 0.4:
            wide = tuple(int(rng.integers(1, 4)) if size == 1 else size for size in view.shape)
            view, array = view.expanded(wide), np.broadcast_to(array, wide)
        assert np.array_equal(view.of(whole), array)
        wanted, found = _shape_of_as_many(rng, array.size), None
        shaped = view.reshaped(wanted)
        try:
            found = np.reshape(array, wanted, copy=False)
        except ValueError:
            assert shaped is None
            continue
        assert shaped is not None and np.array_equal(shaped.of(whole), found)


def test_a_view_has_no_empty_parts_and_no_steps_back() -> None:
    view = compact((4, 3))
    assert view.sliced([range(4), range(2, 2)]) is None
    assert view.sliced([range(3, -1, -1), range(3)]) is None


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("rows", [1, 5])
def test_axes_of_one_element_have_the_strides_of_longer_ones(batch: int, rows: int) -> None:
    """Heads in columns of a matrix: a dynamic extent has a single formula as its stride."""
    heads = compact((batch, rows, 96)).reshaped((batch, rows, 4, 24))
    assert heads is not None
    assert heads.transposed((0, 2, 1, 3)).strides == (96 * rows, 24, 96, 1)
    shared = compact((batch, 2, rows, 16)).reshaped((batch, 2, 1, rows, 16))
    assert shared is not None
    assert shared.expanded((batch, 2, 3, rows, 16)).strides == (32 * rows, 16 * rows, 0, 16, 1)
