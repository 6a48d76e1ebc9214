"""RNN, GRU and LSTM, written out step by step.

Names follow the specification: W and R are the weights of the operand and of the state, one block of
hidden_size rows per gate, H and C the state. What does not depend on the state is one product for all steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from compiler.graph import FLOATS
from compiler.operators.expansion import Builder, Expansion
from compiler.operators.parts import cut, permuted, reshaped
from compiler.operators.record import Attribute, Call, Input, Output, Types
from compiler.operators.shapes.composite_shapes import _operator, name_of

from .recurrence import Layer
from .recurrent_rules import (
    DEFAULTS,
    DIRECTIONS,
    PARAMETERS,
    RNN_DEFAULT,
    few_steps,
    is_plain,
    known_activations,
    names_of,
    shapes_agree,
)

Activation = Callable[[Builder, str], str]


def _activation(name: str, alpha: float | None, beta: float | None) -> Activation:
    def apply(b: Builder, x: str) -> str:
        if name == "Affine":
            return b("Add", b("Mul", x, b.like(x, alpha or 0.0)), b.like(x, beta or 0.0))
        if name == "ScaledTanh":
            inner = b("Tanh", b("Mul", x, b.like(x, beta or 0.0)))
            return b("Mul", inner, b.like(x, alpha or 0.0))
        given = {"alpha": alpha, "beta": beta}
        return b(name, x, **{key: value for key, value in given.items() if value is not None})

    return apply


def _activations(call: Call, op: str) -> list[Activation]:
    """alpha and beta are taken in turn by those activations that have them."""
    alphas, betas = (list(call.numbers(f"activation_{which}") or ()) for which in ("alpha", "beta"))
    made = []
    for name in names_of(call, op):
        alpha, beta = PARAMETERS[name]
        alpha = alphas.pop(0) if alpha is not None and alphas else alpha
        beta = betas.pop(0) if beta is not None and betas else beta
        made.append(_activation(name, alpha, beta))
    return made


@dataclass(frozen=True)
class _Direction:
    """One direction of a call; every value is [batch, columns] unless it says otherwise."""

    b: Builder
    call: Call
    number: int
    gates: int
    functions: Sequence[Activation]

    @property
    def hidden(self) -> int:
        return self.call.shape(2)[2]

    def own(self, operand: int) -> str:
        """The part of an operand [directions, ...] that is this direction's; empty if it was left away."""
        name = name_of(self.call, operand)
        if not name:
            return ""
        part = cut(self.b, name, 0, self.number, self.number + 1)
        return reshaped(self.b, part, *self.b.shape(part)[1:])

    def transposed(self, operand: int) -> str:
        """Weights as [columns, gates * hidden]."""
        return permuted(self.b, self.own(operand), 1, 0)

    def gate(self, x: str, number: int) -> str:
        """The columns of one gate."""
        return cut(self.b, x, len(self.b.shape(x)) - 1, number * self.hidden, (number + 1) * self.hidden)

    def biases(self) -> tuple[str, str]:
        """Wb and Rb, empty without a bias."""
        both, size = self.own(3), self.gates * self.hidden
        return (cut(self.b, both, 0, 0, size), cut(self.b, both, 0, size, 2 * size)) if both else ("", "")

    def activated(self, which: int, x: str) -> str:
        """An activation of what lies within the limits of ``clip``."""
        limit = self.call.attrs.get("clip")
        if limit is not None:
            bound = self.call.number("clip")
            x = self.b("Min", self.b("Max", x, self.b.like(x, -bound)), self.b.like(x, bound))
        return self.functions[which](self.b, x)


Step = Callable[[_Direction, str, str, str], tuple[str, str]]
"""(direction, W x of the step, H, C) to the new H and C; C is empty but for LSTM."""


def _added(b: Builder, *names: str) -> str:
    """The sum of those that are there."""
    there = [name for name in names if name]
    return b("Sum", *there) if len(there) > 1 else there[0]


def _rnn_step(d: _Direction) -> Step:
    recurrent = d.transposed(2)

    def step(d: _Direction, x: str, h: str, c: str) -> tuple[str, str]:
        return d.activated(0, d.b("Add", x, d.b("MatMul", h, recurrent))), ""

    return step


def _gru_step(d: _Direction) -> Step:
    """Gates z, r, h. Rb of h is inside the product with r when linear_before_reset is set."""
    b, size, recurrent = d.b, d.hidden, d.transposed(2)
    before = bool(d.call.integer("linear_before_reset"))
    outer, inner = cut(b, recurrent, 1, 0, 2 * size), d.gate(recurrent, 2)
    shift = d.biases()[1]
    shift = d.gate(shift, 2) if shift else ""

    def step(d: _Direction, x: str, h: str, c: str) -> tuple[str, str]:
        gates = b("Add", cut(b, x, 1, 0, 2 * size), b("MatMul", h, outer))
        z, r = (d.activated(0, d.gate(gates, at)) for at in (0, 1))
        if before:
            made = b("Mul", r, _added(b, b("MatMul", h, inner), shift))
        else:
            made = _added(b, b("MatMul", b("Mul", r, h), inner), shift)
        candidate = d.activated(1, b("Add", d.gate(x, 2), made))
        return b("Add", candidate, b("Mul", z, b("Sub", h, candidate))), ""

    return step


def _lstm_step(d: _Direction) -> Step:
    """Gates i, o, f, c; the peepholes P are those of i, o and f."""
    b, recurrent, peepholes = d.b, d.transposed(2), d.own(7)
    coupled = bool(d.call.integer("input_forget"))

    def step(d: _Direction, x: str, h: str, c: str) -> tuple[str, str]:
        gates = b("Add", x, b("MatMul", h, recurrent))

        def gate(number: int, cell: str) -> str:
            seen = b("Mul", cell, d.gate(peepholes, number)) if peepholes else ""
            return d.activated(0, _added(b, d.gate(gates, number), seen))

        i = gate(0, c)
        f = b("Sub", b.like(i, 1), i) if coupled else gate(2, c)
        new = b("Add", b("Mul", f, c), b("Mul", i, d.activated(1, d.gate(gates, 3))))
        return b("Mul", gate(1, new), d.activated(2, new)), new

    return step


_STEPS = {"RNN": (1, _rnn_step), "GRU": (3, _gru_step), "LSTM": (4, _lstm_step)}


def _bias(d: _Direction, op: str) -> str:
    """Wb + Rb, empty without a bias."""
    wb, rb = d.biases()
    if wb and op == "GRU":  # the third part of Rb belongs to the product with R
        zeros = d.b.constant(np.zeros(d.hidden), d.b.dtype(rb))
        rb = d.b("Concat", cut(d.b, rb, 0, 0, 2 * d.hidden), zeros, axis=0)
    return d.b("Add", wb, rb) if wb else ""


def _projected(d: _Direction, x: str, op: str) -> str:
    """W x + Wb (+ Rb) of all steps: [steps, batch, gates * hidden]."""
    b, (steps, batch, size) = d.b, d.b.shape(x)
    flat, bias = b("MatMul", reshaped(b, x, steps * batch, size), d.transposed(1)), _bias(d, op)
    if bias:
        flat = b("Add", flat, bias)
    return reshaped(b, flat, steps, batch, d.gates * d.hidden)


def _initial(d: _Direction, operand: int, batch: int) -> str:
    """The state before the first step; with layout 1 its first axis is the batch."""
    b, name = d.b, name_of(d.call, operand)
    if not name:
        return b.constant(np.zeros((batch, d.hidden)), d.call.tensor(0).dtype)
    axis = d.call.integer("layout")
    return reshaped(b, cut(b, name, axis, d.number, d.number + 1), batch, d.hidden)


@dataclass(frozen=True)
class _States:
    """``sequence`` makes H of every step in the order of time [steps, batch, hidden]; the last H and C."""

    sequence: Callable[[], str]
    h: str
    c: str


def _run(d: _Direction, x: str, op: str, backwards: bool) -> _States:
    """In one operator or step by step. Beyond its length a sequence rests at 0."""
    if is_plain(d.call, op):
        sequence, h, c = _layer(d, x, op, backwards).run(x)
        return _States(lambda: sequence, h, c)
    b, (steps, batch) = d.b, d.b.shape(x)[:2]
    projected, step = _projected(d, x, op), _STEPS[op][1](d)
    h, c = _initial(d, 5, batch), _initial(d, 6, batch) if op == "LSTM" else ""
    lengths = reshaped(b, name_of(d.call, 4), batch, 1) if d.call.has(4) else ""
    known = d.call.values[4] if d.call.has(4) else None
    outputs = [""] * steps
    for time in reversed(range(steps)) if backwards else range(steps):
        row = reshaped(b, cut(b, projected, 0, time, time + 1), batch, b.shape(projected)[2])
        new_h, new_c = step(d, row, h, c)
        outputs[time] = new_h
        if lengths and (known is None or int(known.min()) <= time):
            alive = b("Less", b.constant(np.array(time), b.dtype(lengths)), lengths)
            outputs[time] = b("Where", alive, new_h, b.like(new_h, 0))
            new_h = b("Where", alive, new_h, h)
            new_c = b("Where", alive, new_c, c) if new_c else ""
        h, c = new_h, new_c
    return _States(lambda: _stacked(b, outputs, False), h, c)


def _layer(d: _Direction, x: str, op: str, backwards: bool) -> Layer:
    b, batch = d.b, d.b.shape(x)[1]
    shift = d.gate(d.biases()[1], 2) if op == "GRU" and d.call.has(3) else ""
    h, c = _initial(d, 5, batch), _initial(d, 6, batch) if op == "LSTM" else ""
    return Layer(b, op, d.transposed(1), d.transposed(2), _bias(d, op), shift, h, c, backwards)


def _stacked(b: Builder, states: list[str], batchwise: bool) -> str:
    """Last states [batch, hidden] of each direction as [directions, batch, hidden], or the batch first."""
    wide = [reshaped(b, name, 1, *b.shape(name)) for name in states]
    whole = wide[0] if len(wide) == 1 else b("Concat", *wide, axis=0)
    return permuted(b, whole, 1, 0, 2) if batchwise else whole


def _recurrent(op: str) -> Expansion:
    def expansion(b: Builder, call: Call) -> tuple[str, ...]:
        batchwise = bool(call.integer("layout"))
        x = permuted(b, name_of(call, 0), 1, 0, 2) if batchwise else name_of(call, 0)
        gates, functions = _STEPS[op][0], _activations(call, op)
        each = len(DEFAULTS[op])
        found = []
        for number, backwards in enumerate(DIRECTIONS[call.string("direction")]):
            own = functions[number * each : (number + 1) * each]
            found.append(_run(_Direction(b, call, number, gates, own), x, op, backwards))
        results = [_sequence(b, [own.sequence() for own in found], batchwise) if call.wants(0) else ""]
        for at in range(1, 3 if op == "LSTM" else 2):
            states = [(own.h, own.c)[at - 1] for own in found]
            results.append(_stacked(b, states, batchwise) if call.wants(at) else "")
        return tuple(results)

    return expansion


def _sequence(b: Builder, sequences: list[str], batchwise: bool) -> str:
    """H of every step and direction as [steps, directions, batch, hidden], or [batch, steps, ...]."""
    steps, batch, hidden = b.shape(sequences[0])
    wide = [reshaped(b, name, steps, 1, batch, hidden) for name in sequences]
    whole = wide[0] if len(wide) == 1 else b("Concat", *wide, axis=1)
    return permuted(b, whole, 2, 0, 1, 3) if batchwise else whole


# --- records ---------------------------------------------------------------------------------------------


_T = Types("T", FLOATS)
_SUMMARIES = {
    "RNN": "A recurrent layer with one activation",
    "GRU": "A layer of gated recurrent units",
    "LSTM": "A layer of long short-term memory cells",
}
_SPECIAL = {
    "RNN": (),
    "GRU": (Attribute("linear_before_reset", "int", 0, allowed=(0, 1)),),
    "LSTM": (Attribute("input_forget", "int", 0, allowed=(0, 1)),),
}


def _register(op: str) -> None:
    states = ("initial_h", "initial_c", "P") if op == "LSTM" else ("initial_h",)
    outputs = ("Y", "Y_h", "Y_c") if op == "LSTM" else ("Y", "Y_h")
    _operator(
        op,
        7,
        _SUMMARIES[op],
        (
            *(Input(name, _T) for name in ("X", "W", "R")),
            Input("B", _T, optional=True),
            Input("sequence_lens", Types("T1", ("int32",)), optional=True),
            *(Input(name, _T, optional=True) for name in states),
        ),
        tuple(Output(name, _T, optional=True) for name in outputs),
        _recurrent(op),
        (
            Attribute("activation_alpha", "floats"),
            Attribute("activation_beta", "floats"),
            Attribute("activations", "strings", RNN_DEFAULT if op == "RNN" else None),
            Attribute("clip", "float"),
            Attribute("direction", "string", "forward", allowed=tuple(DIRECTIONS)),
            Attribute("hidden_size", "int", minimum=1),
            Attribute("layout", "int", 0, allowed=(0, 1)),
            *_SPECIAL[op],
        ),
        (shapes_agree(op), few_steps(op), known_activations(op)),
    )


for _op in _STEPS:
    _register(_op)
