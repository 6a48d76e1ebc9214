"""Random calls of every operator of ONNX and of the internal ones: those of ``operator_cases``, and more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from box_cases import PartCase
from compiler.graph import Array
from compiler.operators.linear.rotary import halves, neighbours
from operator_cases import DRAWS
from operator_draws import Operands, Random, normal, small

Drawn = Callable[[Random], PartCase]


def _shape(rng: Random, lowest: int = 1, highest: int = 4) -> list[int]:
    return small(rng, 1, 6, small(rng, lowest, highest, 1)[0])


def _broadcast(rng: Random, count: int, shape: list[int]) -> list[list[int]]:
    """Shapes that broadcast to one."""
    found = []
    for _ in range(count):
        cut = small(rng, 0, len(shape), 1)[0]
        found.append([1 if rng.random() < 0.3 else size for size in shape][cut:])
    return [shape, *found]


def _whole(rng: Random, shape: list[int], dtype: str) -> Array:
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if dtype == "float32":
        return normal(rng, *shape)
    return rng.integers(1, 60, shape).astype(dtype)


def elements(op: str, *dtypes: str, **attrs: Any) -> Drawn:
    """A call of operands that broadcast."""

    def draw(rng: Random) -> PartCase:
        shapes = _broadcast(rng, len(dtypes) - 1, _shape(rng))
        pairs = enumerate(zip(shapes, dtypes, strict=True))
        return PartCase(op, {f"x{at}": _whole(rng, shape, dtype) for at, (shape, dtype) in pairs}, attrs)

    return draw


def of_one_shape(op: str, *dtypes: str, **attrs: Any) -> Drawn:
    """A call of operands of one shape."""

    def draw(rng: Random) -> PartCase:
        shape = _shape(rng)
        return PartCase(op, {f"x{at}": _whole(rng, shape, t) for at, t in enumerate(dtypes)}, attrs)

    return draw


# --- movement --------------------------------------------------------------------------------------------

_SHAPES = (
    ((6, 4), (2, 3, 4)),
    ((2, 3, 4), (6, 4)),
    ((2, 3, 8), (2, 3, 2, 4)),
    ((4, 6), (6, 4)),
    ((2, 1, 12), (1, 4, 6)),
    ((24,), (2, 3, 4)),
    ((2, 2, 3, 5), (4, 15)),
    ((3, 1, 5), (1, 15)),
    ((2, 12), (4, 6)),
    ((1, 1), ()),
)


def _reshape(rng: Random) -> PartCase:
    before, after = _SHAPES[small(rng, 0, len(_SHAPES) - 1, 1)[0]]
    return PartCase("Reshape", {"x": normal(rng, *before), "s": np.array(after, np.int64)})


def _flatten(rng: Random) -> PartCase:
    shape = _shape(rng)
    return PartCase("Flatten", {"x": normal(rng, *shape)}, {"axis": small(rng, 0, len(shape), 1)[0]})


def _squeeze(rng: Random) -> PartCase:
    shape = [size if rng.random() < 0.5 else 1 for size in _shape(rng)]
    return PartCase("Squeeze", {"x": normal(rng, *shape)})


def _unsqueeze(rng: Random) -> PartCase:
    return PartCase("Unsqueeze", {"x": normal(rng, *_shape(rng)), "a": np.array([0, 2])})


def _transpose(rng: Random) -> PartCase:
    shape = _shape(rng)
    perm = tuple(int(axis) for axis in rng.permutation(len(shape)))
    return PartCase("Transpose", {"x": normal(rng, *shape)}, {"perm": perm})


def _concat(rng: Random) -> PartCase:
    shape = _shape(rng)
    axis, count = small(rng, 0, len(shape) - 1, 1)[0], small(rng, 1, 4, 1)[0]
    sizes = small(rng, 0, 5, count)
    pieces = {f"x{at}": normal(rng, *shape[:axis], n, *shape[axis + 1 :]) for at, n in enumerate(sizes)}
    return PartCase("Concat", pieces, {"axis": axis - len(shape) * int(rng.integers(0, 2))})


def _split(rng: Random) -> PartCase:
    sizes = small(rng, 1, 4, 3)
    x = normal(rng, small(rng, 1, 4, 1)[0], sum(sizes), 2)
    return PartCase("Split", {"x": x, "s": np.array(sizes)}, {"axis": 1}, outputs=3)


def _expand(rng: Random) -> PartCase:
    (shape, own), longer = _broadcast(rng, 1, _shape(rng)), small(rng, 1, 3, 1)
    return PartCase("Expand", {"x": normal(rng, *own), "s": np.array([*longer, *shape])})


def _blocks(op: str) -> Drawn:
    def draw(rng: Random) -> PartCase:
        batch, channels, height, width = small(rng, 1, 3, 4)
        shape = (batch, 4 * channels, height, width)
        if op == "SpaceToDepth":
            shape = (batch, channels, 2 * height, 2 * width)
        return PartCase(op, {"x": normal(rng, *shape)}, {"blocksize": 2})

    return draw


def _one_hot(rng: Random) -> PartCase:
    indices, depth = rng.integers(0, 5, _shape(rng, 1, 2)), np.array(5)
    return PartCase("OneHot", {"i": indices, "d": depth, "v": normal(rng, 2)}, {"axis": 0})


def _trilu(rng: Random) -> PartCase:
    return PartCase("Trilu", {"x": normal(rng, *_shape(rng, 2))}, {"upper": int(rng.integers(0, 2))})


# --- windows ---------------------------------------------------------------------------------------------


def _window(rng: Random, rank: int) -> tuple[list[int], dict[str, Any]]:
    """An image, and a window of which some part is always in it."""
    kernel, strides, dilations = small(rng, 1, 3, rank), small(rng, 1, 3, rank), small(rng, 1, 2, rank)
    pads = [small(rng, 0, size - 1, 1)[0] for size in kernel * 2]
    image = small(rng, 5, 9, rank)
    found = {"strides": tuple(strides), "dilations": tuple(dilations), "pads": tuple(pads)}
    return image, {"kernel_shape": tuple(kernel), **found}


def _conv(op: str) -> Drawn:
    def draw(rng: Random) -> PartCase:
        is_bytes = op == "Int8Conv"
        image, attrs = _window(rng, small(rng, 1, 2 if is_bytes else 3, 1)[0])
        group, channels, maps = small(rng, 1, 3, 3)
        kernel = attrs["kernel_shape"]
        shapes = {"x": [2, group * channels, *image], "w": [group * maps, channels, *kernel]}
        shapes["b"] = [group * maps]
        attrs["group"] = group
        if not is_bytes:
            return PartCase(op, {name: normal(rng, *shape) for name, shape in shapes.items()}, attrs)
        del attrs["kernel_shape"]
        operands: Operands = {name: _signed(rng, *shapes[name]) for name in ("x", "w")}
        operands["b"] = rng.integers(-99, 99, group * maps).astype(np.int32)
        own = [group * maps] if rng.random() < 0.5 else []
        return PartCase(op, operands | {"s": np.abs(normal(rng, *own)) / np.float32(9)}, attrs)

    return draw


def _signed(rng: Random, *shape: int) -> Array:
    return rng.integers(-128, 128, shape).astype(np.int8)


def _pool(op: str, outputs: int = 1) -> Drawn:
    def draw(rng: Random) -> PartCase:
        image, attrs = _window(rng, small(rng, 1, 3, 1)[0])
        attrs["dilations"] = (1,) * len(image)
        attrs["ceil_mode"] = int(rng.integers(0, 2))
        return PartCase(op, {"x": normal(rng, 2, 3, *image)}, attrs, outputs=outputs)

    return draw


def _image(op: str, **attrs: Any) -> Drawn:
    return lambda rng: PartCase(op, {"x": normal(rng, 2, 3, *small(rng, 2, 6, 2))}, attrs)


def _groups(rng: Random) -> PartCase:
    groups, each = small(rng, 1, 3, 2)
    operands = {"x": normal(rng, 2, groups * each, 3, 4)}
    operands |= {name: normal(rng, groups * each) for name in "sb"}
    return PartCase("NormalizedGroups", operands, {"groups": groups})


# --- products --------------------------------------------------------------------------------------------


def _gemm(rng: Random) -> PartCase:
    m, k, n = small(rng, 1, 6, 3)
    turned = {name: int(rng.integers(0, 2)) for name in ("transA", "transB")}
    a, b = (k, m) if turned["transA"] else (m, k), (n, k) if turned["transB"] else (k, n)
    c = [size if rng.random() < 0.6 else 1 for size in (m, n)][int(rng.integers(0, 3)) :]
    operands = {"a": normal(rng, *a), "b": normal(rng, *b), "c": normal(rng, *c)}
    return PartCase("Gemm", operands, turned)


def _matmul(rng: Random) -> PartCase:
    m, k, n = small(rng, 1, 6, 3)
    one, other = _broadcast(rng, 1, _shape(rng, 0, 2))
    if rng.random() < 0.5:
        one, other = other, one
    a = [k] if rng.random() < 0.15 else [*one, m, k]
    b = [k] if rng.random() < 0.15 else [*other, k, n]
    return PartCase("MatMul", {"a": normal(rng, *a), "b": normal(rng, *b)})


def _byte_matmul(rng: Random) -> PartCase:
    m, k, n = small(rng, 1, 6, 3)
    operands: Operands = {"x": _signed(rng, 2, m, k), "w": _signed(rng, k, n)}
    operands["b"] = rng.integers(-99, 99, n).astype(np.int32)
    own = [n] if rng.random() < 0.5 else []
    return PartCase("Int8MatMul", operands | {"s": np.abs(normal(rng, *own)) / np.float32(9)})


def _fused_attention(rng: Random) -> PartCase:
    """Heads are an axis of their own, or columns of a wider matrix; the result may have them between."""
    batch, heads, rows, keys, size = small(rng, 1, 4, 5)
    mask = normal(rng, *([heads] if rng.random() < 0.5 else [1]), rows, keys)
    attrs: dict[str, Any] = {"softcap": float(rng.integers(0, 3))}
    if rng.random() < 0.5:
        attrs["perm"] = (0, 2, 1, 3)
    if rng.random() < 0.4:
        shapes = [(batch, heads, count, size) for count in (rows, keys, keys)]
        operands = {name: normal(rng, *shape) for name, shape in zip("qkv", shapes, strict=True)}
        return PartCase("FusedAttention", operands | {"m": mask}, attrs)
    width = heads * size
    operands = {"q": normal(rng, batch, rows, width)}
    attrs["view_q"] = (0, batch, heads, rows, size, rows * width, size, width, 1)
    for at, name in enumerate("kv"):  # of keys and values side by side
        operands[name] = normal(rng, batch * keys, 2 * width)
        steps = (2 * keys * width, size, 2 * width, 1)
        attrs[f"view_{name}"] = (at * width, batch, heads, keys, size, *steps)
    return PartCase("FusedAttention", operands | {"m": mask}, attrs)


def _rotary(rng: Random) -> PartCase:
    batch, heads, rows, pairs = small(rng, 1, 4, 4)
    size = 2 * pairs
    turn = (halves if rng.random() < 0.5 else neighbours)(size)
    tables = {name: normal(rng, rows, size) for name in ("c", "s")}
    if rng.random() < 0.5:
        return PartCase("Rotary", {"x": normal(rng, batch, heads, rows, size), **tables}, {"turn": turn})
    width = heads * size
    view = (0, batch, heads, rows, size, rows * width, size, width, 1)
    return PartCase("Rotary", {"x": normal(rng, batch, rows, width), **tables}, {"turn": turn, "view": view})


def _rotary_embedding(rng: Random) -> PartCase:
    batch, heads, rows, pairs = small(rng, 1, 4, 4)
    x, tables = normal(rng, batch, rows, heads * pairs * 2), [normal(rng, 9, pairs) for _ in range(2)]
    operands: Operands = {"x": x, "c": tables[0], "s": tables[1], "p": rng.integers(0, 9, (batch, rows))}
    attrs = {"num_heads": heads, "interleaved": int(rng.integers(0, 2))}
    return PartCase("RotaryEmbedding", operands, attrs)


def _recurrence(rng: Random) -> PartCase:
    kind = str(rng.choice(["RNN", "GRU", "LSTM"]))
    gates, (steps, batch, hidden) = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind], small(rng, 1, 5, 3)
    operands: Operands = {"x": normal(rng, steps, batch, gates * hidden)}
    operands["r"] = normal(rng, hidden, gates * hidden)
    operands |= {"h": normal(rng, batch, hidden), "c": None, "s": None}
    if kind == "LSTM":
        operands["c"] = normal(rng, batch, hidden)
    if kind == "GRU":
        operands["s"] = normal(rng, hidden)
    return PartCase("Recurrence", operands, {"kind": kind, "backwards": int(rng.integers(0, 2))})


# --- the rest --------------------------------------------------------------------------------------------


def _top(op: str) -> Drawn:
    def draw(rng: Random) -> PartCase:
        shape = _shape(rng)
        axis = small(rng, 0, len(shape) - 1, 1)[0]
        count = small(rng, 1, shape[axis], 1)[0]
        if op == "TopIndices":
            return PartCase(op, {"x": normal(rng, *shape)}, {"axis": axis, "count": count})
        return PartCase(op, {"x": normal(rng, *shape), "k": np.array([count])}, {"axis": axis}, outputs=2)

    return draw


def _range(rng: Random) -> PartCase:
    return PartCase("Range", {name: np.array(at) for name, at in (("a", 0), ("b", 7), ("c", 2))})


def _quantised_matmul(rng: Random) -> PartCase:
    m, k, n = small(rng, 1, 5, 3)
    scales = [np.abs(normal(rng)) / np.float32(8) + np.float32(0.01) for _ in range(3)]
    zeros = [rng.integers(-9, 9, ()).astype(np.int8) for _ in range(3)]
    operands: Operands = {"a": _signed(rng, m, k), "as": scales[0], "az": zeros[0], "b": _signed(rng, k, n)}
    operands |= {"bs": scales[1], "bz": zeros[1], "ys": scales[2], "yz": zeros[2]}
    return PartCase("QLinearMatMul", operands)


def _quantised_conv(rng: Random) -> PartCase:
    scales = [np.abs(normal(rng)) / np.float32(8) + np.float32(0.01) for _ in range(3)]
    zeros = [rng.integers(-9, 9, ()).astype(np.int8) for _ in range(3)]
    operands: Operands = {"x": _signed(rng, 1, 4, 6, 5), "xs": scales[0], "xz": zeros[0]}
    operands |= {"w": _signed(rng, 6, 2, 3, 3), "ws": scales[1], "wz": zeros[1], "ys": scales[2]}
    operands |= {"yz": zeros[2], "b": rng.integers(-99, 99, 6).astype(np.int32)}
    return PartCase("QLinearConv", operands, {"group": 2, "pads": (1, 1, 0, 0), "strides": (2, 1)})


OTHERS: dict[str, Drawn] = {
    **{op: elements(op, "float32") for op in ("Erf", "IsNaN", "IsInf", "LeakyRelu", "Sigmoid", "Gelu")},
    **{op: elements(op, "float32") for op in ("Identity", "ReduceLogSum", "GlobalLpPool", "Shape", "Size")},
    **{op: elements(op, "bool", "bool") for op in ("And", "Or", "Xor")},
    **{op: elements(op, "int32", "int32") for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor", "IntegerPow")},
    **{op: elements(op, *("float32",) * 3) for op in ("Sum", "Mean")},
    **{op: elements(op, "float32", "float32") for op in ("PRelu", "FloatPow", "SwiGLU")},
    "Not": elements("Not", "bool"),
    "BitwiseNot": elements("BitwiseNot", "int64"),
    "BitCast": elements("BitCast", "float32", to=6),
    "Cast": elements("Cast", "float32", to=6),
    "CastLike": of_one_shape("CastLike", "float32", "int32"),
    "Clip": lambda rng: PartCase("Clip", {"x": normal(rng, 3, 4), "l": normal(rng), "h": normal(rng)}),
    "QuantiseInt8": elements("QuantiseInt8", "float32", "float32"),
    "DequantiseInt8": elements("DequantiseInt8", "int8", "float32"),
    "OffsetBinary": elements("OffsetBinary", "uint8"),
    "Int8Sum": of_one_shape("Int8Sum", "int8", "int8", a_scale=0.5, b_scale=0.25, y_scale=0.75),
    "Dropout": lambda rng: PartCase("Dropout", {"x": normal(rng, *_shape(rng))}, outputs=2),
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Transpose": _transpose,
    "Concat": _concat,
    "Split": _split,
    "Expand": _expand,
    "DepthToSpace": _blocks("DepthToSpace"),
    "SpaceToDepth": _blocks("SpaceToDepth"),
    "OneHot": _one_hot,
    "Trilu": _trilu,
    "Range": _range,
    "EyeLike": lambda rng: PartCase("EyeLike", {"x": normal(rng, *small(rng, 1, 5, 2))}),
    "Conv": _conv("Conv"),
    "Int8Conv": _conv("Int8Conv"),
    "MaxPool": _pool("MaxPool", outputs=2),
    "AveragePool": _pool("AveragePool"),
    **{op: _image(op) for op in ("GlobalAveragePool", "GlobalMaxPool", "LargestPosition", "GlobalLpPool")},
    "Repeat": _image("Repeat", times=(2, 3)),
    "MeanVarianceNormalization": _image("MeanVarianceNormalization"),
    "LpNormalization": _image("LpNormalization", axis=1),
    "NormalizedGroups": _groups,
    "Gemm": _gemm,
    "MatMul": _matmul,
    "Int8MatMul": _byte_matmul,
    "QLinearMatMul": _quantised_matmul,
    "QLinearConv": _quantised_conv,
    "FusedAttention": _fused_attention,
    "Rotary": _rotary,
    "RotaryEmbedding": _rotary_embedding,
    "Recurrence": _recurrence,
    "TopIndices": _top("TopIndices"),
    "TopK": _top("TopK"),
}

DRAWN = sorted({*DRAWS, *OTHERS})


def drawn(op: str, seed: int) -> tuple[PartCase, Random]:
    """A call of an operator, and the generator for what is done with it."""
    rng = np.random.default_rng([seed, *op.encode()])
    if op in OTHERS:
        return OTHERS[op](rng), rng
    operands, attrs = DRAWS[op](rng)
    return PartCase(op, operands, attrs), rng
