"""Operators of com.microsoft on bytes, on the emulated chip against onnxruntime.

onnxruntime multiplies by a quotient of scales where the operator's definition divides twice, and takes some
functions from tables. Such results may be off by one step. Weights have seven bits: without instructions for
products of bytes it saturates sums of two products at 16 bits.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from compiler.driver import Program
from compiler.graph import Array
from microsoft_cases import RNG, MicrosoftCall, assert_bytes, assert_close, floats, some_bytes

F32 = np.float32
TYPES = ("uint8", "int8")


def point(dtype: str) -> Array:
    return np.asarray(RNG.integers(-20, 20) + (128 if dtype == "uint8" else 0), dtype)


def quantised(dtype: str, *shape: int, zero: bool = True) -> list[Array | None]:
    """An operand, its scale and its zero point."""
    return [some_bytes(dtype, *shape), F32(RNG.uniform(0.01, 0.05)), point(dtype) if zero else None]


def result(dtype: str, scale: float, zero: bool = True) -> list[Array | None]:
    return [F32(scale), point(dtype) if zero else None]


def call(op: str, operands: list[Array | None], dtype: str, **attrs: object) -> MicrosoftCall:
    """Scales and zero points are constants: all operands of one element are."""
    named = {f"i{at}": array for at, array in enumerate(operands)}
    known = [name for name, array in named.items() if array is not None and array.ndim == 0]
    return MicrosoftCall(op, named, attrs, {"y": np.dtype(dtype)}, known)


def on_core(program: Program) -> list[str]:
    assert program.report is not None
    return [phase.name for phase in program.report.phases if phase.kernel_core]


# --- element by element ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("op", "scale"), [("QLinearAdd", 0.06), ("QLinearMul", 0.08)])
def test_sums_and_products(op: str, scale: float, dtype: str, tmp_path: Path) -> None:
    operands = [*quantised(dtype, 2, 5, 9), *quantised(dtype, 5, 1), *result(dtype, scale)]
    assert on_core(assert_bytes(call(op, operands, dtype), tmp_path, 1)) == []


@pytest.mark.parametrize("dtype", TYPES)
def test_zero_points_that_are_omitted_are_0(dtype: str, tmp_path: Path) -> None:
    """onnxruntime's own inference of types stumbles over an omitted one, so it is given zeros."""
    operands = [*quantised(dtype, 5, 9, zero=False), *quantised(dtype, 9), F32(0.06), None]
    found = call("QLinearAdd", operands, dtype).on_chip(tmp_path)[1]["y"]
    zeros = [np.zeros((), dtype) if item is None else item for item in operands]
    wanted = call("QLinearAdd", zeros, dtype).by_onnxruntime()["y"]
    assert np.abs(found.astype(int) - wanted.astype(int)).max() <= 1


def test_a_sum_with_a_known_operand(tmp_path: Path) -> None:
    made = call(
        "QLinearAdd", [*quantised("int8", 4, 9), *quantised("int8", 9), *result("int8", 0.06)], "int8"
    )
    made.known = [*made.known, "i3"]
    assert_bytes(made, tmp_path, 1)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    ("op", "scale", "attrs"),
    [
        ("QLinearSigmoid", 1 / 256, {}),
        ("QLinearLeakyRelu", 0.03, {"alpha": 0.2}),
        ("QLinearLeakyRelu", 0.03, {}),
        ("QLinearSoftmax", 1 / 256, {"opset": 13, "axis": 1}),
        ("QLinearSoftmax", 1 / 256, {"opset": 13}),
        ("QLinearSoftmax", 1 / 256, {"opset": 11, "axis": 1}),
    ],
)
def test_functions(op: str, scale: float, attrs: dict[str, object], dtype: str, tmp_path: Path) -> None:
    operands = [*quantised(dtype, 3, 7, 4), *result(dtype, scale)]
    if op != "QLinearLeakyRelu":
        operands[-1] = np.asarray(np.iinfo(dtype).min, dtype)
    assert_bytes(call(op, operands, dtype, **attrs), tmp_path, 1)


@pytest.mark.parametrize("dtype", TYPES)
def test_a_choice(dtype: str, tmp_path: Path) -> None:
    seen = RNG.random((3, 8)) < 0.5
    operands = [seen, *quantised(dtype, 3, 8), *quantised(dtype, 8), *result(dtype, 0.04)]
    assert_bytes(call("QLinearWhere", operands, dtype), tmp_path, 1)


# --- pools and means -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize(
    "attrs",
    [
        {"kernel_shape": [3, 2], "strides": [2, 1]},
        {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1},
        {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2], "ceil_mode": 1},
    ],
)
def test_average_pools(attrs: dict[str, object], last: int, dtype: str, tmp_path: Path) -> None:
    shape = (1, 8, 9, 6) if last else (1, 6, 8, 9)
    operands = [*quantised(dtype, *shape), *result(dtype, 0.02)]
    assert_bytes(call("QLinearAveragePool", operands, dtype, channels_last=last, **attrs), tmp_path, 1)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("last", [0, 1])
def test_global_average_pools(last: int, dtype: str, tmp_path: Path) -> None:
    operands = [*quantised(dtype, 2, 7, 9, 70), *result(dtype, 0.004)]
    made = call("QLinearGlobalAveragePool", operands, dtype, channels_last=last)
    assert on_core(assert_bytes(made, tmp_path, 1)) == []


@pytest.mark.parametrize("axes", [[2], [-1, 0]])
def test_means(axes: list[int], tmp_path: Path) -> None:
    """onnxruntime has no kernel for it, so the oracle is NumPy, in binary64."""
    x, scale, zero = quantised("uint8", 3, 6, 5)
    y_scale, y_zero = result("uint8", 0.01)
    made = call("QLinearReduceMean", [x, scale, zero, y_scale, y_zero], "uint8", axes=axes, keepdims=0)
    assert x is not None and scale is not None and zero is not None
    assert y_scale is not None and y_zero is not None
    mean = ((x.astype(float) - float(zero)) * float(scale)).mean(axis=tuple(axes))
    wanted = np.clip(np.rint(mean / float(y_scale)) + float(y_zero), 0, 255)
    assert np.abs(made.on_chip(tmp_path)[1]["y"] - wanted).max() <= 1


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("axis", [1, -1])
def test_joined_parts(axis: int, dtype: str, tmp_path: Path) -> None:
    shapes = [(2, 3, 4), (2, 5, 4)] if axis == 1 else [(2, 3, 4), (2, 3, 1)]
    parts = [item for shape in shapes for item in quantised(dtype, *shape)]
    made = call("QLinearConcat", [*result(dtype, 0.04), *parts], dtype, axis=axis)
    assert_bytes(made, tmp_path, 1)


# --- products --------------------------------------------------------------------------------------------


def weights(dtype: str, inner: int, columns: int, per_column: bool, turned: bool = False) -> list[Array]:
    """A matrix of seven bits, its scales and its zero points."""
    count = (columns,) if per_column else ()
    scale = RNG.uniform(0.005, 0.01, count).astype(np.float32)
    middle = 128 if dtype == "uint8" else 0
    zero = np.full(count, middle + 3, dtype)
    matrix = some_bytes(dtype, inner, columns, bits=7)
    return [np.ascontiguousarray(matrix.T) if turned else matrix, scale, zero]


def product(op: str, operands: list[Array | None], dtype: str, known: str, **attrs: object) -> MicrosoftCall:
    """``known``: the numbers of the operands that are constants."""
    named = {f"i{at}": array for at, array in enumerate(operands)}
    return MicrosoftCall(
        op,
        named,
        attrs,
        {"y": np.dtype(dtype)},
        [n for n in named if n[1:] in known and named[n] is not None],
    )


@pytest.mark.parametrize("per_column", [True, False])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("turned", [0, 1])
@pytest.mark.parametrize("bias", [True, False])
def test_quantised_gemm(bias: bool, turned: int, dtype: str, per_column: bool, tmp_path: Path) -> None:
    b = weights("int8", 70, 33, per_column, bool(turned))
    c = RNG.integers(-3000, 3000, 33).astype(np.int32) if bias else None
    operands = [*quantised(dtype, 6, 70), *b, c, *result(dtype, 0.03)]
    made = product("QGemm", operands, dtype, "12345678", transB=turned)
    program = assert_bytes(made, tmp_path)
    assert on_core(program) == []
    assert "int8" in program.text


def test_scales_of_inputs_keep_their_digits(tmp_path: Path) -> None:
    """-11057 x 0.5 x 0.02 x 0.005018302 / 0.03 is -18.496, and -18.502 with a scale in FP16."""
    a, b = np.full((1, 2), 130, np.uint8), np.zeros((2, 1), np.uint8)
    operands = [a, F32(0.02), np.uint8(130), b, F32(0.005018302), np.uint8(0), np.array([-11057], np.int32)]
    made = product("QGemm", [*operands, F32(0.03), np.uint8(111)], "uint8", "", alpha=0.5)
    assert_bytes(made, tmp_path)


@pytest.mark.parametrize("alpha", [1.0, 0.5])
@pytest.mark.parametrize("known", ["12345678", "1245", ""])
@pytest.mark.parametrize("floating", [True, False])
def test_quantised_gemm_with_anything_computed(
    floating: bool, known: str, alpha: float, tmp_path: Path
) -> None:
    """C may have one number for each element; the sums are whole numbers in any implementation."""
    a = some_bytes("uint8", 21, 6, bits=7)
    c = RNG.integers(-3000, 3000, (6, 9) if known == "1245" else (9,)).astype(np.int32)
    operands = [a, F32(0.02), np.uint8(130), *weights("uint8", 21, 9, True), c]
    operands += [] if floating else result("uint8", 0.03)
    made = product("QGemm", operands, "float32" if floating else "uint8", known, transA=1, alpha=alpha)
    if floating:
        assert_close(made, tmp_path)
    else:
        assert_bytes(made, tmp_path)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("zero", [True, False])
@pytest.mark.parametrize("per_column", [True, False])
def test_product_that_quantises_its_operand(per_column: bool, zero: bool, bias: bool, tmp_path: Path) -> None:
    b, scale, point_ = weights("int8", 40, 24, per_column)
    operands = [floats(2, 5, 40), b, scale, point_ if zero else None, floats(24) if bias else None]
    assert_close(product("DynamicQuantizeMatMul", operands, "float32", "1234"), tmp_path)


@pytest.mark.parametrize("known", ["12345", "135", "1", ""])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", TYPES)
def test_product_of_bytes_as_floats(dtype: str, bias: bool, known: str, tmp_path: Path) -> None:
    b, scale, point_ = weights("int8", 40, 24, known != "1")
    operands = [some_bytes(dtype, 2, 5, 40), b, F32(0.02), scale, point(dtype), point_]
    operands.append(floats(24) if bias else None)
    program = assert_close(product("MatMulIntegerToFloat", operands, "float32", known), tmp_path)
    assert ("ne.gemm.int8" in program.text) == (known in ("12345", "135"))


# --- weights of few bits ---------------------------------------------------------------------------------


def few_bits(rows: int, inner: int, bits: int, size: int, zero: str = "") -> list[Array | None]:
    """Any packed weights, scales and zero points, which are omitted, packed or floats."""
    blocks = -(-inner // size)
    packed = RNG.integers(0, 256, (rows, blocks, size * bits // 8)).astype(np.uint8)
    scales = RNG.uniform(0.01, 0.1, (rows, blocks)).astype(np.float32)
    points: Array | None = None
    if zero == "packed":
        points = RNG.integers(0, 256, (rows, -(-blocks * bits // 8))).astype(np.uint8)
    elif zero:
        points = RNG.integers(0, 1 << bits, (rows, blocks)).astype(np.float32)
        points = points + np.float32(0.25) if zero == "fractions" else points
    return [packed, scales, points]


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("zero", ["", "packed"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("inner", [64, 80])
def test_weights_of_few_bits(inner: int, bias: bool, zero: str, bits: int, tmp_path: Path) -> None:
    operands = [floats(2, 3, inner), *few_bits(20, inner, bits, 32, zero), None, floats(20) if bias else None]
    made = product("MatMulNBits", operands, "float32", "1235", K=inner, N=20, bits=bits, block_size=32)
    assert_close(made, tmp_path)


@pytest.mark.parametrize("zero", ["floats", "fractions"])
def test_zero_points_that_are_floats(zero: str, tmp_path: Path) -> None:
    operands = [floats(3, 64), *few_bits(20, 64, 4, 16, zero)]
    made = product("MatMulNBits", operands, "float32", "123", K=64, N=20, bits=4, block_size=16)
    assert_close(made, tmp_path)
