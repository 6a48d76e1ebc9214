"""Softmax and its logarithm."""

from __future__ import annotations

import numpy as np

from compiler.graph import Array, Box
from compiler.operators.boxes.forms import beside_axis, whole_along
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.composite import composite
from compiler.operators.record import Attribute, Call, Input, Operator, Output, register
from compiler.operators.types import FLOAT, axis_in_range, axis_of, same_shape

from .normalization import something_to_normalize


def _softmax(call: Call, x: Array) -> tuple[Array, ...]:
    axis = call.integer("axis")
    shifted = np.exp(x - x.max(axis=axis, keepdims=True))
    return (shifted / shifted.sum(axis=axis, keepdims=True),)


def _needs_of_softmax(call: Call, number: int, box: Box) -> tuple[Box, ...]:
    return (whole_along(box, call.shape(0), (axis_of(call),)),)


register(
    Operator(
        name="Softmax",
        since=13,
        summary="exp(x) / sum(exp(x)) along one axis",
        inputs=(Input("input", FLOAT),),
        outputs=(Output("output", FLOAT),),
        attributes=(Attribute("axis", "int", -1),),
        rules=(axis_in_range, something_to_normalize),
        shapes=same_shape,
        reference=_softmax,
        needs=_needs_of_softmax,
        uniform=beside_axis,
    )
)


def _log_softmax(build: Builder, call: Call) -> tuple[str, ...]:
    x, axes = call.name(0), (call.integer("axis"),)
    below = build("Sub", x, build("ReduceMax", x, axes=axes))
    return (build("Sub", below, build("Log", build("ReduceSum", build("Exp", below), axes=axes))),)


composite(
    name="LogSoftmax",
    since=13,
    summary="ln(Softmax(x)) along an axis",
    inputs=(Input("input", FLOAT),),
    outputs=(Output("output", FLOAT),),
    expansion=_log_softmax,
    attributes=(Attribute("axis", "int", -1),),
    rules=(axis_in_range,),
    uniform=beside_axis,
)
