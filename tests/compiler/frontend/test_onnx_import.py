"""ONNX models become the typed graph: folding, functions, branches, names, external data."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, external_data_helper, helper, numpy_helper

from compiler.cli import main
from compiler.evaluation.reference import run_reference
from compiler.frontend import load
from compiler.graph import GraphError
from compiler.operators import OPERATORS
from compiler_harness import ints
from onnx_models import assert_same, draw, imported, model, operators, saved, value
from onnx_oracle import onnxruntime

node = helper.make_node


def test_shape_arithmetic_is_gone(tmp_path: Path) -> None:
    """The form in which exporters write x.reshape(x.size(0), -1); no node of it remains."""
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Constant", [], ["zero"], value_int=0),
        node("Gather", ["s", "zero"], ["first"], axis=0),
        node("Unsqueeze", ["first", "axes"], ["column"]),
        node("Concat", ["column", "rest"], ["shape"], axis=0),
        node("Relu", ["x"], ["r"]),
        node("Reshape", ["r", "shape"], ["y"]),
    ]
    made = model(nodes, {"x": (2, 3, 4)}, constants={"axes": ints(0), "rest": ints(-1)})
    graph = assert_same(made, {"x": (2, 3, 4)}, tmp_path)
    assert operators(graph) == ["Relu", "Reshape"]
    assert graph.outputs[0].shape == (2, 12)


@pytest.mark.parametrize("opset", [9, 13, 21])
def test_constants_are_computed(opset: int, tmp_path: Path) -> None:
    nodes = [
        node("ConstantOfShape", ["shape"], ["c"], value=numpy_helper.from_array(np.array([3], np.float32))),
        node("Exp", ["c"], ["e"]),
        node("Cast", ["e"], ["f"], to=TensorProto.FLOAT),
        node("Mul", ["x", "f"], ["y"]),
    ]
    made = model(nodes, {"x": (2, 3)}, constants={"shape": ints(2, 3)}, opset=opset)
    assert operators(assert_same(made, {"x": (2, 3)}, tmp_path)) == ["Mul"]


def test_elements_of_a_large_constant_are_taken(tmp_path: Path) -> None:
    """ONNX's evaluator takes at most 32 indices; exporters write the token types of BERT in this form."""
    data = np.arange(2 * 40, dtype=np.float32).reshape(2, 40)
    indices = np.random.default_rng(1).integers(-40, 40, (2, 36))
    nodes = [node("GatherElements", ["d", "i"], ["g"], axis=1), node("Add", ["x", "g"], ["y"])]
    made = model(nodes, {"x": (2, 36)}, constants={"d": data, "i": indices})
    graph = imported(made, tmp_path)
    assert operators(graph) == ["Add"]
    np.testing.assert_array_equal(graph.constants["g"], np.take_along_axis(data, indices, 1))


def test_elements_beyond_a_constant_are_one_line(tmp_path: Path) -> None:
    nodes = [node("GatherElements", ["d", "i"], ["g"], axis=1), node("Add", ["x", "g"], ["y"])]
    constants = {"d": np.zeros((1, 40), np.float32), "i": np.array([[40]])}
    with pytest.raises(GraphError, match=r"GatherElements \(node '.*40"):
        imported(model(nodes, {"x": (1, 1)}, constants=constants), tmp_path)


def test_what_nobody_needs_is_left_away(tmp_path: Path) -> None:
    """A node that no output needs is ignored: neither its operator nor its type is supported."""
    nodes = [
        node("StringNormalizer", ["text"], ["nothing"]),
        node("Sin", ["x"], ["unused"]),
        node("Relu", ["x"], ["y"]),
    ]
    constants = {"text": np.array(["a"], object), "weights": np.zeros(5, np.float64)}
    graph = imported(model(nodes, {"x": (3,)}, constants=constants), tmp_path)
    assert (operators(graph), dict(graph.constants)) == (["Relu"], {})


def test_outputs_that_are_constants_or_equal(tmp_path: Path) -> None:
    nodes = [
        node("Identity", ["w"], ["known"]),
        node("Shape", ["x"], ["shape"]),
        node("Relu", ["x"], ["y"]),
        node("Identity", ["y"], ["again"]),
    ]
    names = ["known", "shape", "y", "again", "w"]
    made = model(nodes, {"x": (2, 5)}, names, {"w": np.ones((1, 2), np.float32)})
    graph = assert_same(made, {"x": (2, 5)}, tmp_path)
    assert set(graph.constants) == {"known", "shape", "w"}


def test_an_input_without_elements_is_known(tmp_path: Path) -> None:
    nodes = [node("ReduceSum", ["x", "axes"], ["s"], keepdims=0), node("Add", ["s", "z"], ["y"])]
    shapes = {"x": (2, 0, 4), "z": (2, 4)}
    graph = assert_same(model(nodes, shapes, constants={"axes": ints(1)}), shapes, tmp_path)
    assert operators(graph) == ["Add"]


def test_names_are_kept_or_made_unique(tmp_path: Path) -> None:
    nodes = [
        node("Relu", ["gpu 0/x:0"], ["a"], name="same"),
        node("Exp", ["a"], ["b"], name="same"),
        node("Tanh", ["b"], ["gpu_0/y_1"]),
    ]
    graph = imported(model(nodes, {"gpu 0/x:0": (3,)}, ["gpu_0/y_1"]), tmp_path)
    assert [n.name for n in graph.nodes] == ["same", "same_", "Tanh_2"]
    assert [t.name for t in (*graph.inputs, *graph.outputs)] == ["gpu 0/x:0", "gpu_0/y_1"]


def test_nodes_may_stand_in_any_order(tmp_path: Path) -> None:
    nodes = [node("Exp", ["a"], ["y"]), node("Relu", ["x"], ["a"])]
    assert operators(imported(model(nodes, {"x": (3,)}), tmp_path)) == ["Relu", "Exp"]


def test_operands_left_away(tmp_path: Path) -> None:
    made = model([node("Clip", ["x", "", "most"], ["y"])], {"x": (3, 4)}, constants={"most": np.float32(0.5)})
    assert_same(made, {"x": (3, 4)}, tmp_path)


@pytest.mark.parametrize("holds", [True, False])
def test_a_known_condition_chooses_its_branch(holds: bool, tmp_path: Path) -> None:
    def branch(op: str) -> object:
        parts = [node(op, ["x"], ["inside"]), node("Mul", ["inside", "two"], ["result"])]
        two = numpy_helper.from_array(np.array([2], np.float32), "two")
        return helper.make_graph(parts, op, [], [value("result", None)], [two])

    choice = node("If", ["c"], ["y"], then_branch=branch("Relu"), else_branch=branch("Exp"))
    made = model([choice], {"x": (2, 3)}, constants={"c": np.array(holds)})
    graph = assert_same(made, {"x": (2, 3)}, tmp_path)
    assert operators(graph)[0] == ("Relu" if holds else "Exp")


def test_an_unknown_condition_chooses_between_graphs(tmp_path: Path) -> None:
    graphs = {
        name: helper.make_graph([node("Relu", ["x"], ["r"])], name, [], [value("r", None)])
        for name in ("then_branch", "else_branch")
    }
    made = model([node("If", ["c"], ["y"], name="n3", **graphs)], {"x": (3,), "c": (1,)})
    made.graph.input[1].CopyFrom(value("c", (1,), bool))
    graph = imported(made, tmp_path)
    (choice,) = graph.nodes
    assert (choice.op, choice.inputs, len(choice.bodies)) == ("If", ("c", "x"), 2)
    assert [[each.op for each in body.nodes][:1] for body in choice.bodies] == [["Relu"], ["Relu"]]


def running_sums(**attrs: object) -> Any:
    """A Scan over x [5, 3]: the sum so far is the state, and doubled the result of each step."""
    parts = [node("Add", ["sum", "row"], ["next"]), node("Mul", ["next", "two"], ["twice"])]
    takes, gives = [value("sum", (3,)), value("row", (3,))], [value("next", (3,)), value("twice", (3,))]
    body = helper.make_graph(parts, "body", takes, gives)
    scan = node("Scan", ["start", "x"], ["last", "y"], name="n3", num_scan_inputs=1, body=body, **attrs)
    constants = {"start": np.zeros(3, np.float32), "two": np.array([2], np.float32)}
    return model([scan], {"x": (5, 3)}, ["last", "y"], constants)


@pytest.mark.parametrize("backward", [0, 1])
def test_scan_is_written_out(backward: int, tmp_path: Path) -> None:
    made = running_sums(scan_input_directions=[backward], scan_output_directions=[backward])
    x = draw({"x": (5, 3)})["x"]
    got = run_reference(imported(made, tmp_path), {"x": x})
    rows = x.astype(np.float64)[::-1] if backward else x.astype(np.float64)
    sums = 2 * np.cumsum(rows, axis=0)
    np.testing.assert_allclose(got["y"], sums[::-1] if backward else sums)
    np.testing.assert_allclose(got["last"], x.astype(np.float64).sum(axis=0))


@pytest.mark.parametrize(("most", "stop", "steps"), [(4, 99, 4), (9, 2, 3), (None, 1, 2), (0, 9, 0)])
def test_loop_is_written_out(most: int | None, stop: int, steps: int, tmp_path: Path) -> None:
    """x doubled in each step, until the number of the step reaches ``stop``."""
    parts = [node("Less", ["i", "stop"], ["on"]), node("Add", ["v", "v"], ["w"])]
    takes = [value("i", (), np.int64), value("c", (), bool), value("v", (3,))]
    body = helper.make_graph(parts, "body", takes, [value("on", (), bool), value("w", (3,))])
    loop = node("Loop", ["" if most is None else "most", "", "x"], ["y"], body=body)
    constants = {"stop": np.array(stop), "most": np.array(most or 0)}
    graph = imported(model([loop], {"x": (3,)}, constants=constants), tmp_path)
    x = draw({"x": (3,)})["x"]
    np.testing.assert_array_equal(run_reference(graph, {"x": x})["y"], x.astype(np.float64) * 2**steps)
    assert operators(graph).count("Add") == steps


def test_functions_of_the_model_are_written_out(tmp_path: Path) -> None:
    imports = [helper.make_opsetid("", 20)]
    function = helper.make_function("mine", "Twice", ["a"], ["b"], [node("Add", ["a", "a"], ["b"])], imports)
    made = model([node("Twice", ["x"], ["y"], domain="mine")], {"x": (3,)}, functions=[function])
    made.opset_import.append(helper.make_opsetid("mine", 1))
    assert operators(assert_same(made, {"x": (3,)}, tmp_path)) == ["Add"]


def test_operators_without_a_record_are_written_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions are imported by the bodies that ONNX defines, one of them with an attribute of the caller."""
    monkeypatch.delitem(OPERATORS, "LeakyRelu")
    monkeypatch.delitem(OPERATORS, "Softmax")
    nodes = [node("LeakyRelu", ["x"], ["a"], alpha=0.25), node("Softmax", ["a"], ["y"], axis=1)]
    graph = assert_same(model(nodes, {"x": (2, 3, 4)}), {"x": (2, 3, 4)}, tmp_path)
    assert not {"LeakyRelu", "Softmax"} & set(operators(graph))
    assert len(graph.nodes) >= 4


def test_external_data(tmp_path: Path) -> None:
    weights = draw({"w": (64, 32)})
    made = model([node("MatMul", ["x", "w"], ["y"])], {"x": (2, 64)}, constants=weights)
    inputs = draw({"x": (2, 64)}, seed=4)
    external_data_helper.convert_model_to_external_data(made, location="weights.bin", size_threshold=16)
    onnx.save(made, tmp_path / "m.onnx")
    got = run_reference(load(tmp_path / "m.onnx"), inputs)["y"]
    np.testing.assert_allclose(got, inputs["x"].astype(np.float64) @ weights["w"])


def test_the_command_line_takes_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = [node("Gemm", ["x", "w"], ["h"], transB=1), node("Softmax", ["h"], ["gpu_0/softmax_1"])]
    made = model(nodes, {"x": (5, 7)}, ["gpu_0/softmax_1"], draw({"w": (11, 7)}), opset=11)
    path = saved(made, tmp_path)
    assert main([str(path), "-q", "--run", "--tiles", "2", "--output-dir", str(tmp_path / "out")]) == 0
    assert (path.with_suffix("") / "prog.bin").exists()
    assert np.load(tmp_path / "out" / "gpu_0_softmax_1.npy").shape == (5, 11)
    assert " pass" in capsys.readouterr().out


def test_reading_graph_json_does_not_load_onnx() -> None:
    code = "import sys, compiler.cli, compiler.frontend.json.reader; print('onnx' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_models_share_external_data_of_one_file_as_long_as_it_stays(tmp_path: Path) -> None:
    made = model([node("MatMul", ["x", "w"], ["y"])], {"x": (2, 64)}, constants=draw({"w": (64, 32)}))
    external_data_helper.convert_model_to_external_data(made, location="weights.bin", size_threshold=16)
    onnx.save(made, tmp_path / "m.onnx")
    first, second = load(tmp_path / "m.onnx"), load(tmp_path / "m.onnx")
    assert first.constants["w"] is second.constants["w"]
    data = np.fromfile(tmp_path / "weights.bin", np.float32)
    (data + 1).tofile(tmp_path / "weights.bin")
    os.utime(tmp_path / "weights.bin", ns=(1, 1))
    changed = load(tmp_path / "m.onnx").constants["w"]
    assert (changed == first.constants["w"] + np.float32(1)).all()


def test_names_of_values_that_look_like_those_of_an_expansion(tmp_path: Path) -> None:
    """A Split that is named as its results are, with numbers."""
    nodes = [
        node("Split", ["x"], ["s.1", "s.2"], name="s", num_outputs=2),
        node("Sub", ["s.1", "s.2"], ["y"]),
    ]
    assert_same(model(nodes, {"x": (4, 3)}), {"x": (4, 3)}, tmp_path)


_DOUBLE = {"to": TensorProto.DOUBLE}
_OF_DOUBLES: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "a product": (
        [
            node("Cast", ["x"], ["d"], **_DOUBLE),
            node("Mul", ["d", "c"], ["e"]),
            node("Cast", ["e"], ["y"], to=1),
        ],
        {"c": np.array(3.5)},
    ),
    "a type taken over": (
        [node("CastLike", ["x", "c"], ["d"]), node("Cast", ["d"], ["y"], to=1)],
        {"c": np.array(3.5)},
    ),
    "a constant exponent": ([node("Pow", ["x", "c"], ["y"])], {"c": np.array(2.0)}),
    "a matrix": (
        [
            node("EyeLike", ["x"], ["e"], dtype=TensorProto.DOUBLE),
            node("Cast", ["e"], ["f"], to=1),
            node("Add", ["x", "f"], ["y"]),
        ],
        {},
    ),
}


@pytest.mark.parametrize("name", _OF_DOUBLES)
def test_nodes_of_float64_are_computed_in_float32(name: str, tmp_path: Path) -> None:
    nodes, constants = _OF_DOUBLES[name]
    made = model(nodes, {"x": (2, 3)}, constants=constants)
    graph = assert_same(made, {"x": (2, 3)}, tmp_path)
    assert graph.doubles
    assert all(tensor.dtype != "float64" for tensor in graph.tensors.values() if tensor.name != "c")


def test_constants_of_float64_are_folded_in_float64(tmp_path: Path) -> None:
    """2^30 + 1 - 2^30 is 1 in float64 and 0 in float32."""
    nodes = [node("Sub", ["a", "b"], ["d"]), node("Cast", ["d"], ["f"], to=1), node("Add", ["x", "f"], ["y"])]
    made = model(nodes, {"x": (2,)}, constants={"a": np.array(2.0**30 + 1), "b": np.array(2.0**30)})
    graph = assert_same(made, {"x": (2,)}, tmp_path)
    assert graph.doubles == () and operators(graph) == ["Add"]


def test_a_note_names_the_nodes_of_float64(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes, constants = _OF_DOUBLES["a product"]
    path = saved(model(nodes, {"x": (2, 3)}, constants=constants), tmp_path)
    assert main([str(path), "-o", str(tmp_path / "out")]) == 0
    noted = capsys.readouterr().out
    assert "computed in float32 instead of float64: 2 nodes ('Cast_0', 'Mul_1')" in noted


def test_an_output_of_float64_is_refused_in_the_same_words_by_the_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = model([node("Cast", ["x"], ["y"], **_DOUBLE)], {"x": (2, 3)})
    made.graph.output[0].CopyFrom(value("y", (2, 3), np.float64))
    path = saved(made, tmp_path)
    message = "output 'y' is declared as float64; the nodes give float32: add a Cast to float32"
    for more in ([], ["--check"]):
        assert main([str(path), *more, "-o", str(tmp_path / "out")][: 2 if more else None]) > 0
        found = capsys.readouterr()
        assert message in found.out + found.err


@pytest.mark.parametrize("op", ["GlobalMaxPool", "LRN"])
def test_records_compute_constants(op: str, tmp_path: Path) -> None:
    """ONNX's evaluator omits an axis of the first one, and sums over other channels in the second."""
    w = np.random.default_rng(3).standard_normal((3, 4, 5) if op == "GlobalMaxPool" else (4, 4, 2, 2))
    attrs = {"size": 3} if op == "LRN" else {}
    made = model([node(op, ["w"], ["v"], **attrs), node("Add", ["x", "v"], ["y"])], {"x": (1,)})
    constant = numpy_helper.from_array(w.astype(np.float32), "w")
    made.graph.initializer.append(constant)
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    (wanted,) = session.run(None, {"x": np.zeros(1, np.float32)})
    got = run_reference(imported(made, tmp_path), {"x": np.zeros(1, np.float32)})["y"]
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, rtol=1e-5)
