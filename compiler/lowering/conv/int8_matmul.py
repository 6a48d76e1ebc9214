"""Products of a matrix of bytes with a known one, computed as a convolution: rows are positions, columns are
channels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from compiler.codegen.kernel import Kernel, Target
from compiler.codegen.slices.tensors import DdrTensor
from compiler.graph import FLOATS
from compiler.lowering.record import Cut, Engine, Work, lowering
from compiler.operators.record import Call
from tx8isa.numbers.limits import LARGEST_CHANNELS

from .convolution import convolution
from .cuts import conv_cuts


def _check(call: Call) -> str | None:
    if any(call.has(at) and call.values[at] is None for at in (1, 2, 3)):
        return "a matrix, a bias and scales that are known when compiling"
    if max(call.shape(1)) > LARGEST_CHANNELS:
        return f"at most {LARGEST_CHANNELS} rows and columns; found W {list(call.shape(1))}"
    return None


def _as_convolution(work: Work) -> Work:
    """The product as a convolution of one image of one axis, without window."""
    call, (inner, columns) = work.spec, work.spec.shape(1)
    rows = math.prod(call.shape(0)[:-1])
    weights = np.asarray(work.input(1).value).T[..., None]
    shapes = ((1, inner, rows), (columns, inner, 1))
    tensors = [replace(call.tensor(at), shape=shape) for at, shape in enumerate(shapes)]
    spec = replace(
        call,
        inputs=(*tensors, *call.inputs[2:]),
        values=(None, weights, *call.values[2:]),
        attrs={**call.attrs, "auto_pad": "NOTSET", "group": 1},
    )
    known = replace(work.input(1), value=weights, shape=weights.shape)
    shape = work.output.shape
    steps = tuple(replace(step, operands=_as_images(step.operands, shape, rows)) for step in work.steps)
    inputs: tuple[DdrTensor | None, ...] = (work.input(0).viewed(1, rows, inner), known, *work.inputs[2:])
    output = work.output.viewed(1, rows, columns)
    return replace(work, call=spec, inputs=inputs, output=output, channels_last=True, steps=steps)


def _as_images(
    operands: Sequence[DdrTensor | None], shape: tuple[int, ...], rows: int
) -> tuple[DdrTensor | None, ...]:
    """Operands of a step; an operand with the shape of the product becomes an image of one axis."""
    return tuple(
        each if each is None or each.shape != shape else each.viewed(1, rows, shape[-1]) for each in operands
    )


def _cuts(target: Target, work: Work) -> Iterable[Cut]:
    return conv_cuts(target, _as_convolution(work))


@lowering(
    "Int8MatMul",
    check=_check,
    types=("int8", "int32", *FLOATS),
    cuts=_cuts,
    anchor=True,
    prefetch=True,
    takes_fp32=True,
    engines=(Engine.MATRIX, Engine.VECTOR),
)
def int8_matmul(kernel: Kernel, work: Work) -> None:
    """Slices of rows and of columns of the result."""
    convolution(kernel, _as_convolution(work))
