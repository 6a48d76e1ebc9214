"""Composite operators that repeat, select, rearrange and accumulate elements."""

from __future__ import annotations

import numpy as np

from compiler.graph import FLOATS, INTEGERS, Shape
from compiler.operators.elements.casting import CAST_NUMBERS
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.composite import Expansion, composite
from compiler.operators.expansion.parts import broadcast, permuted, reshaped, sliced
from compiler.operators.record import Attribute, Call, Input, Output, Types, rule
from compiler.operators.types import ANY, INDEX, INT64, axis_from_front, rank_within

from .composite_shapes import single_values


@rule
def one_repeat_per_axis(call: Call) -> str | None:
    """repeats must have one entry, 0 or more, per axis"""
    repeats = call.value_ints(1) or ()
    fits = len(repeats) == call.tensor(0).rank and all(times >= 0 for times in repeats)
    return None if fits else f"repeats {list(repeats)} for {list(call.shape(0))}"


def _tile(build: Builder, call: Call) -> tuple[str, ...]:
    repeats, shape = call.value_ints(1) or (), call.shape(0)
    apart = reshaped(build, call.name(0), *(part for size in shape for part in (1, size)))
    pairs: Shape = tuple(part for pair in zip(repeats, shape, strict=True) for part in pair)
    return (
        reshaped(
            build, broadcast(build, apart, pairs), *(t * s for t, s in zip(repeats, shape, strict=True))
        ),
    )


composite(
    name="Tile",
    since=6,
    summary="The operand several times along each axis",
    inputs=(Input("input", ANY), Input("repeats", INT64.named("T1"), constant=True)),
    outputs=(Output("output", ANY),),
    expansion=_tile,
    rules=(one_repeat_per_axis,),
)


def _trilu(build: Builder, call: Call) -> tuple[str, ...]:
    name, diagonal = call.name(0), (call.value_ints(1) or (0,))[0]
    cutter = np.triu if call.integer("upper") else np.tril
    kept = cutter(np.ones(call.shape(0)[-2:], bool), diagonal)
    return (build("Where", build.constant(kept, "bool"), name, build.like(name, 0)),)


composite(
    name="Trilu",
    since=14,
    summary="The upper or lower triangle of matrices, zero elsewhere",
    inputs=(Input("input", ANY), Input("k", INT64, optional=True, constant=True)),
    outputs=(Output("output", ANY),),
    expansion=_trilu,
    attributes=(Attribute("upper", "int", 1, allowed=(0, 1)),),
    rules=(rank_within("input", 2, None, "matrices"),),
)


_NOT_BFLOAT = ("float32", "float16", *INTEGERS)
_VALUES = Types("T3", (*FLOATS, *INTEGERS, "bool"))


def _depth(call: Call) -> int:
    return int(call.values[1].reshape(())) if call.values[1] is not None else 0


def _one_hot_result(call: Call) -> tuple[str, Shape]:
    shape, axis = call.shape(0), axis_from_front(call.integer("axis"), call.tensor(0).rank + 1)
    return call.tensor(2).dtype, (*shape[:axis], max(_depth(call), 0), *shape[axis:])


def _one_hot(build: Builder, call: Call) -> tuple[str, ...]:
    depth = max(_depth(call), 0)
    rank = call.tensor(0).rank
    axis = axis_from_front(call.integer("axis"), rank + 1)
    indices = build("Cast", call.name(0), to=CAST_NUMBERS["int64"])
    shape = call.shape(0)
    apart = reshaped(build, indices, *shape[:axis], 1, *shape[axis:])
    places = np.arange(depth).reshape(depth, *(1,) * (rank - axis))
    found = [
        build("Equal", apart, build.constant(numbers, "int64")) for numbers in (places, places - depth)
    ]  # an index may count from the end
    values = call.name(2)
    off, on = (reshaped(build, sliced(build, values, 0, at, at + 1)) for at in (0, 1))
    return (build("Where", build("Or", *found), on, off),)


@rule
def two_values(call: Call) -> str | None:
    """values must be two numbers"""
    return None if call.shape(2) == (2,) else f"shape {list(call.shape(2))}"


@rule
def one_hot_axis(call: Call) -> str | None:
    """axis must lie in [-r-1, r], r being the rank of indices"""
    rank = call.tensor(0).rank
    return (
        None if -rank - 1 <= call.integer("axis") <= rank else f"axis {call.integer('axis')} with r = {rank}"
    )


composite(
    name="OneHot",
    since=11,
    summary="One of two values: the second where the place along axis is the index",
    inputs=(
        Input("indices", Types("T1", _NOT_BFLOAT)),
        Input("depth", Types("T2", _NOT_BFLOAT), constant=True),
        Input("values", _VALUES),
    ),
    outputs=(Output("output", _VALUES),),
    expansion=_one_hot,
    attributes=(Attribute("axis", "int", -1),),
    rules=(single_values(1), two_values, one_hot_axis),
    result=_one_hot_result,
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
    s, x = call.integer("blocksize"), call.name(0)
    depth = c // (s * s)
    if call.string("mode") == "DCR":
        apart = permuted(build, reshaped(build, x, n, s, s, depth, h, w), 0, 3, 4, 1, 5, 2)
    else:
        apart = permuted(build, reshaped(build, x, n, depth, s, s, h, w), 0, 1, 4, 2, 5, 3)
    return (reshaped(build, apart, n, depth, h * s, w * s),)


def _space_to_depth(build: Builder, call: Call) -> tuple[str, ...]:
    n, c, h, w = call.shape(0)
    s = call.integer("blocksize")
    apart = reshaped(build, call.name(0), n, c, h // s, s, w // s, s)
    order = (0, 3, 5, 1, 2, 4) if call.attrs.get("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    return (reshaped(build, permuted(build, apart, *order), n, c * s * s, h // s, w // s),)


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


def _cumulated(op: str, start: int) -> Expansion:
    def expansion(build: Builder, call: Call) -> tuple[str, ...]:
        """x + x one place on + the sum of both two places on ..., a doubling at a time."""
        x, rank = call.name(0), call.tensor(0).rank
        axis = axis_from_front((call.value_ints(1) or (0,))[0], rank)
        size = call.shape(0)[axis]
        step = -1 if call.integer("reverse") else 1
        if step < 0:
            x = sliced(build, x, axis, size - 1, -size - 1, -1)
        if call.integer("exclusive"):
            x = _moved(build, x, axis, 1, start)
        shift = 1
        while shift < size:
            x = build(op, x, _moved(build, x, axis, shift, start))
            shift *= 2
        return (sliced(build, x, axis, size - 1, -size - 1, -1) if step < 0 else x,)

    return expansion


def _moved(build: Builder, x: str, axis: int, shift: int, fill: int) -> str:
    shape = list(build.shape(x))
    size, shape[axis] = shape[axis], shift
    return build(
        "Concat",
        build.constant(np.full(shape, fill), build.dtype(x)),
        sliced(build, x, axis, 0, size - shift),
        axis=axis,
    )


@rule
def cumulated_axis_in_range(call: Call) -> str | None:
    """axis must be one number in [-r, r-1], r being the rank of x"""
    axes, rank = call.value_ints(1) or (), call.tensor(0).rank
    return None if len(axes) == 1 and -rank <= axes[0] < rank else f"axis {list(axes)} with r = {rank}"


_FLAGS = (Attribute("exclusive", "int", 0, allowed=(0, 1)), Attribute("reverse", "int", 0, allowed=(0, 1)))
_ADDED = Types("T", (*FLOATS, "int32", "int64"))
for _name, _since, _op, _start in (("CumSum", 11, "Add", 0), ("CumProd", 26, "Mul", 1)):
    composite(
        name=_name,
        since=_since,
        summary=f"{'Sum' if _op == 'Add' else 'Product'} of the elements so far along an axis",
        inputs=(Input("x", _ADDED), Input("axis", INDEX.named("T2"), constant=True)),
        outputs=(Output("y", _ADDED),),
        expansion=_cumulated(_op, _start),
        attributes=_FLAGS,
        rules=(cumulated_axis_in_range,),
    )
