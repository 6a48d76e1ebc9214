"""DynamicQuantizeLSTM: a layer whose weights are bytes, and whose operands are quantised at run time.

The integers equal those of onnxruntime on one thread. X is quantised once, by the range of all its steps. The
state is quantised in each step, by the range of all sequences. The products are exact sums times both scales;
everything else is FP32.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from compiler.graph import Shape
from compiler.operators.elements.casting import CAST_NUMBERS
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.composite import composite
from compiler.operators.expansion.parts import reshaped, sliced
from compiler.operators.quantised.quantisation import scales_usable
from compiler.operators.record import Call, Input, Output, Rule, Types, rule
from compiler.operators.recurrent.layers import (
    INPUT_FORGET,
    States,
    attributes_of,
    last_states,
    whole_sequence,
)
from compiler.operators.recurrent.rules import DEFAULTS, DIRECTIONS, MOST_STEPS, known_activations
from compiler.operators.recurrent.steps import Direction, activations_of, lstm_step
from compiler.operators.types import BYTES

from .bytes import SINGLE
from .products import scaled

_INT64 = CAST_NUMBERS["int64"]
_OP = "LSTM"
_OF_CELLS = 2
"""The position of the activation of new cells among the three of a direction."""


@dataclass(frozen=True)
class _Direction(Direction):
    """One direction; its weights are [columns, gates * hidden], unlike those of LSTM."""

    @property
    def hidden(self) -> int:
        return self.call.shape(2)[1]

    def activated(self, which: int, x: str) -> str:
        """Apply an activation; onnxruntime limits the gates to -clip .. clip, but not the cells."""
        return self.activations[which](self.build, x) if which == _OF_CELLS else super().activated(which, x)


def _product(direction: _Direction, x: str, weights: int, scale: int) -> str:
    """Quantise a matrix by its own range and multiply it by weights; operands are given by position."""
    build = direction.build
    whole, unit, zero = build.several("DynamicQuantizeLinear", 3, x)
    sums = build("MatMulInteger", whole, direction.own(weights), zero, direction.own(scale + 1))
    return scaled(build, sums, unit, direction.own(scale))


# --- where sequences end ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Ends:
    """The ends of a batch's sequences; ``lengths`` is empty if all are complete; ``known`` has them as
    numbers if constant."""

    lengths: str
    known: tuple[int, ...] | None


def _ends(call: Call) -> _Ends:
    known = call.value_ints(4)
    if known is not None and min(known) == call.shape(0)[0]:
        return _Ends("", None)
    return _Ends(call.name(4), known)


def _up_to_the_longest(build: Builder, x: str, ends: _Ends) -> str:
    """Remove the steps of X that no sequence has, or fill them with zeros.

    The range for quantising X must not include their numbers; zeros do not extend it.
    """
    count = build.shape(x)[0]
    if ends.known is not None:
        most = max(1, *ends.known)
        return x if most == count else sliced(build, x, 0, 0, most)
    if not ends.lengths:
        return x
    longest = build("ReduceMax", ends.lengths, keepdims=0)
    numbers = build.constant(np.arange(count).reshape(-1, 1, 1), build.dtype(ends.lengths))
    return build("Where", build("Less", numbers, longest), x, build.like(x, 0))


def _turned(build: Builder, x: str, ends: _Ends) -> str:
    """Reverse every sequence of [steps, batch, ...] up to its end."""
    lengths = build("Cast", ends.lengths, to=_INT64)
    return build("ReverseSequence", x, lengths, time_axis=0, batch_axis=1)


def _alive(build: Builder, ends: _Ends, step: int) -> str:
    """Return [batch, 1]: True for the sequences that have a step; empty if all are known to have it."""
    if not ends.lengths or (ends.known is not None and min(ends.known) > step):
        return ""
    lengths = reshaped(build, ends.lengths, -1, 1)
    return build("Less", build.constant(np.array(step), build.dtype(lengths)), lengths)


# --- the steps -------------------------------------------------------------------------------------------


def _run(direction: _Direction, x: str, ends: _Ends) -> States:
    """Write the layer step by step; with ends, all sequences begin together, also in the backward direction.

    onnxruntime quantises the kept values of an ended sequence with the states of the others. These are its
    output, which is 0, or its last state if outputs are not wanted. A sequence without steps has last states
    of 0.
    """
    build, call = direction.build, direction.call
    mirrored = direction.backwards and bool(ends.lengths)
    x = _turned(build, x, ends) if mirrored else x
    steps, batch, size = build.shape(x)
    projected = _product(direction, reshaped(build, x, steps * batch, size), 1, 8)
    bias = direction.bias()
    projected = build("Add", projected, bias) if bias else projected
    step = lstm_step(direction, lambda row, state: build("Add", row, _product(direction, state, 2, 10)))
    h, c = (direction.initial(at, batch) for at in (5, 6))
    last_h = last_c = build.like(x, 0)
    outputs = [build.constant(np.zeros((batch, direction.hidden)), "float32")] * call.shape(0)[0]
    for time in reversed(range(steps)) if direction.backwards and not mirrored else range(steps):
        row = sliced(build, projected, 0, time * batch, (time + 1) * batch)
        new_h, new_c = step(row, h, c)
        outputs[time], alive = new_h, _alive(build, ends, time)
        if alive:
            outputs[time] = build("Where", alive, new_h, build.like(new_h, 0))
            new_h, new_c = build("Where", alive, new_h, last_h), build("Where", alive, new_c, last_c)
        last_h, last_c = new_h, new_c
        h, c = outputs[time] if call.wants(0) else last_h, last_c
    states = States(outputs, last_h, last_c)
    return States([_turned(build, states.sequence(build), ends)], last_h, last_c) if mirrored else states


def _expansion(build: Builder, call: Call) -> tuple[str, ...]:
    build.precise = True
    ends = _ends(call)
    x, activations = _up_to_the_longest(build, call.name(0), ends), activations_of(call, _OP)
    each = len(DEFAULTS[_OP])
    states = []
    for number, backwards in enumerate(DIRECTIONS[call.string("direction")]):
        own = activations[number * each : (number + 1) * each]
        states.append(_run(_Direction(build, call, _OP, number, backwards, own), x, ends))
    return (
        whole_sequence(build, states, False) if call.wants(0) else "",
        last_states(build, [state.h for state in states], False) if call.wants(1) else "",
        last_states(build, [state.c for state in states], False) if call.wants(2) else "",
    )


# --- the record ------------------------------------------------------------------------------------------


def _wanted_shapes(call: Call) -> dict[str, tuple[int, tuple[Shape, ...]]]:
    """Return the operands by name: position and the shapes that each may have."""
    (_, batch, size), hidden = call.shape(0), call.shape(2)[1]
    directions = len(DIRECTIONS[call.string("direction")])
    each: tuple[Shape, ...] = ((directions,), (directions, 4 * hidden))
    state: tuple[Shape, ...] = ((directions, batch, hidden),)
    return {
        "W": (1, ((directions, size, 4 * hidden),)),
        "R": (2, ((directions, hidden, 4 * hidden),)),
        "B": (3, ((directions, 8 * hidden),)),
        "sequence_lens": (4, ((batch,),)),
        "initial_h": (5, state),
        "initial_c": (6, state),
        "P": (7, ((directions, 3 * hidden),)),
        "W_scale": (8, each),
        "W_zero_point": (9, each),
        "R_scale": (10, each),
        "R_zero_point": (11, each),
    }


@rule
def sizes_agree(call: Call) -> str | None:
    """The operands must be X [steps, batch, input], W [directions, input, 4 hidden], R [directions, hidden,
    4 hidden] and have sizes that agree; scales and zero points have one value for each direction, or one for
    each of its columns"""
    if [call.tensor(at).rank for at in range(3)] != [3, 3, 3]:
        return f"X {list(call.shape(0))}, W {list(call.shape(1))}, R {list(call.shape(2))}"
    if call.attrs.get("hidden_size", call.shape(2)[1]) != call.shape(2)[1]:
        return f"hidden_size {call.attrs['hidden_size']}, R {list(call.shape(2))}"
    for name, (at, shapes) in _wanted_shapes(call).items():
        if call.has(at) and call.shape(at) not in shapes:
            return f"{name} {list(call.shape(at))}, needed {' or '.join(str(list(each)) for each in shapes)}"
    return None


@rule
def lengths_within_steps(call: Call) -> str | None:
    """Known sequence_lens must lie in 0 to the number of steps"""
    lengths, steps = call.value_ints(4), call.shape(0)[0]
    return None if lengths is None or all(0 <= n <= steps for n in lengths) else f"{list(lengths)} of {steps}"


def _few_steps(call: Call) -> str | None:
    return None if 1 <= call.shape(0)[0] <= MOST_STEPS else f"{call.shape(0)[0]} steps"


_WEIGHTS = Types("T2", BYTES)
composite(
    name="com.microsoft.DynamicQuantizeLSTM",
    since=1,
    summary="A layer of long short-term memory cells that quantises its operands, with quantised weights",
    inputs=(
        Input("X", SINGLE),
        Input("W", _WEIGHTS),
        Input("R", _WEIGHTS),
        Input("B", SINGLE, optional=True),
        Input("sequence_lens", Types("T1", ("int32",)), optional=True),
        *(Input(name, SINGLE, optional=True) for name in ("initial_h", "initial_c", "P")),
        Input("W_scale", SINGLE),
        Input("W_zero_point", _WEIGHTS),
        Input("R_scale", SINGLE),
        Input("R_zero_point", _WEIGHTS),
    ),
    outputs=tuple(Output(name, SINGLE, optional=True) for name in ("Y", "Y_h", "Y_c")),
    expansion=_expansion,
    attributes=attributes_of(_OP, INPUT_FORGET),
    rules=(
        sizes_agree,
        lengths_within_steps,
        Rule(f"The sequence must have 1 to {MOST_STEPS} steps, since each has code of its own", _few_steps),
        known_activations(_OP),
        scales_usable((8, 10)),
    ),
)
