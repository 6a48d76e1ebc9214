"""Products that onnxruntime fuses with other operators: transposes, factors, activations, sums, layouts."""

from __future__ import annotations

from compiler.graph import AttrValue
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.composite import composite
from compiler.operators.expansion.parts import permuted
from compiler.operators.record import Attribute, Call, Input, Output, rule
from compiler.operators.types import FLOAT, rank_within
from compiler.operators.windows.conv import GROUP, KERNEL_SHAPE
from compiler.operators.windows.geometry import AUTO_PAD, DILATIONS, PADS, STRIDES

PARAMETERS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("", "Relu", "Sigmoid", "Tanh", "Softplus", "Softsign"), ()),
    **dict.fromkeys(("Elu", "LeakyRelu", "ThresholdedRelu"), ("alpha",)),
    "HardSigmoid": ("alpha", "beta"),
    "Clip": ("min", "max"),
}
"""Activations with the names of their parameters in order; the empty name is no activation."""
_ACTIVATION = Attribute("activation", "string", allowed=tuple(PARAMETERS)[1:])


def activated(build: Builder, value: str, op: str, parameters: tuple[float, ...]) -> str:
    """Apply an activation of ``PARAMETERS`` with as many parameters as are given."""
    if not op:
        return value
    if op == "Clip":
        return build("Clip", value, *(build.like(value, number) for number in parameters))
    return build(op, value, **dict(zip(PARAMETERS[op], parameters, strict=False)))


def _op(call: Call) -> str:
    return str(call.attrs.get("activation", ""))


def _transposed(build: Builder, call: Call, index: int) -> str:
    """Return an operand of FusedMatMul with its axes in the order of the attributes."""
    letter, rank = "AB"[index], call.tensor(index).rank
    order = list(range(rank))
    if call.integer(f"transBatch{letter}") and rank > 2:
        order = [*order[1:-1], 0, order[-1]]
    if call.integer(f"trans{letter}") and rank > 1:
        order[-2], order[-1] = order[-1], order[-2]
    same = order == list(range(rank))
    return call.name(index) if same else permuted(build, call.name(index), *order)


def _matmul(build: Builder, call: Call) -> tuple[str, ...]:
    product = build("MatMul", *(_transposed(build, call, index) for index in range(2)))
    alpha = call.number("alpha")
    return (product if alpha == 1 else build("Mul", product, build.like(product, alpha)),)


composite(
    name="com.microsoft.FusedMatMul",
    since=1,
    summary="Matrix product of operands that may be transposed, times alpha",
    inputs=(Input("A", FLOAT), Input("B", FLOAT)),
    outputs=(Output("Y", FLOAT),),
    expansion=_matmul,
    attributes=(
        Attribute("alpha", "float", 1.0),
        *(Attribute(name, "int", 0, allowed=(0, 1)) for name in ("transA", "transB")),
        *(Attribute(name, "int", 0, allowed=(0, 1)) for name in ("transBatchA", "transBatchB")),
    ),
)

_GREEK = ("activation_alpha", "activation_beta", "activation_gamma")


@rule
def activation_has_its_parameters(call: Call) -> str | None:
    """The activation takes as parameters activation_alpha and activation_beta, as many as it has"""
    given = [name for name in _GREEK if name in call.attrs]
    wanted = list(_GREEK[: len(PARAMETERS[_op(call)])])
    return None if given == wanted or not given else f"{_op(call) or 'none'} with {', '.join(given)}"


def _gemm(build: Builder, call: Call) -> tuple[str, ...]:
    attrs = {name: call.attrs[name] for name in ("alpha", "beta", "transA", "transB")}
    product = build("Gemm", *(call.name(at) for at in range(3) if call.has(at)), **attrs)
    parameters = tuple(call.number(name) for name in _GREEK if name in call.attrs)
    return (activated(build, product, _op(call), parameters),)


composite(
    name="com.microsoft.FusedGemm",
    since=1,
    summary="An activation of alpha * A' @ B' + beta * C",
    inputs=(Input("A", FLOAT), Input("B", FLOAT), Input("C", FLOAT, optional=True)),
    outputs=(Output("Y", FLOAT),),
    expansion=_gemm,
    attributes=(
        _ACTIVATION,
        *(Attribute(name, "float") for name in _GREEK),
        Attribute("alpha", "float", 1.0),
        Attribute("beta", "float", 1.0),
        Attribute("transA", "int", 0, allowed=(0, 1)),
        Attribute("transB", "int", 0, allowed=(0, 1)),
    ),
    rules=(activation_has_its_parameters,),
)


@rule
def activation_params_fit(call: Call) -> str | None:
    """activation_params must have the parameters of the activation, or be absent"""
    given, op = call.numbers("activation_params") or (), _op(call)
    return None if len(given) in (0, len(PARAMETERS[op])) else f"{len(given)} for {op or 'none'}"


def _convolved(build: Builder, call: Call, x: str) -> str:
    """Return the convolution of ``x`` [N, C, ...] with the weights and the bias of a call."""
    names = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
    attrs: dict[str, AttrValue] = {name: call.attrs[name] for name in names if name in call.attrs}
    return build("Conv", x, *(call.name(at) for at in (1, 2) if call.has(at)), **attrs)


def _conv(build: Builder, call: Call) -> tuple[str, ...]:
    total = _convolved(build, call, call.name(0))
    if call.has(3):
        total = build("Add", total, call.name(3))
    return (activated(build, total, _op(call), call.numbers("activation_params") or ()),)


def channels_first(build: Builder, x: str) -> str:
    """Transpose [N, ..., C] to [N, C, ...]."""
    rank = len(build.shape(x))
    return permuted(build, x, 0, rank - 1, *range(1, rank - 1))


def channels_last(build: Builder, x: str) -> str:
    """Transpose [N, C, ...] to [N, ..., C]."""
    return permuted(build, x, 0, *range(2, len(build.shape(x))), 1)


def _nhwc_conv(build: Builder, call: Call) -> tuple[str, ...]:
    """Expand as FusedConv between transposes; the residual has the layout of the result."""
    total = channels_last(build, _convolved(build, call, channels_first(build, call.name(0))))
    if call.has(3):
        total = build("Add", total, call.name(3))
    return (activated(build, total, _op(call), call.numbers("activation_params") or ()),)


_OPERANDS = (Input("X", FLOAT), Input("W", FLOAT), Input("B", FLOAT, optional=True))
_RESIDUAL = Input("Z", FLOAT, optional=True)
_WINDOW = (AUTO_PAD, DILATIONS, GROUP, KERNEL_SHAPE, PADS, STRIDES)
_ACTIVATED = (_ACTIVATION, Attribute("activation_params", "floats"))
_IMAGE = rank_within("X", 3, 5, "1-D to 3-D convolution")

composite(
    name="com.microsoft.FusedConv",
    since=1,
    summary="An activation of a convolution plus Z",
    inputs=(*_OPERANDS, _RESIDUAL),
    outputs=(Output("Y", FLOAT),),
    expansion=_conv,
    attributes=(*_ACTIVATED, *_WINDOW),
    rules=(_IMAGE, activation_params_fit),
)

composite(
    name="com.microsoft.NhwcFusedConv",
    since=1,
    summary="An activation of a convolution of [N, ..., C] plus Z",
    inputs=(*_OPERANDS, _RESIDUAL),
    outputs=(Output("Y", FLOAT),),
    expansion=_nhwc_conv,
    attributes=(*_ACTIVATED, *_WINDOW),
    rules=(_IMAGE, activation_params_fit),
)

composite(
    name="com.microsoft.NhwcConv",
    since=1,
    summary="Convolution of [N, ..., C], with weights [M, C/group, ...], plus a bias",
    inputs=_OPERANDS,
    outputs=(Output("Y", FLOAT),),
    expansion=_nhwc_conv,
    attributes=_WINDOW,
    rules=(_IMAGE,),
)
