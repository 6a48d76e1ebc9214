"""One direction of an RNN, GRU or LSTM that is written out step by step, and the step of each.

Names follow the specification. W and R are the weights of the operand and of the state, with one block of
hidden_size rows per gate. H and C are the state, Wb and Rb the halves of the bias B, P the peepholes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.parts import permuted, reshaped, sliced
from compiler.operators.record import Call

from .recurrence import GATES
from .rules import PARAMETERS, activation_names

Activation = Callable[[Builder, str], str]


def activations_of(call: Call, op: str) -> list[Activation]:
    """Return the activations of all directions.

    Alpha and beta are given, in turn, to the activations that have parameters.
    """
    alphas, betas = (list(call.numbers(f"activation_{which}") or ()) for which in ("alpha", "beta"))
    activations = []
    for name in activation_names(call, op):
        alpha, beta = PARAMETERS[name]
        alpha = alphas.pop(0) if alpha is not None and alphas else alpha
        beta = betas.pop(0) if beta is not None and betas else beta
        activations.append(_activation(name, alpha, beta))
    return activations


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


@dataclass(frozen=True)
class Direction:
    """One direction of a call of ``op``; every value is [batch, columns] unless it says otherwise.

    ``number`` is its index along the axis of directions.
    """

    build: Builder
    call: Call
    op: str
    number: int
    backwards: bool
    activations: Sequence[Activation]

    @property
    def hidden(self) -> int:
        return self.call.shape(2)[2]

    @property
    def gates(self) -> int:
        return GATES[self.op]

    def own(self, operand: int) -> str:
        """Return this direction's part of an operand [directions, ...]; empty if it was omitted."""
        name = self.call.name(operand)
        if not name:
            return ""
        part = sliced(self.build, name, 0, self.number, self.number + 1)
        return reshaped(self.build, part, *self.build.shape(part)[1:])

    def transposed(self, operand: int) -> str:
        """Return weights as [columns, gates * hidden]."""
        return permuted(self.build, self.own(operand), 1, 0)

    def gate(self, x: str, number: int) -> str:
        """Return the columns of one gate."""
        axis, first = len(self.build.shape(x)) - 1, number * self.hidden
        return sliced(self.build, x, axis, first, first + self.hidden)

    def biases(self) -> tuple[str, str]:
        """Return Wb and Rb, empty without a bias."""
        both, size = self.own(3), self.gates * self.hidden
        if not both:
            return "", ""
        return sliced(self.build, both, 0, 0, size), sliced(self.build, both, 0, size, 2 * size)

    def bias(self) -> str:
        """Return Wb + Rb, empty without a bias. Rb of a GRU's last gate is not included."""
        build, (wb, rb) = self.build, self.biases()
        if wb and self.op == "GRU":
            zeros = build.constant(np.zeros(self.hidden), build.dtype(rb))
            rb = build("Concat", sliced(build, rb, 0, 0, 2 * self.hidden), zeros, axis=0)
        return build("Add", wb, rb) if wb else ""

    def initial(self, operand: int, batch: int) -> str:
        """Return the state before the first step.

        With layout 1, which only some layers have, batches come first.
        """
        build, name = self.build, self.call.name(operand)
        if not name:
            return build.constant(np.zeros((batch, self.hidden)), self.call.tensor(0).dtype)
        axis = int(bool(self.call.attrs.get("layout")))
        part = sliced(build, name, axis, self.number, self.number + 1)
        return reshaped(build, part, batch, self.hidden)

    def activated(self, which: int, x: str) -> str:
        """Apply an activation to a value, which is first limited to -clip ..

        Clip values if the attribute clip is given.
        """
        build = self.build
        if self.call.attrs.get("clip") is not None:
            bound = self.call.number("clip")
            x = build("Min", build("Max", x, build.like(x, -bound)), build.like(x, bound))
        return self.activations[which](build, x)


Step = Callable[[str, str, str], tuple[str, str]]
"""Maps W x of the step, H and C to the new H and C; C is empty except for LSTM."""


def step_of(direction: Direction) -> Step:
    """Return the function that adds the nodes of one step; nodes shared by all steps are added at once."""
    return {"RNN": _rnn_step, "GRU": _gru_step, "LSTM": _lstm_step}[direction.op](direction)


def _rnn_step(direction: Direction) -> Step:
    build, recurrent = direction.build, direction.transposed(2)

    def step(x: str, h: str, c: str) -> tuple[str, str]:
        return direction.activated(0, build("Add", x, build("MatMul", h, recurrent))), ""

    return step


def _gru_step(direction: Direction) -> Step:
    """Return a GRU's step: gates z, r, h. With linear_before_reset, Rb of h is inside the product with r."""
    build, size, recurrent = direction.build, direction.hidden, direction.transposed(2)
    before_reset = bool(direction.call.integer("linear_before_reset"))
    outer, inner = sliced(build, recurrent, 1, 0, 2 * size), direction.gate(recurrent, 2)
    shift = direction.biases()[1]
    shift = direction.gate(shift, 2) if shift else ""

    def step(x: str, h: str, c: str) -> tuple[str, str]:
        gates = build("Add", sliced(build, x, 1, 0, 2 * size), build("MatMul", h, outer))
        z, r = (direction.activated(0, direction.gate(gates, at)) for at in (0, 1))
        if before_reset:
            product = build("Mul", r, _sum(build, build("MatMul", h, inner), shift))
        else:
            product = _sum(build, build("MatMul", build("Mul", r, h), inner), shift)
        candidate = direction.activated(1, build("Add", direction.gate(x, 2), product))
        return build("Add", candidate, build("Mul", z, build("Sub", h, candidate))), ""

    return step


def _lstm_step(direction: Direction) -> Step:
    build, recurrent = direction.build, direction.transposed(2)
    return lstm_step(direction, lambda x, h: build("Add", x, build("MatMul", h, recurrent)))


def lstm_step(direction: Direction, gates_of: Callable[[str, str], str]) -> Step:
    """Return an LSTM's step: gates i, o, f, c; the peepholes P belong to i, o and f.

    ``gates_of`` adds the product of H and R to W x.
    """
    build, peepholes = direction.build, direction.own(7)
    coupled = bool(direction.call.integer("input_forget"))

    def step(x: str, h: str, c: str) -> tuple[str, str]:
        gates = gates_of(x, h)

        def gate(number: int, cell: str) -> str:
            seen = build("Mul", cell, direction.gate(peepholes, number)) if peepholes else ""
            return direction.activated(0, _sum(build, direction.gate(gates, number), seen))

        i = gate(0, c)
        f = build("Sub", build.like(i, 1), i) if coupled else gate(2, c)
        kept = build("Mul", f, c)
        new = build("Add", kept, build("Mul", i, direction.activated(1, direction.gate(gates, 3))))
        return build("Mul", gate(1, new), direction.activated(2, new)), new

    return step


def _sum(build: Builder, *names: str) -> str:
    """Add the operands that are not omitted."""
    given = [name for name in names if name]
    return build("Sum", *given) if len(given) > 1 else given[0]
