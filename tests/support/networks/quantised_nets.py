"""Random quantised networks: operators between DequantizeLinear and QuantizeLinear, drawn with a seed.

Weights have 7 bits: on processors without instructions for products of bytes, onnxruntime adds pairs of
products in 16 bits, which saturate with 8.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import helper, numpy_helper

from compiler.graph import Array
from onnx_models import value

_OPSET = 21
_LARGEST = 63
"""Magnitude of weights of 7 bits."""


@dataclass(frozen=True)
class Bytes:
    """A value of a network as floats, and its quantisation parameters."""

    name: str
    shape: tuple[int, ...]
    scale: np.float32


@dataclass
class QuantisedNet:
    """Builds a network; ``dtype``: of its activations, int8 or uint8."""

    seed: int
    dtype: str = "int8"
    nodes: list[Any] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)

    # --- parts ------------------------------------------------------------------------------------------

    def constant(self, array: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(array)
        return name

    def op(self, op: str, *inputs: str, **attrs: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], f"{op}.{name}", **attrs))
        return name

    def zero_point(self, lowest: bool = False) -> Array:
        """A zero point of the activations: the lowest byte, or any one in the middle half."""
        limits = np.iinfo(self.dtype)
        point = limits.min if lowest else int(self.rng.integers(-64, 64)) + limits.min + 128
        return np.array(point, self.dtype)

    def quantised(self, name: str, shape: tuple[int, ...], scale: float, lowest: bool = False) -> Bytes:
        """The value as bytes and back."""
        factor, point = np.float32(scale), self.constant(self.zero_point(lowest))
        operands = self.constant(factor), point
        made = self.op("DequantizeLinear", self.op("QuantizeLinear", name, *operands), *operands)
        return Bytes(made, shape, factor)

    def weights(self, shape: tuple[int, ...], axis: int, per_channel: bool) -> tuple[str, Array]:
        """Known bytes as floats, and their scales."""
        fan = int(np.prod(shape)) // shape[axis]
        count = (shape[axis],) if per_channel else ()
        scale = (self.rng.uniform(0.5, 1.5, count) * 0.05 / np.sqrt(fan)).astype(np.float32)
        values = self.rng.integers(-_LARGEST, _LARGEST + 1, shape).astype(np.int8)
        zero = self.constant(np.zeros(count, np.int8))
        operands = self.constant(values), self.constant(scale), zero
        return self.op("DequantizeLinear", *operands, axis=axis), scale

    def bias(self, x: Bytes, scale: Array, count: int) -> str:
        """A known vector in the unit of the sums, as floats."""
        unit = np.broadcast_to(x.scale * scale, (count,)).astype(np.float32)
        values = self.rng.integers(-2000, 2000, count).astype(np.int32)
        return self.op("DequantizeLinear", self.constant(values), self.constant(unit), axis=0)

    # --- operators between bytes ------------------------------------------------------------------------

    def conv(self, x: Bytes, maps: int, kernel: int = 3, relu: bool = False, **attrs: Any) -> Bytes:
        """A convolution with bias, perhaps with Relu, quantised."""
        group, per_channel = attrs.get("group", 1), bool(self.rng.integers(2))
        weights, scale = self.weights((maps, x.shape[1] // group, kernel, kernel), 0, per_channel)
        pads = attrs.pop("pads", [kernel // 2] * 4)
        made = self.op("Conv", x.name, weights, self.bias(x, scale, maps), pads=pads, **attrs)
        step, (top, left, bottom, right) = attrs.get("strides", [1, 1]), pads
        height = (x.shape[2] + top + bottom - kernel) // step[0] + 1
        width = (x.shape[3] + left + right - kernel) // step[1] + 1
        made = self.op("Relu", made) if relu else made
        return self.quantised(made, (x.shape[0], maps, height, width), self.rng.uniform(0.02, 0.06), relu)

    def matmul(self, x: Bytes, columns: int, gemm: bool) -> Bytes:
        """A product with a known matrix, quantised."""
        weights, scale = self.weights((x.shape[-1], columns), 1, bool(self.rng.integers(2)))
        operands = [x.name, weights] + ([self.bias(x, scale, columns)] if gemm else [])
        made = self.op("Gemm" if gemm else "MatMul", *operands)
        return self.quantised(made, (*x.shape[:-1], columns), self.rng.uniform(0.02, 0.06))

    def max_pool(self, x: Bytes) -> Bytes:
        """A pool whose result has the scale of its operand."""
        last = self.nodes[-1].input
        made = self.op("MaxPool", x.name, kernel_shape=[2, 2], strides=[2, 2])
        name = self.op("DequantizeLinear", self.op("QuantizeLinear", made, *last[1:]), *last[1:])
        return Bytes(name, (*x.shape[:2], x.shape[2] // 2, x.shape[3] // 2), x.scale)

    def added(self, a: Bytes, other: Bytes) -> Bytes:
        """A sum with a Relu, quantised."""
        made = self.op("Relu", self.op("Add", a.name, other.name))
        return self.quantised(made, a.shape, 0.05, True)

    def joined(self, a: Bytes, other: Bytes) -> Bytes:
        """The channels of both, quantised."""
        channels = a.shape[1] + other.shape[1]
        made = self.op("Concat", a.name, other.name, axis=1)
        return self.quantised(made, (a.shape[0], channels, *a.shape[2:]), 0.05)

    def expansions(self, x: Bytes, maps: int) -> Bytes:
        """A 1x1 and a 3x3 convolution of one image, both results in one scale."""
        factor = np.float32(0.04)
        operands = self.constant(factor), self.constant(self.zero_point(True))
        parts = []
        for kernel in (1, 3):
            weights, scale = self.weights((maps, x.shape[1], kernel, kernel), 0, True)
            made = self.op("Conv", x.name, weights, self.bias(x, scale, maps), pads=[kernel // 2] * 4)
            made = self.op("QuantizeLinear", self.op("Relu", made), *operands)
            parts.append(self.op("DequantizeLinear", made, *operands))
        made = self.op("QuantizeLinear", self.op("Concat", *parts, axis=1), *operands)
        return Bytes(
            self.op("DequantizeLinear", made, *operands), (x.shape[0], 2 * maps, *x.shape[2:]), factor
        )

    # --- the whole --------------------------------------------------------------------------------------

    def model(self, x: tuple[int, ...], result: Bytes, floats: bool = False) -> Any:
        """The network from ``x`` to the bytes of a result, or to its floats."""
        if not floats:
            self.nodes.pop()
        output = value(self.nodes[-1].output[0], result.shape, np.float32 if floats else self.dtype)
        known = [numpy_helper.from_array(array, name) for name, array in self.constants.items()]
        graph = helper.make_graph(self.nodes, "quantised", [value("x", x)], [output], known)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=10)


def products(seed: int, dtype: str) -> tuple[Any, tuple[int, ...]]:
    """Convolutions of any geometry, one after another, and the shape of the input."""
    net = QuantisedNet(seed, dtype)
    rng, channels = net.rng, int(net.rng.choice([3, 16, 40, 64, 72, 130]))
    shape = (int(rng.integers(1, 3)), channels, *(int(n) for n in rng.integers(7, 13, 2)))
    x = net.quantised("x", shape, 0.03)
    for _ in range(int(rng.integers(1, 4))):
        kernel, stride = int(rng.choice([1, 3])), int(rng.integers(1, 3))
        group = int(rng.choice([1, 1, x.shape[1], 2 if x.shape[1] % 2 == 0 else 1]))
        maps = x.shape[1] if group > 1 else int(rng.choice([8, 24, 64, 100, 128]))
        attrs = {"group": group, "strides": [stride, stride]}
        x = net.conv(x, maps, kernel, bool(rng.integers(2)), **attrs)
    return net.model(shape, x), shape


def matrices(seed: int, dtype: str) -> tuple[Any, tuple[int, ...]]:
    """Products of matrices, one after another, and the shape of the input."""
    net = QuantisedNet(seed, dtype)
    gemm = bool(net.rng.integers(2))
    sizes = tuple(int(n) for n in net.rng.integers(1, 200, 2))
    shape = sizes if gemm else (2, *sizes)
    x = net.quantised("x", shape, 0.03)
    for columns in net.rng.integers(1, 150, 2):
        x = net.matmul(x, int(columns), gemm)
    return net.model(shape, x), shape


def residual(seed: int) -> tuple[Any, tuple[int, ...]]:
    """A pool, a block with a sum, branches that are joined, and a mean; floats at the end."""
    net = QuantisedNet(seed, ("int8", "uint8")[seed % 2])
    shape, channels = (1, 3, 16, 16), int(net.rng.choice([24, 64, 80]))
    x = net.max_pool(net.conv(net.quantised("x", shape, 0.03), channels, relu=True))
    x = net.added(net.conv(net.conv(x, channels, relu=True), channels), x)
    x = net.joined(net.conv(x, 64, 1, relu=True), net.conv(x, 32, relu=True))
    made = net.op("GlobalAveragePool", x.name)
    return net.model(shape, net.quantised(made, (1, 96, 1, 1), 0.02), floats=True), shape


def bottlenecks(
    seed: int, channels: int, inner: int, height: int, width: int, stride: int = 1
) -> tuple[Any, tuple[int, ...]]:
    """Two blocks with sums, the first with a shortcut, between two convolutions; and the input's shape."""
    net = QuantisedNet(seed, ("int8", "uint8")[seed % 2])
    shape = (1, 2 * inner, height, width)
    x = net.conv(net.quantised("x", shape, 0.03), inner, 1, relu=True)
    for number in range(2):
        step = [stride, stride] if number == 0 else [1, 1]
        way = net.conv(
            net.conv(x, inner, 1, relu=True), inner, 3, relu=bool(net.rng.integers(2)), strides=step
        )
        shortcut = net.conv(x, channels, 1, strides=step) if number == 0 else x
        x = net.added(net.conv(way, channels, 1), shortcut)
    return net.model(shape, net.conv(x, inner, 3, relu=True)), shape


def fires(seed: int, squeezed: int, height: int, width: int, pool: bool) -> tuple[Any, tuple[int, ...]]:
    """Two squeezes followed by expansions, perhaps with a pool between; and the shape of the input."""
    net, shape = QuantisedNet(seed, ("int8", "uint8")[seed % 2]), (1, 96, height, width)
    x = net.expansions(net.conv(net.quantised("x", shape, 0.03), squeezed, 1, relu=True), 64)
    x = net.expansions(net.conv(net.max_pool(x) if pool else x, squeezed, 1, relu=True), 64)
    return net.model(shape, x), shape


def byte_mlp(seed: int, dtype: str, rows: int, columns: int) -> tuple[Any, tuple[int, ...]]:
    """Three products of matrices with whole planes of columns, each quantised at once."""
    net, shape = QuantisedNet(seed, dtype), (rows, columns)
    x = net.quantised("x", shape, 0.03)
    x = net.matmul(net.matmul(net.matmul(x, 2 * columns, False), columns, True), columns, False)
    return net.model(shape, x), shape


def byte_encoder(
    seed: int, dtype: str, rows: int = 64, columns: int = 256, heads: int = 8, floats_first: bool = False
) -> tuple[Any, tuple[int, ...]]:
    """A transformer block whose products read bytes; everything else, and its result, are floats.

    ``floats_first``: the products of queries, keys and values have floats.
    """
    net, shape, depth = QuantisedNet(seed, dtype), (1, rows, columns), columns // heads

    def floats(*extents: int, mean: float = 0.0) -> str:
        return net.constant(net.rng.normal(mean, 0.1, extents).astype(np.float32))

    def normal(value: str) -> str:
        return net.op("LayerNormalization", value, floats(columns, mean=1.0), floats(columns), axis=-1)

    def read(value: str, inner: int, scale: float) -> str:
        return net.quantised(value, (*shape[:-1], inner), scale).name

    def product(value: str, inner: int, count: int, of_bytes: bool = True) -> str:
        weights = net.weights((inner, count), 1, True)[0] if of_bytes else floats(inner, count)
        return net.op("Add", net.op("MatMul", value, weights), floats(count))

    def part(value: str, order: tuple[int, ...]) -> str:
        split = net.constant(np.array([1, rows, heads, depth], np.int64))
        made = product(value, columns, columns, not floats_first)
        return net.op("Transpose", net.op("Reshape", made, split), perm=order)

    first = normal("x") if floats_first else read(normal("x"), columns, 0.03)
    scores = net.op("MatMul", part(first, (0, 2, 1, 3)), part(first, (0, 2, 3, 1)))
    scaled = net.op("Mul", scores, net.constant(np.float32(depth**-0.5)))
    mixed = net.op("MatMul", net.op("Softmax", scaled, axis=-1), part(first, (0, 2, 1, 3)))
    whole = net.constant(np.array(shape, np.int64))
    joined = net.op("Reshape", net.op("Transpose", mixed, perm=(0, 2, 1, 3)), whole)
    middle = net.op("Add", "x", product(read(joined, columns, 0.02), columns, columns))
    inner = net.op("Gelu", product(read(normal(middle), columns, 0.03), columns, 2 * columns))
    last = net.op("Add", middle, product(read(inner, 2 * columns, 0.03), 2 * columns, columns))
    return net.model(shape, Bytes(last, shape, np.float32(1)), floats=True), shape


def pooled_bytes(seed: int, dtype: str, channels: int, maps: int, size: int) -> tuple[Any, tuple[int, ...]]:
    """A convolution of bytes, whose result stays a float, with a Relu and the mean of all positions."""
    net, shape = QuantisedNet(seed, dtype), (1, channels, size, size)
    first = net.conv(net.quantised("x", shape, 0.03), channels, 3, True)
    made = net.op("Conv", first.name, net.weights((maps, channels, 1, 1), 0, True)[0])
    mean = net.op("GlobalAveragePool", net.op("Relu", made))
    return net.model(shape, Bytes(mean, (1, maps, 1, 1), np.float32(1)), floats=True), shape
