"""Random calls of windows, of products, and of operators that consist of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from box_cases import Drawn, PartCase, broadcasting, some_shape
from compiler.graph import Array
from compiler.operators.linear.rotary import halves, neighbours
from operator_draws import Operands, Random, normal, small

# --- windows ---------------------------------------------------------------------------------------------


def _window(rng: Random, rank: int) -> tuple[list[int], dict[str, Any]]:
    """An image, and a window that always overlaps it."""
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
    one, other = broadcasting(rng, 1, some_shape(rng, 0, 2))
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


def _packed_matmul(rng: Random) -> PartCase:
    m, k, n = small(rng, 1, 6, 3)
    block = int(rng.integers(1, k + 1))
    blocks = -(-k // block)
    operands: Operands = {"a": normal(rng, 2, m, k), "w": rng.integers(-8, 8, (k, n)).astype(np.int8)}
    operands["s"] = np.abs(normal(rng, blocks, n))
    if rng.random() < 0.5:
        operands["z"] = rng.integers(-8, 8, (blocks, n)).astype(np.int8)
    return PartCase("PackedMatMul", operands, {"bits": 4, "block_size": block})


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


def _banded_resize(rng: Random) -> PartCase:
    """Long enough for band matrices, so that a product with them reads a window."""
    shape, sizes = [1, 2, small(rng, 16, 24, 1)[0], 3], [1, 2, *small(rng, 2, 40, 2)]
    mode = str(rng.choice(["linear", "cubic", "nearest"]))
    operands: Operands = {"x": normal(rng, *shape), "roi": None, "scales": None, "sizes": np.array(sizes)}
    return PartCase("Resize", operands, {"mode": mode, "antialias": int(rng.integers(0, 2))})


def _banded_lrn(rng: Random) -> PartCase:
    return PartCase(
        "LRN", {"x": normal(rng, 2, small(rng, 8, 24, 1)[0], 3)}, {"size": small(rng, 1, 5, 1)[0]}
    )


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


def _dft(rng: Random) -> PartCase:
    """Of real or complex numbers; a given length truncates them or adds zeros."""
    inverse, one_sided = small(rng, 0, 1, 2)
    parts = 1 + inverse if one_sided else small(rng, 1, 2, 1)[0]
    shape = [*small(rng, 2, 5, small(rng, 1, 3, 1)[0]), parts]
    axis = small(rng, 0, len(shape) - 2, 1)[0]
    operands: Operands = {"x": normal(rng, *shape), "n": None, "a": np.array(axis - len(shape))}
    if rng.random() < 0.5:
        operands["n"] = np.array(small(rng, 1, 8, 1)[0])
    return PartCase("DFT", operands, {"inverse": inverse, "onesided": one_sided})


def _stft(rng: Random) -> PartCase:
    """Frames that are adjacent, that have gaps between them, or that share samples."""
    one_sided = int(rng.integers(0, 2))
    parts = 1 if one_sided else small(rng, 1, 2, 1)[0]
    batch, step, length, more = small(rng, 1, 5, 4)
    operands: Operands = {"x": normal(rng, batch, length + 3 * more, parts), "step": np.array(step)}
    operands["window"] = normal(rng, length) if rng.random() < 0.5 else None
    operands["length"] = np.array(length)
    return PartCase("STFT", operands, {"onesided": one_sided})


# --- operators of other domains --------------------------------------------------------------------------


def _fused_conv(rng: Random) -> PartCase:
    case = _conv("Conv")(rng)
    return replace(case, op="com.microsoft.FusedConv", attrs={**case.attrs, "activation": "Relu"})


def _skip_normalization(rng: Random) -> PartCase:
    batch, rows, width = small(rng, 1, 5, 3)
    operands = {name: normal(rng, batch, rows, width) for name in ("x", "skip")}
    operands |= {name: normal(rng, width) for name in ("gamma", "beta", "bias")}
    return PartCase("com.microsoft.SkipLayerNormalization", operands)


def _heads_of_rows(rng: Random) -> PartCase:
    batch, rows, keys, heads = small(rng, 1, 4, 4)
    operands = {"q": normal(rng, batch, rows, heads * 4)}
    operands |= {name: normal(rng, batch, keys, heads * 4) for name in "kv"}
    return PartCase("com.microsoft.MultiHeadAttention", operands, {"num_heads": heads})


def _projected_heads(rng: Random) -> PartCase:
    batch, rows, heads, columns = small(rng, 1, 4, 4)
    operands = {"x": normal(rng, batch, rows, columns), "w": normal(rng, columns, heads * 12)}
    return PartCase(
        "com.microsoft.Attention", operands | {"b": normal(rng, heads * 12)}, {"num_heads": heads}
    )


def _few_bits(rng: Random) -> PartCase:
    rows, columns, inner = small(rng, 1, 5, 3)
    operands: Operands = {"a": normal(rng, rows, 16 * inner)}
    operands["b"] = rng.integers(0, 256, (columns, inner, 8)).astype(np.uint8)
    operands["s"] = np.abs(normal(rng, columns, inner))
    return PartCase("com.microsoft.MatMulNBits", operands, {"K": 16 * inner, "N": columns, "block_size": 16})


def _linear_regressor(rng: Random) -> PartCase:
    rows, columns = small(rng, 1, 5, 2)
    attrs = {"coefficients": tuple(float(n) for n in range(2 * columns)), "targets": 2}
    return PartCase("ai.onnx.ml.LinearRegressor", {"x": normal(rng, rows, columns)}, attrs)


PRODUCTS: dict[str, Drawn] = {
    "QLinearMatMul": _quantised_matmul,
    "QLinearConv": _quantised_conv,
    "Conv": _conv("Conv"),
    "Int8Conv": _conv("Int8Conv"),
    "MaxPool": _pool("MaxPool", outputs=2),
    "AveragePool": _pool("AveragePool"),
    **{op: _image(op) for op in ("GlobalAveragePool", "GlobalMaxPool", "LargestPosition", "GlobalLpPool")},
    **{op: _image(op, times=(2, 3)) for op in ("Repeat", "InsertZeros")},
    "MeanVarianceNormalization": _image("MeanVarianceNormalization"),
    "LpNormalization": _image("LpNormalization", axis=1),
    "NormalizedGroups": _groups,
    "Gemm": _gemm,
    "MatMul": _matmul,
    "Int8MatMul": _byte_matmul,
    "PackedMatMul": _packed_matmul,
    "FusedAttention": _fused_attention,
    "Rotary": _rotary,
    "RotaryEmbedding": _rotary_embedding,
    "Recurrence": _recurrence,
    "Resize": _banded_resize,
    "LRN": _banded_lrn,
    "DFT": _dft,
    "STFT": _stft,
    "com.microsoft.FusedConv": _fused_conv,
    "com.microsoft.SkipLayerNormalization": _skip_normalization,
    "com.microsoft.MultiHeadAttention": _heads_of_rows,
    "com.microsoft.Attention": _projected_heads,
    "com.microsoft.MatMulNBits": _few_bits,
    "ai.onnx.ml.LinearRegressor": _linear_regressor,
}
