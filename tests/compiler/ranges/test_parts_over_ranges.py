"""Parts of tensors with dynamic extents, against onnxruntime; constants as corners of the largest."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto

import tx8
from compiler.evaluation.sizes.corners import is_beginning, with_corners
from compiler.graph import Graph, Node, Tensor
from range_models import ModelWriter, Tensors

FLOAT = TensorProto.FLOAT


def numbers(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def exact(model: ModelProto, dims: dict[str, tuple[int, int, int]], runs: list[dict[str, Any]]) -> None:
    """Compare runs of one program with onnxruntime, byte for byte."""
    program, session = tx8.compile(model, dims=dims), onnxruntime.InferenceSession(model.SerializeToString())
    for inputs in runs:
        y, (wanted,) = program.run(inputs, timed=False)[0], session.run(None, inputs)
        assert y.shape == wanted.shape
        assert (y == wanted).all()


@pytest.mark.parametrize(
    ("starts", "ends", "axes", "steps"),
    [
        ([8], [40], [1], [1]),
        ([3], [1 << 40], [1], [5]),
        ([1], [1 << 40], [0], [2]),
        ([-3], [-1], [0], [1]),
        ([2, -20], [-1, 1 << 40], [0, 1], [1, 3]),
    ],
)
def test_a_part_of_rows_of_any_number(
    starts: list[int], ends: list[int], axes: list[int], steps: list[int]
) -> None:
    w = ModelWriter(1)
    y = w.add("Slice", "x", *(w.integers(*each) for each in (starts, ends, axes, steps)))
    model = w.model({"x": (FLOAT, ["n", 64])}, {y: (FLOAT, ["m", "k"])})
    exact(model, {"n": (4, 12, 40)}, [{"x": numbers(n, 64)} for n in (4, 12, 13, 40)])


def test_pieces_that_change_places() -> None:
    w = ModelWriter(1)
    first = w.add("Slice", "x", w.integers(0), w.integers(24), w.integers(2))
    other = w.add("Slice", "x", w.integers(24), w.integers(64), w.integers(2))
    y = w.add("Concat", other, first, axis=2)
    model = w.model({"x": (FLOAT, ["b", "n", 64])}, {y: (FLOAT, ["b", "n", 64])})
    exact(
        model,
        {"b": (1, 1, 2), "n": (1, 8, 20)},
        [{"x": numbers(b, n, 64)} for b, n in ((1, 8), (2, 20), (1, 1))],
    )


@pytest.mark.parametrize("both", [False, True])
def test_as_much_of_a_tensor_as_another_has(both: bool) -> None:
    w = ModelWriter(1)
    size = w.add("Slice", w.add("Shape", "like"), w.integers(0), w.integers(1), w.integers(0))
    ends = w.add("Concat", size, size, axis=0) if both else size
    axes = (0, 1) if both else (0,)
    y = w.add("Slice", "x", w.integers(*(0 for _ in axes)), ends, w.integers(*axes))
    inputs: Tensors = {"x": (FLOAT, [48, 48]), "like": (FLOAT, ["n", 2])}
    model = w.model(inputs, {y: (FLOAT, ["n", "k"])})
    exact(model, {"n": (1, 9, 47)}, [{"x": numbers(48, 48), "like": numbers(n, 2)} for n in (1, 9, 31, 47)])


def test_the_last_rows_begin_where_the_size_says() -> None:
    """The same holds if the extents of operand and result do not depend on the size."""
    w = ModelWriter(1)
    size = w.add("Slice", w.add("Shape", "like"), w.integers(0), w.integers(1), w.integers(0))
    y = w.add("Slice", "x", size, w.add("Add", size, w.integers(4)), w.integers(0))
    model = w.model({"x": (FLOAT, [48, 16]), "like": (FLOAT, ["n", 2])}, {y: (FLOAT, [4, 16])})
    exact(model, {"n": (1, 9, 44)}, [{"x": numbers(48, 16), "like": numbers(n, 2)} for n in (1, 9, 31, 44)])


@pytest.mark.long
def test_channels_that_are_joined_and_cut_in_planes() -> None:
    """Pictures of any height: 96 channels joined with 40 others, then 96 taken without the first row."""
    w = ModelWriter(1)
    a, b = (w.add("Conv", "x", w.constant(numbers(maps, 8, 1, 1) / 4)) for maps in (96, 40))
    part = w.add("Slice", w.add("Concat", a, b, axis=1), w.integers(32), w.integers(128), w.integers(1))
    part = w.add("Slice", part, w.integers(1), w.integers(1000), w.integers(2), w.integers(2))
    last = w.add("Conv", part, w.constant(numbers(8, 96, 1, 1) / 8))
    model = w.model({"x": (FLOAT, ["n", 8, "h", 6])}, {last: (FLOAT, ["n", 8, "k", 6])})
    program = tx8.compile(model, dtype="fp16", dims={"n": (1, 1, 2), "h": (2, 8, 20)})
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for n, h in ((1, 8), (2, 20), (1, 2), (2, 7)):
        x = numbers(n, 8, h, 6)
        y, (wanted,) = program.run(x, timed=False)[0], session.run(None, {"x": x})
        assert y.shape == wanted.shape
        assert np.abs(y - wanted).max() < 1e-2 * np.abs(wanted).max()


def graph_with(constant: Any) -> Graph:
    x, c = (Tensor(name, "float32", constant.shape) for name in ("x", "c"))
    y = Tensor("y", "float32", constant.shape)
    node = Node("Add", "sum", ("x", "c"), ("y",), {})
    return Graph("g", 20, (x,), (y,), {"c": constant}, (node,), {"x": x, "c": c, "y": y})


def test_corners_of_the_largest_constant_are_taken_from_it() -> None:
    whole = numbers(7, 5)
    graphs = [graph_with(np.ascontiguousarray(whole[:a, :b])) for a, b in ((3, 2), (4, 5), (7, 5))]
    for graph, shape in zip(with_corners(graphs), ((3, 2), (4, 5), (7, 5)), strict=True):
        slice_, total = graph.nodes
        assert slice_.op == "Slice"
        assert total.inputs[1] == slice_.outputs[0]
        data, starts, ends = (graph.constants[name] for name in slice_.inputs)
        assert (data == whole).all()
        assert not starts.any()
        assert tuple(ends) == shape == graph.tensors[slice_.outputs[0]].shape


@pytest.mark.parametrize(
    "arrays",
    [
        [numbers(7, 5)] * 3,
        [numbers(7, 5)[:3], numbers(7, 5)],
        [numbers(7, 5)[:3, 1:3], numbers(7, 5)],
        [numbers(7, 5)[:3, :2], -numbers(7, 5)[:4], numbers(7, 5)],
        [numbers(7, 5)[:3, :2].astype(np.float64), numbers(7, 5)],
    ],
)
def test_other_constants_stay(arrays: list[Any]) -> None:
    graphs = [graph_with(np.ascontiguousarray(array)) for array in arrays]
    assert with_corners(graphs) == graphs


def test_beginnings_are_compared_with_their_bytes() -> None:
    assert is_beginning(np.zeros((2, 3), np.float32), np.zeros((3, 3), np.float32))
    assert not is_beginning(np.zeros((2, 3), np.float32), -np.zeros((3, 3), np.float32))
    assert not is_beginning(np.zeros((2, 3), np.int32), np.zeros((3, 3), np.float32))
    assert not is_beginning(np.zeros((4, 3), np.float32), np.zeros((3, 3), np.float32))
