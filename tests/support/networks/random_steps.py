"""The steps of random graphs (``random_graphs``): each adds a node with valid operands, or does nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto

from random_graphs import GraphDraw
from random_tensor_steps import (
    by_index,
    contraction,
    convolved,
    cut,
    flat,
    joined,
    multiplied,
    one_hot,
    other_shape,
    padded,
    parts_of,
    permuted,
    picked,
    pooled,
    quantised,
    raised,
    recurrent_layer,
    repeated,
    resized,
    single_axes,
    size_of,
    space_and_depth,
    triangular,
)

Step = Callable[[GraphDraw], object]

_KEPT = ("Relu", "Abs", "Neg", "Identity")
_SMOOTH = (
    *(
        "Sigmoid",
        "Tanh",
        "Softplus",
        "Softsign",
        "HardSigmoid",
        "HardSwish",
        "Elu",
        "Selu",
        "Celu",
        "LeakyRelu",
    ),
    *("Erf", "Sin", "Cos", "Atan", "Asinh", "Mish", "Gelu", "Exp", "Sinh", "Cosh", "Swish"),
)
_STEEP = ("Sin", "Cos", "Exp", "Sinh", "Cosh")
"""Functions that multiply the error of a large operand."""
_JUMPS = ("Floor", "Ceil", "Round", "Sign", "ThresholdedRelu", "Shrink")
_TYPES = (
    TensorProto.FLOAT,
    TensorProto.INT64,
    TensorProto.INT32,
    TensorProto.INT8,
    TensorProto.UINT8,
    TensorProto.BOOL,
)


def _unary(draw: GraphDraw) -> None:
    if x := draw.take("f"):
        op = draw.one_of(*_KEPT, *_SMOOTH)
        if op in _STEEP and not np.all(np.abs(draw.values[x]) < 8):
            op = "Tanh"
        draw.add(op, [x], exact=op in _KEPT)


def _jump(draw: GraphDraw) -> None:
    if x := draw.take("f", exact=True):
        draw.add(draw.one_of(*_JUMPS), [x], exact=True)


def _domain(draw: GraphDraw) -> None:
    """Functions that need positive numbers, or numbers of at most 1."""
    if (x := draw.take("f")) is None:
        return
    if draw.maybe(0.5):
        op = draw.one_of("Log", "Sqrt", "Reciprocal", "Acosh")
        draw.add("Abs", [x])
        draw.add("Add", [list(draw.values)[-1], draw.constant(np.float32(1.5 if op == "Acosh" else 0.5))])
        draw.add(op, [list(draw.values)[-1]])
    else:
        draw.add("Tanh", [x])
        draw.add("Mul", [list(draw.values)[-1], draw.constant(np.float32(0.75))])
        draw.add(draw.one_of("Asin", "Acos", "Atanh", "Tan"), [list(draw.values)[-1]])


def _binary(draw: GraphDraw) -> None:
    if x := draw.take("f"):
        op = draw.one_of("Add", "Add", "Sub", "Mul", "Max", "Min", "PRelu")
        pair = [x, draw.like(x)]
        if op not in ("PRelu",) and draw.maybe(0.3):
            pair.reverse()
        draw.add(op, pair, exact=True)


def _quotient(draw: GraphDraw) -> None:
    if x := draw.take("f"):
        divisor = draw.numbers(draw.values[x].shape[-1:] or ())
        draw.add("Div", [x, draw.constant(np.where(divisor == 0, np.float32(2), divisor).astype(np.float32))])


def _several(draw: GraphDraw) -> None:
    if x := draw.take("f"):
        op = draw.one_of("Sum", "Mean", "Max", "Min")
        draw.add(op, [x, *(draw.like(x) for _ in range(draw.whole(0, 3)))], exact=op != "Mean")


def _integers(draw: GraphDraw) -> None:
    if x := draw.take("i"):
        op = draw.one_of(
            "Add", "Sub", "Mul", "Max", "Min", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Abs", "Neg"
        )
        draw.add(op, [x] if op in ("Abs", "Neg") else [x, draw.like(x)])


def _division(draw: GraphDraw) -> None:
    if x := draw.take("i"):
        array = draw.values[x]
        divisor = draw.numbers(array.shape[-1:] or (), array.dtype)
        divisor = draw.constant(np.where(divisor == 0, 3, divisor).astype(array.dtype))
        fmod = {"fmod": draw.whole(0, 1)}
        draw.add(*(("Mod", [x, divisor], 1, False) if draw.maybe(0.5) else ("Div", [x, divisor])), **{})
        if draw.maybe(0.3):
            draw.add("Mod", [x, divisor], **fmod)


def _comparison(draw: GraphDraw) -> None:
    if x := draw.take("fi", exact=True):
        op = draw.one_of("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual")
        draw.add(op, [x, draw.like(x, exact=True)])


def _logic(draw: GraphDraw) -> None:
    if x := draw.take("b"):
        op = draw.one_of("And", "Or", "Xor", "Not")
        draw.add(op, [x] if op == "Not" else [x, draw.like(x)])


def _choice(draw: GraphDraw) -> None:
    if x := draw.take("fi"):
        shape = draw.values[x].shape
        masks = [
            name for name, array in draw.values.items() if array.dtype == np.bool_ and array.shape == shape
        ]
        mask = draw.one_of(*masks) if masks else draw.given(shape, np.bool_)
        pair = [x, draw.like(x)]
        draw.add("Where", [mask, *(pair if draw.maybe(0.5) else pair[::-1])], exact=True)


def _cast(draw: GraphDraw) -> None:
    """Integers from floats only in their range; floats that are rounded to FLOAT16 are not exact."""
    if (x := draw.take("fiub", exact=True)) is None:
        return
    to = draw.one_of(*_TYPES, TensorProto.FLOAT)
    array = draw.values[x]
    if array.dtype.kind == "f" and to == TensorProto.UINT8:
        if not draw.add("Abs", [x], exact=True):
            return
        x = list(draw.values)[-1]
    with np.errstate(all="ignore"):
        largest = float(np.max(np.abs(np.nan_to_num(draw.values[x].astype(np.float64))), initial=0))
    if largest < 100 and not draw.special:
        draw.add("Cast", [x], to=to, exact=True)


def _round_trip(draw: GraphDraw) -> None:
    x, short = draw.take("f"), draw.one_of(TensorProto.FLOAT16, TensorProto.BFLOAT16)
    if x is not None and draw.add("Cast", [x], to=short):
        draw.add("Cast", [list(draw.values)[-1]], to=TensorProto.FLOAT, exact=True)


def _tests(draw: GraphDraw) -> None:
    if x := draw.take("f"):
        draw.add(draw.one_of("IsNaN", "IsInf"), [x])


def _clip(draw: GraphDraw) -> None:
    if x := draw.take("fi"):
        kind = draw.values[x].dtype
        bounds = [draw.constant(np.array(-2, kind)), draw.constant(np.array(3, kind))]
        draw.add("Clip", [x, *bounds][: draw.whole(2, 3)], exact=True)


# --- reductions ------------------------------------------------------------------------------------------


def _axes(draw: GraphDraw, name: str) -> list[int]:
    rank = draw.values[name].ndim
    picked = [axis for axis in range(rank) if draw.maybe(0.5)] or [draw.whole(0, rank - 1)]
    return [axis - rank if draw.maybe(0.3) else axis for axis in picked]


def _reduce(draw: GraphDraw, ops: Sequence[str], kinds: str, exact: bool) -> None:
    if (x := draw.take(kinds, least=1)) is None:
        return
    op, axes, keepdims = draw.one_of(*ops), _axes(draw, x), draw.whole(0, 1)
    newer = draw.opset >= 18 or (op == "ReduceSum" and draw.opset >= 13)
    given: dict[str, Any] = {} if newer else {"axes": axes}
    draw.add(op, [x, draw.ints(*axes)] if newer else [x], exact=exact, keepdims=keepdims, **given)


def _reduce_floats(draw: GraphDraw) -> None:
    ops = ("ReduceMean", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp", "ReduceMean")
    _reduce(draw, ops, "f", False)


def _reduce_exactly(draw: GraphDraw) -> None:
    _reduce(draw, ("ReduceSum", "ReduceMax", "ReduceMin"), "fi", True)


def _arg(draw: GraphDraw) -> None:
    if x := draw.take("fi", exact=True, least=1):
        axis = draw.whole(0, draw.values[x].ndim - 1)
        last = {"select_last_index": draw.whole(0, 1)}
        draw.add(draw.one_of("ArgMax", "ArgMin"), [x], axis=axis, keepdims=draw.whole(0, 1), **last)


def _top(draw: GraphDraw) -> None:
    if x := draw.take("f", exact=True, least=1):
        axis = draw.whole(0, draw.values[x].ndim - 1)
        count = draw.ints(draw.whole(1, draw.values[x].shape[axis]))
        draw.add("TopK", [x, count], 2, True, axis=axis, largest=draw.whole(0, 1))


def _along(draw: GraphDraw) -> None:
    if x := draw.take("f", least=1):
        axis = draw.whole(-draw.values[x].ndim, draw.values[x].ndim - 1)
        op = draw.one_of("Softmax", "Softmax", "LogSoftmax", "CumSum", "LpNormalization")
        if op == "CumSum":
            flags = {"exclusive": draw.whole(0, 1), "reverse": draw.whole(0, 1)}
            draw.add(op, [x, draw.constant(np.array(axis, np.int64))], exact=True, **flags)
        else:
            draw.add(op, [x], axis=axis)


def _normalization(draw: GraphDraw) -> None:
    """MeanVarianceNormalization has no oracle if numbers are close to each other."""
    if x := draw.take("f", least=2):
        shape = draw.values[x].shape
        if draw.maybe(0.5) or len(shape) < 3:
            axis = draw.whole(-len(shape), -1)
            draw.add("LayerNormalization", [x, draw.weight(*shape[axis:])], axis=axis, epsilon=0.125)
            return
        channels = [draw.weight(shape[1]) for _ in range(2)]
        images = ("LRN",) if len(shape) == 4 else ()
        op = draw.one_of("InstanceNormalization", "BatchNormalization", *images)
        if op == "BatchNormalization":
            variance = draw.constant(1 + np.abs(draw.numbers(shape[1:2])))
            draw.add(op, [x, *channels, draw.weight(shape[1]), variance])
        elif op == "InstanceNormalization":
            draw.add(op, [x, *channels], epsilon=0.125)
        else:
            draw.add(op, [x], size=3)


STEPS: tuple[Step, ...] = (
    *(_unary,) * 4,
    *(_binary,) * 6,
    *(_jump, _domain, _quotient, _several, _integers, _integers, _division, _comparison, _comparison, _logic),
    *(_choice, _choice, _cast, _cast, _cast, _round_trip, _tests, _clip),
    *(_reduce_floats, _reduce_exactly, _reduce_exactly, _arg, _top, _along, _along, _normalization),
    *(permuted, permuted, other_shape, other_shape, single_axes, flat, joined, joined, parts_of, cut, cut),
    *(padded, repeated, picked, by_index, one_hot, triangular, space_and_depth, raised),
    *(multiplied,) * 3,
    *(convolved,) * 4,
    *(pooled, pooled, resized, contraction, quantised, recurrent_layer, size_of),
)
