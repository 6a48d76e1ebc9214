"""Control flow that data decides: one of two graphs, or a graph repeatedly.

Importers make such nodes when a condition or a count is not known. The graphs receive the operands of the
node by position, and use no other values of the graph around it.
"""

from __future__ import annotations

import numpy as np

from compiler.graph import FLOATS, Array, Graph, Shape
from compiler.operators.record import (
    OPERATORS,
    Attribute,
    Call,
    Input,
    Operator,
    Output,
    call_of,
    register,
    rule,
)
from compiler.operators.types import ANY, BOOL, INT64

_EACH = ANY.named("")


@rule
def one_condition(call: Call) -> str | None:
    """Its condition must be one value"""
    return None if call.tensor(0).size == 1 else f"{list(call.shape(0))}"


@rule
def one_limit(call: Call) -> str | None:
    """Its number of steps must be one value"""
    return None if not call.has(0) or call.tensor(0).size == 1 else f"{list(call.shape(0))}"


@rule
def results_agree(call: Call) -> str | None:
    """Both branches must give results of the same types and shapes"""
    for number, pair in enumerate(zip(*(body.outputs for body in call.bodies), strict=False)):
        (one, other), shapes = pair, [list(each.shape) for each in pair]
        if one.dtype != other.dtype:
            return f"{one.dtype} and {other.dtype} for result {number}"
        if one.rank != other.rank:
            return f"{shapes[0]} and {shapes[1]} for result {number}"
        for axis, (size, wanted) in enumerate(zip(one.shape, other.shape, strict=True)):
            if size != wanted:
                return f"{size} and {wanted} for axis {axis} of result {number}"
    return None


@rule
def values_keep_their_types(call: Call) -> str | None:
    """Values that a loop carries must have the same type and shape after each step"""
    for before, after in zip(call.inputs[1:], call.bodies[0].outputs, strict=False):
        assert before is not None
        if (before.dtype, before.shape) != (after.dtype, after.shape):
            shapes = f"{before.dtype} {list(before.shape)} before and {after.dtype} {list(after.shape)} after"
            return f"{shapes} for '{before.name}'"
    return None


def _shapes(call: Call) -> tuple[Shape, ...]:
    return tuple(tensor.shape for tensor in call.bodies[0].outputs)


def _dtypes(call: Call) -> tuple[str, ...]:
    return tuple(tensor.dtype for tensor in call.bodies[0].outputs)


def _if(call: Call, *operands: Array | None) -> tuple[Array, ...]:
    condition = operands[0]
    assert condition is not None
    return computed(call.bodies[0 if bool(condition.reshape(())) else 1], operands[1:])


def _loop_shapes(call: Call) -> tuple[Shape, ...]:
    return (*_shapes(call), ())


def _loop_dtypes(call: Call) -> tuple[str, ...]:
    return (*_dtypes(call), "int64")


def _loop(call: Call, *operands: Array | None) -> tuple[Array, ...]:
    limit, end = operands[0], 1 + len(call.bodies[0].outputs)
    values, others, step = operands[1:end], operands[end:], 0
    while limit is None or step < int(limit.reshape(())):
        keep = values[0]
        if call.integer("conditional") and keep is not None and not keep.reshape(()):
            break
        number = (np.array(step),) if call.integer("numbered") else ()
        values = computed(call.bodies[0], (*number, *values, *others))
        step += 1
    return (*(value for value in values if value is not None), np.array(step))


def computed(body: Graph, operands: tuple[Array | None, ...]) -> tuple[Array, ...]:
    """Compute the results of a graph by the references of its operators; floats are in binary64."""
    values: dict[str, Array | None] = dict(zip((t.name for t in body.inputs), operands, strict=True))
    values |= {name: _widened(array) for name, array in body.constants.items()}
    for node in body.nodes:
        given = [values[name] if name else None for name in node.inputs]
        results = OPERATORS[node.op].reference(call_of(body, node), *given)
        values |= {name: result for name, result in zip(node.outputs, results, strict=False) if name}
    found = (values[tensor.name] for tensor in body.outputs)
    return tuple(np.zeros(0) if value is None else value for value in found)


def _widened(array: Array) -> Array:
    return array.astype(np.float64) if array.dtype.name in FLOATS else np.asarray(array)


register(
    Operator(
        name="If",
        since=1,
        summary="The results of one of two graphs; the other is not computed",
        inputs=(Input("cond", BOOL), Input("captured", _EACH, optional=True, variadic=True)),
        outputs=(Output("outputs", _EACH, variadic=True),),
        rules=(one_condition, results_agree),
        shapes=_shapes,
        dtypes=_dtypes,
        reference=_if,
        bodies=("then_branch", "else_branch"),
        internal=True,
    )
)

register(
    Operator(
        name="Loop",
        since=1,
        summary="The values that a graph carries from step to step, at the end; the number of steps",
        inputs=(Input("limit", INT64, optional=True), Input("values", _EACH, optional=True, variadic=True)),
        outputs=(Output("outputs", _EACH, variadic=True),),
        attributes=(
            # 1 if the first carried value tells that there is one more step
            Attribute("conditional", "int", required=True, allowed=(0, 1)),
            # 1: the first input of the graph is the number of the step
            Attribute("numbered", "int", required=True, allowed=(0, 1)),
            # 1: the last result is the number of steps
            Attribute("counted", "int", required=True, allowed=(0, 1)),
        ),
        rules=(one_limit, values_keep_their_types),
        shapes=_loop_shapes,
        dtypes=_loop_dtypes,
        reference=_loop,
        bodies=("body",),
        internal=True,
    )
)
