"""Reads the operators that onnxruntime writes into models in addition to ONNX's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper, numpy_helper

import compiler
from compiler.evaluation.reference import run_reference
from compiler.graph import Array, GraphError
from compiler.tools import run
from microsoft_cases import MicrosoftCall, floats
from onnx_models import imported, model, value
from onnx_oracle import onnxruntime

ROTARY = {"num_heads": 2, "do_rotary": 1}


def test_a_layer_normalization_before_onnx_had_it(tmp_path: Path) -> None:
    """onnxruntime's optimiser writes it into models of any operator set."""
    node = helper.make_node("LayerNormalization", ["x", "g", "b"], ["y"], epsilon=1e-3)
    known = {"g": floats(8), "b": floats(8)}
    made, x = model([node], {"x": (2, 3, 8)}, constants=known, opset=11), floats(2, 3, 8)
    wanted = onnxruntime.InferenceSession(made.SerializeToString()).run(None, {"x": x})[0]
    graph = imported(made, tmp_path)
    assert [node.op for node in graph.nodes] == ["LayerNormalization"]
    np.testing.assert_allclose(run_reference(graph, {"x": x})["y"], wanted, atol=1e-5)


def test_quantisation_of_the_other_domain(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], domain="com.microsoft"),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], domain="com.microsoft"),
    ]
    known = {"s": np.array(0.05, np.float32), "z": np.array(7, np.int8)}
    made, x = model(nodes, {"x": (4, 9)}, constants=known, opset=21), floats(4, 9)
    made.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    wanted = onnxruntime.InferenceSession(made.SerializeToString()).run(None, {"x": x})[0]
    found = run.execute(compiler.compile(imported(made, tmp_path), "fp32", tiles=2), {"x": x})[0]
    np.testing.assert_array_equal(found["y"], wanted)


def test_a_length_that_comes_from_a_shape(tmp_path: Path) -> None:
    """Exporters of decoders write it so: the lengths come from the mask, which is an input."""
    nodes = [
        helper.make_node("Shape", ["mask"], ["shape"], start=1, end=2),
        helper.make_node("Cast", ["shape"], ["wide"], to=6),
        helper.make_node("Squeeze", ["wide"], ["total"]),
        helper.make_node("ReduceSum", ["mask", "axes"], ["sums"], keepdims=0),
        helper.make_node("Sub", ["sums", "one"], ["ends"]),
        helper.make_node("Cast", ["ends"], ["last"], to=6),
        helper.make_node(
            "GroupQueryAttention",
            ["q", "k", "v", "pk", "pv", "last", "total"],
            ["y", "keys", "values"],
            domain="com.microsoft",
            num_heads=4,
            kv_num_heads=2,
        ),
    ]
    feeds: dict[str, Array] = {
        "mask": np.array([[1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1]], np.int64),
        "q": floats(2, 1, 64),
        "k": floats(2, 1, 32),
        "v": floats(2, 1, 32),
        "pk": floats(2, 2, 5, 16),
        "pv": floats(2, 2, 5, 16),
    }
    known = {"axes": np.array([1]), "one": np.array(1)}
    graph = helper.make_graph(
        nodes,
        "decoder",
        [value(name, array.shape, array.dtype) for name, array in feeds.items()],
        [value("y", None), value("keys", None), value("values", None)],
        [numpy_helper.from_array(array, name) for name, array in known.items()],
    )
    versions = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    made = helper.make_model(graph, opset_imports=versions, ir_version=10)
    wanted = onnxruntime.InferenceSession(made.SerializeToString()).run(["y"], feeds)[0]
    found = run.execute(compiler.compile(imported(made, tmp_path), "fp32", tiles=4), feeds)[0]
    np.testing.assert_allclose(found["y"], wanted, atol=1e-5)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (MicrosoftCall("MoE", {"x": floats(2, 4)}), "unsupported operator com.microsoft.MoE (node 'n')"),
        (
            MicrosoftCall(
                "Attention", {"x": floats(1, 2, 4), "w": floats(4, 12)}, {"num_heads": 2, "do_rotary": 1}
            ),
            "unsupported operator com.microsoft.Attention (node 'n'): "
            "attribute do_rotary must be one of 0; found 1",
        ),
        (
            MicrosoftCall("FusedMatMul", {"a": floats(2, 3), "b": floats(4, 5)}),
            "unsupported operator com.microsoft.FusedMatMul (node 'n'): is computed with MatMul: "
            "The last axis of A must be as long as the last but one axis of B (the only one of a vector); "
            "found [2, 3] and [4, 5]",
        ),
    ],
    ids=lambda item: getattr(item, "op", None),
)
def test_refusals_name_the_node(made: MicrosoftCall, message: str, tmp_path: Path) -> None:
    with pytest.raises(GraphError) as caught:
        made.graph(tmp_path)
    assert str(caught.value) == message
