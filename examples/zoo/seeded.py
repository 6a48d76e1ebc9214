"""Make networks whose weights are drawn with a seed: their answers mean nothing, but must stay the same."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from task import Array, Task, all_values, cosine

sys.path.append(str(Path(__file__).resolve().parents[1] / "networks"))

from light import image, light_model
from transformers import Size, Writer, block

SIDE = 128
"""Pixels of an image of the network like MobileNet."""
STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 2, 2), (6, 64, 2, 2), (6, 96, 1, 1), (6, 160, 2, 2))
"""Expansion, channels, repetitions and first stride of its inverted residuals (Sandler et al., 2018)."""

VIT = Size(tokens=37, width=192, heads=3, layers=6)
"""The network like a vision transformer: 36 patches and a token for the class (Dosovitskiy et al., 2020)."""
PATCH = 16
_SAMPLES = 8


def light_task(name: str) -> Task:
    """SqueezeNet or ResNet-50 of examples/networks."""
    model = light_model(name)
    return _task({"squeezenet": "SqueezeNet", "resnet50": "ResNet-50"}[name], model, image(model))


def mobilenet_task() -> Task:
    """Inverted residuals with depthwise convolutions."""
    model = mobilenet()
    return _task("MobileNet-like", model, image(model))


def vit_task() -> Task:
    """A convolution makes tokens of patches, then follow an encoder and a product of the first token."""
    model = vit()
    return _task("ViT-like", model, image(model))


def mobilenet() -> onnx.ModelProto:
    """The model: ``x`` [1, 3, SIDE, SIDE] to ``y`` [1, 100]."""
    write = Writer()
    value, width = _convolved(write, "x", "stem", 3, 32, stride=2), 32
    for stage, (expansion, channels, repeats, stride) in enumerate(STAGES):
        for number in range(repeats):
            step = stride if number == 0 else 1
            value = _inverted(write, value, f"s{stage}.{number}", (width, channels), expansion, step)
            width = channels
    value = _convolved(write, value, "last", width, 320, kernel=1)
    flat = write.node("Flatten", write.node("GlobalAveragePool", value))
    write.linear(flat, "classes", 320, 100)
    return _model("mobilenet", write, (1, 3, SIDE, SIDE), (1, 100))


def _inverted(
    write: Writer, x: str, name: str, channels: tuple[int, int], expansion: int, stride: int
) -> str:
    """A wide convolution, a depthwise one, and a narrow one without activation."""
    before, after = channels
    inner = before * expansion
    value = _convolved(write, x, f"{name}.wide", before, inner, kernel=1) if expansion > 1 else x
    value = _convolved(write, value, f"{name}.each", inner, inner, stride=stride, group=inner)
    value = _convolved(write, value, f"{name}.narrow", inner, after, kernel=1, cut=False)
    return write.node("Add", x, value) if stride == 1 and before == after else value


def _convolved(
    write: Writer,
    x: str,
    name: str,
    inputs: int,
    outputs: int,
    *,
    kernel: int = 3,
    stride: int = 1,
    group: int = 1,
    cut: bool = True,
) -> str:
    """A convolution with bias, and a ReLU6 after it if ``cut``."""
    fan = inputs // group * kernel * kernel
    weight = write.normal(f"{name}.weight", (outputs, inputs // group, kernel, kernel), (2 / fan) ** 0.5)
    bias = write.normal(f"{name}.bias", (outputs,), 0.05)
    pads = [kernel // 2] * 4
    value = write.node(
        "Conv", x, weight, bias, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=pads, group=group
    )
    return write.node("Clip", value, write.scalar(0.0), write.scalar(6.0)) if cut else value


def vit() -> onnx.ModelProto:
    """The model: ``x`` [1, 3, 96, 96] to ``y`` [1, 100]."""
    write, width = Writer(), VIT.width
    side = PATCH * int((VIT.tokens - 1) ** 0.5)
    weight = write.normal("patch.weight", (width, 3, PATCH, PATCH), (3 * PATCH * PATCH) ** -0.5)
    patches = write.node("Conv", "x", weight, kernel_shape=[PATCH] * 2, strides=[PATCH] * 2)
    rows = write.node("Reshape", patches, write.shape((1, width, VIT.tokens - 1)))
    tokens = write.node("Transpose", rows, perm=(0, 2, 1))
    value = write.node("Concat", write.normal("class", (1, 1, width), 1.0), tokens, axis=1)
    value = write.node("Add", value, write.normal("position", (1, VIT.tokens, width), 0.2))
    for layer in range(VIT.layers):
        value = block(write, value, f"layer{layer}", VIT)
    value = write.normalization(value, "last", width)
    first = write.constant("first", np.array(0, np.int64))
    write.linear(write.node("Gather", value, first, axis=1), "classes", width, 100)
    return _model("vit", write, (1, 3, side, side), (1, 100))


def _model(name: str, write: Writer, before: Sequence[int], after: Sequence[int]) -> onnx.ModelProto:
    write.nodes[-1].output[0] = "y"
    x, y = (
        helper.make_tensor_value_info(end, TensorProto.FLOAT, shape)
        for end, shape in (("x", before), ("y", after))
    )
    graph = helper.make_graph(write.nodes, name, [x], [y], write.constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model


def brighter(inputs: dict[str, Array]) -> list[dict[str, Array]]:
    """Images of other contrast, with more noise, for the calibration of ranges."""
    rng = np.random.default_rng(1)
    return [
        {
            name: (image * contrast + 0.2 * rng.standard_normal(image.shape)).astype(np.float32)
            for name, image in inputs.items()
        }
        for contrast in np.linspace(0.7, 1.3, _SAMPLES)
    ]


def _task(name: str, model: onnx.ModelProto, inputs: dict[str, Array]) -> Task:
    return Task(
        name=name,
        model=model,
        runs=[inputs],
        samples=brighter(inputs),
        answers=all_values,
        scores={"cosine": cosine},
        about="an image; weights drawn with a seed",
    )
