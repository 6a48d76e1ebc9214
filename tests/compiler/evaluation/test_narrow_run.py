"""Runs on the host in a compute format, held against the emulated chip and against NumPy's own rounding."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import compiler
from compiler.evaluation.host_run import HostRun
from compiler.evaluation.narrow_run import NarrowRun
from compiler.evaluation.reference import run_reference
from compiler.graph import Array
from compiler.tools import run
from compiler_harness import NodeSpec, draw, graph
from float_nets import mlp, samples, small_cnn
from tx8isa.numbers.formats import Format

DTYPES = {"fp16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}


def through(dtype: str, array: Array) -> Array:
    return array.astype(DTYPES[dtype]).astype(np.float32)


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_between_nodes_are_rounded(dtype: str) -> None:
    nodes: list[NodeSpec] = [("Mul", ["x", "c"], ["a"], {}), ("Add", ["a", "x"], ["y"], {})]
    c, x = draw(8, seed=1), draw(4, 8, seed=2)
    made = graph(nodes, {"x": (4, 8)}, {"c": c})
    narrow = through(dtype, x)
    wanted = through(dtype, through(dtype, narrow * through(dtype, c)) + narrow)
    found = NarrowRun(made, Format.parse(dtype)).run({"x": x})["y"]
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", DTYPES)
def test_precise_nodes_are_not_rounded(dtype: str) -> None:
    nodes: list[NodeSpec] = [("Mul", ["x", "c"], ["a"], {}), ("Add", ["a", "x"], ["y"], {})]
    made = graph(nodes, {"x": (4, 8)}, {"c": draw(8, seed=1)})
    inputs = {"x": draw(4, 8, seed=2)}
    found = NarrowRun(made, Format.parse(dtype), {"n0", "n1"}).run(inputs)["y"]
    np.testing.assert_array_equal(found, HostRun(made).run(inputs)["y"])


@pytest.mark.parametrize("dtype", ["fp16", "bf16", "tf32"])
@pytest.mark.parametrize("net", [small_cnn, mlp])
def test_the_error_is_that_of_the_chip(net: object, dtype: str) -> None:
    """The chip rounds less often inside of groups, so its error has the same order of magnitude."""
    made = net()  # type: ignore[operator]
    inputs = {name: array[0] for name, array in samples(made, 1, 3).items()}
    exact = run_reference(made, inputs)["y"]
    chip = run.execute(compiler.compile(made, dtype), inputs)[0]["y"]
    host = NarrowRun(made, Format.parse(dtype)).run(inputs)["y"]
    errors = [float(np.sqrt(np.mean((found - exact) ** 2))) for found in (chip, host)]
    assert 0.1 < errors[0] / errors[1] < 4


def test_what_the_format_cannot_hold_is_found() -> None:
    """A sum of squares of data: 300 squared is beyond FP16, the final result is not."""
    nodes: list[NodeSpec] = [
        ("Mul", ["x", "z"], ["a"], {}),
        ("Relu", ["a"], ["b"], {}),
        ("Sqrt", ["b"], ["c"], {}),
        ("Add", ["c", "x"], ["y"], {}),
    ]
    made = graph(nodes, {"x": (4, 8), "z": (4, 8)})
    run = NarrowRun(made, Format.FP16)
    ordinary = np.abs(draw(4, 8))
    run.run({"x": ordinary, "z": ordinary})
    assert (run.held, run.precise) == ({}, set())
    large = ordinary + np.float32(300)
    found = run.run({"x": large, "z": large})["y"]
    assert list(run.held) == ["a", "b"]
    assert run.precise == {"n0", "n1", "n2"}
    assert run.held["a"] == pytest.approx(float((large**2).max()), rel=1e-3)
    np.testing.assert_allclose(found, 2 * large, rtol=2e-3)


def test_inputs_beyond_the_format_are_found() -> None:
    made = graph([("Log", ["x"], ["y"], {})], {"x": (8,)})
    run = NarrowRun(made, Format.FP16)
    found = run.run({"x": np.full(8, 1e6, np.float32)})["y"]
    assert run.held == {"x": 1e6}
    np.testing.assert_allclose(found, np.log(1e6), rtol=1e-6)


def test_infinities_and_masks_are_no_large_values() -> None:
    """They are infinite in binary32, too, or constants that the compiler limits to the format."""
    nodes: list[NodeSpec] = [("Add", ["x", "mask"], ["s"], {}), ("Softmax", ["s"], ["y"], {})]
    mask = np.array([0, -np.inf, -3.4e38, -1e9], np.float32)
    run = NarrowRun(graph(nodes, {"x": (2, 4)}, {"mask": mask}), Format.FP16)
    found = run.run({"x": np.ones((2, 4), np.float32)})["y"]
    assert run.held == {}
    np.testing.assert_array_equal(found, [[1, 0, 0, 0]] * 2)
