"""Graph inputs and outputs of unusual kinds: empty, passed through, listed twice, constants, odd names."""

from __future__ import annotations

import numpy as np
import pytest

import asm
import compiler
from asm.image import read_image, write_image
from compiler.evaluation.infer import build_graph
from compiler.graph import Array, Description, Graph, Node, Tensor
from compiler.tools import run
from compiler_harness import assert_in_order

DTYPES = ("fp32", "fp16")


def described(
    inputs: dict[str, tuple[int, ...]],
    outputs: tuple[str, ...],
    nodes: tuple[Node, ...] = (),
    constants: dict[str, Array] | None = None,
) -> Graph:
    tensors = tuple(Tensor(name, "float32", shape) for name, shape in inputs.items())
    return build_graph(Description("here", "g", 22, tensors, outputs, constants or {}, nodes))


def ran(graph: Graph, dtype: str, **inputs: Array) -> dict[str, Array]:
    program = compiler.compile(graph, dtype, 2)
    outputs, _ = run.execute(program, inputs)
    assert_in_order(program, outputs)
    return outputs


@pytest.mark.parametrize("dtype", DTYPES)
def test_tensors_without_elements_keep_their_shape(dtype: str) -> None:
    nodes = (
        Node("Relu", "n0", ("none",), ("still",), {}),
        Node("ReduceSum", "n1", ("none", "axes"), ("zeros",), {"keepdims": 0}),
        Node("Neg", "n2", ("x",), ("y",), {}),
    )
    axes = {"axes": np.array([1])}
    graph = described({"none": (2, 0, 3), "x": (4,)}, ("still", "zeros", "y"), nodes, axes)
    got = ran(graph, dtype, none=np.zeros((2, 0, 3), np.float32), x=np.arange(4, dtype=np.float32))
    assert got["still"].shape == (2, 0, 3) and got["still"].dtype == np.float32
    assert np.array_equal(got["zeros"], np.zeros((2, 3))) and got["y"].tolist() == [0, -1, -2, -3]


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_output_that_is_an_input_is_its_copy(dtype: str) -> None:
    graph = described({"x": (3, 5)}, ("y", "x"), (Node("Relu", "n0", ("x",), ("y",), {}),))
    x = np.linspace(-1, 1, 15, dtype=np.float16).astype(np.float32).reshape(3, 5)
    got = ran(graph, dtype, x=x)
    assert np.array_equal(got["x"], x) and np.array_equal(got["y"], np.maximum(x, 0))


def test_a_graph_of_nothing_but_an_input() -> None:
    x = np.arange(6, dtype=np.float32)
    assert np.array_equal(ran(described({"x": (6,)}, ("x",)), "fp32", x=x)["x"], x)
    empty = np.zeros((0, 2), np.float32)
    assert ran(described({"x": (0, 2)}, ("x",)), "fp32", x=empty)["x"].shape == (0, 2)


def test_an_output_that_is_a_constant() -> None:
    constant = np.arange(6, dtype=np.float32).reshape(2, 3)
    graph = described({}, ("c",), constants={"c": constant})
    assert np.array_equal(ran(graph, "fp32")["c"], constant)


def test_an_output_listed_again_has_its_places() -> None:
    nodes = (Node("Neg", "n0", ("x",), ("y",), {}), Node("Relu", "n1", ("x",), ("y.2",), {}))
    graph = described({"x": (3,)}, ("y", "x", "y", "y.2", "x"), nodes)
    assert [tensor.name for tensor in graph.outputs] == ["y", "x", "y.2_", "y.2", "x.4"]
    found = ran(graph, "fp32", x=np.ones(3, np.float32))
    assert [array.tolist() for array in found.values()] == [[value] * 3 for value in (-1, 1, -1, 1, 1)]


@pytest.mark.parametrize("name", ["gpu_0/out put", "a0", "v.1", "_start", 'quo"te'])
@pytest.mark.parametrize("shape", [(3,), (0, 3)])
def test_names_that_assembly_cannot_spell(name: str, shape: tuple[int, ...]) -> None:
    graph = described({name: shape}, ("y", name), (Node("Neg", "n0", (name,), ("y",), {}),))
    x = np.ones(shape, np.float32)
    got = ran(graph, "fp32", **{name: x})
    assert np.array_equal(got[name], x) and np.array_equal(got["y"], -x)


def test_the_image_of_such_a_graph_is_written_and_disassembled_alike() -> None:
    nodes = (Node("Neg", "n0", ("x",), ("y",), {}), Node("Relu", "n1", ("none",), ("n/1",), {}))
    graph = described({"x": (3,), "none": (0,)}, ("y", "x", "n/1"), nodes)
    image = compiler.compile(graph, "fp32", 1).image
    data = write_image(image)
    again = read_image(data, "prog.bin")
    assert again.buffers == image.buffers
    assert [(b.kind, b.name, b.shape) for b in again.buffers] == [
        ("input", "x", (3,)),
        ("output", "y", (3,)),
        ("input", "none", (0,)),
        ("output", "x", (3,)),
        ("output", "n/1", (0,)),
    ]
    assert asm.assemble(asm.disassemble(again)).buffers == image.buffers
