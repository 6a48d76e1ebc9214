"""Type constraints, rules and shapes that several families of operators share."""

from __future__ import annotations

from compiler.graph import FLOATS, INTEGERS, Shape

from .record import Call, Rule, Types, rule

FLOAT = Types("T", FLOATS)
BYTES = ("int8", "uint8")
NUMERIC = Types("T", (*FLOATS, *INTEGERS))
SIGNED = Types("T", (*FLOATS, "int8", "int16", "int32", "int64"))
ANY = Types("T", (*FLOATS, *INTEGERS, "bool"))
BOOL = Types("B", ("bool",))
INT64 = Types("int64", ("int64",))
INDEX = Types("Tind", ("int32", "int64"))

EXACT_INTEGERS = 1 << 24
"""Integers of a magnitude up to this one are float32 numbers."""


def same_shape(call: Call) -> tuple[Shape, ...]:
    """The only output has the shape of the first operand."""
    return (call.shape(0),)


@rule
def only_first_output(call: Call) -> str | None:
    """Only the first output is supported; omit the optional outputs"""
    extra = [name for name in call.outputs[1:] if name]
    return f"output '{extra[0]}'" if extra else None


# --- axes ------------------------------------------------------------------------------------------------


def axis_from_front(axis: int, rank: int) -> int:
    """Return the number of an axis, counted from 0; ``axis`` must lie in [-rank, rank-1]."""
    return axis + rank if axis < 0 else axis


def axis_of(call: Call) -> int:
    """Return the attribute ``axis``, an axis of the first operand, counted from the front."""
    return axis_from_front(call.integer("axis"), call.tensor(0).rank)


@rule
def axis_in_range(call: Call) -> str | None:
    """axis must lie in [-r, r-1], r being the rank of the first operand"""
    axis, rank = call.integer("axis"), call.tensor(0).rank
    return None if -rank <= axis < rank else f"axis {axis} with r = {rank}"


def rank_within(operand: str, lowest: int, highest: int | None, meaning: str) -> Rule:
    """Make the rule that the first operand has a rank in a range; ``highest`` None is no upper bound."""

    def check(call: Call) -> str | None:
        rank = call.tensor(0).rank
        if rank >= lowest and (highest is None or rank <= highest):
            return None
        return f"shape {list(call.shape(0))}"

    if highest is None:
        limits = f"at least {lowest}"
    else:
        limits = str(lowest) if lowest == highest else f"{lowest} to {highest}"
    return Rule(f"{operand} must have rank {limits} ({meaning})", check)


# --- broadcasting ----------------------------------------------------------------------------------------


def broadcast_shapes(*shapes: Shape) -> Shape | None:
    """Return the common shape by NumPy's broadcasting rules, which are ONNX's too; None if there is none."""
    rank = max(len(shape) for shape in shapes)
    result = []
    for column in zip(*((1,) * (rank - len(shape)) + shape for shape in shapes), strict=True):
        # dynamic extents are not compared if only one operand gives the length of the axis
        sizes = {size for size in column if not isinstance(size, int) or size != 1}
        if len(sizes) > 1:
            sizes = {size for size in sizes if size != 1}
        if len(sizes) > 1:
            return None
        result.append(sizes.pop() if sizes else 1)
    return tuple(result)


@rule
def operands_broadcast(call: Call) -> str | None:
    """The shapes of the operands must broadcast to a common shape, aligned at the last axis"""
    shapes = [tensor.shape for tensor in call.inputs if tensor is not None]
    if broadcast_shapes(*shapes) is not None:
        return None
    return " and ".join(str(list(shape)) for shape in shapes)


def broadcast_result(call: Call) -> tuple[Shape, ...]:
    """Return the shape that all operands broadcast to."""
    shape = broadcast_shapes(*(tensor.shape for tensor in call.inputs if tensor is not None))
    if shape is None:
        raise ValueError("operands do not broadcast; the rule operands_broadcast was not checked")
    return (shape,)
