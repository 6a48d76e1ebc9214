"""Scaling, normalization and thresholds of features, as exporters of classical models write them."""

from __future__ import annotations

import numpy as np

from compiler.graph import FLOATS
from compiler.operators.elements.casting import CAST_NUMBERS
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.composite import composite
from compiler.operators.record import Attribute, Call, Input, Output, Types, rule
from compiler.operators.types import rank_within

NUMBERS = Types("T", (*FLOATS, "int32", "int64"))
RESULT = Types("R", FLOATS)
FEATURES = rank_within("X", 2, 2, "[N, C]")


def as_float(build: Builder, name: str) -> str:
    """Return a value as floats: integers are cast to float32."""
    if build.dtype(name) in FLOATS:
        return name
    return build("Cast", name, to=CAST_NUMBERS["float32"])


@rule
def one_or_each(call: Call) -> str | None:
    """offset and scale must have one number, or one for each of the C features"""
    for name in ("offset", "scale"):
        found = call.numbers(name)
        if found is not None and len(found) not in (1, call.shape(0)[1]):
            return f"{len(found)} in {name} with C = {call.shape(0)[1]}"
    return None


def _scaler(build: Builder, call: Call) -> tuple[str, ...]:
    x = as_float(build, call.name(0))
    for name, op in (("offset", "Sub"), ("scale", "Mul")):
        numbers = call.numbers(name)
        if numbers is not None:
            x = build(op, x, build.constant(np.array(numbers), build.dtype(x)))
    return (build("Identity", x),)


composite(
    name="ai.onnx.ml.Scaler",
    since=1,
    summary="Features less an offset, times a scale",
    inputs=(Input("X", NUMBERS),),
    outputs=(Output("Y", RESULT),),
    expansion=_scaler,
    attributes=(Attribute("offset", "floats"), Attribute("scale", "floats")),
    rules=(FEATURES, one_or_each),
)


def _normalizer(build: Builder, call: Call) -> tuple[str, ...]:
    """Expand a normalization of rows; rows of zeros stay zeros."""
    p = {"L1": 1, "L2": 2}[call.string("norm")]
    return (build("LpNormalization", as_float(build, call.name(0)), axis=1, p=p),)


composite(
    name="ai.onnx.ml.Normalizer",
    since=1,
    summary="Each row divided by its norm (MAX is refused: implementations disagree about signs)",
    inputs=(Input("X", NUMBERS),),
    outputs=(Output("Y", RESULT),),
    expansion=_normalizer,
    attributes=(Attribute("norm", "string", "MAX", allowed=("L1", "L2")),),
    rules=(FEATURES,),
)


def _binarizer(build: Builder, call: Call) -> tuple[str, ...]:
    x = as_float(build, call.name(0))
    above = build("Greater", x, build.like(x, call.number("threshold")))
    return (build("Cast", above, to=CAST_NUMBERS[build.dtype(call.name(0))]),)


composite(
    name="ai.onnx.ml.Binarizer",
    since=1,
    summary="1 where an element is above the threshold, else 0",
    inputs=(Input("X", NUMBERS),),
    outputs=(Output("Y", NUMBERS),),
    expansion=_binarizer,
    attributes=(Attribute("threshold", "float", 0.0),),
)
