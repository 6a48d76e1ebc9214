"""Normalizations to mean 0 and variance 1: of a batch, of a layer, over chosen axes."""

from __future__ import annotations

import numpy as np

from compiler.graph import FLOATS, Array, Box, Shape
from compiler.operators.boxes.forms import broadcast_from, everywhere, whole_along
from compiler.operators.elements.casting import as_type
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.composite import composite
from compiler.operators.expansion.parts import averaged, inverse_deviation, moments, reshaped, standardized
from compiler.operators.record import (
    OPERATORS,
    Attribute,
    Call,
    Input,
    Normalization,
    Operator,
    Output,
    Types,
    register,
    rule,
)
from compiler.operators.types import FLOAT, axis_in_range, axis_of, broadcast_shapes, rank_within, same_shape

_PARAMETERS = Types("T1", FLOATS)
_STATISTICS = Types("T2", FLOATS)
_OF_SCALE = Types("V", FLOATS)
_STASHED = Types("U", ("float32", "bfloat16"))
_EPSILON = Attribute("epsilon", "float", 1e-5)


def _trains(call: Call) -> bool:
    """Return True if the statistics are those of X itself."""
    return bool(call.integer("training_mode"))


@rule
def statistics_are_of_training(call: Call) -> str | None:
    """Outputs after the first need training_mode 1"""
    extra = [name for name in call.outputs[1:] if name]
    return f"output '{extra[0]}'" if extra and not _trains(call) else None


@rule
def batch_has_elements(call: Call) -> str | None:
    """With training_mode 1, X must have elements"""
    return f"shape {list(call.shape(0))}" if _trains(call) and not call.tensor(0).size else None


@rule
def one_parameter_per_channel(call: Call) -> str | None:
    """scale, B, input_mean and input_var must have one element per channel, shape [C]"""
    channels = call.shape(0)[1]
    for tensor in call.inputs[1:]:
        if tensor is not None and tensor.shape != (channels,):
            return f"'{tensor.name}' of shape {list(tensor.shape)} with C = {channels}"
    return None


def _batch_norm(call: Call, x: Array, *parameters: Array) -> tuple[Array, ...]:
    columns = (parameter.reshape(-1, *(1,) * (x.ndim - 2)) for parameter in parameters)
    scale, shift, mean, variance = columns
    if not _trains(call):
        return ((x - mean) / np.sqrt(variance + call.number("epsilon")) * scale + shift,)
    momentum, others = call.number("momentum"), _batch_axes(call)
    own = x.mean(others, keepdims=True), x.var(others, keepdims=True)
    y = (x - own[0]) / np.sqrt(own[1] + call.number("epsilon")) * scale + shift
    before = zip(parameters[2:], own, strict=True)
    return (y, *(old * momentum + new.reshape(-1) * (1 - momentum) for old, new in before))


def _batch_axes(call: Call) -> tuple[int, ...]:
    """Return the axes of the statistics in training: all but the axis of the channels."""
    return (0, *range(2, call.tensor(0).rank))


def _batch_norm_shapes(call: Call) -> tuple[Shape, ...]:
    return (call.shape(0), call.shape(3), call.shape(4))


def _in_training(build: Builder, call: Call) -> tuple[str, ...] | None:
    """Expand with the statistics of X, in FP32; None in inference, which has a lowering."""
    if not _trains(call):
        return None
    build.precise = True
    x, axes, rank = call.name(0), _batch_axes(call), call.tensor(0).rank
    mean, centred, variance = moments(build, x, axes)
    y = build("Mul", centred, inverse_deviation(build, variance, call.number("epsilon")))
    for op, at in (("Mul", 1), ("Add", 2)):
        column = reshaped(build, as_type(build, call.name(at), call.tensor(0).dtype), -1, *(1,) * (rank - 2))
        y = build(op, y, column)
    return (y, *(_running(build, call, at, new) for at, new in ((3, mean), (4, variance))))


def _running(build: Builder, call: Call, at: int, new: str) -> str:
    """Return the statistic ``at`` after a step of training; empty if it is not an output."""
    if not call.wants(at - 2):
        return ""
    old, momentum = call.name(at), call.number("momentum")
    own = reshaped(build, as_type(build, new, build.dtype(old)), -1)
    parts = (build("Mul", old, build.like(old, momentum)), build("Mul", own, build.like(own, 1 - momentum)))
    return build("Add", *parts)


def _needs_of_batch_norm(call: Call, number: int, box: Box) -> tuple[Box, ...]:
    if _trains(call):
        return tuple(Box.whole(call.shape(at)) for at in range(5))
    return (box, *[Box(box.intervals[1:2])] * 4)


register(
    Operator(
        name="BatchNormalization",
        since=14,
        summary="(X - input_mean) / sqrt(input_var + epsilon) * scale + B, per channel (axis 1); with "
        "training_mode 1 mean and variance of X itself",
        inputs=(
            Input("X", FLOAT),
            Input("scale", _PARAMETERS),
            Input("B", _PARAMETERS),
            Input("input_mean", _STATISTICS),
            Input("input_var", _STATISTICS),
        ),
        outputs=(
            Output("Y", FLOAT),
            Output("running_mean", _STATISTICS, optional=True),
            Output("running_var", _STATISTICS, optional=True),
        ),
        attributes=(
            _EPSILON,
            Attribute("momentum", "float", 0.9),
            Attribute("training_mode", "int", 0, allowed=(0, 1)),
        ),
        rules=(
            statistics_are_of_training,
            rank_within("X", 2, None, "batch, channels, ..."),
            one_parameter_per_channel,
            batch_has_elements,
        ),
        shapes=_batch_norm_shapes,
        reference=_batch_norm,
        expansion=_in_training,
        needs=_needs_of_batch_norm,
        uniform=everywhere,
    )
)


def normalized_axes(call: Call) -> tuple[int, ...]:
    """Return the axes of LayerNormalization's mean and variance: ``axis`` and all after it."""
    return tuple(range(axis_of(call), call.tensor(0).rank))


def normalization_of(op: str) -> Normalization:
    """Return how an operator normalizes; ValueError for an operator without normalization."""
    found = OPERATORS[op].normalization
    if found is None:
        raise ValueError(f"{op} normalizes nothing")
    return found


def _of_rows(call: Call, axis: int) -> bool:
    """Return True along the axes that are not normalized."""
    return axis not in normalized_axes(call)


@rule
def scale_and_bias_broadcast(call: Call) -> str | None:
    """Scale and B must broadcast to the shape of X"""
    shape = call.shape(0)
    for tensor in call.inputs[1:]:
        if tensor is not None and broadcast_shapes(tensor.shape, shape) != shape:
            return f"'{tensor.name}' of shape {list(tensor.shape)} with X of shape {list(shape)}"
    return None


@rule
def computed_in_float32(call: Call) -> str | None:
    """stash_type must be 1 (float32)"""
    return None if call.integer("stash_type") == 1 else f"stash_type {call.integer('stash_type')}"


@rule
def something_to_normalize(call: Call) -> str | None:
    """The first operand must have at least one element"""
    return f"shape {list(call.shape(0))}" if call.tensor(0).size == 0 else None


def _layer_norm(call: Call, x: Array, scale: Array, bias: Array | None = None) -> tuple[Array, ...]:
    axes = normalized_axes(call)
    centred = x - x.mean(axis=axes, keepdims=True)
    variance = np.square(centred).mean(axis=axes, keepdims=True)
    result = centred / np.sqrt(variance + call.number("epsilon")) * scale
    statistics = (x.mean(axis=axes, keepdims=True), 1 / np.sqrt(variance + call.number("epsilon")))
    return (result if bias is None else result + bias, *statistics)


def _layer_norm_shapes(call: Call) -> tuple[Shape, ...]:
    axes = normalized_axes(call)
    folded = tuple(1 if axis in axes else size for axis, size in enumerate(call.shape(0)))
    return call.shape(0), folded, folded


def _needs_of_layer_norm(call: Call, number: int, box: Box) -> tuple[Box | None, ...]:
    """Return whole rows; scale and bias only for the first result, because the statistics do not need
    them."""
    rows = whole_along(box, call.shape(0), normalized_axes(call))
    if number:
        return (rows,)
    return (rows, *(broadcast_from(t.shape, box) if t is not None else None for t in call.inputs[1:]))


def _expand_layer_norm(build: Builder, call: Call) -> tuple[str, ...] | None:
    """Expand the statistics, which the lowering does not compute, by other operators."""
    if not call.wants(1) and not call.wants(2):
        return None
    x = call.name(0)
    operands = [tensor.name for tensor in call.inputs if tensor is not None]
    attrs = {name: call.attrs[name] for name in ("axis", "epsilon", "stash_type")}
    y = build("LayerNormalization", *operands, **attrs)
    _, mean, factor = standardized(build, x, normalized_axes(call), call.number("epsilon"))
    return (y, *(build("Cast", name, to=1) for name in (mean, factor)))


register(
    Operator(
        name="LayerNormalization",
        since=17,
        summary="(X - mean) / sqrt(variance + epsilon) * Scale + B over axis and the axes after it",
        inputs=(Input("X", FLOAT), Input("Scale", FLOAT), Input("B", FLOAT, optional=True)),
        outputs=(
            Output("Y", FLOAT),
            Output("Mean", _STASHED, optional=True),
            Output("InvStdDev", _STASHED, optional=True),
        ),
        attributes=(Attribute("axis", "int", -1), _EPSILON, Attribute("stash_type", "int", 1)),
        rules=(axis_in_range, computed_in_float32, scale_and_bias_broadcast, something_to_normalize),
        shapes=_layer_norm_shapes,
        reference=_layer_norm,
        expansion=_expand_layer_norm,
        needs=_needs_of_layer_norm,
        normalization=Normalization(normalized_axes, centred=True),
        uniform=_of_rows,
    )
)


def _rms_norm(call: Call, x: Array, scale: Array) -> tuple[Array, ...]:
    square = np.square(x).mean(axis=normalized_axes(call), keepdims=True)
    return (x / np.sqrt(square + call.number("epsilon")) * scale,)


register(
    Operator(
        name="RMSNormalization",
        since=23,
        summary="X / sqrt(mean square + epsilon) * scale over axis and the axes after it",
        inputs=(Input("X", FLOAT), Input("scale", _OF_SCALE)),
        outputs=(Output("Y", _OF_SCALE),),
        attributes=(Attribute("axis", "int", -1), _EPSILON, Attribute("stash_type", "int", 1)),
        rules=(axis_in_range, scale_and_bias_broadcast, something_to_normalize),
        shapes=same_shape,
        reference=_rms_norm,
        needs=_needs_of_layer_norm,
        normalization=Normalization(normalized_axes, centred=False),
        uniform=_of_rows,
    )
)


def _mean_variance(build: Builder, call: Call) -> tuple[str, ...]:
    x, axes = call.name(0), call.integers("axes") or ()
    centred = x
    for _ in range(2):  # the mean of the differences has digits that a sum of numbers far from 0 loses
        centred = build("Sub", centred, averaged(build, centred, axes))
    deviation = build("Sqrt", averaged(build, build("Mul", centred, centred), axes))
    return (build("Div", centred, build("Add", deviation, build.like(x, 1e-9))),)


composite(
    name="MeanVarianceNormalization",
    since=13,
    summary="(x - mean) / deviation over axes",
    inputs=(Input("X", FLOAT),),
    outputs=(Output("Y", FLOAT),),
    expansion=_mean_variance,
    attributes=(Attribute("axes", "ints", (0, 2, 3)),),
)
