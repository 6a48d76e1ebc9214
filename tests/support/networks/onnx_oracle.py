"""Bridges between ONNX models and graph descriptions, for tests that compare with ONNX's own tools."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from compiler.evaluation.infer import build_graph
from compiler.graph import DTYPES, Array, AttrValue, Description, Graph, Node, Tensor
from compiler.operators import OPERATORS


def _needed(name: str) -> Any:
    """An outside oracle: missing is a reason to skip on a desk, a failure in CI."""
    if os.environ.get("CI") == "true":
        return __import__(name)
    return pytest.importorskip(name)


onnx = _needed("onnx")
onnxruntime = _needed("onnxruntime")

ELEMENT_TYPES = {
    "float32": onnx.TensorProto.FLOAT,
    "float16": onnx.TensorProto.FLOAT16,
    "bfloat16": onnx.TensorProto.BFLOAT16,
    "int8": onnx.TensorProto.INT8,
    "uint8": onnx.TensorProto.UINT8,
    "int16": onnx.TensorProto.INT16,
    "uint16": onnx.TensorProto.UINT16,
    "int32": onnx.TensorProto.INT32,
    "uint32": onnx.TensorProto.UINT32,
    "int64": onnx.TensorProto.INT64,
    "bool": onnx.TensorProto.BOOL,
}


@dataclass
class Case:
    """One node with its operands by name; those the record calls constant become constants of the graph."""

    op: str
    operands: Mapping[str, Array]
    attrs: Mapping[str, AttrValue] = field(default_factory=dict)
    opset: int = 20
    inputs: Sequence[str] | None = None

    def names(self) -> tuple[str, ...]:
        return tuple(self.operands) if self.inputs is None else tuple(self.inputs)

    def constants(self) -> set[str]:
        declared = zip(self.names(), OPERATORS[self.op].inputs, strict=False)
        return {name for name, item in declared if item.constant and name}

    def fed(self) -> dict[str, Array]:
        return {name: array for name, array in self.operands.items() if name not in self.constants()}

    def graph(self) -> Graph:
        return build_graph(
            Description(
                source="case",
                name="case",
                opset=self.opset,
                inputs=tuple(Tensor(n, a.dtype.name, a.shape) for n, a in self.fed().items()),
                outputs=("out",),
                constants={name: self.operands[name] for name in self.constants()},
                nodes=(Node(self.op, "n", self.names(), ("out",), self.attrs),),
            )
        )

    def model(self) -> Any:
        """The same node as an ONNX model whose output has no declared shape."""
        helper = onnx.helper
        node = helper.make_node(self.op, self.names(), ["out"], name="n", **self.attrs)
        inputs = [
            helper.make_tensor_value_info(name, ELEMENT_TYPES[array.dtype.name], array.shape)
            for name, array in self.fed().items()
        ]
        dtype = next(iter(self.operands.values())).dtype.name
        output = helper.make_tensor_value_info("out", ELEMENT_TYPES[dtype], None)
        weights = [onnx.numpy_helper.from_array(self.operands[name], name) for name in self.constants()]
        graph = helper.make_graph([node], "case", inputs, [output], weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)


def run_onnxruntime(model: Any, inputs: Mapping[str, Array]) -> Array:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return np.asarray(session.run(None, dict(inputs))[0])


def run_evaluator(model: Any, inputs: Mapping[str, Array]) -> Array:
    """Return the results of onnx.reference, written in NumPy alongside the specification."""
    from onnx.reference import ReferenceEvaluator

    return np.asarray(ReferenceEvaluator(model).run(None, dict(inputs))[0])


def inferred_by_onnx(model: Any) -> tuple[str, tuple[int, ...]]:
    """Dtype and shape of the only output as onnx.shape_inference has them."""
    found = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True).graph.output[0]
    dtype = next(k for k, v in ELEMENT_TYPES.items() if v == found.type.tensor_type.elem_type)
    return dtype, tuple(dim.dim_value for dim in found.type.tensor_type.shape.dim)


def as_array(value: Any) -> Array:
    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)


def supported(test: Any, inputs: Mapping[str, Array]) -> bool:
    """Return True if a node test has only operators and element types of graph.json.

    It has no operators with subgraphs; those are read from ONNX (test_onnx_control.py).
    """
    opset = test.model.opset_import[0].version
    known = {name for name, record in OPERATORS.items() if not record.bodies and record.since <= opset}
    return {node.op_type for node in test.model.graph.node} <= known and all(
        array.dtype.name in DTYPES for array in inputs.values()
    )


def describe(test: Any, inputs: Mapping[str, Array]) -> Description:
    """A node test as a description of its first output; operands that fix shapes become constants."""
    graph = test.model.graph
    fixed = {
        name
        for node in graph.node
        for item, name in zip(OPERATORS[node.op_type].inputs, node.input, strict=False)
        if item.constant and name
    }
    nodes = [
        Node(n.op_type, n.name or f"n{index}", tuple(n.input), tuple(n.output), _attributes(n))
        for index, n in enumerate(graph.node)
    ]
    return Description(
        source=test.name,
        name=test.name,
        opset=test.model.opset_import[0].version,
        inputs=tuple(Tensor(n, a.dtype.name, a.shape) for n, a in inputs.items() if n not in fixed),
        outputs=(graph.output[0].name,),
        constants={name: array for name, array in inputs.items() if name in fixed},
        nodes=tuple(nodes),
    )


def _attributes(node: Any) -> dict[str, AttrValue]:
    values: dict[str, AttrValue] = {}
    for attribute in node.attribute:
        value = onnx.helper.get_attribute_value(attribute)
        if isinstance(value, bytes):
            value = value.decode()
        values[attribute.name] = tuple(value) if isinstance(value, list) else value
    return values
