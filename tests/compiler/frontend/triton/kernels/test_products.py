"""Products of bytes with sums in 32 bits, and products of three axes, against NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from compiler.frontend.triton.operations import TtirError
from triton_launches import Array, compiled
from triton_texts import element_of, kind, loaded, outcome, result, stored, strided

SIZES = [(1, 4, 4), (16, 32, 16), (4, 128, 8), (32, 256, 16), (16, 16, 128), (2, 512, 256)]
"""Rows, inner extents and columns: of fewer than 64, one plane and several, of operands and results."""


def _bytes(*shape: int, seed: int = 1) -> Array:
    """All bytes, including the smallest one."""
    return np.random.default_rng(seed).integers(-128, 128, shape).astype(np.int8)


def _numbers(*shape: int, seed: int = 1) -> Array:
    return np.random.default_rng(seed).integers(-(2**31), 2**31, shape).astype(np.int32)


def _dot(a: Array, b: Array, sums: np.dtype[Any], left: str, right: str, start: str) -> str:
    shape = (*a.shape[:-1], b.shape[-1])
    made = kind(shape, "i32" if sums.kind == "i" else "f32")
    one, other = kind(a.shape, element_of(a)), kind(b.shape, element_of(b))
    return f"    %r = tt.dot %{left}, %{right}, %{start}, inputPrecision = ieee : {one} * {other} -> {made}\n"


@pytest.mark.parametrize(("m", "k", "n"), SIZES, ids=str)
@pytest.mark.parametrize("start", ["zero", "five", "loaded"])
def test_products_of_bytes(m: int, k: int, n: int, start: str) -> None:
    a, b, c = _bytes(m, k), _bytes(k, n, seed=2), _numbers(m, n)
    number = {"zero": 0, "five": 5}.get(start)
    lines = f"    %s = arith.constant dense<{number}> : {kind((m, n), 'i32')}\n" if number is not None else ""
    lines += _dot(a, b, c.dtype, "av", "bv", "cv" if number is None else "s")
    inputs = {"a": a, "b": b} | ({"c": c} if number is None else {})
    want = a.astype(np.int32) @ b.astype(np.int32) + (c if number is None else np.int32(number))
    assert np.array_equal(result(lines, "r", c, **inputs), want)


@pytest.mark.parametrize("which", [(True, False), (False, True), (True, True)], ids=str)
@pytest.mark.parametrize(("m", "k", "n"), [(16, 32, 8), (256, 16, 256)], ids=str)
def test_matrices_of_bytes_that_are_transposed(which: tuple[bool, bool], m: int, k: int, n: int) -> None:
    a, b = _bytes(m, k), _bytes(k, n, seed=2)
    given = {"a": a.T.copy() if which[0] else a, "b": b.T.copy() if which[1] else b}
    lines, names = f"    %s = arith.constant dense<0> : {kind((m, n), 'i32')}\n", []
    for (name, each), whole, turns in zip(given.items(), (a, b), which, strict=True):
        if turns:
            kinds = f"{kind(each.shape, 'i8')} -> {kind(whole.shape, 'i8')}"
            lines += f"    %{name}t = tt.trans %{name}v {{order = array<i32: 1, 0>}} : {kinds}\n"
        names.append(f"{name}t" if turns else f"{name}v")
    like = np.zeros((m, n), np.int32)
    lines += _dot(a, b, like.dtype, *names, "s")
    assert np.array_equal(result(lines, "r", like, **given), a.astype(np.int32) @ b.astype(np.int32))


def test_bytes_that_are_computed() -> None:
    """The core computes an operand, and engines multiply the sums, which are in planes."""
    a, b = _bytes(8, 16), _bytes(16, 128, seed=2)
    sums, floats = kind((8, 128), "i32"), kind((8, 128), "f32")
    lines = (
        f"    %two = arith.constant dense<2> : {kind((8, 16), 'i8')}\n"
        f"    %h = arith.divsi %av, %two : {kind((8, 16), 'i8')}\n"
        f"    %s = arith.constant dense<0> : {sums}\n"
        f"    %d = tt.dot %h, %bv, %s, inputPrecision = ieee : "
        f"{kind((8, 16), 'i8')} * {kind((16, 128), 'i8')} -> {sums}\n"
        f"    %f = arith.sitofp %d : {sums} to {floats}\n"
        f"    %half = arith.constant dense<5.000000e-01> : {floats}\n"
        f"    %r = arith.mulf %f, %half : {floats}\n"
    )
    want = (np.trunc(a / 2).astype(np.int32) @ b.astype(np.int32)).astype(np.float32) / 2
    assert np.array_equal(result(lines, "r", want, a=a, b=b), want)


@pytest.mark.parametrize("columns", [16, 128])
def test_sums_of_bytes_that_a_loop_carries(columns: int) -> None:
    """Four iterations over 32 of the inner indices each: their operands are loaded an iteration ahead."""
    a, b = _bytes(16, 128), _bytes(128, columns, seed=2)
    sums, one, other = kind((16, columns), "i32"), kind((16, 32), "i8"), kind((32, columns), "i8")
    left, right = kind((16, 32), "!tt.ptr<i8>"), kind((32, columns), "!tt.ptr<i8>")
    text = (
        f"{strided('a', (16, 32), (128, 1), 'i8')}{strided('b', (32, columns), (columns, 1), 'i8')}"
        "    %c0 = arith.constant 0 : i32\n    %c1 = arith.constant 1 : i32\n"
        "    %c4 = arith.constant 4 : i32\n"
        f"    %z = arith.constant dense<0> : {sums}\n"
        f"    %c = arith.constant dense<32> : {kind((16, 32), 'i32')}\n"
        f"    %w = arith.constant dense<{32 * columns}> : {kind((32, columns), 'i32')}\n"
        f"    %l:3 = scf.for %i = %c0 to %c4 step %c1 iter_args(%s = %z, %p = %aat, %q = %bat) -> "
        f"({sums}, {left}, {right})  : i32 {{\n"
        f"      %x = tt.load %p : {left}\n      %y = tt.load %q : {right}\n"
        f"      %d = tt.dot %x, %y, %s, inputPrecision = ieee : {one} * {other} -> {sums}\n"
        f"      %pn = tt.addptr %p, %c : {left}, {kind((16, 32), 'i32')}\n"
        f"      %qn = tt.addptr %q, %w : {right}, {kind((32, columns), 'i32')}\n"
        f"      scf.yield %d, %pn, %qn : {sums}, {left}, {right}\n    }}\n"
    )
    out = np.zeros((16, columns), np.int32)
    got = outcome(text + stored("out", "l#0", out), {"a": a, "b": b, "out": out})["out"]
    assert np.array_equal(got, a.astype(np.int32) @ b.astype(np.int32))


@pytest.mark.parametrize("shape", [(2, 4, 4, 4), (4, 1, 4, 8), (2, 8, 16, 4), (2, 8, 32, 128)], ids=str)
@pytest.mark.parametrize("dtype", [np.int8, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("added", [False, True])
def test_products_of_three_axes_that_end_within_a_line(
    shape: tuple[int, ...], dtype: type, added: bool
) -> None:
    """The engine writes whole lines, so a product must not write into the lines after it."""
    count, m, k, n = shape
    if dtype is np.int8:
        a, b, c = _bytes(count, m, k), _bytes(count, k, n, seed=2), _numbers(count, m, n)
        zero, wide = "0", c.dtype
    else:
        numbers = np.random.default_rng(1)
        a, b = (numbers.integers(-8, 9, (count, *each)).astype(dtype) for each in ((m, k), (k, n)))
        c = numbers.integers(-8, 9, (count, m, n)).astype(np.float32)
        zero, wide = "0.000000e+00", c.dtype
    lines = f"    %s = arith.constant dense<{zero}> : {kind(c.shape, element_of(c))}\n" if not added else ""
    lines += _dot(a, b, wide, "av", "bv", "cv" if added else "s")
    inputs = {"a": a, "b": b} | ({"c": c} if added else {})
    want = a.astype(wide) @ b.astype(wide) + (c if added else 0)
    assert np.array_equal(result(lines, "r", c, **inputs), want)


@pytest.mark.parametrize(
    ("left", "right", "sums", "message"),
    [
        ("i16", "i16", "i32", "a product of i16 and i16 with sums in i32"),
        ("i8", "i16", "i32", "a product of i8 and i16 with sums in i32"),
        ("i8", "i8", "f32", "a product of i8 and i8 with sums in f32"),
        ("f16", "bf16", "f32", "a product of f16 and bf16 with sums in f32"),
    ],
)
def test_products_that_are_refused(left: str, right: str, sums: str, message: str) -> None:
    types = {"i8": np.int8, "i16": np.int16, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
    a, b = np.zeros((8, 8), types[left]), np.zeros((8, 8), types[right])
    text = loaded("a", a) + loaded("b", b)
    text += f"    %s = arith.constant dense<{'0' if sums == 'i32' else '0.0'}> : {kind((8, 8), sums)}\n"
    text += (
        f"    %r = tt.dot %av, %bv, %s, inputPrecision = tf32 : "
        f"{kind((8, 8), left)} * {kind((8, 8), right)} -> {kind((8, 8), sums)}\n"
    )
    parameters = [f"a: !tt.ptr<{left}>", f"b: !tt.ptr<{right}>"]
    with pytest.raises(TtirError) as error:
        compiled(text, parameters, a=a, b=b)
    allowed = "two of f16, bf16, f32, and of i8 with sums in i32"
    assert str(error.value).endswith(f": tt.dot: {message}; supported are {allowed}")


def test_narrow_matrices_are_refused() -> None:
    a, b = np.zeros((8, 2), np.int8), np.zeros((2, 8), np.int8)
    text = f"{loaded('a', a)}{loaded('b', b)}    %s = arith.constant dense<0> : {kind((8, 8), 'i32')}\n"
    text += _dot(a, b, np.dtype(np.int32), "av", "bv", "s")
    with pytest.raises(TtirError) as error:
        compiled(text, ["a: !tt.ptr<i8>", "b: !tt.ptr<i8>"], a=a, b=b)
    assert str(error.value).endswith(": tt.dot: a matrix of 2 columns; the matrix engine takes at least 4")
