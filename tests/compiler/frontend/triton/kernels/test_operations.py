"""Single operations in small kernels, against NumPy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from triton_launches import draw, launched, poison

RANGE = "    %at = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>\n"
TENSOR = "tensor<64x!tt.ptr<f32>>"


def _pointers(name: str) -> str:
    return (
        f"    %{name}0 = tt.splat %{name} : !tt.ptr<f32> -> {TENSOR}\n"
        f"    %{name}at = tt.addptr %{name}0, %at : {TENSOR}, tensor<64xi32>\n"
    )


LOADED = f"{RANGE}{_pointers('x')}{_pointers('out')}    %v = tt.load %xat : {TENSOR}\n"
STORED = f"    tt.store %outat, %r : {TENSOR}\n"
ARRAYS = ("x: !tt.ptr<f32>", "out: !tt.ptr<f32>")


def mapped(lines: str, x: np.ndarray, *parameters: str, **numbers: float) -> np.ndarray:
    """Run ``lines``, which compute ``%r`` of the 64 numbers ``%v``, and return the result."""
    out = poison("fp32", 64)
    return launched(f"{LOADED}{lines}{STORED}", (*ARRAYS, *parameters), x=x, out=out, **numbers)["out"]


@pytest.mark.parametrize(
    ("operation", "function"),
    [
        ("math.absf", np.abs),
        ("math.sqrt", np.sqrt),
        ("math.exp", np.exp),
        ("math.exp2", np.exp2),
        ("math.log", np.log),
        ("math.log2", np.log2),
        ("math.sin", np.sin),
        ("math.cos", np.cos),
        ("math.tanh", np.tanh),
        ("arith.negf", np.negative),
        ("math.rsqrt", lambda x: 1 / np.sqrt(x)),
    ],
)
def test_functions(operation: str, function: np.ufunc) -> None:
    x = np.abs(draw("fp32", 64)) + np.float32(0.1)
    got = mapped(f"    %r = {operation} %v : tensor<64xf32>\n", x)
    assert np.allclose(got, function(x.astype(np.float64)), rtol=1e-6, atol=1e-7)


@pytest.mark.long
@pytest.mark.parametrize(
    ("predicate", "holds"),
    [
        ("oeq", lambda a, b: a == b),
        ("une", lambda a, b: a != b),
        ("ogt", lambda a, b: a > b),
        ("ole", lambda a, b: a <= b),
        ("ult", lambda a, b: ~(a >= b)),
        ("uge", lambda a, b: ~(a < b)),
        ("uno", lambda a, b: np.isnan(a) | np.isnan(b)),
        ("ord", lambda a, b: ~(np.isnan(a) | np.isnan(b))),
    ],
)
def test_comparisons_know_what_is_no_number(predicate: str, holds: np.ufunc) -> None:
    x = draw("fp32", 64)
    x[:3] = np.nan, 0.5, np.inf
    lines = (
        "    %half = arith.constant dense<5.000000e-01> : tensor<64xf32>\n"
        "    %no = arith.constant dense<-1.000000e+00> : tensor<64xf32>\n"
        f"    %c = arith.cmpf {predicate}, %v, %half : tensor<64xf32>\n"
        "    %r = arith.select %c, %half, %no : tensor<64xi1>, tensor<64xf32>\n"
    )
    want = np.where(holds(x, np.float32(0.5)), np.float32(0.5), np.float32(-1))
    assert np.array_equal(mapped(lines, x), want)


@pytest.mark.parametrize(("operation", "function"), [("maximumf", np.maximum), ("minimumf", np.minimum)])
def test_maximum_and_minimum_can_propagate_nan(operation: str, function: np.ufunc) -> None:
    x = draw("fp32", 64)
    x[::5] = np.nan
    lines = (
        "    %zero = arith.constant dense<0.000000e+00> : tensor<64xf32>\n"
        f"    %r = arith.{operation} %v, %zero : tensor<64xf32>\n"
    )
    assert np.array_equal(mapped(lines, x), function(x, 0), equal_nan=True)


def test_numbers_that_differ_in_order() -> None:
    """A number on the left of an operation that is not commutative."""
    x = draw("fp32", 64)
    lines = (
        "    %one = arith.constant dense<1.000000e+00> : tensor<64xf32>\n"
        "    %a = arith.subf %one, %v : tensor<64xf32>\n"
        "    %r = arith.divf %one, %a : tensor<64xf32>\n"
    )
    one = np.float32(1)
    assert np.array_equal(mapped(lines, x), one / (one - x))


def test_a_choice_between_two_branches_at_run_time() -> None:
    """Programs 0 and 1 double, the others negate; each program has 64 numbers."""
    x, out = draw("fp32", 256), poison("fp32", 256)
    body = (
        "    %c64 = arith.constant 64 : i32\n    %c2 = arith.constant 2 : i32\n"
        "    %pid = tt.get_program_id y : i32\n    %first = arith.muli %pid, %c64 : i32\n"
        "    %xf = tt.addptr %x, %first : !tt.ptr<f32>, i32\n"
        "    %of = tt.addptr %out, %first : !tt.ptr<f32>, i32\n"
        f"{RANGE}"
        f"    %x0 = tt.splat %xf : !tt.ptr<f32> -> {TENSOR}\n"
        f"    %o0 = tt.splat %of : !tt.ptr<f32> -> {TENSOR}\n"
        f"    %xat = tt.addptr %x0, %at : {TENSOR}, tensor<64xi32>\n"
        f"    %oat = tt.addptr %o0, %at : {TENSOR}, tensor<64xi32>\n"
        f"    %v = tt.load %xat : {TENSOR}\n"
        "    %low = arith.cmpi slt, %pid, %c2 : i32\n"
        "    %r = scf.if %low -> (tensor<64xf32>) {\n"
        "      %d = arith.addf %v, %v : tensor<64xf32>\n      scf.yield %d : tensor<64xf32>\n"
        "    } else {\n"
        "      %n = arith.negf %v : tensor<64xf32>\n      scf.yield %n : tensor<64xf32>\n"
        "    }\n"
        f"    tt.store %oat, %r : {TENSOR}"
    )
    got = launched(body, ARRAYS, (1, 4, 1), x=x, out=out)["out"]
    assert np.array_equal(got, np.concatenate([2 * x[:128], -x[128:]]))


@pytest.mark.parametrize("turns", [0, 1, 5])
def test_carried_values_that_change_places(turns: int) -> None:
    """In each iteration the two blocks change places, and one grows; nothing is overwritten too early."""
    lines = (
        "    %c0 = arith.constant 0 : i32\n    %c1 = arith.constant 1 : i32\n"
        "    %ones = arith.constant dense<1.000000e+00> : tensor<64xf32>\n"
        "    %s:2 = scf.for %i = %c0 to %n step %c1 iter_args(%a = %v, %b = %ones) -> "
        "(tensor<64xf32>, tensor<64xf32>)  : i32 {\n"
        "      %g = arith.addf %a, %b : tensor<64xf32>\n"
        "      scf.yield %b, %g : tensor<64xf32>, tensor<64xf32>\n"
        "    }\n"
        "    %r = arith.subf %s#1, %s#0 : tensor<64xf32>\n"
    )
    x = np.arange(64, dtype=np.float32)
    a, b = x, np.ones(64, np.float32)
    for _ in range(turns):
        a, b = b, a + b
    assert np.array_equal(mapped(lines, x, "n: i32", n=turns), b - a)


def test_positions_as_numbers() -> None:
    """Positions that depend on the program, as floats and compared with floats."""
    x, out = draw("fp32", 64), poison("fp32", 64)
    lines = (
        "    %c3 = arith.constant dense<3> : tensor<64xi32>\n"
        "    %p = tt.get_program_id x : i32\n    %ps = tt.splat %p : i32 -> tensor<64xi32>\n"
        "    %a = arith.muli %at, %c3 : tensor<64xi32>\n    %b = arith.addi %a, %ps : tensor<64xi32>\n"
        "    %f = arith.sitofp %b : tensor<64xi32> to tensor<64xf32>\n"
        "    %r = arith.addf %v, %f : tensor<64xf32>\n"
    )
    got = launched(f"{LOADED}{lines}{STORED}", ARRAYS, (1, 1, 1), x=x, out=out)["out"]
    assert np.array_equal(got, x + 3 * np.arange(64, dtype=np.float32))


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["int8", "int16", "int32"])
def test_integers_are_moved_and_become_floats(dtype: str) -> None:
    element = {"int8": "i8", "int16": "i16", "int32": "i32"}[dtype]
    limits = np.iinfo(dtype)
    x = np.random.default_rng(1).integers(limits.min, limits.max, 64, dtype)
    tensor = f"tensor<64x!tt.ptr<{element}>>"
    body = (
        f"{RANGE}{_pointers('out')}"
        f"    %x0 = tt.splat %x : !tt.ptr<{element}> -> {tensor}\n"
        f"    %y0 = tt.splat %y : !tt.ptr<{element}> -> {tensor}\n"
        f"    %xat = tt.addptr %x0, %at : {tensor}, tensor<64xi32>\n"
        f"    %yat = tt.addptr %y0, %at : {tensor}, tensor<64xi32>\n"
        f"    %v = tt.load %xat : {tensor}\n"
        f"    tt.store %yat, %v : {tensor}\n"
        f"    %r = arith.sitofp %v : tensor<64x{element}> to tensor<64xf32>\n{STORED}"
    )
    parameters = (f"x: !tt.ptr<{element}>", f"y: !tt.ptr<{element}>", "out: !tt.ptr<f32>")
    got = launched(body, parameters, x=x, y=np.zeros(64, dtype), out=poison("fp32", 64))
    assert np.array_equal(got["y"], x)
    assert np.array_equal(got["out"], x.astype(np.float32))


@pytest.mark.parametrize("bits", ["0xFF800000", "0x7FC00000"])
def test_constants_by_their_bits(bits: str) -> None:
    lines = f"    %r = arith.constant dense<{bits}> : tensor<64xf32>\n"
    want = np.full(64, int(bits, 16), np.uint32).view(np.float32)
    assert np.array_equal(mapped(lines, draw("fp32", 64)), want, equal_nan=True)


def test_rounding_to_bf16_and_back() -> None:
    x = draw("fp32", 64)
    lines = (
        "    %b = arith.truncf %v : tensor<64xf32> to tensor<64xbf16>\n"
        "    %r = arith.extf %b : tensor<64xbf16> to tensor<64xf32>\n"
    )
    assert np.array_equal(mapped(lines, x), x.astype(ml_dtypes.bfloat16).astype(np.float32))


@pytest.mark.parametrize("precision", ["ieee", "tf32x3"])
def test_products_in_fp32_have_two_parts(precision: str) -> None:
    """The result is nearer to the exact one than one product of TF32 could be."""
    a, b = draw("fp32", 16, 16, seed=1), draw("fp32", 16, 16, seed=2)
    block, pointers = "tensor<16x16xi32>", "tensor<16x16x!tt.ptr<f32>>"
    places = (
        "    %i = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>\n"
        "    %c16 = arith.constant dense<16> : tensor<16x1xi32>\n"
        "    %r0 = tt.expand_dims %i {axis = 1 : i32} : tensor<16xi32> -> tensor<16x1xi32>\n"
        "    %c0 = tt.expand_dims %i {axis = 0 : i32} : tensor<16xi32> -> tensor<1x16xi32>\n"
        "    %rm = arith.muli %r0, %c16 : tensor<16x1xi32>\n"
        f"    %rb = tt.broadcast %rm : tensor<16x1xi32> -> {block}\n"
        f"    %cb = tt.broadcast %c0 : tensor<1x16xi32> -> {block}\n"
        f"    %at = arith.addi %rb, %cb : {block}\n"
    )
    for name in ("a", "b", "out"):
        places += f"    %{name}0 = tt.splat %{name} : !tt.ptr<f32> -> {pointers}\n"
        places += f"    %{name}1 = tt.addptr %{name}0, %at : {pointers}, {block}\n"
    body = (
        f"{places}    %x = tt.load %a1 : {pointers}\n    %y = tt.load %b1 : {pointers}\n"
        "    %z = arith.constant dense<2.500000e-01> : tensor<16x16xf32>\n"
        f"    %d = tt.dot %x, %y, %z, inputPrecision = {precision} : "
        "tensor<16x16xf32> * tensor<16x16xf32> -> tensor<16x16xf32>\n"
        f"    tt.store %out1, %d : {pointers}"
    )
    parameters = tuple(f"{name}: !tt.ptr<f32>" for name in ("a", "b", "out"))
    got = launched(body, parameters, a=a, b=b, out=poison("fp32", 16, 16))["out"]
    want = a.astype(np.float64) @ b.astype(np.float64) + 0.25
    assert np.abs(got - want).max() < 2.0**-18 * np.abs(want).max()
