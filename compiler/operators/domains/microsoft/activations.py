"""Forms of Gelu with a bias in front."""

from __future__ import annotations

from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.composite import composite
from compiler.operators.record import Attribute, Call, Input, Output
from compiler.operators.types import FLOAT, operands_broadcast

_X, _Y = Input("X", FLOAT), Output("Y", FLOAT)


def _biased(build: Builder, call: Call) -> str:
    """The first operand plus the second, if that is given."""
    return build("Add", call.name(0), call.name(1)) if call.has(1) else call.name(0)


composite(
    name="com.microsoft.Gelu",
    since=1,
    summary="x * Phi(x), Phi being the normal distribution function",
    inputs=(_X,),
    outputs=(_Y,),
    expansion=lambda build, call: (build("Gelu", call.name(0)),),
)

composite(
    name="com.microsoft.BiasGelu",
    since=1,
    summary="Gelu of A + B",
    inputs=(Input("A", FLOAT), Input("B", FLOAT)),
    outputs=(Output("C", FLOAT),),
    expansion=lambda build, call: (build("Gelu", _biased(build, call)),),
    rules=(operands_broadcast,),
)

composite(
    name="com.microsoft.FastGelu",
    since=1,
    summary="The tanh approximation of Gelu, of X + bias",
    inputs=(_X, Input("bias", FLOAT, optional=True)),
    outputs=(_Y,),
    expansion=lambda build, call: (build("Gelu", _biased(build, call), approximate="tanh"),),
    rules=(operands_broadcast,),
)

composite(
    name="com.microsoft.QuickGelu",
    since=1,
    summary="x / (1 + exp(-alpha x))",
    inputs=(_X,),
    outputs=(_Y,),
    expansion=lambda build, call: (build("Swish", call.name(0), alpha=call.number("alpha")),),
    attributes=(Attribute("alpha", "float", 1.702),),
)
