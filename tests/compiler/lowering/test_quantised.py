"""Quantised networks on the emulated chip against onnxruntime: equal integers, computed on the engines
alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper

import compiler
import emulator
from compiler.driver import Program
from compiler.graph import Array
from compiler.tools import run
from onnx_models import imported, value
from onnx_oracle import onnxruntime
from quantised_nets import matrices, products, residual

Feeds = dict[str, Array]
Draw = Callable[[int, str], tuple[Any, tuple[int, ...]]]


def runtime(made: Any, feeds: Feeds) -> list[Array]:
    """The outputs by onnxruntime."""
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    return list(session.run(None, feeds))


def on_chip(made: Any, feeds: Feeds, folder: Path, dtype: str = "fp16") -> tuple[Program, list[Array]]:
    """The program, and its outputs."""
    program = compiler.compile(imported(made, folder), dtype)
    outputs = run.execute(program, feeds)[0]
    return program, [outputs[item.name] for item in made.graph.output]


def phases_on_core(program: Program) -> list[str]:
    assert program.report is not None
    return [phase.name for phase in program.report.phases if phase.kernel_core]


def drawn(shape: tuple[int, ...], seed: int) -> Feeds:
    return {"x": np.random.default_rng(seed).standard_normal(shape).astype(np.float32)}


@pytest.mark.parametrize("draw", [products, matrices])
@pytest.mark.parametrize("seed", range(1, 16, 2))
def test_products_give_the_integers_of_onnxruntime(draw: Draw, seed: int, tmp_path: Path) -> None:
    made, shape = draw(seed, "uint8")
    feeds = drawn(shape, seed)
    program, (got,) = on_chip(made, feeds, tmp_path)
    (want,) = runtime(made, feeds)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)
    assert phases_on_core(program) == []
    assert run.check(program, feeds).ok


@pytest.mark.parametrize("draw", [products, matrices])
@pytest.mark.parametrize("seed", range(0, 8, 2))
def test_products_of_signed_bytes(draw: Draw, seed: int, tmp_path: Path) -> None:
    """onnxruntime computes the last one of these in floats, which may be rounded to the next integer."""
    made, shape = draw(seed, "int8")
    feeds = drawn(shape, seed)
    program, (got,) = on_chip(made, feeds, tmp_path)
    want = runtime(made, feeds)[0].astype(int)
    assert np.abs(got.astype(int) - want).max() <= 1
    assert np.count_nonzero(got != want) <= max(1, got.size // 1000)
    assert phases_on_core(program) == []


@pytest.mark.parametrize("dtype", ["fp16", "bf16", "fp32"])
@pytest.mark.parametrize("seed", range(3))
def test_sums_joins_pools_and_means_are_within_one_step(seed: int, dtype: str, tmp_path: Path) -> None:
    made, shape = residual(seed)
    feeds = drawn(shape, seed)
    program, (got,) = on_chip(made, feeds, tmp_path, dtype)
    (want,) = runtime(made, feeds)
    assert np.abs(got - want).max() <= 0.0201
    assert phases_on_core(program) == []


# --- operators on integers ------------------------------------------------------------------------------


def of_integers(
    op: str, feeds: Feeds, known: dict[str, Array], inputs: list[str], **attrs: Any
) -> tuple[Any, Feeds]:
    """A model of one node."""
    node = helper.make_node(op, inputs, ["y"], "n", **attrs)
    constants = [numpy_helper.from_array(array, name) for name, array in known.items()]
    given = [value(name, array.shape, array.dtype) for name, array in feeds.items()]
    dtype = np.int32 if op.endswith("Integer") else known["yz"].dtype
    graph = helper.make_graph([node], "g", given, [value("y", None, dtype)], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), feeds


def bytes_(rng: np.random.Generator, dtype: str, *shape: int, bits: int = 8) -> Array:
    limits = np.iinfo(dtype)
    low, high = (limits.min, limits.max) if bits == 8 else (-63, 63)
    return rng.integers(low, high + 1, shape).astype(dtype)


QLINEAR = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"]


def scales(rng: np.random.Generator, dtype: str, maps: int) -> dict[str, Array]:
    zeros = {name: bytes_(rng, dtype) for name in ("xz", "yz")}
    single = {"xs": np.float32(0.02), "ys": np.float32(0.3)}
    return {
        **{name: np.asarray(array) for name, array in (zeros | single).items()},
        "ws": rng.uniform(0.005, 0.015, maps).astype(np.float32),
        "wz": np.zeros(maps, np.int8),
    }


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize(
    ("shape", "weights", "attrs"),
    [
        ((1, 3, 9, 9), (16, 3, 3, 3), {"pads": [1, 1, 1, 1]}),
        ((2, 72, 6, 5), (40, 72, 1, 1), {}),
        ((1, 160, 7, 7), (160, 1, 3, 3), {"group": 160, "strides": [2, 2], "pads": [0, 1, 1, 0]}),
        ((1, 192, 5, 6), (70, 192, 3, 3), {"dilations": [2, 1], "pads": [2, 1, 2, 1]}),
        ((1, 32, 8, 8), (64, 8, 3, 3), {"group": 4}),
        ((2, 20, 30), (10, 20, 5), {"pads": [2, 1]}),
    ],
)
def test_qlinear_convolutions_are_exact(
    dtype: str, shape: tuple[int, ...], weights: tuple[int, ...], attrs: dict[str, Any], tmp_path: Path
) -> None:
    rng = np.random.default_rng(sum(shape))
    known = scales(rng, dtype, weights[0]) | {"w": bytes_(rng, "int8", *weights, bits=7)}
    known["b"] = rng.integers(-5000, 5000, weights[0]).astype(np.int32)
    made, feeds = of_integers(
        "QLinearConv", {"x": bytes_(rng, dtype, *shape)}, known, [*QLINEAR, "b"], **attrs
    )
    program, (got,) = on_chip(made, feeds, tmp_path)
    np.testing.assert_array_equal(got, runtime(made, feeds)[0])
    assert phases_on_core(program) == []


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_qlinear_products_are_exact(dtype: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    known = scales(rng, dtype, 70) | {"w": bytes_(rng, "int8", 300, 70, bits=7)}
    known["ws"], known["wz"] = np.array(0.01, np.float32), np.array(0, np.int8)
    made, feeds = of_integers("QLinearMatMul", {"x": bytes_(rng, dtype, 2, 9, 300)}, known, QLINEAR)
    program, (got,) = on_chip(made, feeds, tmp_path)
    np.testing.assert_array_equal(got, runtime(made, feeds)[0])
    assert phases_on_core(program) == []


def test_sums_of_many_products_keep_all_digits(tmp_path: Path) -> None:
    """700 products of bytes leave the 24 bits of a float."""
    rng = np.random.default_rng(5)
    known = {"w": np.full((700, 5), 127, np.int8), "xz": np.array(3, np.uint8), "wz": np.array(0, np.int8)}
    made, feeds = of_integers(
        "MatMulInteger", {"x": bytes_(rng, "uint8", 6, 700)}, known, ["x", "w", "xz", "wz"]
    )
    program, (got,) = on_chip(made, feeds, tmp_path)
    want = (feeds["x"].astype(np.int64) - 3) @ known["w"].astype(np.int64)
    assert np.abs(want).max() > 1 << 23
    np.testing.assert_array_equal(got, want)
    assert phases_on_core(program) == []


@pytest.mark.parametrize("inner", [47, 100, 130, 191, 559, 623, 700])
def test_rows_of_any_length_are_read_no_further_than_they_go(inner: int, tmp_path: Path) -> None:
    """The last plane of a row's bytes may have lanes that were never written."""
    rng = np.random.default_rng(inner)
    known = {"w": bytes_(rng, "int8", inner, 5)}
    made, feeds = of_integers("MatMulInteger", {"x": bytes_(rng, "int8", 7, inner)}, known, ["x", "w"])
    program = compiler.compile(imported(made, tmp_path))
    loaded = emulator.Program(program.image, program.machine)
    got = loaded.run(feeds, strict=True)
    want = feeds["x"].astype(np.int32) @ known["w"].astype(np.int32)
    assert loaded.hazards == ()
    np.testing.assert_array_equal(got[made.graph.output[0].name], want)


def test_convolutions_of_integers_give_their_sums(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    known = {"w": bytes_(rng, "int8", 20, 70, 3, 3, bits=7), "xz": np.array(130, np.uint8)}
    made, feeds = of_integers(
        "ConvInteger", {"x": bytes_(rng, "uint8", 1, 70, 8, 8)}, known, ["x", "w", "xz"], pads=[1, 1, 1, 1]
    )
    program, (got,) = on_chip(made, feeds, tmp_path)
    np.testing.assert_array_equal(got, runtime(made, feeds)[0])
    assert phases_on_core(program) == []


@pytest.mark.parametrize("shape", [(120,), ()], ids=["many", "one"])
def test_inputs_are_quantised_before_they_lose_digits(shape: tuple[int, ...], tmp_path: Path) -> None:
    """If it were rounded to bf16 first, a value just above half a step would become another integer."""
    node = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"], "q")
    known = [
        numpy_helper.from_array(a, n)
        for n, a in (("s", np.array(1, np.float32)), ("z", np.array(3, np.int8)))
    ]
    whole = np.arange(-60, 60)[: int(np.prod(shape))].reshape(shape)
    feeds = {"x": (whole + np.float32(0.5) + np.float32(2**-12)).astype(np.float32)}
    graph = helper.make_graph([node], "g", [value("x", shape)], [value("y", shape, np.int8)], known)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    (got,) = on_chip(made, feeds, tmp_path, "bf16")[1]
    np.testing.assert_array_equal(got, whole + 1 + 3)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_ties_and_limits(dtype: str, tmp_path: Path) -> None:
    """Halves go to the even integer before the zero point is added; numbers out of range saturate."""
    halves = np.concatenate([np.arange(-300, 300) / 2, [1e9, -1e9, 3e38, -3e38]]).astype(np.float32)
    zero = np.array(7, dtype)
    nodes = [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"], "q")]
    nodes.append(helper.make_node("DequantizeLinear", ["y", "s", "z"], ["f"], "d"))
    known = [numpy_helper.from_array(a, n) for n, a in (("s", np.array(1, np.float32)), ("z", zero))]
    outputs = [value("y", halves.shape, dtype), value("f", halves.shape)]
    graph = helper.make_graph(nodes, "g", [value("x", halves.shape)], outputs, known)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    got = on_chip(made, {"x": halves}, tmp_path)[1]
    limits = np.iinfo(dtype)
    want = np.clip(np.rint(halves.astype(np.float64)) + 7, limits.min, limits.max)
    np.testing.assert_array_equal(got[0], want)
    np.testing.assert_array_equal(got[1], want - 7)


# --- what stays as it was -------------------------------------------------------------------------------


@pytest.mark.parametrize("case", ["computed weights", "nine bits", "volume"])
def test_what_does_not_fit_the_engine_stays_right(case: str, tmp_path: Path) -> None:
    """Computed weights, weights that need 9 bits, convolutions of volumes: products of floats."""
    rng = np.random.default_rng(7)
    shape, weights = ((1, 4, 5, 5, 5), (6, 4, 2, 2, 2)) if case == "volume" else ((1, 4, 6, 6), (6, 4, 3, 3))
    known = scales(rng, "uint8", 6) | {"w": bytes_(rng, "uint8", *weights)}
    known["ws"], known["wz"] = np.array(0.01, np.float32), np.array(100, np.uint8)
    if case != "nine bits":
        known["w"] = (known["w"] >> 2) + np.uint8(100)
    feeds = {"x": bytes_(rng, "uint8", *shape)}
    if case == "computed weights":
        feeds["w"] = known.pop("w")
    made, feeds = of_integers("QLinearConv", feeds, known, QLINEAR)
    program, (got,) = on_chip(made, feeds, tmp_path)
    np.testing.assert_array_equal(got, runtime(made, feeds)[0])
    assert "out_format=int32" not in program.text
