"""Resize: selects elements along every axis, or multiplies by a matrix of weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np

from compiler.graph import Array, Shape
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.composite import composite
from compiler.operators.expansion.parts import gathered, swapped
from compiler.operators.record import Attribute, Call, Input, Output, Types, rule
from compiler.operators.types import ANY, BYTES, INT64, axis_from_front

from .periodic import AxisWindows, choice, interpolation, ratio, resized_by_windows
from .upsampling import MOST_TIMES

_MOST_WEIGHTS = 1 << 26
"""Largest weight matrix of an axis, old size times new size."""
_SNAP = 2.0**-12
"""The largest error of interpolated bytes in FP32."""


def _axes(call: Call) -> tuple[int, ...]:
    """Return the axes that scales, sizes and roi refer to, counted from the front."""
    rank = call.tensor(0).rank
    given = call.integers("axes")
    return tuple(range(rank)) if given is None else tuple(axis_from_front(axis, rank) for axis in given)


def _scales(call: Call) -> dict[int, tuple[float, int]]:
    """Return the scale and the new size of each axis that changes.

    Sizes are floors of products in binary32.
    """
    shape, axes = call.shape(0), _axes(call)
    scales = call.values[2] if len(call.values) > 2 else None
    if scales is not None and scales.size:
        factors = [float(factor) for factor in scales.reshape(-1)]
        products = (np.float32(shape[at]) * np.float32(f) for at, f in zip(axes, factors, strict=True))
        return {at: (f, math.floor(p)) for at, f, p in zip(axes, factors, products, strict=True)}
    sizes = call.value_ints(3) or ()
    factors = [size / shape[axis] for axis, size in zip(axes, sizes, strict=True)]
    policy = call.attrs.get("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return {at: (f, size) for at, f, size in zip(axes, factors, sizes, strict=True)}
    common = min(factors) if policy == "not_larger" else max(factors)
    return {axis: (common, math.floor(common * shape[axis] + 0.5)) for axis in axes}


def _coordinates(mode: str, size: int, count: int, scale: float, span: tuple[float, float]) -> Array:
    """Return the old coordinate of each new position (ONNX Resize, coordinate_transformation_mode)."""
    at, wide = np.arange(count, dtype=np.float64), scale * size
    half = (at + 0.5) / scale - 0.5
    if mode == "asymmetric":
        return at / scale
    if mode == "align_corners":
        return np.zeros(count) if wide == 1 else at * (size - 1) / (wide - 1)
    if mode == "tf_crop_and_resize":
        start, end = span
        if count > 1:
            return start * (size - 1) + at * (end - start) * (size - 1) / (wide - 1)
        return np.full(count, 0.5 * (start + end) * (size - 1))
    if mode == "pytorch_half_pixel":
        return half if wide > 1 else np.zeros(count)
    if mode == "half_pixel_symmetric":
        return size / 2 * (1 - count / wide) + half
    return half


_ROUNDINGS: dict[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def _kernel(call: Call, distance: Array) -> Array:
    """Return the weight of an element at a distance."""
    x = np.abs(distance)
    if call.string("mode") == "linear":
        return np.asarray(np.clip(1 - x, 0, 1))
    a = call.number("cubic_coeff_a")
    near = (a + 2) * x**3 - (a + 3) * x**2 + 1
    far = a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a
    return np.asarray(np.where(x <= 1, near, np.where(x < 2, far, 0)))


def _weights(call: Call, size: int, places: Array, scale: float) -> Array:
    """Return the matrix [size, new size] of weights; elements beyond the edge repeat it, or are omitted."""
    narrowing = min(scale, 1.0) if call.attrs.get("antialias") else 1.0
    reach = math.ceil(2 / narrowing) + 1
    near = np.floor(places)[:, None] + np.arange(-reach, reach + 2)
    values = _kernel(call, (near - places[:, None]) * narrowing)
    if call.integer("exclude_outside"):
        values = np.where((near < 0) | (near >= size), 0, values)
    matrix = np.zeros((size, len(places)))
    columns = np.broadcast_to(np.arange(len(places))[:, None], near.shape)
    rows = np.clip(near, 0, size - 1).astype(np.int64)
    np.add.at(matrix, (rows, columns), values / values.sum(1, keepdims=True))
    return matrix


def _result(call: Call) -> tuple[str, Shape]:
    shape = list(call.shape(0))
    for axis, (_, count) in _scales(call).items():
        shape[axis] = count
    return call.tensor(0).dtype, tuple(shape)


def _repeats(call: Call) -> tuple[int, ...] | None:
    """Return the repeat counts along the spatial axes of [N, C, L] or [N, C, H, W].

    None if one is not whole.
    """
    shape, counts = call.shape(0), _scales(call)
    if call.string("mode") != "nearest" or len(shape) not in (3, 4) or not call.tensor(0).is_float:
        return None
    if _transform(call) == "tf_crop_and_resize" or 0 in shape:
        return None
    factors = []
    for axis, size in enumerate(shape):
        scale, count = counts.get(axis, (1.0, size))
        chosen = _nearest(call, _coordinates(_transform(call), size, count, scale, (0.0, 1.0)), size)
        if count % size or np.any(chosen != np.arange(count) // (count // size)):
            return None
        factors.append(count // size)
    return tuple(factors[2:]) if factors[:2] == [1, 1] and 1 < max(factors) <= MOST_TIMES else None


def _transform(call: Call) -> str:
    return call.string("coordinate_transformation_mode")


def _nearest(call: Call, places: Array, size: int) -> Array:
    """Return the old position that each new one copies."""
    rounded = _ROUNDINGS[call.string("nearest_mode")](places)
    return np.asarray(np.clip(rounded, 0, size - 1).astype(np.int64))


def _of_bytes(build: Builder, call: Call) -> tuple[str, ...]:
    """Interpolate bytes in FP32 and round toward zero, as onnxruntime does.

    A result less than ``_SNAP`` below an integer becomes that integer, because sums of rounded weights fall
    slightly short.
    """
    build.precise = True
    dtype, one = call.tensor(0).dtype, build.constant(np.ones(()), "float32")
    floats = _interpolated(build, call, build("DequantizeLinear", call.name(0), one))
    size = build("Abs", floats) if dtype == "int8" else floats
    whole = build("Floor", build("Add", size, build.like(size, _SNAP)))
    signed = build("Mul", whole, build("Sign", floats)) if dtype == "int8" else whole
    return (build("QuantizeLinear", signed, one, build.constant(np.zeros(()), dtype)),)


def _resize(build: Builder, call: Call) -> tuple[str, ...]:
    if call.tensor(0).dtype in BYTES and call.string("mode") == "linear":
        return _of_bytes(build, call)
    repeats = _repeats(call)
    if repeats is not None:
        return (build("Repeat", call.name(0), times=repeats),)
    return (build("Identity", _interpolated(build, call, call.name(0))),)


def _resize_of_any_size(build: Builder, call: Call) -> tuple[str, ...]:
    """Expand by windows that are equal at all sizes, if they exist."""
    windows = None if _repeats(call) else _windows(call)
    return _resize(build, call) if windows is None else (resized_by_windows(build, call, windows),)


def _windows(call: Call) -> list[AxisWindows | None] | None:
    """Return the windows of each spatial axis that changes; None if the weights depend on sizes."""
    shape, scales, found = call.shape(0), _scales(call), list[AxisWindows | None]()
    at_edges = call.string("mode") != "nearest" and (
        call.attrs.get("antialias") or call.integer("exclude_outside")
    )
    if at_edges or len(shape) not in (3, 4) or not call.tensor(0).is_float:
        return None
    for axis, size in enumerate(shape):
        scale, count = scales.get(axis, (1.0, size))
        changes = (scale, count) != (1.0, size)
        windows = _windows_along(call, scale, count / size) if changes and axis > 1 else None
        if changes and windows is None:
            return None
        found.append(windows)
    return found[2:]


def _windows_along(call: Call, scale: float, growth: float) -> AxisWindows | None:
    """Return the windows of an axis; a size given without a scale must be a multiple of the old one."""
    part, has_scales = ratio(scale), len(call.values) > 2 and call.values[2] is not None
    if part is None or not (has_scales or part == growth == int(part)):
        return None
    if call.string("mode") == "nearest":
        return choice(part, part == Fraction(scale), _transform(call), call.string("nearest_mode"))
    reach = 1 if call.string("mode") == "linear" else 2
    return interpolation(part, _transform(call), reach, partial(_kernel, call))


def _interpolated(build: Builder, call: Call, x: str) -> str:
    """Select or interpolate elements of ``x`` along every axis that changes."""
    axes = _axes(call)
    mode, outside = _transform(call), []
    roi = call.values[1] if len(call.values) > 1 else None
    for axis, (scale, count) in _scales(call).items():
        size, at = call.shape(0)[axis], axes.index(axis)
        crop = mode == "tf_crop_and_resize" and roi is not None and roi.size
        span = (float(roi[at]), float(roi[at + len(axes)])) if crop and roi is not None else (0.0, 1.0)
        if count == size and scale == 1.0 and span == (0.0, 1.0):
            continue
        places = _coordinates(mode, size, count, scale, span)
        if crop:
            beyond = (places < 0) | (places > size - 1)
            outside.append(beyond.reshape(-1, *(1,) * (len(call.shape(0)) - axis - 1)))
        if call.string("mode") == "nearest":
            x = gathered(build, x, axis, _nearest(call, places, size))
        else:
            matrix = build.constant(_weights(call, size, places, scale), build.dtype(x))
            x = swapped(build, build("MatMul", swapped(build, x, axis), matrix), axis)
    for beyond in outside:
        if beyond.any():
            mask = build.constant(beyond, "bool")
            x = build("Where", mask, build.like(x, call.number("extrapolation_value")), x)
    return x


@rule
def scales_or_sizes(call: Call) -> str | None:
    """Either scales or sizes must be given, one entry per axis of axes"""
    counts = [value.size for value in call.values[2:4] if value is not None and value.size]
    axes = set(_axes(call))
    fits = counts == [len(_axes(call))] == [len(axes)] and axes <= set(range(call.tensor(0).rank))
    return None if fits else f"{counts} entries for {len(_axes(call))} axes"


@rule
def sizes_are_positive(call: Call) -> str | None:
    """The sizes before and after, and scales, must be above 0, and roi must have two entries per axis"""
    roi = call.values[1] if len(call.values) > 1 else None
    scales = call.values[2] if len(call.values) > 2 else None
    if 0 in call.shape(0) or (scales is not None and not ((scales > 0) & np.isfinite(scales)).all()):
        return f"X {list(call.shape(0))}"
    if any(size <= 0 for _, size in _scales(call).values()):
        return f"sizes {[size for _, size in _scales(call).values()]}"
    return f"roi of {roi.size}" if roi is not None and roi.size not in (0, 2 * len(_axes(call))) else None


@rule
def weights_are_few(call: Call) -> str | None:
    """Along an axis that is interpolated, old size times new size must be at most 2**26, and scales with
    antialias at least 1/1024"""
    if call.string("mode") == "nearest":
        return None
    for axis, (scale, count) in _scales(call).items():
        if call.shape(0)[axis] * count > _MOST_WEIGHTS or (call.attrs.get("antialias") and scale < 1 / 1024):
            return f"axis {axis} from {call.shape(0)[axis]} to {count}, scale {scale:g}"
    return None


@rule
def weights_need_floats(call: Call) -> str | None:
    """For integers mode must be nearest, or for bytes linear without antialias"""
    mode, dtype, smooth = call.string("mode"), call.tensor(0).dtype, call.attrs.get("antialias")
    if call.tensor(0).is_float or mode == "nearest" or (dtype in BYTES and mode == "linear" and not smooth):
        return None
    return f"mode {mode}{' with antialias' if smooth else ''} on {dtype}"


_MODES = ("nearest", "linear", "cubic")
_TRANSFORMS = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_crop_and_resize",
)
composite(
    name="Resize",
    since=13,
    summary="The operand interpolated to other sizes",
    inputs=(
        Input("X", ANY.named("T1")),
        Input("roi", Types("T2", ("float32", "float16")), optional=True, constant=True),
        Input("scales", Types("Tscales", ("float32",)), optional=True, constant=True),
        Input("sizes", INT64, optional=True, constant=True),
    ),
    outputs=(Output("Y", ANY.named("T1")),),
    expansion=_resize,
    ranged_expansion=_resize_of_any_size,
    attributes=(
        Attribute("mode", "string", "nearest", allowed=_MODES),
        Attribute("coordinate_transformation_mode", "string", "half_pixel", allowed=_TRANSFORMS),
        Attribute("nearest_mode", "string", "round_prefer_floor", allowed=tuple(_ROUNDINGS)),
        Attribute("cubic_coeff_a", "float", -0.75),
        Attribute("exclude_outside", "int", 0, allowed=(0, 1)),
        Attribute("extrapolation_value", "float", 0.0),
        Attribute("antialias", "int", 0, allowed=(0, 1), since=18),
        Attribute("axes", "ints", since=18),
        Attribute(
            "keep_aspect_ratio_policy",
            "string",
            "stretch",
            allowed=("stretch", "not_larger", "not_smaller"),
            since=18,
        ),
    ),
    rules=(scales_or_sizes, sizes_are_positive, weights_need_floats, weights_are_few),
    result=_result,
)
