"""Random calls of every operator of ONNX and of the internal ones: those of ``operator_cases``, and more."""

from __future__ import annotations

from typing import Any

import numpy as np

from box_cases import Drawn, PartCase, broadcasting, some_shape
from box_products import PRODUCTS
from compiler.graph import Array
from found_models import FOUND_DRAWS
from operator_cases import DRAWS
from operator_draws import Random, normal, small


def _whole(rng: Random, shape: list[int], dtype: str) -> Array:
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if dtype == "float32":
        return normal(rng, *shape)
    return rng.integers(1, 60, shape).astype(dtype)


def elements(op: str, *dtypes: str, **attrs: Any) -> Drawn:
    """A call of operands that broadcast."""

    def draw(rng: Random) -> PartCase:
        shapes = broadcasting(rng, len(dtypes) - 1, some_shape(rng))
        pairs = enumerate(zip(shapes, dtypes, strict=True))
        return PartCase(op, {f"x{at}": _whole(rng, shape, dtype) for at, (shape, dtype) in pairs}, attrs)

    return draw


def of_one_shape(op: str, *dtypes: str, **attrs: Any) -> Drawn:
    """A call of operands of one shape."""

    def draw(rng: Random) -> PartCase:
        shape = some_shape(rng)
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
    shape = some_shape(rng)
    return PartCase("Flatten", {"x": normal(rng, *shape)}, {"axis": small(rng, 0, len(shape), 1)[0]})


def _squeeze(rng: Random) -> PartCase:
    shape = [size if rng.random() < 0.5 else 1 for size in some_shape(rng)]
    return PartCase("Squeeze", {"x": normal(rng, *shape)})


def _unsqueeze(rng: Random) -> PartCase:
    return PartCase("Unsqueeze", {"x": normal(rng, *some_shape(rng)), "a": np.array([0, 2])})


def _transpose(rng: Random) -> PartCase:
    shape = some_shape(rng)
    perm = tuple(int(axis) for axis in rng.permutation(len(shape)))
    return PartCase("Transpose", {"x": normal(rng, *shape)}, {"perm": perm})


def _concat(rng: Random) -> PartCase:
    shape = some_shape(rng)
    axis, count = small(rng, 0, len(shape) - 1, 1)[0], small(rng, 1, 4, 1)[0]
    sizes = small(rng, 0, 5, count)
    pieces = {f"x{at}": normal(rng, *shape[:axis], n, *shape[axis + 1 :]) for at, n in enumerate(sizes)}
    return PartCase("Concat", pieces, {"axis": axis - len(shape) * int(rng.integers(0, 2))})


def _append(rng: Random) -> PartCase:
    shape = some_shape(rng)
    axis = int(rng.integers(0, len(shape)))
    rows = list(shape)
    rows[axis] = small(rng, 1, shape[axis], 1)[0]
    at = int(rng.integers(0, shape[axis] - rows[axis] + 1))
    operands = {"cache": normal(rng, *shape), "rows": normal(rng, *rows)}
    return PartCase("Append", operands, {"axis": axis, "at": at})


def _split(rng: Random) -> PartCase:
    sizes = small(rng, 1, 4, 3)
    x = normal(rng, small(rng, 1, 4, 1)[0], sum(sizes), 2)
    return PartCase("Split", {"x": x, "s": np.array(sizes)}, {"axis": 1}, outputs=3)


def _expand(rng: Random) -> PartCase:
    (shape, own), longer = broadcasting(rng, 1, some_shape(rng)), small(rng, 1, 3, 1)
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
    indices, depth = rng.integers(0, 5, some_shape(rng, 1, 2)), np.array(5)
    return PartCase("OneHot", {"i": indices, "d": depth, "v": normal(rng, 2)}, {"axis": 0})


def _trilu(rng: Random) -> PartCase:
    return PartCase("Trilu", {"x": normal(rng, *some_shape(rng, 2))}, {"upper": int(rng.integers(0, 2))})


# --- the rest --------------------------------------------------------------------------------------------


def _top(op: str) -> Drawn:
    def draw(rng: Random) -> PartCase:
        shape = some_shape(rng)
        axis = small(rng, 0, len(shape) - 1, 1)[0]
        count = small(rng, 1, shape[axis], 1)[0]
        if op == "TopIndices":
            return PartCase(op, {"x": normal(rng, *shape)}, {"axis": axis, "count": count})
        return PartCase(op, {"x": normal(rng, *shape), "k": np.array([count])}, {"axis": axis}, outputs=2)

    return draw


def _integer_sum(rng: Random) -> PartCase:
    shape = some_shape(rng)
    return PartCase(
        "IntegerSum", {"x": rng.integers(-9, 9, shape)}, {"axis": int(rng.integers(0, len(shape)))}
    )


def _running_sum(rng: Random) -> PartCase:
    shape, reverse = some_shape(rng), int(rng.integers(0, 2))
    axis = int(rng.integers(0, len(shape)))
    return PartCase("RunningSum", {"x": normal(rng, *shape)}, {"axis": axis, "reverse": reverse})


def _range(rng: Random) -> PartCase:
    return PartCase("Range", {name: np.array(at) for name, at in (("a", 0), ("b", 7), ("c", 2))})


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
    "Dropout": lambda rng: PartCase("Dropout", {"x": normal(rng, *some_shape(rng))}, outputs=2),
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Transpose": _transpose,
    "Concat": _concat,
    "Append": _append,
    "Split": _split,
    "Expand": _expand,
    "DepthToSpace": _blocks("DepthToSpace"),
    "SpaceToDepth": _blocks("SpaceToDepth"),
    "OneHot": _one_hot,
    "Trilu": _trilu,
    "Range": _range,
    "EyeLike": lambda rng: PartCase("EyeLike", {"x": normal(rng, *small(rng, 1, 5, 2))}),
    "IntegerSum": _integer_sum,
    "RunningSum": _running_sum,
    "TopIndices": _top("TopIndices"),
    "TopK": _top("TopK"),
    "com.microsoft.BiasGelu": elements("com.microsoft.BiasGelu", "float32", "float32"),
    **PRODUCTS,
    **FOUND_DRAWS,
}

DRAWN = sorted({*DRAWS, *OTHERS})


def drawn(op: str, seed: int) -> tuple[PartCase, Random]:
    """Return a call of an operator, and the random generator for the test of it."""
    rng = np.random.default_rng([seed, *op.encode()])
    if op in OTHERS:
        return OTHERS[op](rng), rng
    operands, attrs = DRAWS[op](rng)
    return PartCase(op, operands, attrs), rng
