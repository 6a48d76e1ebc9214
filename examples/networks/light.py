"""SqueezeNet and ResNet-50 with seeded weights, from the models without weights in the onnx package.

There every weight is a ConstantOfShape node. Each becomes a constant: He-normal for convolutions and matrix
products, plausible statistics for normalisation. The seed of a tensor is a hash of its name, so the models
are the same everywhere.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.shape_inference import infer_shapes

Array = np.ndarray[Any, Any]

NAMES = ("squeezenet", "resnet50")
_MODELS = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
_LAST_GAIN = {"squeezenet": 3.0, "resnet50": 0.125}
"""Factor on the weights of the last layer: without it the softmax is flat, or a single spike."""
_NORMALISATION = {1: (1.0, 0.1), 2: (0.0, 0.1), 3: (0.0, 0.1), 4: (1.0, 0.05)}
"""Mean and deviation of scale, shift, mean and variance, by the number of the input."""
_BRANCH = 0.5
"""Factor on the last scale of a residual branch, or sums would double with every block."""


def light_model(name: str, end: str | None = None) -> onnx.ModelProto:
    """The model with weights; its inputs are those that a user gives.

    With ``end`` it is the part that computes the value of this name, with the weights of that part alone.
    """
    source = onnx.load(_MODELS / f"light_{name}.onnx")
    graph = source.graph
    known = {tensor.name: tensor for tensor in graph.initializer}
    holes = {
        node.output[0]: tuple(int(n) for n in numpy_helper.to_array(known[node.input[0]]))
        for node in graph.node
        if node.op_type == "ConstantOfShape"
    }
    nodes = [node for node in graph.node if node.op_type != "ConstantOfShape"]
    part = _needed_for(end, nodes) if end else nodes
    used = {tensor for node in part for tensor in node.input}
    weights = [
        numpy_helper.from_array(_weights(name, nodes, tensor, shape), tensor)
        for tensor, shape in holes.items()
        if tensor in used
    ]
    kept = [tensor for tensor in known.values() if tensor.name in used]
    inputs = [value for value in graph.input if value.name in used and value.name not in known]
    outputs = [helper.make_tensor_value_info(end, onnx.TensorProto.FLOAT, None)] if end else graph.output
    made = helper.make_graph(part, name, inputs, outputs, initializer=[*kept, *weights])
    model = helper.make_model(made, opset_imports=source.opset_import, ir_version=8)
    if end:
        model = infer_shapes(model)  # for that of the output
        del model.graph.value_info[:]
    onnx.checker.check_model(model)
    return model


def _needed_for(end: str, nodes: list[onnx.NodeProto]) -> list[onnx.NodeProto]:
    """The nodes that the value ``end`` is computed by, in their order."""
    needed, part = {end}, []
    for node in reversed(nodes):
        if needed.intersection(node.output):
            needed.update(node.input)
            part.insert(0, node)
    return part


def image(model: onnx.ModelProto) -> dict[str, Array]:
    """A smooth image with some noise for the model's input, by its name."""
    (value,) = model.graph.input
    shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
    rows, columns = np.mgrid[0 : shape[2], 0 : shape[3]] / shape[2]
    channels = np.arange(1, shape[1] + 1)[:, None, None]
    waves = np.sin(9 * channels * rows) + np.cos(7 * channels * columns)
    noise = 0.2 * _random(model.graph.name, value.name).standard_normal(shape)
    return {value.name: (waves + noise).astype(np.float32)}


def _random(*names: str) -> np.random.RandomState:
    """NumPy's frozen generator: its numbers never change."""
    digest = hashlib.sha256(":".join(names).encode()).digest()
    return np.random.RandomState(int.from_bytes(digest[:4], "little"))


def _weights(model: str, nodes: list[onnx.NodeProto], tensor: str, shape: tuple[int, ...]) -> Array:
    node = next(node for node in nodes if tensor in node.input)
    place = list(node.input).index(tensor)
    numbers = _random(model, tensor).standard_normal(shape)
    if node.op_type == "BatchNormalization":
        mean, deviation = _NORMALISATION[place]
        damped = place == 1 and any(node.output[0] in n.input for n in nodes if n.op_type == "Sum")
        numbers = (mean + deviation * numbers) * (_BRANCH if damped else 1.0)
    elif place == 1:
        last = [n for n in nodes if n.op_type in ("Conv", "Gemm")][-1]
        gain = _LAST_GAIN[model] if node is last else 1.0
        numbers *= gain * np.sqrt(2.0 / np.prod(shape[1:]))
    else:
        numbers *= 0.05
    return numbers.astype(np.float32)
