"""Normalizations of layers that include sums: residuals, biases, embeddings."""

from __future__ import annotations

import numpy as np

from compiler.operators.elements.casting import CAST_NUMBERS
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.composite import composite
from compiler.operators.expansion.parts import reshaped
from compiler.operators.record import Attribute, Call, Input, Output, Types, rule
from compiler.operators.types import FLOAT

_EPSILON = Attribute("epsilon", "float", 1e-12)
_STATISTICS = Types("U", ("float32",))
_SUMMED = (
    Output("output", FLOAT),
    Output("mean", _STATISTICS, optional=True),
    Output("inv_std_var", _STATISTICS, optional=True),
    Output("input_skip_bias_sum", FLOAT, optional=True),
)


@rule
def no_statistics(call: Call) -> str | None:
    """mean and inv_std_var are for training and not computed; omit them"""
    extra = [name for name in call.outputs[1:3] if name]
    return f"output '{extra[0]}'" if extra else None


@rule
def no_factor(call: Call) -> str | None:
    """inv_std_var is for training and not computed; omit it"""
    return f"output '{call.outputs[1]}'" if call.wants(1) else None


def _summed(build: Builder, call: Call, bias: int) -> str:
    """Add the residual to the operand, and the bias if there is one."""
    total = build("Add", call.name(0), call.name(1))
    return build("Add", total, call.name(bias)) if call.has(bias) else total


def _skip_layer(build: Builder, call: Call) -> tuple[str, ...]:
    total = _summed(build, call, 4)
    parameters = [call.name(at) for at in (2, 3) if call.has(at)]
    y = build("LayerNormalization", total, *parameters, epsilon=call.number("epsilon"))
    return y, "", "", total


def _skip_rms(build: Builder, call: Call) -> tuple[str, ...]:
    total = _summed(build, call, 3)
    y = build("RMSNormalization", total, call.name(2), epsilon=call.number("epsilon"))
    return y, "", "", total


composite(
    name="com.microsoft.SkipLayerNormalization",
    since=1,
    summary="LayerNormalization of input + skip + bias, and that sum",
    inputs=(
        Input("input", FLOAT),
        Input("skip", FLOAT),
        Input("gamma", FLOAT),
        Input("beta", FLOAT, optional=True),
        Input("bias", FLOAT, optional=True),
    ),
    outputs=_SUMMED,
    expansion=_skip_layer,
    attributes=(_EPSILON,),
    rules=(no_statistics,),
)

composite(
    name="com.microsoft.SkipSimplifiedLayerNormalization",
    since=1,
    summary="RMSNormalization of input + skip + bias, and that sum",
    inputs=(
        Input("input", FLOAT),
        Input("skip", FLOAT),
        Input("gamma", FLOAT),
        Input("bias", FLOAT, optional=True),
    ),
    outputs=_SUMMED,
    expansion=_skip_rms,
    attributes=(_EPSILON,),
    rules=(no_statistics,),
)


def _rms(build: Builder, call: Call) -> tuple[str, ...]:
    attrs = {name: call.attrs[name] for name in ("axis", "epsilon", "stash_type")}
    return build("RMSNormalization", call.name(0), call.name(1), **attrs), ""


composite(
    name="com.microsoft.SimplifiedLayerNormalization",
    since=1,
    summary="RMSNormalization (onnxruntime writes it as an operator of ONNX's own domain)",
    inputs=(Input("X", FLOAT), Input("scale", FLOAT.named("V"))),
    outputs=(Output("Y", FLOAT.named("V")), Output("inv_std_var", _STATISTICS, optional=True)),
    expansion=_rms,
    attributes=(
        Attribute("axis", "int", -1),
        Attribute("epsilon", "float", 1e-5),
        Attribute("stash_type", "int", 1, allowed=(1,)),
    ),
    rules=(no_factor,),
)


_IDS = Types("T1", ("int32",))
_EMBEDDED = Types("T", ("float32", "float16"))


@rule
def words_in_rows(call: Call) -> str | None:
    """input_ids, segment_ids and mask must be [batch, words], the embeddings matrices"""
    wrong = [call.inputs[at] for at in (0, 1, 2, 3, 4, 7, 8) if call.has(at) and call.tensor(at).rank != 2]
    return next((f"'{t.name}' {list(t.shape)}" for t in wrong if t is not None), None)


@rule
def enough_positions(call: Call) -> str | None:
    """position_embedding must have a row for each word, unless position_ids are given"""
    words, rows = call.shape(0)[1], call.shape(3)[0]
    return None if call.has(8) or rows >= words else f"{rows} rows for {words} words"


@rule
def segments_come_in_pairs(call: Call) -> str | None:
    """segment_ids and segment_embedding must be given together"""
    return None if call.has(1) == call.has(4) else "segment_ids " + ("alone" if call.has(1) else "omitted")


def _embedded(build: Builder, call: Call) -> tuple[str, ...]:
    words = call.shape(0)[1]
    total = build("Gather", call.name(2), call.name(0), axis=0)
    places = call.name(8) or build.ints(*range(words))
    total = build("Add", total, build("Gather", call.name(3), places, axis=0))
    if call.has(1):
        total = build("Add", total, build("Gather", call.name(4), call.name(1), axis=0))
    y = build("LayerNormalization", total, call.name(5), call.name(6), epsilon=call.number("epsilon"))
    return y, _mask_index(build, call) if call.wants(1) else "", total


def _mask_index(build: Builder, call: Call) -> str:
    """Return the number of words of each row in the mask; 0 without a mask."""
    batch = call.shape(0)[0]
    if not call.has(7):
        return build("Identity", build.constant(np.zeros(batch), "int32"))
    counted = build("Cast", call.name(7), to=CAST_NUMBERS["float32"])
    total = reshaped(build, build("ReduceSum", counted, axes=(1,), keepdims=0), batch)
    return build("Cast", total, to=CAST_NUMBERS["int32"])


composite(
    name="com.microsoft.EmbedLayerNormalization",
    since=1,
    summary="LayerNormalization of the sum of the embeddings of words, positions and segments, and that sum",
    inputs=(
        Input("input_ids", _IDS),
        Input("segment_ids", _IDS, optional=True),
        Input("word_embedding", _EMBEDDED),
        Input("position_embedding", _EMBEDDED),
        Input("segment_embedding", _EMBEDDED, optional=True),
        Input("gamma", _EMBEDDED),
        Input("beta", _EMBEDDED),
        Input("mask", _IDS, optional=True),
        Input("position_ids", _IDS, optional=True),
    ),
    outputs=(
        Output("output", _EMBEDDED),
        Output("mask_index", _IDS, optional=True),
        Output("embedding_sum", _EMBEDDED, optional=True),
    ),
    expansion=_embedded,
    attributes=(_EPSILON, Attribute("mask_index_type", "int", allowed=(0, 1))),
    rules=(words_in_rows, enough_positions, segments_come_in_pairs),
)
