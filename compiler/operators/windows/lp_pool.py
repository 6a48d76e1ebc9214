"""LpPool and GlobalLpPool: p-norms of windows and of whole channels."""

from __future__ import annotations

from dataclasses import replace

from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.composite import composite
from compiler.operators.record import Attribute, Call, Input, Output
from compiler.operators.types import FLOAT, rank_within

from .geometry import (
    AUTO_PAD,
    CEIL_MODE,
    DILATIONS,
    PADS,
    POOL_SHAPE,
    STRIDES,
    lengths_match,
    pads_or_auto_pad,
    window_fits,
)
from .pool import pool_window
from .taps import padded, taps


def _power(build: Builder, x: str, p: float) -> str:
    """Return x**p for x >= 0."""
    if p == 1:
        return x
    return build("Mul", x, x) if p == 2 else build("FloatPow", x, build.like(x, p))


def _root(build: Builder, x: str, p: float) -> str:
    """Return the p-th root of x >= 0."""
    if p == 1:
        return x
    return build("Sqrt", x) if p == 2 else build("FloatPow", x, build.like(x, 1 / p))


def _lp_pool(build: Builder, call: Call) -> tuple[str, ...]:
    window, p = pool_window(call), call.integer("p")
    powers = _power(build, build("Abs", call.name(0)), p)
    return (_root(build, build("Sum", *taps(build, padded(build, powers, window, 0.0), window)), p),)


composite(
    name="LpPool",
    since=2,
    summary="The p-norm of all elements in a window",
    inputs=(Input("X", FLOAT),),
    outputs=(Output("Y", FLOAT),),
    expansion=_lp_pool,
    attributes=(
        AUTO_PAD,
        replace(CEIL_MODE, since=18),
        replace(DILATIONS, since=18),
        POOL_SHAPE,
        Attribute("p", "int", 2, minimum=1),
        PADS,
        STRIDES,
    ),
    rules=(
        rank_within("X", 3, 5, "1-D to 3-D pooling"),
        lengths_match,
        pads_or_auto_pad,
        window_fits(pool_window),
    ),
    precise=True,
)


def _global_lp_pool(build: Builder, call: Call) -> tuple[str, ...]:
    p, axes = call.integer("p"), tuple(range(2, call.tensor(0).rank))
    return (_root(build, build("ReduceSum", _power(build, build("Abs", call.name(0)), p), axes=axes), p),)


composite(
    name="GlobalLpPool",
    since=2,
    summary="The p-norm of all positions of each channel",
    inputs=(Input("X", FLOAT),),
    outputs=(Output("Y", FLOAT),),
    expansion=_global_lp_pool,
    attributes=(Attribute("p", "int", 2, minimum=1),),
    rules=(rank_within("X", 3, None, "[N, C, ...]"),),
    precise=True,
)
