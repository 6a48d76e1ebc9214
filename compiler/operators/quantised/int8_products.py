"""Products of signed bytes with known bytes: sums in int32, multiplied by scales and quantised."""

from __future__ import annotations

import numpy as np

from compiler.graph import Array, Box, Shape
from compiler.operators.boxes.forms import broadcast_from
from compiler.operators.record import Call, Contraction, Operator, Output, Types, register, rule
from compiler.operators.types import rank_within
from compiler.operators.windows.conv import (
    CONVOLVED,
    GROUP,
    channels_match,
    conv_needs,
    conv_sums,
    conv_window,
    group_divides,
    weight_rank,
    weights_not_empty,
)
from compiler.operators.windows.geometry import (
    AUTO_PAD,
    DILATIONS,
    PADS,
    STRIDES,
    lengths_match,
    pads_or_auto_pad,
    window_fits,
)

from .integers import PRODUCT_INPUTS, REQUANTISED, STEP_AWAY, requantised, result_dtypes, scaled_unless_sums

_RESULT = Types("R", ("int8", "int32", "float32", "float16", "bfloat16"))


def _conv_shapes(call: Call) -> tuple[Shape, ...]:
    return ((call.shape(0)[0], call.shape(1)[0], *conv_window(call).output),)


def _conv(
    call: Call, x: Array, w: Array, b: Array | None = None, scale: Array | None = None
) -> tuple[Array, ...]:
    """Convolve; the padding is the zero point, which adds nothing."""
    centred = x.astype(np.float64) - call.integer("x_zero")
    bias = None if b is None else b.astype(np.float64)
    sums = conv_sums(call, centred, w.astype(np.float64), bias)
    per_map = None if scale is None or scale.size == 1 else scale.reshape(-1, *(1,) * (x.ndim - 2))
    return (requantised(call, sums, scale if per_map is None else per_map),)


def _needs_of_conv(call: Call, number: int, box: Box) -> tuple[Box | None, ...]:
    x, w, bias = conv_needs(call, number, box)
    scales = Box.whole(call.shape(3)) if call.has(3) else None
    return x, w, bias, bias if call.has(3) and call.tensor(3).size > 1 else scales


register(
    Operator(
        name="Int8Conv",
        since=1,
        summary="Convolution of bytes less their zero point with known bytes",
        inputs=PRODUCT_INPUTS,
        outputs=(Output("Y", _RESULT),),
        attributes=(AUTO_PAD, DILATIONS, GROUP, PADS, STRIDES, *REQUANTISED, STEP_AWAY),
        rules=(
            rank_within("X", 3, 4, "1-D and 2-D convolution"),
            weight_rank,
            weights_not_empty,
            channels_match,
            group_divides,
            lengths_match,
            pads_or_auto_pad,
            window_fits(conv_window),
            scaled_unless_sums,
        ),
        shapes=_conv_shapes,
        dtypes=result_dtypes,
        reference=_conv,
        needs=_needs_of_conv,
        internal=True,
        product=CONVOLVED,
        window=conv_window,
    )
)


@rule
def known_matrix(call: Call) -> str | None:
    """W must be a matrix with as many rows as the last axis of X"""
    x, w = call.shape(0), call.shape(1)
    return None if len(x) >= 2 and len(w) == 2 and w[0] == x[-1] and all(w) else f"{list(x)} and {list(w)}"


def _matmul(
    call: Call, x: Array, w: Array, b: Array | None = None, scale: Array | None = None
) -> tuple[Array, ...]:
    sums = (x.astype(np.float64) - call.integer("x_zero")) @ w.astype(np.float64)
    sums = sums if b is None else sums + b
    return (requantised(call, sums, scale),)


def _needs_of_matmul(call: Call, number: int, box: Box) -> tuple[Box | None, ...]:
    rows, columns = box.intervals[:-1], box.intervals[-1]
    values = (broadcast_from(t.shape, box) if t is not None else None for t in call.inputs[2:])
    inner = (0, call.shape(1)[0])
    return Box((*rows, inner)), Box((inner, columns)), *values


register(
    Operator(
        name="Int8MatMul",
        since=1,
        summary="Matrix product of bytes less their zero point with a known matrix of bytes",
        inputs=PRODUCT_INPUTS,
        outputs=(Output("Y", _RESULT),),
        attributes=REQUANTISED,
        rules=(known_matrix, scaled_unless_sums),
        shapes=lambda call: ((*call.shape(0)[:-1], call.shape(1)[1]),),
        dtypes=result_dtypes,
        reference=_matmul,
        needs=_needs_of_matmul,
        internal=True,
        product=Contraction(lambda call: call.shape(1)[0], lambda call: 1),
    )
)
