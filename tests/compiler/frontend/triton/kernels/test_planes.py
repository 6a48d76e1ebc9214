"""Results of products in planes of 64 columns: operations on planes, and operations that unpack them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from triton_launches import Array, draw, launched, poison

M, K, N = 32, 16, 128


def _matrix(name: str, rows: int, columns: int, kind: str) -> str:
    """Pointers %NAMEat to a whole matrix that is an argument."""
    place, pointers = f"tensor<{rows}x{columns}xi32>", f"tensor<{rows}x{columns}x!tt.ptr<{kind}>>"
    return (
        f"    %{name}r = tt.make_range {{end = {rows} : i32, start = 0 : i32}} : tensor<{rows}xi32>\n"
        f"    %{name}c = tt.make_range {{end = {columns} : i32, start = 0 : i32}} : tensor<{columns}xi32>\n"
        f"    %{name}rr = tt.expand_dims %{name}r {{axis = 1 : i32}} : "
        f"tensor<{rows}xi32> -> tensor<{rows}x1xi32>\n"
        f"    %{name}cc = tt.expand_dims %{name}c {{axis = 0 : i32}} : "
        f"tensor<{columns}xi32> -> tensor<1x{columns}xi32>\n"
        f"    %{name}s = arith.constant dense<{columns}> : tensor<{rows}x1xi32>\n"
        f"    %{name}m = arith.muli %{name}rr, %{name}s : tensor<{rows}x1xi32>\n"
        f"    %{name}rb = tt.broadcast %{name}m : tensor<{rows}x1xi32> -> {place}\n"
        f"    %{name}cb = tt.broadcast %{name}cc : tensor<1x{columns}xi32> -> {place}\n"
        f"    %{name}a = arith.addi %{name}rb, %{name}cb : {place}\n"
        f"    %{name}p = tt.splat %{name} : !tt.ptr<{kind}> -> {pointers}\n"
        f"    %{name}at = tt.addptr %{name}p, %{name}a : {pointers}, {place}\n"
    )


def _vector(name: str, length: int, axis: int) -> str:
    """A loaded vector as %NAMEv, repeated along an axis of the product."""
    pointers = f"tensor<{length}x!tt.ptr<f32>>"
    one = f"tensor<{length}x1xf32>" if axis else f"tensor<1x{length}xf32>"
    return (
        f"    %{name}i = tt.make_range {{end = {length} : i32, start = 0 : i32}} : tensor<{length}xi32>\n"
        f"    %{name}p = tt.splat %{name} : !tt.ptr<f32> -> {pointers}\n"
        f"    %{name}at = tt.addptr %{name}p, %{name}i : {pointers}, tensor<{length}xi32>\n"
        f"    %{name}l = tt.load %{name}at : {pointers}\n"
        f"    %{name}e = tt.expand_dims %{name}l {{axis = {axis} : i32}} : tensor<{length}xf32> -> {one}\n"
        f"    %{name}v = tt.broadcast %{name}e : {one} -> tensor<{M}x{N}xf32>\n"
    )


PRODUCT = (
    f"{_matrix('a', M, K, 'f16')}{_matrix('b', K, N, 'f16')}"
    f"    %x = tt.load %aat : tensor<{M}x{K}x!tt.ptr<f16>>\n"
    f"    %y = tt.load %bat : tensor<{K}x{N}x!tt.ptr<f16>>\n"
    f"    %z = arith.constant dense<0.000000e+00> : tensor<{M}x{N}xf32>\n"
    f"    %d = tt.dot %x, %y, %z, inputPrecision = tf32 : "
    f"tensor<{M}x{K}xf16> * tensor<{K}x{N}xf16> -> tensor<{M}x{N}xf32>\n"
    f"{_vector('row', N, 0)}{_vector('column', M, 1)}"
)
BLOCK = f"tensor<{M}x{N}xf32>"


def _run(lines: str, shape: tuple[int, ...], n: int = 0) -> tuple[Array, Array, Array, Array]:
    """The result %w of a shape, stored to out; NumPy computes the product, the row and the column."""
    rows, columns = (1, *shape)[-2:]
    kind = f"tensor<{'x'.join(map(str, shape))}xf32>"
    block = f"tensor<{rows}x{columns}xf32>"
    body = PRODUCT + lines + _matrix("out", rows, columns, "f32")
    if len(shape) == 1:
        body += f"    %we = tt.expand_dims %w {{axis = 0 : i32}} : {kind} -> {block}\n"
    result = "%we" if len(shape) == 1 else "%w"
    body += f"    tt.store %outat, {result} : tensor<{rows}x{columns}x!tt.ptr<f32>>"
    a, b = draw("fp16", M, K, seed=1), draw("fp16", K, N, seed=2)
    row, column = draw("fp32", N, seed=3), draw("fp32", M, seed=4)
    parameters = ("a: !tt.ptr<f16>", "b: !tt.ptr<f16>", "row: !tt.ptr<f32>", "column: !tt.ptr<f32>")
    got = launched(
        body, (*parameters, "out: !tt.ptr<f32>", "many: !tt.ptr<i32>", "n: i32"),
        a=a, b=b, row=row, column=column, out=poison("fp32", *shape), many=np.array([n], np.int32), n=n,
    )["out"]  # fmt: skip
    return got, a.astype(np.float64) @ b.astype(np.float64), row, column


def _close(got: Array, want: Array) -> bool:
    return bool(np.abs(got - want).max() <= 2.0**-18 * np.abs(want).max())


@pytest.mark.parametrize("operation", ["addf", "subf", "mulf", "maxnumf"])
@pytest.mark.parametrize("exchanged", [False, True])
def test_rows_and_columns(operation: str, exchanged: bool) -> None:
    function = {"addf": np.add, "subf": np.subtract, "mulf": np.multiply, "maxnumf": np.maximum}[operation]
    for vector in ("rowv", "columnv"):
        operands = ("%d", f"%{vector}")[:: -1 if exchanged else 1]
        got, d, row, column = _run(f"    %w = arith.{operation} {', '.join(operands)} : {BLOCK}\n", (M, N))
        other = row[None, :] if vector == "rowv" else column[:, None]
        assert _close(got, function(other, d) if exchanged else function(d, other))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(
    ("operation", "function"), [("addf", np.sum), ("maxnumf", np.max), ("minnumf", np.min)]
)
def test_reductions(axis: int, operation: str, function: object) -> None:
    shape = ((M, N)[1 - axis],)
    result = f"tensor<{shape[0]}xf32>"
    lines = (
        f'    %w = "tt.reduce"(%d) <{{axis = {axis} : i32}}> ({{\n    ^bb0(%p: f32, %q: f32):\n'
        f"      %m = arith.{operation} %p, %q : f32\n      tt.reduce.return %m : f32\n"
        f"    }}) : ({BLOCK}) -> {result}\n"
    )
    got, d, _, _ = _run(lines, shape)
    assert callable(function)
    assert _close(got, function(d, axis=axis))


@pytest.mark.parametrize(("axis", "n"), [(0, 20), (0, M), (0, 0), (1, 50), (1, 64), (1, 100), (1, N), (1, 0)])
@pytest.mark.parametrize("loaded", [False, True])
def test_what_is_outside_is_replaced(axis: int, n: int, loaded: bool) -> None:
    """Rows, or columns of several planes, up to a number that is an argument or was loaded."""
    name, one = ("ar", f"tensor<{M}x1") if axis == 0 else ("bc", f"tensor<1x{N}")
    places = f"{one}xi32>"
    lines = "    %m0 = tt.load %many : !tt.ptr<i32>\n" if loaded else ""
    lines += (
        f"    %limit = tt.splat {'%m0' if loaded else '%n'} : i32 -> {places}\n"
        f"    %in = arith.cmpi slt, %{name}{name[-1]}, %limit : {places}\n"
        f"    %inside = tt.broadcast %in : {one}xi1> -> tensor<{M}x{N}xi1>\n"
        f"    %low = arith.constant dense<-7.500000e+00> : {BLOCK}\n"
        f"    %w = arith.select %inside, %d, %low : tensor<{M}x{N}xi1>, {BLOCK}\n"
    )
    got, d, _, _ = _run(lines, (M, N), n)
    inside = np.arange((M, N)[axis]) < n
    assert _close(got, np.where(inside[:, None] if axis == 0 else inside[None, :], d, -7.5))


def test_a_choice_by_data() -> None:
    lines = (
        f"    %c = arith.cmpf ogt, %d, %columnv : {BLOCK}\n"
        f"    %w = arith.select %c, %rowv, %d : tensor<{M}x{N}xi1>, {BLOCK}\n"
    )
    got, d, row, column = _run(lines, (M, N))
    assert _close(got, np.where(d > column[:, None], row[None, :], d))


def test_transposes_and_other_shapes() -> None:
    got, d, _, _ = _run(
        f"    %w = tt.trans %d {{order = array<i32: 1, 0>}} : {BLOCK} -> tensor<{N}x{M}xf32>\n", (N, M)
    )
    assert _close(got, d.T)
    lines = (
        f"    %e = tt.expand_dims %d {{axis = 2 : i32}} : {BLOCK} -> tensor<{M}x{N}x1xf32>\n"
        f"    %w = tt.reshape %e : tensor<{M}x{N}x1xf32> -> tensor<{M * 2}x{N // 2}xf32>\n"
    )
    got, d, _, _ = _run(lines, (M * 2, N // 2))
    assert _close(got, d.reshape(M * 2, N // 2))


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_sums_of_short_numbers_along_the_first_axis(kind: str) -> None:
    """The matrix engine adds them in FP32, and infinities remain infinities."""
    fmt = {"f16": "fp16", "bf16": "bf16"}[kind]
    x = draw(fmt, 128, 128, seed=6)
    x[5, 7], x[9, 11] = np.inf, np.nan
    block = f"tensor<128x128x{kind}>"
    body = (
        f"{_matrix('x', 128, 128, kind)}    %v = tt.load %xat : tensor<128x128x!tt.ptr<{kind}>>\n"
        '    %w = "tt.reduce"(%v) <{axis = 0 : i32}> ({\n'
        f"    ^bb0(%p: {kind}, %q: {kind}):\n      %m = arith.addf %p, %q : {kind}\n"
        f"      tt.reduce.return %m : {kind}\n    }}) : ({block}) -> tensor<128x{kind}>\n"
        f"    %i = tt.make_range {{end = 128 : i32, start = 0 : i32}} : tensor<128xi32>\n"
        f"    %op = tt.splat %out : !tt.ptr<{kind}> -> tensor<128x!tt.ptr<{kind}>>\n"
        f"    %oat = tt.addptr %op, %i : tensor<128x!tt.ptr<{kind}>>, tensor<128xi32>\n"
        f"    tt.store %oat, %w : tensor<128x!tt.ptr<{kind}>>"
    )
    parameters = (f"x: !tt.ptr<{kind}>", f"out: !tt.ptr<{kind}>")
    got = launched(body, parameters, x=x, out=poison(fmt, 128))["out"].astype(np.float64)
    want = x.astype(np.float64).sum(0)
    assert np.isinf(got[7]) and np.isnan(got[11])
    finite = np.isfinite(want)
    off = np.abs(got[finite] - want[finite]).max()
    assert off <= np.abs(want[finite]).max() * (2.0**-11 if fmt == "fp16" else 2.0**-8)


@pytest.mark.parametrize("columns", [32, 128])
@pytest.mark.parametrize("kind", ["f16", "f32"])
def test_products_of_three_axes(columns: int, kind: str) -> None:
    """A product for each of four indices, added to the present values."""
    fmt = {"f16": "fp16", "f32": "fp32"}[kind]
    a, b = draw(fmt, 4, 16, 32, seed=1), draw(fmt, 4, 32, columns, seed=2)
    c = draw("fp32", 4, 16, columns, seed=3)

    def loaded(name: str, rows: int, width: int, element: str) -> str:
        """The array as a block of three axes; it is loaded as a matrix."""
        pointers = f"tensor<{4 * rows}x{width}x!tt.ptr<{element}>>"
        return (
            f"{_matrix(name, 4 * rows, width, element)}    %{name}l = tt.load %{name}at : {pointers}\n"
            f"    %{name}3 = tt.reshape %{name}l : tensor<{4 * rows}x{width}x{element}> -> "
            f"tensor<4x{rows}x{width}x{element}>\n"
        )

    block = f"tensor<4x16x{columns}xf32>"
    body = (
        f"{loaded('a', 16, 32, kind)}{loaded('b', 32, columns, kind)}{loaded('c', 16, columns, 'f32')}"
        f"    %d = tt.dot %a3, %b3, %c3, inputPrecision = ieee : "
        f"tensor<4x16x32x{kind}> * tensor<4x32x{columns}x{kind}> -> {block}\n"
        f"    %w = tt.reshape %d : {block} -> tensor<64x{columns}xf32>\n"
        f"{_matrix('out', 64, columns, 'f32')}    tt.store %outat, %w : tensor<64x{columns}x!tt.ptr<f32>>"
    )
    parameters = (f"a: !tt.ptr<{kind}>", f"b: !tt.ptr<{kind}>", "c: !tt.ptr<f32>", "out: !tt.ptr<f32>")
    got = launched(body, parameters, a=a, b=b, c=c, out=poison("fp32", 4, 16, columns))["out"]
    assert _close(got, a.astype(np.float64) @ b.astype(np.float64) + c)


@pytest.mark.parametrize("order", [*itertools.permutations(range(3)), (0, 2, 1, 3), (3, 1, 0, 2)])
@pytest.mark.parametrize("kind", ["f32", "i64"])
def test_axes_in_any_order(order: tuple[int, ...], kind: str) -> None:
    shape = (4, 8, 16) if len(order) == 3 else (4, 2, 4, 16)
    dtype = {"f32": np.float32, "i64": np.int64}[kind]
    x = np.arange(512, dtype=dtype).reshape(shape)
    want = x.transpose(order)
    one, other = ("x".join(map(str, each.shape)) for each in (x, want))
    body = (
        f"{_matrix('x', 8, 64, kind)}    %l = tt.load %xat : tensor<8x64x!tt.ptr<{kind}>>\n"
        f"    %v = tt.reshape %l : tensor<8x64x{kind}> -> tensor<{one}x{kind}>\n"
        f"    %t = tt.trans %v {{order = array<i32: {', '.join(map(str, order))}>}} : "
        f"tensor<{one}x{kind}> -> tensor<{other}x{kind}>\n"
        f"    %w = tt.reshape %t : tensor<{other}x{kind}> -> tensor<8x64x{kind}>\n"
        f"{_matrix('out', 8, 64, kind)}    tt.store %outat, %w : tensor<8x64x!tt.ptr<{kind}>>"
    )
    parameters = (f"x: !tt.ptr<{kind}>", f"out: !tt.ptr<{kind}>")
    got = launched(body, parameters, x=x, out=np.zeros_like(x))["out"]
    assert np.array_equal(got.reshape(want.shape), want)
