"""The building blocks of random small networks as ONNX models. ``network_draws`` draws and runs them.

Weights are multiples of a power of two that FP16 and BF16 hold, so that only computed values are rounded.
They are scaled so that values stay of the order of 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, helper

from compiler.graph import Array
from onnx_models import model

Random = np.random.Generator
Shape = tuple[int, ...]

CHANNELS = (1, 2, 3, 5, 8, 16, 31, 33, 48, 64, 65, 96, 128, 130, 200)
_ACTIVATIONS = ("Relu", "Sigmoid", "Tanh", "HardSwish", "Elu", "LeakyRelu", "Softplus", "Abs", "Clip", "Neg")
LARGEST = 60_000
"""Elements of a value."""


@dataclass
class Network:
    """Nodes in order, with their constants; ``values`` are the shapes of the values they can read."""

    rng: Random
    inputs: dict[str, Shape] = field(default_factory=dict)
    values: dict[str, Shape] = field(default_factory=dict)
    nodes: list[NodeProto] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)

    def whole(self, lowest: int, highest: int) -> int:
        """A number from lowest to highest."""
        return int(self.rng.integers(lowest, highest + 1))

    def one_of(self, *choices: Any) -> Any:
        return choices[self.whole(0, len(choices) - 1)]

    def maybe(self, chance: float) -> bool:
        return bool(self.rng.random() < chance)

    def take(self, rank: int | None = None) -> str | None:
        """Choose a value, mostly a late one; None if there is none of that rank."""
        names = [name for name, shape in self.values.items() if rank in (None, len(shape))]
        if not names:
            return None
        return names[-1 if self.maybe(0.6) else self.whole(0, len(names) - 1)]

    def constant(self, array: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(array)
        return name

    def weight(self, *shape: int, scale: float = 1.0, offset: float = 0.0) -> str:
        """Normally distributed, of seven bits."""
        power = 2.0 ** np.floor(np.log2(scale))
        drawn = np.clip(np.round(self.rng.standard_normal(shape) * 32), -96, 96) / 32
        return self.constant((drawn * power + offset).astype(np.float32))

    def add(self, op: str, operands: list[str], *shapes: Shape, **attrs: Any) -> str:
        """Add a node; return its first result."""
        names = [f"v{len(self.values) + at}" for at in range(len(shapes))]
        self.nodes.append(helper.make_node(op, operands, names, name=f"n{len(self.nodes)}", **attrs))
        self.values.update(zip(names, shapes, strict=True))
        return names[0]

    def model(self) -> ModelProto:
        """Unread values are outputs, and some that are read too."""
        read = {name for node in self.nodes for name in node.input}
        made = [name for name in self.values if name not in self.inputs]
        outputs = [name for name in made if name not in read or self.maybe(0.15)]
        return model(self.nodes, self.inputs, outputs, self.constants, ir_version=10)


def _convolution(net: Network) -> None:
    if (x := net.take(4)) is None:
        return
    batch, channels, height, width = net.values[x]
    kernel = min(net.one_of(1, 1, 3, 3, 5), height + 2, width + 2)
    maps, group = net.one_of(*CHANNELS), 1
    if net.maybe(0.3):
        group = channels if net.maybe(0.6) else int(np.gcd(channels, net.one_of(2, 4, 5)))
        maps = group * net.whole(1, max(1, min(2, 200 // group)))
    stride, dilation = net.one_of(1, 1, 1, 2, 3), 1
    if kernel == 3 and min(height, width) >= 5 and net.maybe(0.15):
        dilation = 2
    pads = [net.whole(0, kernel // 2 + 1) if net.maybe(0.2) else kernel // 2 for _ in range(4)]
    reach = dilation * (kernel - 1) + 1
    rows = (height + pads[0] + pads[2] - reach) // stride + 1
    columns = (width + pads[1] + pads[3] - reach) // stride + 1
    if min(rows, columns) < 1 or batch * maps * rows * columns > LARGEST:
        return
    inner = channels // group
    operands = [x, net.weight(maps, inner, kernel, kernel, scale=(inner * kernel**2) ** -0.5)]
    operands += [net.weight(maps, scale=0.5)] if net.maybe(0.6) else []
    net.add(
        "Conv",
        operands,
        (batch, maps, rows, columns),
        kernel_shape=[kernel] * 2,
        strides=[stride] * 2,
        pads=pads,
        group=group,
        dilations=[dilation] * 2,
    )


def _batch_norm(net: Network) -> None:
    if (x := net.take(4)) is None:
        return
    channels = net.values[x][1]
    scale, shift, mean = (net.weight(channels, scale=0.25, offset=o) for o in (1.0, 0.0, 0.0))
    variance = net.constant(1 + np.round(net.rng.random(channels) * 64).astype(np.float32) / 32)
    net.add("BatchNormalization", [x, scale, shift, mean, variance], net.values[x])


def _activation(net: Network) -> None:
    x, op = net.take(), net.one_of(*_ACTIVATIONS)
    if x is None:
        return
    bounds = [net.constant(np.float32(-1.5)), net.constant(np.float32(2))] if op == "Clip" else []
    net.add(op, [x, *bounds], net.values[x])


def _residual(net: Network) -> None:
    """Two values of one shape, or one twice."""
    if (x := net.take()) is None:
        return
    same = [name for name, shape in net.values.items() if shape == net.values[x]]
    op = net.one_of("Add", "Add", "Sub", "Mul", "Max", "Min")
    y = net.one_of(*same)
    if op == "Mul":
        y = net.add("Tanh", [y], net.values[y])
    net.add(op, [x, y], net.values[x])


def _broadcast(net: Network) -> None:
    if (x := net.take()) is None:
        return
    shape = net.values[x]
    other = tuple(1 if net.maybe(0.5) else size for size in shape)[net.whole(0, len(shape)) :]
    op = net.one_of("Add", "Mul", "Sub", "Div")
    net.add(op, [x, net.weight(*other, scale=0.5, offset=2.0 if op == "Div" else 1.0)], shape)


def _pool(net: Network) -> None:
    if (x := net.take(4)) is None:
        return
    batch, channels, height, width = net.values[x]
    if net.maybe(0.15):
        net.add("GlobalAveragePool", [x], (batch, channels, 1, 1))
        return
    kernel, stride = min(net.one_of(2, 3), height, width), net.one_of(1, 2)
    pad = net.whole(0, kernel // 2)
    rows, columns = ((size + 2 * pad - kernel) // stride + 1 for size in (height, width))
    op = net.one_of("MaxPool", "AveragePool")
    attrs = {} if op == "MaxPool" else {"count_include_pad": net.whole(0, 1)}
    net.add(
        op,
        [x],
        (batch, channels, rows, columns),
        kernel_shape=[kernel] * 2,
        strides=[stride] * 2,
        pads=[pad] * 4,
        **attrs,
    )


def _concat(net: Network) -> None:
    if (x := net.take()) is None:
        return
    shape = net.values[x]
    axis = 1 if len(shape) == 4 and net.maybe(0.8) else net.whole(0, len(shape) - 1)
    around = (len(shape), shape[:axis], shape[axis + 1 :])
    fitting = [
        name for name, other in net.values.items() if (len(other), other[:axis], other[axis + 1 :]) == around
    ]
    parts = [x, *(net.one_of(*fitting) for _ in range(net.whole(1, 2)))]
    size = sum(net.values[name][axis] for name in parts)
    if np.prod(shape) // shape[axis] * size <= LARGEST:
        net.add("Concat", parts, (*shape[:axis], size, *shape[axis + 1 :]), axis=axis)


def _split(net: Network) -> None:
    if (x := net.take()) is None:
        return
    shape = net.values[x]
    axis = 1 if len(shape) > 1 else 0
    if shape[axis] < 2:
        return
    first = net.whole(1, shape[axis] - 1)
    sizes = [first, shape[axis] - first]
    parts = [(*shape[:axis], size, *shape[axis + 1 :]) for size in sizes]
    net.add("Split", [x, net.constant(np.array(sizes))], *parts, axis=axis)


def _slice(net: Network) -> None:
    if (x := net.take()) is None:
        return
    shape = net.values[x]
    axis = net.whole(0, len(shape) - 1)
    start = net.whole(0, shape[axis] - 1)
    end = net.whole(start + 1, shape[axis])
    operands = [net.constant(np.array([number])) for number in (start, end, axis)]
    net.add("Slice", [x, *operands], (*shape[:axis], end - start, *shape[axis + 1 :]))


def _transpose(net: Network) -> None:
    if (x := net.take()) is None:
        return
    shape = net.values[x]
    perm = [int(axis) for axis in net.rng.permutation(len(shape))]
    net.add("Transpose", [x], tuple(shape[axis] for axis in perm), perm=perm)


def _flatten(net: Network) -> None:
    if (x := net.take()) is None:
        return
    shape = net.values[x]
    axis = 1 if net.maybe(0.7) else net.whole(0, len(shape))
    rows, columns = (int(np.prod(part)) for part in (shape[:axis], shape[axis:]))
    net.add("Flatten", [x], (rows, columns), axis=axis)


def _gemm(net: Network) -> None:
    if (x := net.take(2)) is None:
        return
    rows, inner = net.values[x]
    columns = net.one_of(*CHANNELS)
    if inner * columns > LARGEST or rows * columns > LARGEST:
        return
    turned, scale = net.maybe(0.5), inner**-0.5
    weight = net.weight(*((columns, inner) if turned else (inner, columns)), scale=scale)
    bias = [net.weight(columns, scale=0.5)] if net.maybe(0.7) else []
    net.add("Gemm", [x, weight, *bias], (rows, columns), transB=int(turned))


def _matmul(net: Network) -> None:
    """By a constant, or by its own transpose."""
    if (x := net.take()) is None or len(net.values[x]) < 2:
        return
    *outer, rows, inner = net.values[x]
    if net.maybe(0.3) and int(np.prod(outer)) * rows * rows <= LARGEST:
        perm = [*range(len(outer)), len(outer) + 1, len(outer)]
        turned = net.add("Transpose", [x], (*outer, inner, rows), perm=perm)
        product = net.add("MatMul", [x, turned], (*outer, rows, rows))
        scale = net.constant(np.float32(2.0 ** -np.ceil(np.log2(inner))))
        scaled = net.add("Mul", [product, scale], (*outer, rows, rows))
        net.add("Softmax", [scaled], (*outer, rows, rows), axis=-1)
        return
    columns = net.one_of(*CHANNELS)
    if inner * columns <= LARGEST and int(np.prod(outer)) * rows * columns <= LARGEST:
        net.add("MatMul", [x, net.weight(inner, columns, scale=inner**-0.5)], (*outer, rows, columns))


def _normalise(net: Network) -> None:
    if (x := net.take()) is None:
        return
    shape = net.values[x]
    if net.maybe(0.5) or shape[-1] < 4:
        net.add("Softmax", [x], shape, axis=net.whole(0, len(shape) - 1))
        return
    scale, shift = net.weight(shape[-1], scale=0.25, offset=1.0), net.weight(shape[-1], scale=0.5)
    net.add("LayerNormalization", [x, scale, shift], shape, axis=-1, epsilon=0.25)


def _reduce(net: Network) -> None:
    if (x := net.take()) is None:
        return
    shape = net.values[x]
    axis = net.whole(0, len(shape) - 1)
    kept = tuple(1 if at == axis else size for at, size in enumerate(shape))
    op = net.one_of("ReduceMean", "ReduceMax", "ReduceMin")
    net.add(op, [x, net.constant(np.array([axis]))], kept, keepdims=1)


# --- rarer blocks ----------------------------------------------------------------------------------------


def _squeeze_excite(net: Network) -> None:
    """One factor for each channel, from the mean of the channel."""
    if (x := net.take(4)) is None:
        return
    batch, channels, _, _ = net.values[x]
    mean = net.add("GlobalAveragePool", [x], (batch, channels, 1, 1))
    weight = net.weight(channels, channels, 1, 1, scale=channels**-0.5)
    gate = net.add("Conv", [mean, weight], (batch, channels, 1, 1), kernel_shape=[1, 1])
    net.add("Mul", [x, net.add("Sigmoid", [gate], (batch, channels, 1, 1))], net.values[x])


def _enlarge(net: Network) -> None:
    if (x := net.take(4)) is None or np.prod(net.values[x]) * 4 > LARGEST:
        return
    batch, channels, height, width = net.values[x]
    if net.maybe(0.5) and channels <= 64:
        maps = net.one_of(1, 3, 16, 65)
        weight = net.weight(channels, maps, 2, 2, scale=channels**-0.5)
        shape = (batch, maps, 2 * height, 2 * width)
        if np.prod(shape) <= LARGEST:
            net.add("ConvTranspose", [x, weight], shape, kernel_shape=[2, 2], strides=[2, 2])
        return
    scales = net.constant(np.array([1, 1, 2, 2], np.float32))
    attrs = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    net.add("Resize", [x, "", scales], (batch, channels, 2 * height, 2 * width), **attrs)


def _pad(net: Network) -> None:
    if (x := net.take()) is None:
        return
    shape = net.values[x]
    before, after = ([net.whole(0, 2) for _ in shape] for _ in range(2))
    padded = tuple(a + size + b for a, size, b in zip(before, shape, after, strict=True))
    if np.prod(padded) <= LARGEST:
        net.add("Pad", [x, net.constant(np.array(before + after))], padded)


def _reshape(net: Network) -> None:
    """Channels in two halves, or the last two axes as one."""
    if (x := net.take()) is None or len(net.values[x]) < 3:
        return
    *outer, rows, columns = net.values[x]
    shape = (*outer, rows * columns)
    if outer[-1] % 2 == 0 and net.maybe(0.5):
        shape = (*outer[:-1], outer[-1] // 2, 2 * rows, columns)
    net.add("Reshape", [x, net.constant(np.array(shape))], shape)


def _slope(net: Network) -> None:
    if (x := net.take(4)) is not None:
        net.add("PRelu", [x, net.weight(net.values[x][1], 1, 1, scale=0.25)], net.values[x])


def _choice(net: Network) -> None:
    """One of two values, where an input exceeds a number between its values, so that rounding changes
    nothing."""
    name = net.one_of(*net.inputs)
    same = [other for other, shape in net.values.items() if shape == net.values[name]]
    larger, level = f"larger{len(net.nodes)}", net.constant(np.float32(0.515625))
    net.nodes.append(helper.make_node("Greater", [name, level], [larger], name=f"n{len(net.nodes)}"))
    net.add("Where", [larger, net.one_of(*same), net.one_of(*same)], net.values[name])


def _mean_of_images(net: Network) -> None:
    if (x := net.take(4)) is not None:
        batch, channels = net.values[x][:2]
        kept = net.maybe(0.5)
        shape = (batch, channels, 1, 1) if kept else (batch, channels)
        net.add("ReduceMean", [x, net.constant(np.array([2, 3]))], shape, keepdims=int(kept))


def _gather(net: Network) -> None:
    if (x := net.take()) is None:
        return
    shape = net.values[x]
    axis = net.whole(0, len(shape) - 1)
    picked = net.rng.integers(0, shape[axis], net.whole(1, min(9, shape[axis])))
    net.add("Gather", [x, net.constant(picked)], (*shape[:axis], picked.size, *shape[axis + 1 :]), axis=axis)


def _formula(net: Network) -> None:
    """Layer normalization, or the Gelu of erf, as exporters write them out."""
    if (x := net.take()) is None:
        return
    shape = net.values[x]
    if net.maybe(0.5) or shape[-1] < 4:
        root = net.add("Div", [x, net.constant(np.float32(2**0.5))], shape)
        raised = net.add("Add", [net.add("Erf", [root], shape), net.constant(np.float32(1))], shape)
        net.add("Mul", [net.add("Mul", [x, raised], shape), net.constant(np.float32(0.5))], shape)
        return
    one, axis = (*shape[:-1], 1), net.constant(np.array([-1]))
    centred = net.add("Sub", [x, net.add("ReduceMean", [x, axis], one)], shape)
    squares = net.add("Mul", [centred, centred], shape)
    variance = net.add("ReduceMean", [squares, axis], one)
    safe = net.add("Add", [variance, net.constant(np.float32(0.25))], one)
    net.add("Div", [centred, net.add("Sqrt", [safe], one)], shape)


def _image_norm(net: Network) -> None:
    if (x := net.take(4)) is None or np.prod(net.values[x][2:]) < 8:
        return
    channels = net.values[x][1]
    operands = [x, net.weight(channels, scale=0.25, offset=1.0), net.weight(channels, scale=0.5)]
    net.add("InstanceNormalization", operands, net.values[x], epsilon=0.25)


Step = Callable[[Network], None]

COMMON: tuple[Step, ...] = (
    *(_activation, _activation, _residual, _residual, _broadcast, _broadcast, _concat, _split, _slice),
    *(_transpose, _normalise, _reduce, _reshape, _pad, _gather, _choice, _formula),
)
IMAGES: tuple[Step, ...] = (
    *(_convolution,) * 8,
    _batch_norm,
    _batch_norm,
    _pool,
    _pool,
    _activation,
    _activation,
    _residual,
    _residual,
    _squeeze_excite,
    _enlarge,
    _slope,
    _mean_of_images,
    _image_norm,
    _concat,
)
ROWS: tuple[Step, ...] = (*(_gemm,) * 4, *(_matmul,) * 4)
HEAD: tuple[Step, ...] = (_flatten, _gemm, _activation)
"""The last operators of a classifier."""
