"""Reductions, scans and rearrangements along any axis of blocks of one to four axes, against NumPy."""

from __future__ import annotations

import math
import random
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from triton_launches import Array
from triton_texts import element_of, kind, loaded, outcome, reduction, result, results, strided

FLOATS: dict[type, float] = {np.float32: 2.0**-20, np.float16: 2.0**-10, ml_dtypes.bfloat16: 2.0**-7}
"""Types with the tolerance of a sum, relative to the sum of all magnitudes."""
INTEGERS = (np.int8, np.int16, np.int32, np.int64)
OF_FLOATS = {"addf": np.sum, "maxnumf": np.max, "minnumf": np.min, "mulf": np.prod}
OF_INTEGERS: dict[str, Any] = {
    **{"addi": np.add, "maxsi": np.maximum, "minsi": np.minimum, "xori": np.bitwise_xor},
    **{"andi": np.bitwise_and, "ori": np.bitwise_or},
}
_MOST = 1024
"""Elements of a block."""


def function(name: str, element: str, word: str = "reduce") -> str:
    """The function of a reduction, which consists of one operation."""
    return f"      %m = arith.{name} %p0, %q0 : {element}\n      tt.{word}.return %m : {element}\n"


def drawn_shape(chosen: random.Random) -> tuple[int, ...]:
    """Extents that are powers of two, 1 included."""
    shape = [chosen.choice((1, 2, 2, 4, 4, 8, 16, 32, 64, 128, 256)) for _ in range(chosen.randint(1, 4))]
    while math.prod(shape) > _MOST:
        shape[shape.index(max(shape))] //= 2
    return tuple(shape)


def drawn_block(seed: int, chosen: random.Random, *types: Any) -> Array:
    """A block of a shape and a type that are chosen: quarters, or any integers."""
    numbers, dtype, shape = np.random.default_rng(seed), np.dtype(chosen.choice(types)), drawn_shape(chosen)
    if dtype.kind == "i":
        limits = np.iinfo(dtype)
        return numbers.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    return (numbers.integers(-16, 17, shape) / 4).astype(dtype)


def without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """The shape of a reduction's result."""
    return shape[:axis] + shape[axis + 1 :]


@pytest.mark.parametrize(
    ("operation", "want"),
    [
        ("maxnumf", [4, 5, 6, 7, 12, 13, 14, 15]),
        ("minnumf", [0, 1, 2, 3, 8, 9, 10, 11]),
        ("addf", [4, 6, 8, 10, 20, 22, 24, 26]),
    ],
)
@pytest.mark.parametrize("dtype", FLOATS)
def test_rows_of_a_middle_axis_do_not_begin_at_lines(operation: str, want: list[int], dtype: type) -> None:
    x = np.arange(16).reshape(2, 2, 4).astype(dtype)
    lines = reduction("tt.reduce", "r", 1, {"xv": x}, function(operation, element_of(x)))
    assert result(lines, "r", x[:, 0], x=x).ravel().tolist() == want


def _reduce(seed: int) -> None:
    chosen = random.Random(seed)
    x = drawn_block(seed, chosen, *FLOATS, *FLOATS, *INTEGERS)
    axis, floats = chosen.randrange(x.ndim), x.dtype.kind != "i"
    operation = chosen.choice(list(OF_FLOATS if floats else OF_INTEGERS))
    if operation == "mulf":
        x = (1 + x.astype(np.float64) / 128).astype(x.dtype)
    like = np.zeros(without(x.shape, axis), x.dtype)
    lines = reduction("tt.reduce", "r", axis, {"xv": x}, function(operation, element_of(x)))
    got, what = result(lines, "r", like, x=x), (operation, x.dtype, x.shape, axis)
    if not floats:
        assert np.array_equal(got, OF_INTEGERS[operation].reduce(x, axis, dtype=x.dtype)), what
        return
    wide = x.astype(np.float64)
    want, off = OF_FLOATS[operation](wide, axis), 0.0
    if operation in ("addf", "mulf"):
        off = np.abs(wide).sum(axis).max() * FLOATS[x.dtype.type]
    assert np.abs(got.astype(np.float64) - want).max() <= off, what


@pytest.mark.parametrize("seed", range(16))
def test_reductions_of_any_axis(seed: int) -> None:
    _reduce(seed)


@pytest.mark.long
@pytest.mark.parametrize("part", range(20))
def test_many_reductions_of_any_axis(part: int) -> None:
    for seed in range(100 + 50 * part, 150 + 50 * part):
        _reduce(seed)


def _first_largest(seed: int) -> None:
    """The largest element and its first index: two blocks are reduced together."""
    chosen = random.Random(seed)
    x = drawn_block(seed, chosen, *FLOATS)
    axis, element = chosen.randrange(x.ndim), element_of(x)
    at = np.broadcast_to(np.arange(x.shape[axis]).reshape([-1] + [1] * (x.ndim - axis - 1)), x.shape)
    indices = np.ascontiguousarray(at.astype(np.int32))
    combine = (
        f"      %gt = arith.cmpf ogt, %p0, %q0 : {element}\n"
        f"      %eq = arith.cmpf oeq, %p0, %q0 : {element}\n"
        "      %lt = arith.cmpi slt, %p1, %q1 : i32\n      %first = arith.andi %eq, %lt : i1\n"
        f"      %take = arith.ori %gt, %first : i1\n      %v = arith.select %take, %p0, %q0 : {element}\n"
        "      %i = arith.select %take, %p1, %q1 : i32\n"
        f"      tt.reduce.return %v, %i : {element}, i32\n"
    )
    lines = reduction("tt.reduce", "r:2", axis, {"xv": x, "yv": indices}, combine)
    shape = without(x.shape, axis)
    outputs = {"largest": np.zeros(shape, x.dtype), "where": np.zeros(shape, np.int32)}
    got = results(lines, {"largest": "r#0", "where": "r#1"}, outputs, {"x": x, "y": indices})
    wide = x.astype(np.float64)
    assert np.array_equal(got["largest"].astype(np.float64), wide.max(axis)), (x.dtype, x.shape, axis)
    assert np.array_equal(got["where"], wide.argmax(axis)), (x.dtype, x.shape, axis)


@pytest.mark.parametrize("seed", range(4))
def test_reductions_of_two_blocks(seed: int) -> None:
    _first_largest(seed)


@pytest.mark.long
def test_many_reductions_of_two_blocks() -> None:
    for seed in range(100, 250):
        _first_largest(seed)


def _scan(seed: int) -> None:
    chosen = random.Random(seed)
    x = drawn_block(seed, chosen, np.float32, *INTEGERS)
    axis, floats = chosen.randrange(x.ndim), x.dtype.kind != "i"
    lines = reduction(
        "tt.scan", "r", axis, {"xv": x}, function("addf" if floats else "addi", element_of(x), "scan")
    )
    want = np.cumsum(x, axis, dtype=x.dtype)  # quarters up to 4: every sum is exact
    assert np.array_equal(result(lines, "r", x, x=x), want), (x.dtype, x.shape, axis)


@pytest.mark.parametrize("seed", range(6))
def test_running_sums_along_any_axis(seed: int) -> None:
    _scan(seed)


@pytest.mark.long
def test_many_running_sums_along_any_axis() -> None:
    for seed in range(100, 400):
        _scan(seed)


def _rearranged(seed: int) -> None:
    """Axes in another order, one of them repeated, two blocks joined, and one index of that repeated."""
    chosen = random.Random(seed)
    x = drawn_block(seed, chosen, *FLOATS, *INTEGERS)
    element, order = element_of(x), chosen.sample(range(x.ndim), x.ndim)
    turned = x.transpose(order)
    axis = chosen.randint(0, x.ndim)
    expanded = np.expand_dims(turned, axis)
    repeated = np.repeat(expanded, chosen.choice((1, 2, 4)), axis)
    joined = np.stack([repeated, repeated], -1)
    kinds = [kind(each.shape, element) for each in (x, turned, expanded, repeated, joined)]
    listed = ", ".join(map(str, order))
    lines = (
        f"    %t = tt.trans %xv {{order = array<i32: {listed}>}} : {kinds[0]} -> {kinds[1]}\n"
        f"    %e = tt.expand_dims %t {{axis = {axis} : i32}} : {kinds[1]} -> {kinds[2]}\n"
        f"    %b = tt.broadcast %e : {kinds[2]} -> {kinds[3]}\n"
        f"    %j = tt.join %b, %b : {kinds[3]} -> {kinds[4]}\n"
        f"    %s:2 = tt.split %j : {kinds[4]} -> {kinds[3]}\n"
    )
    outputs = {"joined": np.zeros_like(joined), "split": np.zeros_like(repeated)}
    got = results(lines, {"joined": "j", "split": "s#1"}, outputs, {"x": x})
    assert np.array_equal(got["joined"], joined), (x.dtype, x.shape, order, axis)
    assert np.array_equal(got["split"], repeated), (x.dtype, x.shape, order, axis)


@pytest.mark.parametrize("seed", range(8))
def test_axes_in_another_order_repeated_and_joined(seed: int) -> None:
    _rearranged(seed)


@pytest.mark.long
def test_many_axes_in_another_order_repeated_and_joined() -> None:
    for seed in range(100, 400):
        _rearranged(seed)


def _gathered(seed: int) -> None:
    """Elements at indices of an axis, one for each of its places."""
    chosen, numbers = random.Random(seed), np.random.default_rng(seed)
    x = drawn_block(seed, chosen, *FLOATS, *INTEGERS)
    axis = chosen.randrange(x.ndim)
    shape = tuple(chosen.choice((1, 2, 8)) if at == axis else extent for at, extent in enumerate(x.shape))
    index = numbers.integers(0, x.shape[axis], shape).astype(np.int32)
    element = element_of(x)
    lines = (
        f"    %r = tt.gather %xv[%iv] {{axis = {axis} : i32}} : "
        f"({kind(x.shape, element)}, {kind(shape, 'i32')}) -> {kind(shape, element)}\n"
    )
    got = result(lines, "r", np.zeros(shape, x.dtype), x=x, i=index)
    assert np.array_equal(got, np.take_along_axis(x, index, axis)), (x.dtype, x.shape, axis)


@pytest.mark.parametrize("seed", range(4))
def test_elements_at_indices_of_an_axis(seed: int) -> None:
    _gathered(seed)


@pytest.mark.long
def test_many_elements_at_indices_of_an_axis() -> None:
    for seed in range(100, 300):
        _gathered(seed)


@pytest.mark.parametrize(
    ("shape", "order"), [((256, 256), (1, 0)), ((2, 2, 8192), (2, 0, 1)), ((128, 64, 8), (0, 2, 1))], ids=str
)
@pytest.mark.parametrize("dtype", [np.float16, np.int64])
def test_transposes_of_many_elements_take_several_instructions(
    shape: tuple[int, ...], order: tuple[int, ...], dtype: type
) -> None:
    """One instruction would take longer than the chip's watchdog allows, which is a hazard."""
    x = (np.arange(math.prod(shape)) % 1021).astype(dtype).reshape(shape)
    element, want = element_of(x), x.transpose(order)
    listed = ", ".join(map(str, order))
    lines = (
        f"    %t = tt.trans %xv {{order = array<i32: {listed}>}} : "
        f"{kind(shape, element)} -> {kind(want.shape, element)}\n"
    )
    assert np.array_equal(result(lines, "t", want, x=x), want)


@pytest.mark.parametrize("order", [(3, 1, 0, 2), (1, 3, 2, 0)])
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.int8])
def test_arrays_with_axes_in_another_order_are_loaded_and_stored(order: tuple[int, ...], dtype: type) -> None:
    """Four axes whose steps do not fit three loops of a copy, so the core walks the first of them."""
    shape = (2, 4, 8, 16)
    x = np.random.default_rng(1).integers(-100, 100, shape).astype(dtype)
    steps = [math.prod(shape[axis + 1 :]) for axis in range(4)]
    turned, block = x.transpose(order), tuple(shape[axis] for axis in order)
    element = element_of(x)
    pointers = kind(block, f"!tt.ptr<{element}>")
    own = [steps[axis] for axis in order]
    text = strided("x", block, own, element) + f"    %v = tt.load %xat : {pointers}\n"
    text += strided("y", block, [math.prod(block[axis + 1 :]) for axis in range(4)], element)
    text += f"    tt.store %yat, %v : {pointers}\n"
    text += strided("z", block, own, element) + f"    tt.store %zat, %v : {pointers}"
    outputs = {"y": np.zeros(block, dtype), "z": np.zeros(shape, dtype)}
    got = outcome(text, {"x": x, **outputs})
    assert np.array_equal(got["y"], turned) and np.array_equal(got["z"], x)


def test_masks_do_not_make_a_copy_of_too_many_loops_possible() -> None:
    """A single index of the last axis is stored; without its mask, a copy would have four loops."""
    block, pointers = kind((8, 2, 16, 2), "i32"), kind((8, 2, 16, 2), "!tt.ptr<i32>")
    x = np.arange(512, dtype=np.int32).reshape(8, 2, 16, 2)
    one, line = kind((1, 1, 1, 2), "i32"), kind((2,), "i32")
    text = (
        f"{loaded('x', x)}{strided('out', x.shape, (64, 1, 4, 2), 'i32')}"
        f"    %r = tt.make_range {{end = 2 : i32, start = 0 : i32}} : {line}\n"
        f"    %e = tt.reshape %r : {line} -> {one}\n    %b = tt.broadcast %e : {one} -> {block}\n"
        f"    %n = arith.constant dense<1> : {block}\n    %in = arith.cmpi slt, %b, %n : {block}\n"
        f"    tt.store %outat, %xv, %in : {pointers}"
    )
    got = outcome(text, {"x": x, "out": np.zeros((8, 16, 2, 2), np.int32)})["out"]
    assert np.array_equal(got[:, :, 0], x[..., 0].transpose(0, 2, 1)) and not got[:, :, 1].any()
