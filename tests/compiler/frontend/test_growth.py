"""Sources of a kilobyte that would expand to nodes and constants without limit are refused at once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import FunctionProto, NodeProto, TensorProto, helper

from compiler.driver import compile_graph
from compiler.evaluation.survey import Survey
from compiler.frontend.json.reader import load_graph
from compiler.frontend.onnx.binding import Binding
from compiler.frontend.onnx.importer import describe, graph_of_bytes
from compiler.frontend.stablehlo.importer import graph_of_module
from compiler.frontend.stablehlo.text import parsed
from compiler.graph import GraphError
from compiler.tools.check import check_model
from onnx_models import model
from tx8isa.tools import budget

MANY = 300_000_000
one = helper.make_node


def ints(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int64)


def floats(*values: float) -> np.ndarray[Any, Any]:
    return np.array(values, np.float32)


def filled(*shape: int) -> tuple[list[NodeProto], dict[str, Any]]:
    """A constant of a shape, "w"."""
    return [one("ConstantOfShape", ["s"], ["w"])], {"s": ints(*shape)}


def grown(*nodes: NodeProto, shape: Sequence[int]) -> tuple[list[NodeProto], dict[str, Any]]:
    """Nodes on such a constant."""
    first, constants = filled(*shape)
    return [*first, *nodes], constants


def concatenated() -> list[NodeProto]:
    names = ["v", "a", "b", "d", "e", "c"]
    return [one("Concat", [x] * 64, [y], axis=0) for x, y in pairwise(names)]


def repeated(steps: int) -> tuple[list[NodeProto], dict[str, Any]]:
    """A loop that doubles its carried value."""
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [one("Concat", ["v", "v"], ["w"], axis=0), one("Identity", ["on"], ["go"])],
        "body",
        [value("i", TensorProto.INT64, []), value("on", TensorProto.BOOL, []), value("v", 1, None)],
        [value("go", TensorProto.BOOL, []), value("w", 1, None)],
    )
    return [one("Loop", ["n", "", "v"], ["c"], body=body)], {"n": ints(steps), "v": floats(1)}


GROWING: dict[str, tuple[list[NodeProto], dict[str, Any]]] = {
    "Expand": ([one("Expand", ["v", "s"], ["c"])], {"v": floats(1), "s": ints(MANY)}),
    "Expand of int16": ([one("Expand", ["v", "s"], ["c"])], {"v": np.ones(1, "i2"), "s": ints(MANY)}),
    "Tile": ([one("Tile", ["v", "s"], ["c"])], {"v": floats(1), "s": ints(MANY)}),
    "Tile of float64": ([one("Tile", ["v", "s"], ["c"])], {"v": np.ones(1), "s": ints(MANY)}),
    "ConstantOfShape": ([one("ConstantOfShape", ["s"], ["c"])], {"s": ints(MANY)}),
    "many": (
        [one("ConstantOfShape", ["s"], [f"k{at}"]) for at in range(9)]
        + [one("Sum", [f"k{at}" for at in range(9)], ["c"])],
        {"s": ints(5_000_000)},
    ),
    "Range": (
        [one("Range", ["a", "b", "d"], ["c"])],
        {"a": np.float32(0), "b": np.float32(MANY), "d": np.float32(1)},
    ),
    "OneHot": (
        [one("OneHot", ["i", "d", "two"], ["c"])],
        {"i": ints(*range(30)), "d": ints(10_000_000), "two": floats(0, 1)},
    ),
    "Pad": ([one("Pad", ["v", "p"], ["c"])], {"v": floats(1), "p": ints(0, MANY)}),
    "Concat": (concatenated(), {"v": floats(1)}),
    "Resize": (
        [one("Resize", ["v", "", "", "z"], ["c"])],
        {"v": np.ones((1, 1, 1, 1), "f4"), "z": ints(1, 1, 30000, 30000)},
    ),
    "HannWindow": ([one("HannWindow", ["n"], ["c"])], {"n": np.array(MANY)}),
    "BlackmanWindow": ([one("BlackmanWindow", ["n"], ["c"])], {"n": np.array(MANY)}),
    "CenterCropPad": ([one("CenterCropPad", ["v", "s"], ["c"])], {"v": floats(1), "s": ints(MANY)}),
    "AffineGrid": (
        [one("AffineGrid", ["t", "z"], ["c"])],
        {"t": np.ones((1, 2, 3), "f4"), "z": ints(1, 1, 30000, 30000)},
    ),
    "outer sum": (
        [one("Tile", ["v", "s"], ["w"]), one("Unsqueeze", ["w", "o"], ["u"]), one("Add", ["w", "u"], ["c"])],
        {"v": floats(1), "s": ints(20000), "o": ints(1)},
    ),
    "Gather": (
        [one("Expand", ["z", "s"], ["w"]), one("Gather", ["v", "w"], ["c"])],
        {"z": ints(0), "s": ints(12_000_000), "v": floats(1, 2)},
    ),
    "MatMul": grown(one("MatMul", ["w", "w"], ["c"]), shape=(2500, 2500)),
    "Einsum": grown(one("Einsum", ["w", "w", "w"], ["c"], equation="i,j,k->ijk"), shape=(700,)),
    "Conv": (
        [
            one("ConstantOfShape", ["s"], ["w"]),
            one("ConstantOfShape", ["k"], ["u"]),
            one("Conv", ["w", "u"], ["c"], pads=[50] * 4),
        ],
        {"s": ints(1, 16, 100, 100), "k": ints(16, 16, 101, 101)},
    ),
    "Unique": grown(one("Unique", ["w"], ["c"]), shape=(20_000_000,)),
    "Det": grown(one("Det", ["w"], ["c"]), shape=(20_000, 16, 16)),
    "a loop": repeated(40),
}


@pytest.mark.parametrize("name", GROWING)
def test_constants_that_grow_are_refused(name: str) -> None:
    nodes, constants = GROWING[name]
    ends = [
        one("Cast", ["c"], ["f"], to=TensorProto.FLOAT),
        one("ReduceSum", ["f"], ["r"], keepdims=0),
        one("Add", ["x", "r"], ["y"]),
    ]
    made = model([*nodes, *ends], {"x": (4,)}, outputs=("y",), constants=constants)
    assert made.ByteSize() < 4000
    with pytest.raises(GraphError, match=r"would take [\d,]+ (bytes|steps of work) before a run"):
        describe(made, Path("m.onnx"), Binding())


def test_constants_of_a_usual_size_are_computed() -> None:
    nodes = [one("Expand", ["v", "s"], ["c"]), one("Tile", ["c", "t"], ["d"]), one("Add", ["x", "d"], ["y"])]
    constants = {"v": floats(2), "s": ints(1, 1024), "t": ints(1024, 1)}
    found = describe(model(nodes, {"x": (1024, 1024)}, constants=constants), Path("m.onnx"), Binding())
    assert [node.op for node in found.nodes] == ["Add"]
    assert (found.constants["d"] == 2).all()


def doubling(levels: int) -> list[FunctionProto]:
    """Functions, each of which calls the one before twice."""
    own = [helper.make_opsetid("", 20), helper.make_opsetid("d", 1)]
    body = [one("Relu", ["a"], ["b"])]
    found = []
    for at in range(levels):
        found.append(helper.make_function("d", f"f{at}", ["a"], ["b"], body, own))
        body = [one(f"f{at}", [x], [y], domain="d") for x, y in (("a", "t"), ("t", "b"))]
    return found


def calls(levels: int) -> Any:
    made = model([one(f"f{levels - 1}", ["x"], ["y"], domain="d")], {"x": (4,)}, opset=20)
    made.functions.extend(doubling(levels))
    made.opset_import.append(helper.make_opsetid("d", 1))
    return made


def test_functions_that_double() -> None:
    assert len(graph_of_bytes(calls(5).SerializeToString(), "m.onnx").nodes) == 16
    with pytest.raises(
        GraphError, match=r"m\.onnx: its functions, written out, would take 17,179,869,184 steps"
    ):
        graph_of_bytes(calls(30).SerializeToString(), "m.onnx")


def nested(depth: int, node: NodeProto) -> NodeProto:
    """Nested loops of 900 steps each."""
    value = helper.make_tensor_value_info
    for at in range(depth):
        state, result = node.input[-1] if at else "v", node.output[0]
        body = helper.make_graph(
            [node, one("Identity", [f"on{at}"], [f"go{at}"])],
            f"body{at}",
            [value(f"i{at}", 7, []), value(f"on{at}", 9, []), value(state, 1, [4])],
            [value(f"go{at}", 9, []), value(result, 1, [4])],
        )
        node = one("Loop", ["n", "", f"s{at}"], [f"r{at}"], body=body)
    node.input[-1] = "x"
    node.output[0] = "y"
    return node


def test_loops_in_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "STEPS", 1 << 15)
    made = model([nested(4, one("Sin", ["v"], ["w"]))], {"x": (4,)}, constants={"n": ints(900)})
    wanted = r"m\.onnx: written out, with its loops and functions, it would take 32 steps of work"
    survey = Survey()
    with pytest.raises(GraphError, match=wanted):
        describe(made, Path("m.onnx"), Binding(), survey)
    with pytest.raises(GraphError, match=wanted):  # --check has nothing to print in a table
        check_model(lambda path, survey: describe(made, path, Binding(), survey), Path("m.onnx"))


def module(*functions: str) -> str:
    return f'"builtin.module"() ({{\n{"".join(functions)}}}) : () -> ()\n'


def function(name: str, body: str) -> str:
    kind = "tensor<4xf32>"
    return (
        f'"func.func"() ({{\n^bb0(%a: {kind}):\n{body}\n"func.return"(%c) : ({kind}) -> ()\n}}) '
        f'{{function_type = ({kind}) -> {kind}, sym_name = "{name}"}} : () -> ()\n'
    )


def test_calls_of_stablehlo_that_double(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "STEPS", 1 << 12)
    kind = "tensor<4xf32>"
    texts = [function("f0", f'%c = "stablehlo.exponential"(%a) : ({kind}) -> {kind}')]
    for at in range(30):
        call = f'"func.call"(%{{}}) {{{{callee = @f{at}}}}} : ({kind}) -> {kind}'
        body = f"%b = {call.format('a')}\n%c = {call.format('b')}"
        texts.append(function("main" if at == 29 else f"f{at + 1}", body))
    with pytest.raises(GraphError, match=r"m\.mlir: written out, with its loops and calls, it would take"):
        graph_of_module(parsed(module(*texts), "m.mlir"), "m")


def test_a_constant_of_one_number_and_many_elements() -> None:
    many = f"tensor<{MANY}xf32>"
    body = f'%b = "stablehlo.constant"() {{value = dense<1.0> : {many}}} : () -> {many}'
    with pytest.raises(GraphError, match=rf"m\.mlir:4: .*a constant of {MANY} elements would take"):
        parsed(module(function("main", body)), "m.mlir")


def test_a_graph_in_json_that_grows(tmp_path: Path) -> None:
    document = {
        "opset": 20,
        "inputs": [{"name": "x", "dtype": "float32", "shape": [4]}],
        "outputs": ["y"],
        "constants": {"v": {"dtype": "float32", "data": [1.0]}, "s": {"dtype": "int64", "data": [MANY]}},
        "nodes": [
            {"op": "Expand", "inputs": ["v", "s"], "outputs": ["c"]},
            {"op": "ReduceSum", "inputs": ["c"], "outputs": ["r"], "attrs": {"keepdims": 0}},
            {"op": "Add", "inputs": ["x", "r"], "outputs": ["y"]},
        ],
    }
    (tmp_path / "g.json").write_text(json.dumps(document))
    graph = load_graph(tmp_path / "g.json")
    with pytest.raises(GraphError, match=r"Expand \(node 'Expand_0'\): on constants: would take"):
        compile_graph(graph)
