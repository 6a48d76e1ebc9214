"""Registers element-wise operators by their form: one operand, two, any number."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from compiler.graph import Array
from compiler.operators.boxes.forms import elementwise
from compiler.operators.record import (
    NO_LAWS,
    Attribute,
    Call,
    Expansion,
    Input,
    Law,
    Operator,
    Output,
    Types,
    register,
)
from compiler.operators.types import FLOAT, NUMERIC, broadcast_result, operands_broadcast, same_shape

Function = Callable[[Call, Array], Array]
"""Computes a call of one operand; attributes are in the call."""


def plain(function: Callable[[Array], Array]) -> Function:
    """Wrap a function of the operand only."""
    return lambda call, x: np.asarray(function(x))


def unary(
    name: str,
    since: int,
    summary: str,
    function: Function,
    *,
    attributes: tuple[Attribute, ...] = (),
    types: Types = FLOAT,
    result: Types | None = None,
    expansion: Expansion | None = None,
    laws: Law = NO_LAWS,
) -> None:
    """Register an operator of one operand; ``result``: the types of the output, if they differ."""

    def reference(call: Call, x: Array) -> tuple[Array, ...]:
        return (function(call, x),)

    register(
        Operator(
            name=name,
            since=since,
            summary=summary,
            inputs=(Input("X", types),),
            outputs=(Output("Y", result or types),),
            attributes=attributes,
            shapes=same_shape,
            reference=reference,
            expansion=expansion,
            needs=elementwise,
            laws=laws,
        )
    )


def binary(
    name: str,
    since: int,
    summary: str,
    function: Callable[[Array, Array], Array],
    types: Types = NUMERIC,
    result: Types | None = None,
    laws: Law = NO_LAWS,
) -> None:
    """Register an operator of two operands that broadcast; ``result`` as for :func:`unary`."""

    def reference(call: Call, a: Array, b: Array) -> tuple[Array, ...]:
        return (np.asarray(function(a, b)),)

    register(
        Operator(
            name=name,
            since=since,
            summary=summary,
            inputs=(Input("A", types), Input("B", types)),
            outputs=(Output("C", result or types),),
            rules=(operands_broadcast,),
            shapes=broadcast_result,
            reference=reference,
            needs=elementwise,
            laws=laws,
        )
    )


def variadic(
    name: str, summary: str, function: Callable[[Array, Array], Array], types: Types = NUMERIC, *, laws: Law
) -> None:
    """Register an operator of any number of operands that broadcast, combined from left to right."""

    def reference(call: Call, *operands: Array) -> tuple[Array, ...]:
        return (functools.reduce(function, operands),)

    register(
        Operator(
            name=name,
            since=8,
            summary=summary,
            inputs=(Input("data_0", types, variadic=True),),
            outputs=(Output(name.lower(), types),),
            rules=(operands_broadcast,),
            shapes=broadcast_result,
            reference=reference,
            needs=elementwise,
            laws=laws,
        )
    )
