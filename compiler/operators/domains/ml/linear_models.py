"""Linear models: a matrix product; classifiers add a transformation and the label with the largest score."""

from __future__ import annotations

import numpy as np

from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.composite import composite
from compiler.operators.record import Attribute, Call, Input, Output, Types, rule

from .preprocessing import FEATURES, NUMBERS, RESULT, as_float

_LABELS = Types("L", ("int64",))
_TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX")


def _scores(build: Builder, call: Call, columns: int) -> str:
    """Multiply features by coefficients and add intercepts: [N, columns]."""
    x = as_float(build, call.name(0))
    weights = np.array(call.numbers("coefficients") or ()).reshape(columns, -1).T
    scores = build("MatMul", x, build.constant(weights, build.dtype(x)))
    intercepts = call.numbers("intercepts")
    if intercepts is None:
        return scores
    return build("Add", scores, build.constant(np.array(intercepts), build.dtype(x)))


@rule
def coefficients_fit(call: Call) -> str | None:
    """There must be C coefficients and at most one intercept for each of the targets"""
    targets, found = call.integer("targets"), len(call.numbers("coefficients") or ())
    intercepts = len(call.numbers("intercepts") or (0,) * targets)
    fit = found == targets * call.shape(0)[1] and intercepts in (1, targets)
    return None if fit else f"{found} and {intercepts} with {targets} targets and C = {call.shape(0)[1]}"


composite(
    name="ai.onnx.ml.LinearRegressor",
    since=1,
    summary="Features times coefficients, plus intercepts",
    inputs=(Input("X", NUMBERS),),
    outputs=(Output("Y", RESULT),),
    expansion=lambda build, call: (_scores(build, call, call.integer("targets")),),
    attributes=(
        Attribute("coefficients", "floats"),
        Attribute("intercepts", "floats"),
        Attribute("targets", "int", 1, minimum=1),
        Attribute("post_transform", "string", "NONE", allowed=("NONE",)),
    ),
    rules=(FEATURES, coefficients_fit),
)


def _columns(call: Call) -> int:
    """Return the number of scores: one for each class, or a single one for two classes."""
    return len(call.numbers("coefficients") or ()) // call.shape(0)[1]


@rule
def labels_are_integers(call: Call) -> str | None:
    """Labels must be integers (classlabels_ints): there are no strings on the chip"""
    found = call.attrs.get("classlabels_strings")
    return None if not found else f"{len(found)} strings"  # type: ignore[arg-type]


@rule
def classes_fit(call: Call) -> str | None:
    """There must be two or more labels, C coefficients and one intercept for each, or once for two labels"""
    labels, columns = len(call.integers("classlabels_ints") or ()), _columns(call)
    found = len(call.numbers("coefficients") or ())
    intercepts = len(call.numbers("intercepts") or (0,) * columns)
    fit = found == columns * call.shape(0)[1] and intercepts == columns and labels >= 2
    if fit and (columns == labels or (columns, labels) == (1, 2)):
        return None
    return f"{labels} labels, {found} coefficients, {intercepts} intercepts with C = {call.shape(0)[1]}"


@rule
def one_score_is_logistic(call: Call) -> str | None:
    """One score for two labels needs post_transform LOGISTIC: with others implementations disagree"""
    transform = call.string("post_transform")
    return f"post_transform {transform}" if _columns(call) == 1 and transform != "LOGISTIC" else None


def _linear_classifier(build: Builder, call: Call) -> tuple[str, ...]:
    """Expand a classifier; one score for two labels is the second's, and the first has it negated."""
    scores = _scores(build, call, _columns(call))
    if _columns(call) == 1:
        scores = build("Concat", build("Neg", scores), scores, axis=1)
    labels = np.array(call.integers("classlabels_ints") or ())
    label = ""
    if call.wants(0):
        largest = build("ArgMax", scores, axis=1, keepdims=0)
        label = build("Gather", build.ints(*map(int, labels)), largest, axis=0)
    transform = call.string("post_transform")
    if transform == "LOGISTIC":
        scores = build("Sigmoid", scores)
    elif transform == "SOFTMAX":
        scores = build("Softmax", scores, axis=1)
    return label, scores


composite(
    name="ai.onnx.ml.LinearClassifier",
    since=1,
    summary="Scores of classes, features times coefficients plus intercepts, and the label of the largest",
    inputs=(Input("X", NUMBERS),),
    outputs=(Output("Y", _LABELS, optional=True), Output("Z", RESULT, optional=True)),
    expansion=_linear_classifier,
    attributes=(
        Attribute("classlabels_ints", "ints"),
        Attribute("classlabels_strings", "strings"),
        Attribute("coefficients", "floats", required=True),
        Attribute("intercepts", "floats"),
        Attribute("multi_class", "int", 0),
        Attribute("post_transform", "string", "NONE", allowed=_TRANSFORMS),
    ),
    rules=(FEATURES, labels_are_integers, classes_fit, one_score_is_logistic),
)
