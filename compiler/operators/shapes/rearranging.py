"""Operators that repeat elements, and that exchange channels for positions."""

from __future__ import annotations

import numpy as np

from compiler.graph import Array, Shape
from compiler.operators.boxes.forms import of_first_operand
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.composite import composite
from compiler.operators.expansion.parts import broadcast, permuted, reshaped
from compiler.operators.record import Attribute, Call, Input, Operator, Output, register, rule
from compiler.operators.types import ANY, INT64, broadcast_shapes, rank_within


@rule
def shape_broadcasts(call: Call) -> str | None:
    """shape must broadcast with the shape of input"""
    wanted = call.value_ints(1) or ()
    fits = min(wanted, default=0) >= 0 and broadcast_shapes(call.shape(0), wanted) is not None
    return None if fits else f"{list(call.shape(0))}, {list(wanted)}"


def _expand_shapes(call: Call) -> tuple[Shape, ...]:
    return (broadcast_shapes(call.shape(0), call.value_ints(1) or ()) or (),)


def _expand(call: Call, x: Array, shape: Array) -> tuple[Array, ...]:
    return (np.broadcast_to(x, _expand_shapes(call)[0]).copy(),)


register(
    Operator(
        name="Expand",
        since=8,
        summary="The operand repeated along its axes of size 1",
        inputs=(Input("input", ANY), Input("shape", INT64, constant=True)),
        outputs=(Output("output", ANY),),
        rules=(shape_broadcasts,),
        shapes=_expand_shapes,
        reference=_expand,
        moves=True,
        needs=of_first_operand,
    )
)


@rule
def one_repeat_per_axis(call: Call) -> str | None:
    """repeats must have one entry, 0 or more, per axis"""
    repeats = call.value_ints(1) or ()
    fits = len(repeats) == call.tensor(0).rank and all(times >= 0 for times in repeats)
    return None if fits else f"repeats {list(repeats)} for {list(call.shape(0))}"


def _tile(build: Builder, call: Call) -> tuple[str, ...]:
    repeats, shape = call.value_ints(1) or (), call.shape(0)
    with_ones = reshaped(build, call.name(0), *(part for size in shape for part in (1, size)))
    pairs: Shape = tuple(part for pair in zip(repeats, shape, strict=True) for part in pair)
    repeated = broadcast(build, with_ones, pairs)
    sizes = (times * size for times, size in zip(repeats, shape, strict=True))
    return (reshaped(build, repeated, *sizes),)


composite(
    name="Tile",
    since=6,
    summary="The operand several times along each axis",
    inputs=(Input("input", ANY), Input("repeats", INT64.named("T1"), constant=True)),
    outputs=(Output("output", ANY),),
    expansion=_tile,
    rules=(one_repeat_per_axis,),
)


_BLOCK = Attribute("blocksize", "int", required=True, minimum=1)


@rule
def blocks_of_channels(call: Call) -> str | None:
    """The channels must be a multiple of blocksize squared"""
    block, channels = call.integer("blocksize"), call.shape(0)[1]
    return f"{channels} channels, blocksize {block}" if channels % block**2 else None


@rule
def blocks_of_positions(call: Call) -> str | None:
    """Height and width must be multiples of blocksize"""
    block, (height, width) = call.integer("blocksize"), call.shape(0)[2:]
    return f"{height}x{width}, blocksize {block}" if height % block or width % block else None


def _depth_to_space(build: Builder, call: Call) -> tuple[str, ...]:
    n, c, h, w = call.shape(0)
    block, x = call.integer("blocksize"), call.name(0)
    depth = c // (block * block)
    if call.string("mode") == "DCR":
        blocks = permuted(build, reshaped(build, x, n, block, block, depth, h, w), 0, 3, 4, 1, 5, 2)
    else:
        blocks = permuted(build, reshaped(build, x, n, depth, block, block, h, w), 0, 1, 4, 2, 5, 3)
    return (reshaped(build, blocks, n, depth, h * block, w * block),)


def _space_to_depth(build: Builder, call: Call) -> tuple[str, ...]:
    n, c, h, w = call.shape(0)
    block = call.integer("blocksize")
    blocks = reshaped(build, call.name(0), n, c, h // block, block, w // block, block)
    order = (0, 3, 5, 1, 2, 4) if call.attrs.get("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    return (reshaped(build, permuted(build, blocks, *order), n, c * block * block, h // block, w // block),)


_MODE = ("DCR", "CRD")
composite(
    name="DepthToSpace",
    since=11,
    summary="Blocks of channels become blocks of positions",
    inputs=(Input("input", ANY),),
    outputs=(Output("output", ANY),),
    expansion=_depth_to_space,
    attributes=(_BLOCK, Attribute("mode", "string", "DCR", allowed=_MODE)),
    rules=(rank_within("input", 4, 4, "[N, C, H, W]"), blocks_of_channels),
)


composite(
    name="SpaceToDepth",
    since=1,
    summary="Blocks of positions become channels",
    inputs=(Input("input", ANY),),
    outputs=(Output("output", ANY),),
    expansion=_space_to_depth,
    attributes=(_BLOCK, Attribute("mode", "string", "DCR", allowed=_MODE, since=28)),
    rules=(rank_within("input", 4, 4, "[N, C, H, W]"), blocks_of_positions),
)
