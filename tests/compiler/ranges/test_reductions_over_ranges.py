"""Sums, extrema, softmax and normalizations along axes of dynamic size, against onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, ValueInfoProto, numpy_helper

import tx8
from control_models import declared, node
from control_models import made as model_of

ROWS = {"n": (1, 40, 99)}
SIZES = [(40,), (1,), (99,), (64,), (65,), (37,)]
IMAGES = {"b": (1, 1, 2), "h": (2, 8, 20), "w": (2, 9, 21)}
PICTURES = [(1, 8, 9), (1, 2, 2), (2, 20, 21), (1, 7, 5)]
LONG = {"n": (1, 3000, 12000)}
Nodes = Sequence[tuple[str, Mapping[str, Any]]]


def several(shape: Sequence[Any], nodes: Nodes, *, vectors: int = 0, axes: Sequence[int] = ()) -> ModelProto:
    """A model with one input and a result of each node; ``vectors``: channels of a scale and a shift."""
    constants = {"axes": np.array(axes, np.int64)} if axes else {}
    more = ["axes"] if axes else []
    if vectors:
        rng = np.random.default_rng(3)
        constants = {name: rng.standard_normal(vectors).astype(np.float32) for name in ("scale", "shift")}
        more = ["scale", "shift"]
    made = [
        node(op, ["x", *(more if attributes.pop("more", True) else [])], [f"{op}{at}"], **attributes)
        for at, (op, attributes) in enumerate((op, dict(given)) for op, given in nodes)
    ]
    outputs = [ValueInfoProto(name=each.output[0]) for each in made]
    arrays = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    return model_of(made, [declared("x", shape)], outputs, arrays)


def compare(
    model: ModelProto,
    dims: Mapping[str, tuple[int, int, int]],
    sizes: Sequence[tuple[int, ...]],
    error: float,
    negative: bool = True,
    **options: Any,
) -> tx8.Program:
    """One program at several sizes, with negative numbers only, so that padding would be the largest of
    them."""
    program = tx8.compile(model, dims=dims, **options)
    session, rng = onnxruntime.InferenceSession(model.SerializeToString()), np.random.default_rng(1)
    names = [each.name for each in session.get_outputs()]
    for at in (dict(zip(dims, each, strict=True)) for each in sizes):
        shape = [at.get(size, size) for size in session.get_inputs()[0].shape]
        x = rng.standard_normal(shape).astype(np.float32)
        x = -np.abs(x) - 0.5 if negative else np.abs(x) + 0.5
        run, wanted = program.run(x, timed=False), session.run(None, {"x": x})
        for name, array in zip(names, wanted, strict=True):
            assert run[name].shape == array.shape, (name, at)
            assert np.abs(run[name] - array).max() <= error * max(np.abs(array).max(), 1e-3), (name, at)
        assert run.hazards == (), at
    return program


def test_places_of_the_largest_elements() -> None:
    """The engine finds them in long rows, the core in short ones."""
    model = several([5, "n"], [("ArgMax", {"axis": 1})])
    compare(model, {"n": (1, 400, 900)}, [(400,), (1,), (895,)], 0.0, dtype="fp32")


REDUCTIONS = ("ReduceMean", "ReduceMax", "ReduceMin", "ReduceSum")
OTHERS = ("ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp")


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ([24, "n"], [1]),
        pytest.param([2, "n", 24], [1], marks=pytest.mark.long),
        pytest.param(["n", 24], [0], marks=pytest.mark.long),
        pytest.param([2, 3, "n"], [1, 2], marks=pytest.mark.long),
        pytest.param(["n", 3, 5], [0, 2], marks=pytest.mark.long),
        pytest.param(["n", 24], [0, 1], marks=pytest.mark.long),
    ],
)
def test_reductions(shape: list[Any], axes: list[int]) -> None:
    model = several(shape, [(op, {"keepdims": at % 2}) for at, op in enumerate(REDUCTIONS)], axes=axes)
    compare(model, ROWS, SIZES, 3e-3, dtype="fp16")


@pytest.mark.long
@pytest.mark.parametrize(("shape", "axes"), [([24, "n"], [1]), ([2, "n", 24], [1]), (["n", 3, 5], [0, 2])])
def test_norms_and_logarithms(shape: list[Any], axes: list[int]) -> None:
    model = several(shape, [(op, {}) for op in OTHERS], axes=axes)
    compare(model, ROWS, SIZES, 3e-3, dtype="fp16")


@pytest.mark.long
@pytest.mark.parametrize("tiles", [1, 2])
def test_reductions_on_fewer_tiles(tiles: int) -> None:
    model = several([2, "n", 24], [(op, {}) for op in (*REDUCTIONS, *OTHERS)], axes=[1])
    compare(model, ROWS, SIZES, 3e-3, dtype="fp16", tiles=tiles)


@pytest.mark.long
def test_two_axes_of_which_a_run_decides_both() -> None:
    model = several(["b", 5, "n"], [(op, {}) for op in REDUCTIONS], axes=[0, 2])
    dims = {"b": (1, 2, 5), "n": (1, 40, 300)}
    compare(model, dims, [(2, 40), (1, 1), (5, 300), (3, 299), (1, 65)], 3e-6, dtype="fp32")


@pytest.mark.parametrize("shape", [[5, "n"], pytest.param([5, "n", 24], marks=pytest.mark.long)])
def test_softmax(shape: list[Any]) -> None:
    model = several(shape, [("Softmax", {"axis": 1}), ("LogSoftmax", {"axis": 1})])
    compare(model, ROWS, SIZES, 3e-3, dtype="fp16")


@pytest.mark.long
@pytest.mark.parametrize(("dtype", "error"), [("fp16", 3e-3), ("fp32", 1e-5)])
def test_long_axes(dtype: str, error: float) -> None:
    """Several tiles share a row at some sizes; at others the row is shorter than one tile's share."""
    model = several([3, "n"], [("ReduceMean", {}), ("ReduceMax", {}), ("Softmax", {"more": False})], axes=[1])
    sizes = [(3000,), (1,), (12000,), (4095,), (4097,), (11111,), (77,)]
    compare(model, LONG, sizes, error, dtype=dtype)


def test_normalizations_and_pools_of_images() -> None:
    pools = [(op, {"more": False}) for op in ("GlobalAveragePool", "GlobalMaxPool")]
    nodes = [("InstanceNormalization", {}), ("GroupNormalization", {"num_groups": 4}), *pools]
    model = several(["b", 24, "h", "w"], nodes, vectors=24)
    compare(model, IMAGES, PICTURES, 6e-3, dtype="fp16")


@pytest.mark.long
@pytest.mark.parametrize("tiles", [1, 2, 16])
@pytest.mark.parametrize("dtype", ["fp16", "fp32"])
def test_normalizations_of_larger_images(tiles: int, dtype: str) -> None:
    """At the largest size the positions of a tile do not fit its scratchpad."""
    model = several(["b", 70, "h", "w"], [("InstanceNormalization", {})], vectors=70)
    dims = {"b": (1, 1, 2), "h": (8, 40, 90), "w": (8, 50, 91)}
    compare(model, dims, [(1, 40, 50), (1, 8, 8), (2, 90, 91), (1, 77, 9)], 6e-3, dtype=dtype, tiles=tiles)


@pytest.mark.long
@pytest.mark.parametrize("op", ["LayerNormalization", "RMSNormalization"])
def test_normalizations_along_a_free_axis(op: str) -> None:
    """Scale and shift vary along the last axis, so they are repeated along the free one."""
    inputs = ["x", "scale"] + (["shift"] if op == "LayerNormalization" else [])
    arrays = [numpy_helper.from_array(np.linspace(-1, 2, 24, dtype=np.float32), name) for name in inputs[1:]]
    made = [node(op, inputs, ["y"], axis=1)]
    model = model_of(made, [declared("x", [3, "n", 24])], [ValueInfoProto(name="y")], arrays, opset=23)
    compare(model, ROWS, SIZES, 3e-3, dtype="fp16")
    compare(model, ROWS, SIZES, 3e-5, dtype="fp32")


def test_a_product_along_a_free_axis_is_refused() -> None:
    """It is as many steps as the logarithm of the size."""
    model = several(["n", 24], [("ReduceProd", {})], axes=[0])
    with pytest.raises(
        tx8.Error, match=r"is another node at n=\d+ than at n=40: give that dimension one size"
    ):
        tx8.compile(model, dims=ROWS)
