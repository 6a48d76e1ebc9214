"""Random operands and attributes of operators that need more than one array of any shape."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from compiler.graph import Array

Random = np.random.Generator
Operands = dict[str, Array | None]
"""Operands by name, in order; None is one omitted."""
Draw = Callable[[Random], tuple[Mapping[str, Array | None], dict[str, Any]]]


def normal(rng: Random, *shape: int) -> Array:
    return rng.standard_normal(shape).astype(np.float32)


def small(rng: Random, lowest: int, highest: int, count: int) -> list[int]:
    """Numbers from lowest to highest."""
    return [int(n) for n in rng.integers(lowest, highest + 1, count)]


def _bytes(rng: Random, shape: tuple[int, ...], dtype: str) -> Array:
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max + 1, shape).astype(dtype)


def _byte(rng: Random) -> str:
    return str(rng.choice(["int8", "uint8"]))


# --- quantisation ----------------------------------------------------------------------------------------


def _quantise(rng: Random) -> tuple[Operands, dict[str, Any]]:
    shape, axis = small(rng, 1, 6, 3), small(rng, 0, 2, 1)[0]
    own = () if rng.random() < 0.5 else (shape[axis],)
    scale = (2.0 ** rng.integers(-3, 2, own)).astype(np.float32)
    return {"x": normal(rng, *shape) * 20, "s": scale, "z": _bytes(rng, own, _byte(rng))}, {"axis": axis}


def _dequantise(rng: Random) -> tuple[Operands, dict[str, Any]]:
    operands, attrs = _quantise(rng)
    x, z = operands["x"], operands["z"]
    assert x is not None and z is not None
    return operands | {"x": _bytes(rng, x.shape, z.dtype.name)}, attrs


def _dynamic(rng: Random) -> tuple[Operands, dict[str, Any]]:
    return {"x": normal(rng, *small(rng, 1, 9, 2)) * 3}, {}


def _matmul_integer(rng: Random) -> tuple[Operands, dict[str, Any]]:
    (m, n), k = small(rng, 1, 9, 2), small(rng, 1, 700, 1)[0]  # longer than FP32 can sum exactly
    a, b = _byte(rng), _byte(rng)
    zeros: Operands = {"az": _bytes(rng, (), a), "bz": _bytes(rng, (), b)} if rng.random() < 0.5 else {}
    return {"a": _bytes(rng, (m, k), a), "b": _bytes(rng, (k, n), b), **zeros}, {}


def _conv_integer(rng: Random) -> tuple[Operands, dict[str, Any]]:
    group, kernel, step = small(rng, 1, 2, 3)
    channels, maps = small(rng, 1, 40, 1)[0], small(rng, 1, 3, 1)[0]
    x = _bytes(rng, (1, channels * group, *small(rng, 3, 6, 2)), "uint8")
    w = _bytes(rng, (maps * group, channels, kernel, kernel), "uint8")
    attrs = {"group": group, "strides": (step, step), "pads": (1, 0, 0, 1)}
    return {"x": x, "w": w, "xz": _bytes(rng, (), "uint8")}, attrs


# --- resizing and normalisation --------------------------------------------------------------------------


def _resize(rng: Random) -> tuple[Operands, dict[str, Any]]:
    shape = (1, small(rng, 1, 3, 1)[0], *small(rng, 2, 7, 2))
    mode = str(rng.choice(["nearest", "linear", "cubic"]))
    transform = str(rng.choice(["half_pixel", "asymmetric", "align_corners"]))
    attrs = {"mode": mode, "coordinate_transformation_mode": transform}
    if mode == "nearest":
        attrs |= {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    sizes = np.array([*shape[:2], *small(rng, 2, 12, 2)])
    return {"x": normal(rng, *shape), "roi": None, "scales": None, "sizes": sizes}, attrs


def _per_channel(*names: str) -> Draw:
    def draw(rng: Random) -> tuple[Operands, dict[str, Any]]:
        channels = 2 * small(rng, 1, 4, 1)[0]
        x = normal(rng, small(rng, 1, 2, 1)[0], channels, *small(rng, 2, 6, 2))
        operands: Operands = {"x": x, **{name: normal(rng, channels) for name in names}}
        if "v" in names:
            operands["v"] = np.abs(normal(rng, channels)) + np.float32(0.5)
        return operands, {}

    return draw


def _group_normalization(rng: Random) -> tuple[Operands, dict[str, Any]]:
    operands, _ = _per_channel("s", "b")(rng)
    return dict(operands), {"num_groups": 2}


def _last_axes(rng: Random) -> tuple[Operands, dict[str, Any]]:
    shape, axis = small(rng, 2, 7, 3), small(rng, 1, 2, 1)[0]
    return {"x": normal(rng, *shape), "s": normal(rng, *shape[axis:])}, {"axis": axis}


def _lrn(rng: Random) -> tuple[Operands, dict[str, Any]]:
    """As many images as channels, because the evaluator confuses the two."""
    channels, height, width = small(rng, 1, 9, 3)
    return {"x": normal(rng, channels, channels, height, width)}, {
        "size": small(rng, 1, 5, 1)[0],
        "alpha": 0.1,
    }


# --- integers --------------------------------------------------------------------------------------------


def _integers(lowest: int, highest: int, low: int = -100, high: int = 100) -> Draw:
    """The second operand is in lowest .. highest and is not 0."""

    def draw(rng: Random) -> tuple[Operands, dict[str, Any]]:
        shape, dtype = tuple(small(rng, 1, 6, 3)), str(rng.choice(["int32", "int64"]))
        b = rng.integers(lowest, highest + 1, shape[1:])
        return {"a": rng.integers(low, high, shape).astype(dtype), "b": np.where(b, b, 1).astype(dtype)}, {}

    return draw


def _many(rng: Random) -> tuple[Operands, dict[str, Any]]:
    """More operands than the core has registers for."""
    return {
        f"x{at}": rng.integers(-9, 9, (3, 4)).astype(np.int32) for at in range(small(rng, 1, 40, 1)[0])
    }, {}


def _shift(rng: Random) -> tuple[Operands, dict[str, Any]]:
    operands, _ = _integers(-2, 70)(rng)
    return dict(operands), {"direction": str(rng.choice(["LEFT", "RIGHT"]))}


def _accumulated(rng: Random) -> tuple[Operands, dict[str, Any]]:
    x = 1 + normal(rng, *small(rng, 1, 7, 3)) / 8
    attrs = {"exclusive": int(rng.integers(0, 2)), "reverse": int(rng.integers(0, 2))}
    return {"x": x, "axis": rng.integers(-3, 3, ()).astype(np.int64)}, attrs


# --- places ----------------------------------------------------------------------------------------------


def _scatter_elements(rng: Random) -> tuple[Operands, dict[str, Any]]:
    shape, axis = small(rng, 2, 6, 2), small(rng, 0, 1, 1)[0]
    rows = np.argsort(rng.random(shape), axis)  # no place twice
    return {"x": normal(rng, *shape), "i": rows, "u": normal(rng, *shape)}, {"axis": axis}


def _scatter_nd(rng: Random) -> tuple[Operands, dict[str, Any]]:
    rows, columns = small(rng, 2, 6, 2)
    index = rng.permutation(rows)[: max(rows // 2, 1)].reshape(-1, 1)
    return {"x": normal(rng, rows, columns), "i": index, "u": normal(rng, len(index), columns)}, {}


def _gather_nd(rng: Random) -> tuple[Operands, dict[str, Any]]:
    shape = small(rng, 1, 6, 3)
    depth = small(rng, 1, 3, 1)[0]
    index = np.stack([rng.integers(0, size, 4) for size in shape[:depth]], -1)
    return {"x": normal(rng, *shape), "i": index}, {}


def _reverse_sequence(rng: Random) -> tuple[Operands, dict[str, Any]]:
    steps, batch, size = small(rng, 1, 6, 3)
    return {"x": normal(rng, steps, batch, size), "n": rng.integers(1, steps + 1, batch)}, {}


def _tensor_scatter(rng: Random) -> tuple[Operands, dict[str, Any]]:
    batch, heads, length, size = small(rng, 1, 5, 4)
    count = small(rng, 1, length, 1)[0]
    where = rng.integers(0, length - count + 1, batch)
    return {
        "c": normal(rng, batch, heads, length, size),
        "u": normal(rng, batch, heads, count, size),
        "w": where,
    }, {}


def _max_unpool(rng: Random) -> tuple[Operands, dict[str, Any]]:
    channels, rows, columns = small(rng, 1, 4, 3)
    window = rng.integers(0, 4, (1, channels, rows, columns))
    row = 2 * np.arange(rows)[:, None] + window // 2
    plane = 4 * rows * columns * np.arange(channels)[:, None, None]
    index = plane + row * 2 * columns + 2 * np.arange(columns) + window % 2
    return {"x": normal(rng, *window.shape), "i": index}, {"kernel_shape": (2, 2), "strides": (2, 2)}


def _col2im(rng: Random) -> tuple[Operands, dict[str, Any]]:
    (height, width), (rows, columns) = small(rng, 4, 7, 2), small(rng, 1, 3, 2)
    count = ((height + 1 - rows) // 2 + 1) * (width - columns + 1)
    x = normal(rng, 1, 2 * rows * columns, count)
    attrs = {"pads": (1, 0, 0, 0), "strides": (2, 1)}
    return {"x": x, "image": np.array([height, width]), "block": np.array([rows, columns])}, attrs


def _grid_sample(rng: Random) -> tuple[Operands, dict[str, Any]]:
    batch, channels, height, width = small(rng, 2, 5, 4)
    attrs = {
        "mode": str(rng.choice(["linear", "cubic"])),  # nearest jumps if rounding moves a place
        "padding_mode": str(rng.choice(["zeros", "border", "reflection"])),
        "align_corners": int(rng.integers(0, 2)),
    }
    grid = rng.uniform(-1.2, 1.2, (batch, *small(rng, 1, 4, 2), 2)).astype(np.float32)
    return {"x": normal(rng, batch, channels, height, width), "grid": grid}, attrs


def _roi_align(rng: Random) -> tuple[Operands, dict[str, Any]]:
    batch, channels, count = small(rng, 1, 3, 3)
    corner = rng.uniform(0, 4, (count, 2))
    rois = np.concatenate([corner, corner + rng.uniform(1, 4, (count, 2))], 1).astype(np.float32)
    operands: Operands = {"x": normal(rng, batch, channels, 8, 9), "rois": rois}
    attrs = {"output_height": 2, "output_width": 3, "sampling_ratio": int(rng.integers(0, 3))}
    return operands | {"i": rng.integers(0, batch, count)}, attrs


def _deform_conv(rng: Random) -> tuple[Operands, dict[str, Any]]:
    channels, maps = 2 * small(rng, 1, 2, 1)[0], small(rng, 1, 3, 1)[0]
    height, width = small(rng, 3, 5, 2)
    operands: Operands = {
        "x": normal(rng, 1, channels, height, width),
        "w": normal(rng, maps, channels, 2, 2),
    }
    offsets = rng.uniform(-1, 1, (1, 16, height - 1, width - 1)).astype(np.float32)
    mask = rng.uniform(0, 1, (1, 8, height - 1, width - 1)).astype(np.float32)
    return operands | {"o": offsets, "b": normal(rng, maps), "m": mask}, {"offset_group": 2}


def _lp_pool(rng: Random) -> tuple[Operands, dict[str, Any]]:
    x = normal(rng, 1, *small(rng, 3, 7, 3))
    return {"x": x}, {"kernel_shape": (2, 3), "pads": (0, 1, 1, 1), "p": small(rng, 1, 3, 1)[0]}


# --- linear algebra and recurrence -----------------------------------------------------------------------

_EQUATIONS = {
    "ij,jk->ik": ((2, 3), (3, 4)),
    "bhqd,bhkd->bhqk": ((2, 2, 3, 4), (2, 2, 5, 4)),
    "...ij,...jk": ((2, 1, 3, 2), (4, 2, 3)),
    "iij->j": ((3, 3, 4),),
    "i,j,k->kij": ((2,), (3,), (4,)),
    "abc,cd->": ((2, 3, 4), (4, 2)),
}


def _einsum(rng: Random) -> tuple[Operands, dict[str, Any]]:
    equation = str(rng.choice(sorted(_EQUATIONS)))
    return {f"x{at}": normal(rng, *shape) for at, shape in enumerate(_EQUATIONS[equation])}, {
        "equation": equation
    }


def _det(rng: Random) -> tuple[Operands, dict[str, Any]]:
    batch, rows = small(rng, 1, 5, 2)
    return {"x": normal(rng, batch, rows, rows)}, {}


def _recurrent(gates: int) -> Draw:
    def draw(rng: Random) -> tuple[Operands, dict[str, Any]]:
        steps, batch, size, hidden = small(rng, 1, 4, 4)
        rows = gates * hidden
        operands: Operands = {
            "x": normal(rng, steps, batch, size),
            "w": normal(rng, 1, rows, size),
            "r": normal(rng, 1, rows, hidden),
            "b": normal(rng, 1, 2 * rows),
            "n": None,
            "h": normal(rng, 1, batch, hidden),
        }
        return operands, {"hidden_size": hidden}

    return draw


def _attention(rng: Random) -> tuple[Operands, dict[str, Any]]:
    """With masks of numbers or truth values, earlier keys, shared keys, as rank 3 or 4."""
    batch, groups, repeats = small(rng, 1, 3, 3)
    rows, keys, size, wide, before = small(rng, 1, 9, 5)
    past = before if rng.random() < 0.4 else 0
    heads = groups * repeats
    operands: Operands = {
        "q": normal(rng, batch, heads, rows, size),
        "k": normal(rng, batch, groups, keys, size),
        "v": normal(rng, batch, groups, keys, wide),
        "m": None,
    }
    kind = rng.integers(0, 3)
    if kind:
        shape = (*((batch, heads) if rng.random() < 0.5 else ()), rows, past + keys)
        operands["m"] = normal(rng, *shape) if kind == 1 else rng.random(shape) < 0.7
    if past:
        operands |= {
            "pk": normal(rng, batch, groups, past, size),
            "pv": normal(rng, batch, groups, past, wide),
        }
    attrs: dict[str, Any] = {"is_causal": int(rng.integers(0, 2)), "softcap": float(rng.integers(0, 3))}
    attrs |= {f"{side}_window_size": int(rng.integers(-1, 4)) for side in ("left", "right")}
    if not past and rng.random() < 0.3:
        operands |= {"pk": None, "pv": None, "n": rng.integers(0, keys + 1, batch)}
    if rng.random() < 0.4:
        for name in "qkv":
            matrix = operands[name]
            assert matrix is not None
            operands[name] = np.moveaxis(matrix, 1, 2).reshape(batch, matrix.shape[2], -1)
        attrs |= {"q_num_heads": heads, "kv_num_heads": groups}
    return operands, attrs


MORE: dict[str, Draw] = {
    "Attention": _attention,
    "QuantizeLinear": _quantise,
    "DequantizeLinear": _dequantise,
    "DynamicQuantizeLinear": _dynamic,
    "MatMulInteger": _matmul_integer,
    "ConvInteger": _conv_integer,
    "Resize": _resize,
    "InstanceNormalization": _per_channel("s", "b"),
    "BatchNormalization": _per_channel("s", "b", "m", "v"),
    "GroupNormalization": _group_normalization,
    "LayerNormalization": _last_axes,
    "RMSNormalization": _last_axes,
    "LRN": _lrn,
    **dict.fromkeys(("Add", "Sub", "Mul", "Mod"), _integers(-20, 20)),
    **dict.fromkeys(("Max", "Min"), _many),
    "Div": _integers(1, 20, 0),
    "Pow": _integers(1, 3, -5, 5),
    "BitShift": _shift,
    "CumSum": _accumulated,
    "CumProd": _accumulated,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
    "GatherND": _gather_nd,
    "ReverseSequence": _reverse_sequence,
    "TensorScatter": _tensor_scatter,
    "MaxUnpool": _max_unpool,
    "Col2Im": _col2im,
    "GridSample": _grid_sample,
    "RoiAlign": _roi_align,
    "DeformConv": _deform_conv,
    "LpPool": _lp_pool,
    "Einsum": _einsum,
    "Det": _det,
    "RNN": _recurrent(1),
    "GRU": _recurrent(3),
    "LSTM": _recurrent(4),
}
