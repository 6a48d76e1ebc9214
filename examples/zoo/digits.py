"""Networks trained on scikit-learn's handwritten digits: the CNN of examples/digits, and a small ResNet."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file

from task import Array, Outputs, Task, share_right

HERE = Path(__file__).resolve().parent
DIGITS = HERE.parent / "digits"

BLOCKS = (("block1", 16), ("block2", 32))
"""The residual blocks of the ResNet and their channels; between them are a pool and a convolution."""


def digits_task() -> Task:
    """The CNN on all of its test images at once."""
    graph = json.loads((DIGITS / "digits.json").read_text())
    nodes = [
        helper.make_node(item["op"], item["inputs"], item["outputs"], item["name"], **item.get("attrs", {}))
        for item in graph["nodes"]
    ]
    model = _model("digits", nodes, load_file(DIGITS / "weights.safetensors"))
    return _task("digits CNN", model)


def resnet_task() -> Task:
    """The ResNet that train_resnet.py trained, on the same images."""
    return _task("digits ResNet", resnet(load_file(HERE / "resnet.safetensors")))


def resnet(weights: dict[str, Array]) -> onnx.ModelProto:
    """A model of the weights: a convolution, a block, a pool, a convolution, a block, a mean, a product."""
    nodes: list[onnx.NodeProto] = []

    def node(op: str, name: str, *inputs: str, **attrs: object) -> str:
        nodes.append(helper.make_node(op, [*inputs], [name], name, **attrs))
        return name

    def convolved(x: str, name: str) -> str:
        y = node("Conv", f"{name}.conv", x, f"{name}.conv.weight", kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        parts = (f"{name}.bn.{part}" for part in ("scale", "shift", "mean", "variance"))
        return node("BatchNormalization", f"{name}.bn", y, *parts, epsilon=1e-5)

    value = node("Relu", "stem", convolved("x", "in"))
    for number, (block, _) in enumerate(BLOCKS):
        if number:
            pooled = node("MaxPool", "pool", value, kernel_shape=[2, 2], strides=[2, 2])
            value = node("Relu", "wide", convolved(pooled, "widen"))
        inner = node("Relu", f"{block}.relu", convolved(value, f"{block}.one"))
        value = node("Relu", block, node("Add", f"{block}.sum", convolved(inner, f"{block}.two"), value))
    flat = node("Flatten", "flat", node("GlobalAveragePool", "mean", value))
    node("Softmax", "probabilities", node("Gemm", "logits", flat, "fc.weight", "fc.bias", transB=1), axis=-1)
    return _model("resnet", nodes, weights)


def _model(name: str, nodes: Sequence[onnx.NodeProto], weights: dict[str, Array]) -> onnx.ModelProto:
    """A model from ``x`` [N, 1, 8, 8] to ``probabilities`` [N, 10]."""
    ends = (("x", ["N", 1, 8, 8]), ("probabilities", ["N", 10]))
    x, y = (helper.make_tensor_value_info(end, TensorProto.FLOAT, shape) for end, shape in ends)
    constants = [numpy_helper.from_array(array, key) for key, array in weights.items()]
    graph = helper.make_graph(nodes, name, [x], [y], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model


def _task(name: str, model: onnx.ModelProto) -> Task:
    images, truth = (np.load(DIGITS / f"test_{what}.npy") for what in ("images", "labels"))

    def answers(outputs: Sequence[Outputs]) -> Array:
        return np.concatenate([found["probabilities"].argmax(axis=1) for found in outputs])

    return Task(
        name=name,
        model=model,
        runs=[{"x": images}],
        answers=answers,
        scores={"top-1": lambda found, _: share_right(found, truth)},
        shapes={"x": images.shape},
        about=f"the digits of {len(images)} images",
    )
