"""RNN, GRU and LSTM, in one operator or written out step by step.

The products with W, which do not depend on the state, are one product for all steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from compiler.graph import FLOATS
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.composite import composite
from compiler.operators.expansion.parts import permuted, reshaped, sliced
from compiler.operators.record import Attribute, Call, Expansion, Input, Output, Types

from .recurrence import RecurrentLayer
from .rules import (
    DEFAULTS,
    DIRECTIONS,
    RNN_DEFAULT,
    few_steps,
    is_one_operator,
    known_activations,
    shapes_agree,
)
from .steps import Direction, activations_of, step_of


@dataclass(frozen=True)
class States:
    """H of all steps in the order of time, and the last H and C [batch, hidden].

    ``outputs`` is one value [steps, batch, hidden] or one [batch, hidden] for each step.
    """

    outputs: list[str]
    h: str
    c: str

    def sequence(self, build: Builder) -> str:
        """Return H of all steps [steps, batch, hidden]."""
        is_whole = len(build.shape(self.outputs[0])) == 3
        return self.outputs[0] if is_whole else _stacked(build, self.outputs, 0)


def _run(direction: Direction, x: str, ranged: bool) -> States:
    """Run all steps of ``x`` [steps, batch, input]."""
    build, batch = direction.build, direction.build.shape(x)[1]
    if not is_one_operator(direction.call, direction.op, ranged):
        return _run_by_steps(direction, x)
    is_gru, is_lstm = direction.op == "GRU", direction.op == "LSTM"
    shift = direction.gate(direction.biases()[1], 2) if is_gru and direction.call.has(3) else ""
    h, c = direction.initial(5, batch), direction.initial(6, batch) if is_lstm else ""
    layer = RecurrentLayer(
        build=build,
        kind=direction.op,
        weights=direction.transposed(1),
        recurrent=direction.transposed(2),
        bias=direction.bias(),
        shift=shift,
        h=h,
        c=c,
        backwards=direction.backwards,
        reset_first=is_gru and not direction.call.integer("linear_before_reset"),
    )
    sequence, h, c = layer.run(x)
    return States([sequence], h, c)


def _run_by_steps(direction: Direction, x: str) -> States:
    """Run step by step. After the end of a sequence its state is kept and its output is 0."""
    build, (steps, batch), call = direction.build, direction.build.shape(x)[:2], direction.call
    projected, step = _projected(direction, x), step_of(direction)
    h, c = direction.initial(5, batch), direction.initial(6, batch) if direction.op == "LSTM" else ""
    lengths = reshaped(build, call.name(4), batch, 1) if call.has(4) else ""
    known = call.values[4] if call.has(4) else None
    outputs = [""] * steps
    for time in reversed(range(steps)) if direction.backwards else range(steps):
        row = reshaped(build, sliced(build, projected, 0, time, time + 1), batch, build.shape(projected)[2])
        new_h, new_c = step(row, h, c)
        outputs[time] = new_h
        if lengths and (known is None or int(known.min()) <= time):
            alive = build("Less", build.constant(np.array(time), build.dtype(lengths)), lengths)
            outputs[time] = build("Where", alive, new_h, build.like(new_h, 0))
            new_h = build("Where", alive, new_h, h)
            new_c = build("Where", alive, new_c, c) if new_c else ""
        h, c = new_h, new_c
    return States(outputs, h, c)


def _projected(direction: Direction, x: str) -> str:
    """Return W x + Wb (+ Rb) of all steps: [steps, batch, gates * hidden]."""
    build, (steps, batch, size) = direction.build, direction.build.shape(x)
    rows = reshaped(build, x, steps * batch, size)
    flat = build("MatMul", rows, direction.transposed(1))
    bias = direction.bias()
    if bias:
        flat = build("Add", flat, bias)
    return reshaped(build, flat, steps, batch, direction.gates * direction.hidden)


def _recurrent(op: str, ranged: bool = False) -> Expansion:
    def expansion(build: Builder, call: Call) -> tuple[str, ...]:
        batch_first = bool(call.integer("layout"))
        x = permuted(build, call.name(0), 1, 0, 2) if batch_first else call.name(0)
        activations, each = activations_of(call, op), len(DEFAULTS[op])
        states = []
        for number, backwards in enumerate(DIRECTIONS[call.string("direction")]):
            own = activations[number * each : (number + 1) * each]
            states.append(_run(Direction(build, call, op, number, backwards, own), x, ranged))
        results = [whole_sequence(build, states, batch_first) if call.wants(0) else ""]
        last = [[state.h for state in states], [state.c for state in states]]
        for at, names in enumerate(last if op == "LSTM" else last[:1], 1):
            results.append(last_states(build, names, batch_first) if call.wants(at) else "")
        return tuple(results)

    return expansion


def whole_sequence(build: Builder, states: list[States], batch_first: bool) -> str:
    """Return H of every step and direction as [steps, directions, batch, hidden], or [batch, steps, ...]."""
    sequences = [state.sequence(build) for state in states]
    whole = _stacked(build, sequences, 1)
    return permuted(build, whole, 2, 0, 1, 3) if batch_first else whole


def last_states(build: Builder, names: list[str], batch_first: bool) -> str:
    """Return each direction's last states as [directions, batch, hidden], or [batch, directions, hidden]."""
    whole = _stacked(build, names, 0)
    return permuted(build, whole, 1, 0, 2) if batch_first else whole


def _stacked(build: Builder, names: list[str], axis: int) -> str:
    """Stack values of one shape along a new axis."""
    shape = build.shape(names[0])
    wide = [reshaped(build, name, *shape[:axis], 1, *shape[axis:]) for name in names]
    return wide[0] if len(wide) == 1 else build("Concat", *wide, axis=axis)


# --- records ---------------------------------------------------------------------------------------------

_T = Types("T", FLOATS)
_FLAG = (0, 1)
INPUT_FORGET = Attribute("input_forget", "int", 0, allowed=_FLAG)


def attributes_of(op: str, *special: Attribute) -> tuple[Attribute, ...]:
    """Return the attributes of a recurrent layer, with ``special`` ones last."""
    return (
        Attribute("activation_alpha", "floats"),
        Attribute("activation_beta", "floats"),
        Attribute("activations", "strings", RNN_DEFAULT if op == "RNN" else None),
        Attribute("clip", "float"),
        Attribute("direction", "string", "forward", allowed=tuple(DIRECTIONS)),
        Attribute("hidden_size", "int", minimum=1),
        *special,
    )


def _register(op: str, summary: str, *special: Attribute) -> None:
    states = ("initial_h", "initial_c", "P") if op == "LSTM" else ("initial_h",)
    outputs = ("Y", "Y_h", "Y_c") if op == "LSTM" else ("Y", "Y_h")
    composite(
        name=op,
        since=7,
        summary=summary,
        inputs=(
            *(Input(name, _T) for name in ("X", "W", "R")),
            Input("B", _T, optional=True),
            Input("sequence_lens", Types("T1", ("int32",)), optional=True),
            *(Input(name, _T, optional=True) for name in states),
        ),
        outputs=tuple(Output(name, _T, optional=True) for name in outputs),
        expansion=_recurrent(op),
        ranged_expansion=_recurrent(op, True),
        attributes=attributes_of(op, Attribute("layout", "int", 0, allowed=_FLAG), *special),
        rules=(shapes_agree(op), few_steps(op), known_activations(op)),
    )


_register("RNN", "A recurrent layer with one activation")
_register(
    "GRU", "A layer of gated recurrent units", Attribute("linear_before_reset", "int", 0, allowed=_FLAG)
)
_register("LSTM", "A layer of long short-term memory cells", INPUT_FORGET)
