"""The models that are measured: networks with seeded weights, a large matrix product and a large attention.

A case has the model that is compiled, the same model in binary32 for onnxruntime, and inputs whose values
both formats can represent.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples/networks"))
from light import NAMES as NETWORKS
from light import image, light_model

Array = np.ndarray[Any, Any]

GEMM, ATTENTION = "gemm4096", "attention"
SIZE = 4096
"""Rows and columns of each matrix of the product."""
HEADS, SEQUENCE, WIDTH = 16, 2048, 128
NAMES = (*NETWORKS, GEMM, ATTENTION)
_OPSET = 17


@dataclass(frozen=True)
class Case:
    """A model to measure. ``inputs`` are binary32 arrays, with values that the declared type has."""

    name: str
    model: onnx.ModelProto
    single: onnx.ModelProto
    inputs: dict[str, Array]
    dtype: str
    """The --dtype of tx8cc."""


def cases(name: str) -> list[Case]:
    """A network in both 16-bit formats; a product and an attention with operands in BF16 and in FP32."""
    if name in NETWORKS:
        model = light_model(name)
        return [Case(name, model, model, image(model), dtype) for dtype in ("fp16", "bf16")]
    single = _made(name, TensorProto.FLOAT)
    inputs = _random(single)
    return [
        Case(name, _made(name, TensorProto.BFLOAT16), single, inputs, "bf16"),
        Case(f"{name}, operands in fp32,", single, single, inputs, "bf16"),
    ]


def _made(name: str, kind: int) -> onnx.ModelProto:
    return gemm(kind) if name == GEMM else attention(kind)


def gemm(kind: int, size: int = SIZE) -> onnx.ModelProto:
    """y = a b with matrices [size, size]; ``kind`` is the number of the element type in onnx."""
    return _model(GEMM, kind, [helper.make_node("MatMul", ["a", "b"], ["y"])], "ab", (size, size))


def attention(kind: int, shape: tuple[int, int, int] = (HEADS, SEQUENCE, WIDTH)) -> onnx.ModelProto:
    """y = softmax(q k' / sqrt(width)) v in single operators; all tensors are [1, heads, sequence, width]."""
    scale = helper.make_tensor("scale", kind, [], [shape[-1] ** -0.5])
    nodes = [
        helper.make_node("Constant", [], ["scale"], value=scale),
        helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["q", "kt"], ["scores"]),
        helper.make_node("Mul", ["scores", "scale"], ["scaled"]),
        helper.make_node("Softmax", ["scaled"], ["shares"], axis=-1),
        helper.make_node("MatMul", ["shares", "v"], ["y"]),
    ]
    return _model(ATTENTION, kind, nodes, "qkv", (1, *shape))


def _model(
    name: str, kind: int, nodes: Sequence[onnx.NodeProto], inputs: str, shape: tuple[int, ...]
) -> onnx.ModelProto:
    """A model whose inputs and output ``y`` all have the same shape."""
    values = [helper.make_tensor_value_info(value, kind, shape) for value in (*inputs, "y")]
    graph = helper.make_graph(nodes, name, values[:-1], values[-1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=8)
    onnx.checker.check_model(model)
    return model


def _random(model: onnx.ModelProto) -> dict[str, Array]:
    """Normally distributed numbers that BF16 can represent, the same in every run."""
    generator = np.random.RandomState(0)
    return {
        value.name: generator.standard_normal([dim.dim_value for dim in value.type.tensor_type.shape.dim])
        .astype(ml_dtypes.bfloat16)
        .astype(np.float32)
        for value in model.graph.input
    }
