"""Operations that Triton does in FP32 and the chip in 16 bits."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.frontend.triton.kernels.narrowing import narrowed
from compiler.frontend.triton.operations import Block
from compiler.frontend.triton.reader import parse_kernels
from triton_launches import compiled, draw, launched, poison


def _vectors(kind: str, lines: str, result: str = "") -> str:
    """A kernel that loads 256 numbers as %v and stores %w; ``result`` is the type of the results."""
    result = result or kind
    block, pointers = f"tensor<256x{kind}>", f"tensor<256x!tt.ptr<{kind}>>"
    return (
        "    %at = tt.make_range {end = 256 : i32, start = 0 : i32} : tensor<256xi32>\n"
        f"    %x0 = tt.splat %x : !tt.ptr<{kind}> -> {pointers}\n"
        f"    %xat = tt.addptr %x0, %at : {pointers}, tensor<256xi32>\n    %v = tt.load %xat : {pointers}\n"
        f"{lines.replace('SHORT', block).replace('WIDE', 'tensor<256xf32>')}"
        f"    %o0 = tt.splat %out : !tt.ptr<{result}> -> tensor<256x!tt.ptr<{result}>>\n"
        f"    %oat = tt.addptr %o0, %at : tensor<256x!tt.ptr<{result}>>, tensor<256xi32>\n"
        f"    tt.store %oat, %w : tensor<256x!tt.ptr<{result}>>"
    )


EXPONENTIAL = (
    "    %a = arith.extf %v : SHORT to WIDE\n    %b = math.FUNCTION %a : WIDE\n"
    "    %w = arith.truncf %b : WIDE to SHORT\n"
)


@pytest.mark.parametrize(("function", "base"), [("exp", np.e), ("exp2", 2.0)])
@pytest.mark.parametrize(("kind", "fmt"), [("f16", "fp16"), ("bf16", "bf16")])
def test_an_exponential_of_short_numbers_is_one_instruction(
    function: str, base: float, kind: str, fmt: str
) -> None:
    """One rounding gives the exact result or a neighbour of it."""
    x = draw(fmt, 256, scale=3.0)
    body = _vectors(kind, EXPONENTIAL.replace("FUNCTION", function))
    parameters = (f"x: !tt.ptr<{kind}>", f"out: !tt.ptr<{kind}>")
    program = compiled(body, parameters, x=x, out=poison(fmt, 256))
    assert "ct.cvt" not in program.text
    got = launched(body, parameters, x=x, out=poison(fmt, 256))["out"].astype(np.float64)
    want = base ** x.astype(np.float64)
    assert np.all(np.abs(got - want) <= want * 2.0 ** (-11 if fmt == "fp16" else -8) * 1.01)


LARGEST = (
    "    %a = arith.extf %v : SHORT to WIDE\n"
    '    %l = "tt.reduce"(%a) <{axis = 0 : i32}> ({\n    ^bb0(%p: f32, %q: f32):\n'
    "      %m = arith.maxnumf %p, %q : f32\n      tt.reduce.return %m : f32\n"
    "    }) : (WIDE) -> f32\n"
)


def test_the_largest_of_short_numbers_is_found_among_them() -> None:
    """The widened number still exists if something else uses it."""
    x = draw("fp16", 256)
    whole = "    %s = tt.splat %l : f32 -> WIDE\n"
    parameters = ("x: !tt.ptr<f16>", "out: !tt.ptr<f32>")
    alone = _vectors("f16", f"{LARGEST}{whole}    %w = arith.negf %s : WIDE\n", "f32")
    both = _vectors("f16", f"{LARGEST}{whole}    %w = arith.subf %a, %s : WIDE\n", "f32")
    arguments = {"x": x, "out": poison("fp32", 256)}
    assert "ct.reduce.max.fp16" in compiled(alone, parameters, **arguments).text
    assert (launched(alone, parameters, **arguments)["out"] == -x.max().astype(np.float32)).all()
    got = launched(both, parameters, **arguments)["out"]
    assert np.array_equal(got, x.astype(np.float32) - x.max().astype(np.float32))


def _names(text: str) -> list[str]:
    (kernel,) = parse_kernels(f"module {{\n  tt.func public @f() {{\n{text}    tt.return\n  }}\n}}\n")
    body: Block = narrowed(kernel.body)
    return [each.name for each in body.operations]


def test_what_stays_in_fp32() -> None:
    """Functions whose results are used in FP32, other formats, sums."""
    block = "tensor<4xf32>"
    used = (
        f"    %a = arith.extf %v : tensor<4xf16> to {block}\n    %b = math.exp2 %a : {block}\n"
        f"    %w = arith.truncf %b : {block} to tensor<4xf16>\n    %c = arith.addf %b, %b : {block}\n"
    )
    assert _names(used) == ["arith.extf", "math.exp2", "arith.truncf", "arith.addf", "tt.return"]
    other = (
        f"    %a = arith.extf %v : tensor<4xf16> to {block}\n    %b = math.exp2 %a : {block}\n"
        f"    %w = arith.truncf %b : {block} to tensor<4xbf16>\n"
    )
    assert _names(other) == ["arith.extf", "math.exp2", "arith.truncf", "tt.return"]
    added = LARGEST.replace("maxnumf", "addf").replace("SHORT", "tensor<4xf16>").replace("WIDE", block)
    assert _names(added) == ["arith.extf", "tt.reduce", "tt.return"]
    again = (
        f"    %a = arith.extf %v : tensor<4xf16> to {block}\n"
        f"    %w = arith.truncf %a : {block} to tensor<4xf16>\n    %c = arith.addf %w, %w : tensor<4xf16>\n"
    )
    assert _names(again) == ["arith.addf", "tt.return"]


@pytest.mark.parametrize(("kind", "fmt"), [("f32", "fp32"), ("f16", "fp16")])
def test_the_reciprocal_is_rounded_once(kind: str, fmt: str) -> None:
    x = draw(fmt, 256)
    lines = "    %a = arith.constant dense<1.000000e+00> : SHORT\n    %w = arith.divf %a, %v : SHORT\n"
    parameters = (f"x: !tt.ptr<{kind}>", f"out: !tt.ptr<{kind}>")
    body = _vectors(kind, lines)
    assert "ct.div" not in compiled(body, parameters, x=x, out=poison(fmt, 256)).text
    got = launched(body, parameters, x=x, out=poison(fmt, 256))["out"]
    assert np.array_equal(got, (1 / x.astype(np.float64)).astype(x.dtype))


def test_a_known_number_divided_in_fp32_is_off_by_two_units_at_most() -> None:
    x = draw("fp32", 256)
    lines = "    %a = arith.constant dense<3.300000e+00> : SHORT\n    %w = arith.divf %a, %v : SHORT\n"
    got = launched(
        _vectors("f32", lines), ("x: !tt.ptr<f32>", "out: !tt.ptr<f32>"), x=x, out=poison("fp32", 256)
    )["out"]
    want = np.float64(np.float32(3.3)) / x.astype(np.float64)
    assert np.all(np.abs(got - want) <= 2 * np.spacing(np.abs(want).astype(np.float32)))


@pytest.mark.parametrize("zero", ["0.000000e+00", "-0.000000e+00"])
def test_a_choice_of_one_and_zero_is_the_condition(zero: str) -> None:
    """The sign of zero is that of the constant."""
    x = draw("fp32", 256)
    lines = (
        "    %a = arith.constant dense<1.000000e+00> : SHORT\n"
        f"    %z = arith.constant dense<{zero}> : SHORT\n"
        "    %c = arith.cmpf ogt, %v, %z : SHORT\n    %w = arith.select %c, %a, %z : tensor<256xi1>, SHORT\n"
    )
    parameters = ("x: !tt.ptr<f32>", "out: !tt.ptr<f32>")
    got = launched(_vectors("f32", lines), parameters, x=x, out=poison("fp32", 256))["out"]
    want = np.where(x > 0, np.float32(1), np.float32(zero))
    assert got.tobytes() == want.tobytes()
