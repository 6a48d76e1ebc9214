"""RNN, GRU and LSTM, written out step by step.

Names follow the specification: W and R are the weights of the operand and of the state, one block of
hidden_size rows per gate, H and C the state. What does not depend on the state is one product for all steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from compiler.graph import FLOATS
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.composite import Expansion, composite
from compiler.operators.expansion.parts import permuted, reshaped, sliced
from compiler.operators.record import Attribute, Call, Input, Output, Types

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
    def apply(build: Builder, x: str) -> str:
        if name == "Affine":
            return build("Add", build("Mul", x, build.like(x, alpha or 0.0)), build.like(x, beta or 0.0))
        if name == "ScaledTanh":
            inner = build("Tanh", build("Mul", x, build.like(x, beta or 0.0)))
            return build("Mul", inner, build.like(x, alpha or 0.0))
        given = {"alpha": alpha, "beta": beta}
        return build(name, x, **{key: value for key, value in given.items() if value is not None})

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

    build: Builder
    call: Call
    number: int
    gates: int
    functions: Sequence[Activation]

    @property
    def hidden(self) -> int:
        return self.call.shape(2)[2]

    def own(self, operand: int) -> str:
        """The part of an operand [directions, ...] that is this direction's; empty if it was left away."""
        name = self.call.name(operand)
        if not name:
            return ""
        part = sliced(self.build, name, 0, self.number, self.number + 1)
        return reshaped(self.build, part, *self.build.shape(part)[1:])

    def transposed(self, operand: int) -> str:
        """Weights as [columns, gates * hidden]."""
        return permuted(self.build, self.own(operand), 1, 0)

    def gate(self, x: str, number: int) -> str:
        """The columns of one gate."""
        return sliced(
            self.build, x, len(self.build.shape(x)) - 1, number * self.hidden, (number + 1) * self.hidden
        )

    def biases(self) -> tuple[str, str]:
        """Wb and Rb, empty without a bias."""
        both, size = self.own(3), self.gates * self.hidden
        return (
            (sliced(self.build, both, 0, 0, size), sliced(self.build, both, 0, size, 2 * size))
            if both
            else ("", "")
        )

    def activated(self, which: int, x: str) -> str:
        """An activation of what lies within the limits of ``clip``."""
        limit = self.call.attrs.get("clip")
        if limit is not None:
            bound = self.call.number("clip")
            x = self.build("Min", self.build("Max", x, self.build.like(x, -bound)), self.build.like(x, bound))
        return self.functions[which](self.build, x)


Step = Callable[[_Direction, str, str, str], tuple[str, str]]
"""(direction, W x of the step, H, C) to the new H and C; C is empty but for LSTM."""


def _added(build: Builder, *names: str) -> str:
    """The sum of those that are there."""
    there = [name for name in names if name]
    return build("Sum", *there) if len(there) > 1 else there[0]


def _rnn_step(direction: _Direction) -> Step:
    recurrent = direction.transposed(2)

    def step(direction: _Direction, x: str, h: str, c: str) -> tuple[str, str]:
        return direction.activated(0, direction.build("Add", x, direction.build("MatMul", h, recurrent))), ""

    return step


def _gru_step(direction: _Direction) -> Step:
    """Gates z, r, h. Rb of h is inside the product with r when linear_before_reset is set."""
    build, size, recurrent = direction.build, direction.hidden, direction.transposed(2)
    before = bool(direction.call.integer("linear_before_reset"))
    outer, inner = sliced(build, recurrent, 1, 0, 2 * size), direction.gate(recurrent, 2)
    shift = direction.biases()[1]
    shift = direction.gate(shift, 2) if shift else ""

    def step(direction: _Direction, x: str, h: str, c: str) -> tuple[str, str]:
        gates = build("Add", sliced(build, x, 1, 0, 2 * size), build("MatMul", h, outer))
        z, r = (direction.activated(0, direction.gate(gates, at)) for at in (0, 1))
        if before:
            made = build("Mul", r, _added(build, build("MatMul", h, inner), shift))
        else:
            made = _added(build, build("MatMul", build("Mul", r, h), inner), shift)
        candidate = direction.activated(1, build("Add", direction.gate(x, 2), made))
        return build("Add", candidate, build("Mul", z, build("Sub", h, candidate))), ""

    return step


def _lstm_step(direction: _Direction) -> Step:
    """Gates i, o, f, c; the peepholes P are those of i, o and f."""
    build, recurrent, peepholes = direction.build, direction.transposed(2), direction.own(7)
    coupled = bool(direction.call.integer("input_forget"))

    def step(direction: _Direction, x: str, h: str, c: str) -> tuple[str, str]:
        gates = build("Add", x, build("MatMul", h, recurrent))

        def gate(number: int, cell: str) -> str:
            seen = build("Mul", cell, direction.gate(peepholes, number)) if peepholes else ""
            return direction.activated(0, _added(build, direction.gate(gates, number), seen))

        i = gate(0, c)
        f = build("Sub", build.like(i, 1), i) if coupled else gate(2, c)
        new = build(
            "Add", build("Mul", f, c), build("Mul", i, direction.activated(1, direction.gate(gates, 3)))
        )
        return build("Mul", gate(1, new), direction.activated(2, new)), new

    return step


_STEPS = {"RNN": (1, _rnn_step), "GRU": (3, _gru_step), "LSTM": (4, _lstm_step)}


def _bias(direction: _Direction, op: str) -> str:
    """Wb + Rb, empty without a bias."""
    wb, rb = direction.biases()
    if wb and op == "GRU":  # the third part of Rb belongs to the product with R
        zeros = direction.build.constant(np.zeros(direction.hidden), direction.build.dtype(rb))
        rb = direction.build("Concat", sliced(direction.build, rb, 0, 0, 2 * direction.hidden), zeros, axis=0)
    return direction.build("Add", wb, rb) if wb else ""


def _projected(direction: _Direction, x: str, op: str) -> str:
    """W x + Wb (+ Rb) of all steps: [steps, batch, gates * hidden]."""
    build, (steps, batch, size) = direction.build, direction.build.shape(x)
    flat, bias = (
        build("MatMul", reshaped(build, x, steps * batch, size), direction.transposed(1)),
        _bias(direction, op),
    )
    if bias:
        flat = build("Add", flat, bias)
    return reshaped(build, flat, steps, batch, direction.gates * direction.hidden)


def _initial(direction: _Direction, operand: int, batch: int) -> str:
    """The state before the first step; with layout 1 its first axis is the batch."""
    build, name = direction.build, direction.call.name(operand)
    if not name:
        return build.constant(np.zeros((batch, direction.hidden)), direction.call.tensor(0).dtype)
    axis = direction.call.integer("layout")
    return reshaped(
        build, sliced(build, name, axis, direction.number, direction.number + 1), batch, direction.hidden
    )


@dataclass(frozen=True)
class _States:
    """``sequence`` makes H of every step in the order of time [steps, batch, hidden]; the last H and C."""

    sequence: Callable[[], str]
    h: str
    c: str


def _run(direction: _Direction, x: str, op: str, backwards: bool) -> _States:
    """In one operator or step by step. Beyond its length a sequence rests at 0."""
    if is_plain(direction.call, op):
        sequence, h, c = _layer(direction, x, op, backwards).run(x)
        return _States(lambda: sequence, h, c)
    build, (steps, batch) = direction.build, direction.build.shape(x)[:2]
    projected, step = _projected(direction, x, op), _STEPS[op][1](direction)
    h, c = _initial(direction, 5, batch), _initial(direction, 6, batch) if op == "LSTM" else ""
    lengths = reshaped(build, direction.call.name(4), batch, 1) if direction.call.has(4) else ""
    known = direction.call.values[4] if direction.call.has(4) else None
    outputs = [""] * steps
    for time in reversed(range(steps)) if backwards else range(steps):
        row = reshaped(build, sliced(build, projected, 0, time, time + 1), batch, build.shape(projected)[2])
        new_h, new_c = step(direction, row, h, c)
        outputs[time] = new_h
        if lengths and (known is None or int(known.min()) <= time):
            alive = build("Less", build.constant(np.array(time), build.dtype(lengths)), lengths)
            outputs[time] = build("Where", alive, new_h, build.like(new_h, 0))
            new_h = build("Where", alive, new_h, h)
            new_c = build("Where", alive, new_c, c) if new_c else ""
        h, c = new_h, new_c
    return _States(lambda: _stacked(build, outputs, False), h, c)


def _layer(direction: _Direction, x: str, op: str, backwards: bool) -> Layer:
    build, batch = direction.build, direction.build.shape(x)[1]
    shift = direction.gate(direction.biases()[1], 2) if op == "GRU" and direction.call.has(3) else ""
    h, c = _initial(direction, 5, batch), _initial(direction, 6, batch) if op == "LSTM" else ""
    return Layer(
        build,
        op,
        direction.transposed(1),
        direction.transposed(2),
        _bias(direction, op),
        shift,
        h,
        c,
        backwards,
    )


def _stacked(build: Builder, states: list[str], batchwise: bool) -> str:
    """Last states [batch, hidden] of each direction as [directions, batch, hidden], or the batch first."""
    wide = [reshaped(build, name, 1, *build.shape(name)) for name in states]
    whole = wide[0] if len(wide) == 1 else build("Concat", *wide, axis=0)
    return permuted(build, whole, 1, 0, 2) if batchwise else whole


def _recurrent(op: str) -> Expansion:
    def expansion(build: Builder, call: Call) -> tuple[str, ...]:
        batchwise = bool(call.integer("layout"))
        x = permuted(build, call.name(0), 1, 0, 2) if batchwise else call.name(0)
        gates, functions = _STEPS[op][0], _activations(call, op)
        each = len(DEFAULTS[op])
        found = []
        for number, backwards in enumerate(DIRECTIONS[call.string("direction")]):
            own = functions[number * each : (number + 1) * each]
            found.append(_run(_Direction(build, call, number, gates, own), x, op, backwards))
        results = [_sequence(build, [own.sequence() for own in found], batchwise) if call.wants(0) else ""]
        for at in range(1, 3 if op == "LSTM" else 2):
            states = [(own.h, own.c)[at - 1] for own in found]
            results.append(_stacked(build, states, batchwise) if call.wants(at) else "")
        return tuple(results)

    return expansion


def _sequence(build: Builder, sequences: list[str], batchwise: bool) -> str:
    """H of every step and direction as [steps, directions, batch, hidden], or [batch, steps, ...]."""
    steps, batch, hidden = build.shape(sequences[0])
    wide = [reshaped(build, name, steps, 1, batch, hidden) for name in sequences]
    whole = wide[0] if len(wide) == 1 else build("Concat", *wide, axis=1)
    return permuted(build, whole, 2, 0, 1, 3) if batchwise else whole


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
    composite(
        name=op,
        since=7,
        summary=_SUMMARIES[op],
        inputs=(
            *(Input(name, _T) for name in ("X", "W", "R")),
            Input("B", _T, optional=True),
            Input("sequence_lens", Types("T1", ("int32",)), optional=True),
            *(Input(name, _T, optional=True) for name in states),
        ),
        outputs=tuple(Output(name, _T, optional=True) for name in outputs),
        expansion=_recurrent(op),
        attributes=(
            Attribute("activation_alpha", "floats"),
            Attribute("activation_beta", "floats"),
            Attribute("activations", "strings", RNN_DEFAULT if op == "RNN" else None),
            Attribute("clip", "float"),
            Attribute("direction", "string", "forward", allowed=tuple(DIRECTIONS)),
            Attribute("hidden_size", "int", minimum=1),
            Attribute("layout", "int", 0, allowed=(0, 1)),
            *_SPECIAL[op],
        ),
        rules=(shapes_agree(op), few_steps(op), known_activations(op)),
    )


for _op in _STEPS:
    _register(_op)
