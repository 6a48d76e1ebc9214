"""Operations that none of the examples' texts has, in small kernels, against NumPy."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from compiler.frontend.triton.operations import TtirError
from paths import ROOT
from triton_launches import DTYPES, draw, launched, poison

Array = np.ndarray[Any, Any]

RANGE = "    %at = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>\n"


def _at(name: str, element: str) -> str:
    kind = f"tensor<64x!tt.ptr<{element}>>"
    return (
        f"    %{name}0 = tt.splat %{name} : !tt.ptr<{element}> -> {kind}\n"
        f"    %{name}at = tt.addptr %{name}0, %at : {kind}, tensor<64xi32>\n"
    )


def _kernel(lines: str, out: Array, element: str = "f32", **inputs: Array) -> Array:
    """Run ``lines``, which compute ``%r`` from 64 elements ``%a``, ``%b``, ... of the inputs."""
    text, elements = RANGE, {"float32": "f32", "float16": "f16", "int32": "i32"}
    for name, array in inputs.items():
        kind = elements[array.dtype.name]
        text += f"{_at(name, kind)}    %{name[0]} = tt.load %{name}at : tensor<64x!tt.ptr<{kind}>>\n"
    text += f"{_at('out', element)}{lines}    tt.store %outat, %r : tensor<64x!tt.ptr<{element}>>\n"
    kinds = {**{name: elements[array.dtype.name] for name, array in inputs.items()}, "out": element}
    parameters = [f"{name}: !tt.ptr<{kind}>" for name, kind in kinds.items()]
    arguments: dict[str, Any] = {**inputs, "out": out}
    results: dict[str, Array] = launched(text, parameters, **arguments)
    return results["out"]


def _integers(lines: str, *arrays: Array) -> Array:
    named = dict(zip(("ax", "bx"), arrays, strict=False))
    return _kernel(lines, np.zeros(64, np.int32), "i32", **named)


def _floats(lines: str, *arrays: Array) -> Array:
    named = dict(zip(("ax", "bx", "cx"), arrays, strict=False))
    return _kernel(lines, poison("fp32", 64), "f32", **named)


A, B = (np.random.default_rng(seed).integers(-(2**31), 2**31, 64).astype(np.int32) for seed in (1, 2))


@pytest.mark.parametrize(
    ("operation", "want"),
    [
        ("minui", np.minimum(A.view(np.uint32), B.view(np.uint32))),
        ("maxui", np.maximum(A.view(np.uint32), B.view(np.uint32))),
        ("remui", A.view(np.uint32) % B.view(np.uint32)),
    ],
)
def test_integers_without_a_sign(operation: str, want: Array) -> None:
    got = _integers(f"    %r = arith.{operation} %a, %b : tensor<64xi32>\n", A, B)
    assert np.array_equal(got.view(np.uint32), want)


def test_numbers_without_their_sign() -> None:
    """The least integer does not change."""
    x = A.copy()
    x[:2] = -(2**31), -1
    assert np.array_equal(_integers("    %r = math.absi %a : tensor<64xi32>\n", x), np.abs(x))


def test_quotients_of_formulas_are_rounded_up() -> None:
    """Stores 100 / 7, rounded up, before a position of another type."""
    lines = (
        "    %hundred = arith.constant 100 : i32\n    %seven = arith.constant 7 : i32\n"
        "    %q = arith.ceildivsi %hundred, %seven : i32\n"
        "    %i = arith.index_cast %q : i32 to index\n    %j = arith.index_castui %i : index to i32\n"
        "    %positive = arith.cmpi sgt, %j, %seven : i32\n    llvm.intr.assume %positive : i1\n"
        "    %s = tt.splat %j : i32 -> tensor<64xi32>\n    %r = arith.addi %a, %s : tensor<64xi32>\n"
    )
    x = np.arange(64, dtype=np.int32)
    assert np.array_equal(_integers(lines, x), x + 15)


@pytest.mark.parametrize("bits", ["arith.bitcast", "tt.bitcast"])
def test_bits_of_floats_are_integers(bits: str) -> None:
    arrow = "to" if bits.startswith("arith") else "->"
    x = draw("fp32", 64)
    x[:3] = 0.0, -0.0, np.inf
    lines = f"    %r = {bits} %a : tensor<64xf32> {arrow} tensor<64xi32>\n"
    assert np.array_equal(_integers(lines, x), x.view(np.int32))


def test_floats_become_integers_without_a_sign() -> None:
    x = np.linspace(0, 3e9, 64, dtype=np.float32)
    got = _integers("    %r = arith.fptoui %a : tensor<64xf32> to tensor<64xi32>\n", x)
    assert np.array_equal(got.view(np.uint32), x.astype(np.uint32))


@pytest.mark.parametrize(
    ("operation", "function"),
    [
        ("math.roundeven", np.rint),
        ("math.floor", np.floor),
        ("math.ceil", np.ceil),
        ("tt.precise_sqrt", lambda x: np.sqrt(np.abs(x))),
    ],
)
def test_functions_that_are_exact(operation: str, function: np.ufunc) -> None:
    x = (draw("fp32", 64, scale=4.0) * 2).round() / 2
    lines = f"    %v = math.absf %a : tensor<64xf32>\n    %r = {operation} %{{}} : tensor<64xf32>\n"
    lines = lines.format("v" if "sqrt" in operation else "a")
    assert np.array_equal(_floats(lines, x), function(x))


def test_quotients_can_be_exact() -> None:
    x, y = draw("fp32", 64, seed=1), draw("fp32", 64, seed=2)
    assert np.array_equal(_floats("    %r = tt.precise_divf %a, %b : tensor<64xf32>\n", x, y), x / y)


def test_a_product_is_rounded_before_its_sum() -> None:
    x, y, z = (draw("fp32", 64, seed=seed) for seed in (1, 2, 3))
    assert np.array_equal(_floats("    %r = math.fma %a, %b, %c : tensor<64xf32>\n", x, y, z), x * y + z)


@pytest.mark.parametrize(("element", "fmt"), [("f16", "fp16"), ("bf16", "bf16")])
def test_formats_by_the_operation_of_triton(element: str, fmt: str) -> None:
    x = draw("fp32", 64)
    lines = (
        f"    %n = tt.fp_to_fp %a, rounding = rtne : tensor<64xf32> -> tensor<64x{element}>\n"
        f"    %r = tt.fp_to_fp %n : tensor<64x{element}> -> tensor<64xf32>\n"
    )
    assert np.array_equal(_floats(lines, x), x.astype(DTYPES[fmt]).astype(np.float32))


@pytest.mark.parametrize(("element", "fmt"), [("f16", "fp16"), ("bf16", "bf16")])
def test_formats_can_be_rounded_to_zero(element: str, fmt: str) -> None:
    """The nearest number, or the number before it if the nearest is larger."""
    x = draw("fp32", 64)
    x[:4] = 1e9, -1e-9, np.inf, 65519
    lines = (
        f"    %n = tt.fp_to_fp %a, rounding = rtz : tensor<64xf32> -> tensor<64x{element}>\n"
        f"    %r = tt.fp_to_fp %n : tensor<64x{element}> -> tensor<64xf32>\n"
    )
    with np.errstate(over="ignore"):
        nearest = x.astype(DTYPES[fmt])
    larger = np.abs(nearest.astype(np.float32)) > np.abs(x)
    want = (nearest.view(np.uint16) - larger.astype(np.uint16)).view(DTYPES[fmt])
    assert larger.any() and np.array_equal(_floats(lines, x), want.astype(np.float32))


def test_other_roundings_are_refused() -> None:
    lines = "    %r = tt.fp_to_fp %a, rounding = rtp : tensor<64xf32> -> tensor<64xf16>\n"
    with pytest.raises(TtirError, match=r"tt\.fp_to_fp: rounding 'rtp'; supported are rtne, rtz$"):
        _floats(lines, draw("fp32", 64))


@pytest.mark.parametrize(("operation", "function"), [("maximumf", np.maximum), ("minimumf", np.minimum)])
def test_infinities_of_two_signs_are_numbers(operation: str, function: np.ufunc) -> None:
    """Their sum is NaN, but the larger of the two is not."""
    special = np.array([np.inf, -np.inf, np.nan, 0.0, 1.0, -1.0, 3e38, -3e38], np.float32)
    x, y = (each.ravel().copy() for each in np.meshgrid(special, special))
    got = _floats(f"    %r = arith.{operation} %a, %b : tensor<64xf32>\n", x, y)
    assert np.array_equal(got, function(x, y), equal_nan=True)


@pytest.mark.parametrize("kept", [True, False])
def test_a_clamp_can_keep_nan(kept: bool) -> None:
    x = draw("fp32", 64)
    x[:3] = np.nan, np.inf, -np.inf
    lines = (
        "    %l = arith.constant dense<-5.000000e-01> : tensor<64xf32>\n"
        "    %h = arith.constant dense<7.500000e-01> : tensor<64xf32>\n"
        f"    %r = tt.clampf %a, %l, %h, propagateNan = {'all' if kept else 'none'} : tensor<64xf32>\n"
    )
    want = np.clip(x, np.float32(-0.5), np.float32(0.75))
    want[0] = np.nan if kept else -0.5
    assert np.array_equal(_floats(lines, x), want, equal_nan=True)


def test_two_blocks_one_after_the_other() -> None:
    """The first 32 numbers of two arrays; Triton leaves the order of a ``cat`` open."""
    half = RANGE.replace("%at", "%half").replace("64", "32")
    kind = "tensor<32x!tt.ptr<f32>>"
    lines = half
    for name in ("ax", "bx"):
        lines += (
            f"    %{name}h = tt.splat %{name} : !tt.ptr<f32> -> {kind}\n"
            f"    %{name}p = tt.addptr %{name}h, %half : {kind}, tensor<32xi32>\n"
            f"    %{name}v = tt.load %{name}p : {kind}\n"
        )
    lines += "    %r = tt.cat %axv, %bxv : tensor<32xf32> -> tensor<64xf32>\n"
    x, y = draw("fp32", 64, seed=1), draw("fp32", 64, seed=2)
    assert np.array_equal(_floats(lines, x, y), np.concatenate([x[:32], y[:32]]))


def test_a_block_of_one_element_is_a_number() -> None:
    lines = (
        "    %one = tt.make_range {end = 1 : i32, start = 0 : i32} : tensor<1xi32>\n"
        "    %p0 = tt.splat %ax : !tt.ptr<f32> -> tensor<1x!tt.ptr<f32>>\n"
        "    %p = tt.addptr %p0, %one : tensor<1x!tt.ptr<f32>>, tensor<1xi32>\n"
        "    %v = tt.load %p : tensor<1x!tt.ptr<f32>>\n    %n = tt.unsplat %v : tensor<1xf32>\n"
        "    %s = tt.splat %n : f32 -> tensor<64xf32>\n    %r = arith.mulf %a, %s : tensor<64xf32>\n"
    )
    x = draw("fp32", 64)
    assert np.array_equal(_floats(lines, x), x * x[0])


def test_a_number_is_data_of_two_types() -> None:
    """One number that the core computes, stored as a byte and in 32 bits."""
    block = "tensor<1xi8>"
    text = "".join(
        f"    %{name}s = tt.splat %{name} : !tt.ptr<{kind}> -> tensor<1x!tt.ptr<{kind}>>\n"
        for name, kind in (("x", "i8"), ("short", "i8"), ("long", "i32"))
    )
    text += (
        f"    %v = tt.load %xs : tensor<1x!tt.ptr<i8>>\n    %d = arith.subi %v, %v : {block}\n"
        f"    %e = arith.subi %d, %v : {block}\n    %w = arith.extsi %e : {block} to tensor<1xi32>\n"
        "    tt.store %longs, %w : tensor<1x!tt.ptr<i32>>\n    tt.store %shorts, %e : tensor<1x!tt.ptr<i8>>"
    )
    arrays = {"x": np.array([100], np.int8), "short": np.zeros(1, np.int8), "long": np.zeros(1, np.int32)}
    parameters = ["x: !tt.ptr<i8>", "short: !tt.ptr<i8>", "long: !tt.ptr<i32>"]
    got = launched(text, parameters, **arrays)
    assert got["short"].tolist() == got["long"].tolist() == [-100]


def test_every_operation_of_the_page_is_in_a_text_or_a_test() -> None:
    page = (ROOT / "docs/triton.md").read_text().partition("| what | operations | limits |")[2]
    listed = set(re.findall(r"`((?:tt|arith|math|scf|llvm)\.[a-z0-9_.]+)`", page))
    texts = [path.read_text() for path in (ROOT / "examples/triton").glob("*/*.ttir")]
    tests = [path.read_text() for path in (ROOT / "tests/compiler/frontend/triton/kernels").glob("*.py")]
    everything = "\n".join([*texts, *tests])
    used = set(re.findall(r"\b(?:tt|arith|math|scf|llvm)\.[a-z0-9_.]+", everything))
    parts = {f"arith.{name}" for name in ("minui", "maxui", "remui", "maximumf", "minimumf")}
    assert listed <= used | parts
    assert len(listed) > 90
