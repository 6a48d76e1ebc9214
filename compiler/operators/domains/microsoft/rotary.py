"""RotaryEmbedding of onnxruntime: positions are given as numbers, or as the first of consecutive ones."""

from __future__ import annotations

import numpy as np

from compiler.graph import AttrValue
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.composite import composite
from compiler.operators.expansion.parts import reshaped
from compiler.operators.record import Attribute, Call, Input, Output, rule
from compiler.operators.types import FLOAT, INT64, rank_within


def _rows(call: Call) -> int:
    """Return the number of rotated rows: axis 1 of three axes, axis 2 of four."""
    return call.shape(0)[call.tensor(0).rank - 2]


@rule
def positions_fit(call: Call) -> str | None:
    """position_ids must be [1], the position of the first row, or [batch, rows]"""
    batch, shape = call.shape(0)[0], call.shape(1)
    return None if shape in ((1,), (batch, _rows(call))) else f"{list(shape)} with {batch} x {_rows(call)}"


@rule
def tables_are_matrices(call: Call) -> str | None:
    """cos_cache and sin_cache must be matrices of one shape"""
    shapes = [call.shape(at) for at in (2, 3)]
    return None if shapes[0] == shapes[1] and len(shapes[0]) == 2 else f"{list(shapes[0])}, {list(shapes[1])}"


@rule
def heads_of_part(call: Call) -> str | None:
    """num_heads must be given for rows [batch, rows, columns] if rotary_embedding_dim turns only a part of a
    head"""
    part = call.integer("rotary_embedding_dim")
    missing = part and call.tensor(0).rank == 3 and not call.integer("num_heads")
    return f"rotary_embedding_dim {part}" if missing else None


def _rotary(build: Builder, call: Call) -> tuple[str, ...]:
    batch, rows, turned = call.shape(0)[0], _rows(call), call.integer("rotary_embedding_dim")
    places = call.name(1)
    if call.shape(1) == (1,):
        counted = build.constant(np.tile(np.arange(rows), (batch, 1)), "int64")
        places = build("Add", counted, reshaped(build, places, 1, 1))
    attrs: dict[str, AttrValue] = {"interleaved": call.integer("interleaved"), "rotary_embedding_dim": turned}
    if call.tensor(0).rank == 3:
        size = 2 * call.shape(2)[1]
        attrs["num_heads"] = call.integer("num_heads") or call.shape(0)[2] // size
    return (build("RotaryEmbedding", call.name(0), call.name(2), call.name(3), places, **attrs),)


composite(
    name="com.microsoft.RotaryEmbedding",
    since=1,
    summary="Pairs of features turned by angles that depend on the position",
    inputs=(
        Input("input", FLOAT),
        Input("position_ids", INT64),
        Input("cos_cache", FLOAT),
        Input("sin_cache", FLOAT),
    ),
    outputs=(Output("output", FLOAT),),
    expansion=_rotary,
    attributes=(
        Attribute("interleaved", "int", 0, allowed=(0, 1)),
        Attribute("is_packed_batching", "int", 0, allowed=(0,)),
        Attribute("num_heads", "int", 0, minimum=0),
        Attribute("rotary_embedding_dim", "int", 0, minimum=0),
        Attribute("scale", "float", 1.0, allowed=(1,)),
    ),
    rules=(
        rank_within("input", 3, 4, "[B, S, H D] or [B, H, S, D]"),
        positions_fit,
        tables_are_matrices,
        heads_of_part,
    ),
)
