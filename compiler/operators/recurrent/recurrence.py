"""All steps of a recurrent layer as one operator."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from compiler.graph import Array, Box, Shape
from compiler.operators.elements.activations import sigmoid
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.parts import reshaped, sliced
from compiler.operators.record import Attribute, Call, Input, Operator, Output, register, rule
from compiler.operators.types import FLOAT
from tx8isa.numbers.layouts import block_channels

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
"""Number of gates of each kind of layer: of a GRU z, r and h, of an LSTM i, o, f and c."""


@rule
def sizes_agree(call: Call) -> str | None:
    """X [steps, batch, gates hidden], R [hidden, gates hidden], H and C [batch, hidden], shift [hidden]"""
    (_, batch, columns), hidden = call.shape(0), call.shape(1)[0]
    wanted = [(hidden, columns), (batch, hidden), (batch, hidden), (hidden,)]
    fits = columns == GATES[call.string("kind")] * hidden and all(
        call.shape(at) == shape for at, shape in enumerate(wanted, 1) if call.has(at)
    )
    return None if fits else f"{[list(call.shape(at)) for at in range(5) if call.has(at)]}"


def _shapes(call: Call) -> tuple[Shape, ...]:
    steps, batch, _ = call.shape(0)
    return ((steps + (call.string("kind") == "LSTM"), batch, call.shape(1)[0]),)


def _recurrence(call: Call, *operands: Array | None) -> tuple[Array, ...]:
    x, weights, h, c, shift = [*operands, None, None][:5]
    assert x is not None and weights is not None and h is not None
    kind, result = call.string("kind"), np.zeros(_shapes(call)[0])
    order = range(len(x))
    for time in reversed(order) if call.integer("backwards") else order:
        if kind == "LSTM":
            assert c is not None
            i, o, f, g = np.split(x[time] + h @ weights, 4, -1)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
        elif kind == "GRU":
            (xz, xr, xh), (hz, hr, hh) = np.split(x[time], 3, -1), np.split(h @ weights, 3, -1)
            z, r = sigmoid(xz + hz), sigmoid(xr + hr)
            inner, bias = weights[:, 2 * h.shape[1] :], 0 if shift is None else shift
            reset_first = call.integer("reset_first")
            new = np.tanh(xh + ((r * h) @ inner + bias if reset_first else r * (hh + bias)))
            h = new + z * (h - new)
        else:
            h = np.tanh(x[time] + h @ weights)
        result[time] = h
    if c is not None and kind == "LSTM":
        result[-1] = c
    return (result,)


def _needs(call: Call, number: int, box: Box) -> tuple[Box | None, ...]:
    """Return the steps up to the wanted ones, in the order of time; the cells of an LSTM follow all steps."""
    steps, _, columns = call.shape(0)
    (begin, end), batch, _ = box.intervals
    begin, end = (begin if end <= steps else 0, steps) if call.integer("backwards") else (0, end)
    state = Box((batch, (0, call.shape(1)[0])))
    shift = Box.whole(call.shape(4)) if call.has(4) else None
    return Box(((begin, end), batch, (0, columns))), Box.whole(call.shape(1)), state, state, shift


register(
    Operator(
        name="Recurrence",
        since=1,
        summary="The states of all steps of a recurrent layer, followed by the last cells of an LSTM",
        inputs=(
            Input("X", FLOAT),
            Input("R", FLOAT),
            Input("H", FLOAT),
            Input("C", FLOAT, optional=True),
            Input("shift", FLOAT, optional=True),
        ),
        outputs=(Output("Y", FLOAT),),
        attributes=(
            Attribute("kind", "string", required=True, allowed=tuple(GATES)),
            Attribute("backwards", "int", 0, allowed=(0, 1)),
            Attribute("reset_first", "int", 0, allowed=(0, 1)),
        ),
        rules=(sizes_agree,),
        shapes=_shapes,
        reference=_recurrence,
        needs=_needs,
        internal=True,
    )
)


_PLANE = block_channels(16)
"""Units are padded to a multiple of a plane, so that every gate begins with a plane."""
FEWEST_UNITS, MOST_UNITS = 16, 256
"""Limits of a layer's units. With fewer units most work is padding; with more, the weights do not fit into
one tile."""


@dataclass(frozen=True)
class RecurrentLayer:
    """One direction of a recurrent layer, by the names of its operands.

    ``weights`` [input, gates hidden], ``recurrent`` [hidden, gates hidden], ``bias`` [gates hidden],
    ``shift`` [hidden], ``h`` and ``c`` [batch, hidden]; omitted ones are empty.
    """

    build: Builder
    kind: str
    weights: str
    recurrent: str
    bias: str
    shift: str
    h: str
    c: str
    backwards: bool
    reset_first: bool = False

    def steps(self, x: str) -> str:
        """Return the states of all steps of ``x`` [steps, batch, input], then an LSTM's cells.

        Units are padded.
        """
        build, (steps, batch, size) = self.build, self.build.shape(x)
        gates, hidden = GATES[self.kind], self.build.shape(self.h)[1]
        flat = build(
            "MatMul", reshaped(build, x, steps * batch, size), self._wide(self.weights, gates, hidden)
        )
        if self.bias:
            flat = build("Add", flat, self._wide(self.bias, gates, hidden))
        recurrent = self._wide(self.recurrent, gates, hidden)
        more = -hidden % _PLANE
        if more:
            zeros = build.constant(np.zeros((more, build.shape(recurrent)[1])), build.dtype(recurrent))
            recurrent = build("Concat", recurrent, zeros, axis=0)
        states = [self._wide(name, 1, hidden) if name else "" for name in (self.h, self.c, self.shift)]
        projected = reshaped(build, flat, steps, batch, build.shape(flat)[1])
        backwards, reset_first = int(self.backwards), int(self.reset_first)
        operands, how = (projected, recurrent, *states), {"backwards": backwards, "reset_first": reset_first}
        return build("Recurrence", *operands, kind=self.kind, **how)

    def _wide(self, name: str, gates: int, hidden: int) -> str:
        """Pad the units of every gate in the last axis [gates hidden] to whole planes."""
        build, more = self.build, -hidden % _PLANE
        if not more:
            return name
        outer = build.shape(name)[:-1]
        zeros = build.constant(np.zeros((*outer, gates, more)), build.dtype(name))
        whole = build("Concat", reshaped(build, name, *outer, gates, hidden), zeros, axis=len(outer) + 1)
        return reshaped(build, whole, *outer, gates * (hidden + more))

    def run(self, x: str) -> tuple[str, str, str]:
        """Return H of every step [steps, batch, hidden], and the last H and C."""
        build, (steps, batch, _), hidden = self.build, self.build.shape(x), self.build.shape(self.h)[1]
        states = sliced(build, self.steps(x), 2, 0, hidden)
        last = 0 if self.backwards else steps - 1
        row = partial(self._row, states, batch, hidden)
        return sliced(build, states, 0, 0, steps), row(last), row(steps) if self.kind == "LSTM" else ""

    def _row(self, states: str, batch: int, hidden: int, number: int) -> str:
        return reshaped(self.build, sliced(self.build, states, 0, number, number + 1), batch, hidden)
