"""Rules of RNN, GRU and LSTM: activations, directions, sizes, and the layers that become one operator."""

from __future__ import annotations

from compiler.operators.record import Call, Rule

from .recurrence import FEWEST_UNITS, GATES, MOST_UNITS

MOST_STEPS = 1000
"""The most steps that are written out, because each step is separate code unless a layer is one operator."""


PARAMETERS: dict[str, tuple[float | None, float | None]] = {
    "Affine": (1.0, 0.0),
    "Elu": (1.0, None),
    "HardSigmoid": (0.2, 0.5),
    "LeakyRelu": (0.01, None),
    "Relu": (None, None),
    "ScaledTanh": (1.0, 1.0),
    "Sigmoid": (None, None),
    "Softplus": (None, None),
    "Softsign": (None, None),
    "Tanh": (None, None),
    "ThresholdedRelu": (1.0, None),
}
"""Activations with the defaults of alpha and beta; None where the function has no such parameter."""


_BY_FOLDED_NAME = {name.casefold(): name for name in PARAMETERS}
DEFAULTS = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}
RNN_DEFAULT = ("Tanh", "Tanh")
DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


def activation_names(call: Call, op: str) -> list[str]:
    """Return the names of the activations of all directions, which models write in any case."""
    given = call.attrs.get("activations")
    count = len(DIRECTIONS[call.string("direction")])
    if given == RNN_DEFAULT and len(DEFAULTS[op]) == 1:  # ONNX has it for one direction of an RNN too
        given = None
    chosen = given if isinstance(given, tuple) and given else DEFAULTS[op] * count
    return [_BY_FOLDED_NAME.get(str(name).casefold(), str(name)) for name in chosen]


def is_one_operator(call: Call, op: str, ranged: bool = False) -> bool:
    """Return True if one operator can compute all steps: supported activations, constant weights, no options.

    A GRU that resets before the product with its state becomes one operator only if the number of steps is
    dynamic.
    """
    hidden = call.shape(2)[2]
    usual = tuple(activation_names(call, op)) == DEFAULTS[op] * len(DIRECTIONS[call.string("direction")])
    usual = usual and "clip" not in call.attrs and not call.attrs.get("input_forget")
    usual = usual and (ranged or call.attrs.get("linear_before_reset", 1) == 1)
    whole = not call.has(4) and not call.has(7) and call.values[2] is not None
    return usual and whole and FEWEST_UNITS <= hidden <= MOST_UNITS


def known_activations(op: str) -> Rule:
    """Make the rule that activations exist and are as many as the directions need."""
    each = len(DEFAULTS[op])

    def check(call: Call) -> str | None:
        names = activation_names(call, op)
        wrong = [name for name in names if name not in PARAMETERS]
        fits = len(names) == each * len(DIRECTIONS[call.string("direction")])
        return None if fits and not wrong else f"{', '.join(names)} with direction {call.string('direction')}"

    count = f"{each} activation" + "s" * (each > 1)
    return Rule(f"There must be {count} per direction, out of {', '.join(PARAMETERS)}", check)


def _wanted_shapes(call: Call, op: str) -> dict[str, tuple[int, tuple[int, ...]]]:
    """Return the operands by name: position and the shape that each must have."""
    directions, (_, _, hidden) = len(DIRECTIONS[call.string("direction")]), call.shape(2)
    rows = GATES[op] * hidden
    first, second, size = call.shape(0)
    batch, state = second, (directions, second, hidden)
    if call.integer("layout"):
        batch, state = first, (first, directions, hidden)
    return {
        "W": (1, (directions, rows, size)),
        "R": (2, (directions, rows, hidden)),
        "B": (3, (directions, 2 * rows)),
        "sequence_lens": (4, (batch,)),
        "initial_h": (5, state),
        "initial_c": (6, state),
        "P": (7, (directions, 3 * hidden)),
    }


def shapes_agree(op: str) -> Rule:
    """Make the rule that the operands have the right ranks and sizes."""

    def check(call: Call) -> str | None:
        if [call.tensor(at).rank for at in range(3)] != [3, 3, 3]:
            return f"X {list(call.shape(0))}, W {list(call.shape(1))}, R {list(call.shape(2))}"
        if call.attrs.get("hidden_size", call.shape(2)[2]) != call.shape(2)[2]:
            return f"hidden_size {call.attrs['hidden_size']}, R {list(call.shape(2))}"
        for name, (at, shape) in _wanted_shapes(call, op).items():
            if call.has(at) and call.shape(at) != shape:
                return f"{name} {list(call.shape(at))}, needed {list(shape)}"
        return None

    return Rule(
        "The operands must be X [steps, batch, input], W [directions, gates hidden, input], "
        "R [directions, gates hidden, hidden] and have sizes that agree",
        check,
    )


def few_steps(op: str) -> Rule:
    """Make the rule that limits the steps of a layer that is written out."""

    def check(call: Call) -> str | None:
        steps = call.shape(0)[call.integer("layout")]
        fits = steps >= 1 and (steps <= MOST_STEPS or is_one_operator(call, op))
        return None if fits else f"{steps} steps"

    return Rule(
        f"The sequence must have 1 to {MOST_STEPS} steps, since each has code of its own, or more in a "
        f"layer of {FEWEST_UNITS} to {MOST_UNITS} units with constant R and nothing optional but bias and "
        "states",
        check,
    )
