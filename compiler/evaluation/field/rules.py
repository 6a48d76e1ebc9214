"""Operators in the field, from the specification alone: sums, products, folds, normalizations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from compiler.operators.linear.attention import matrices, result_order
from compiler.operators.linear.matmul import gemm_sizes
from compiler.operators.linear.rotary import features
from compiler.operators.quantised.integers import OFFSET
from compiler.operators.record import Call
from compiler.operators.reductions.axes import reduced_axes
from compiler.operators.windows.conv import conv_window
from compiler.operators.windows.geometry import Window
from compiler.operators.windows.pool import averaged_counts, pool_window
from tx8isa.numbers.formats import Format
from tx8isa.numbers.prime_field import Elements, PrimeField
from tx8isa.numbers.rounding import rounded


class NotFollowed(Exception):
    """Raised for a call without a meaning in the field; the text says what it does."""


def is_elements(value: Any) -> bool:
    """True for elements; False for integers, truth values, and where nothing is known."""
    return value is not None and value.dtype.kind == "f"


@dataclass(frozen=True)
class FieldCall:
    """A call in the field; ``fmt`` is the format of its numbers.

    ``compiled``: a program was compiled from the graph, so it may hold a product of two numbers as one.
    """

    field: PrimeField
    call: Call
    fmt: Format
    compiled: bool = True

    def like(self, value: float, x: Elements) -> Elements:
        """A number that broadcasts to elements."""
        number = np.asarray(rounded(np.asarray(value), Format.FP32), np.float64)
        return self.field.of_scalars(number, Format.FP32).reshape(-1, *(1,) * (x.ndim - 1))


Rule = Callable[..., Elements]
"""Computes a call from elements: its arguments are the :class:`FieldCall` and the operands."""
RULES: dict[str, Rule] = {}
OF_ELEMENTS: set[str] = set()
"""Operators that compute with elements also where their operands are known integers, because they round."""
OF_MADE: set[str] = set()
"""Operators that take truth values and bytes that follow from elements."""


def means(*ops: str, of_made: bool = False, rounds: bool = False) -> Callable[[Rule], Rule]:
    """Decorator that registers what operators mean, and if they are in ``OF_MADE`` or ``OF_ELEMENTS``."""

    def register(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(ops, rule))
        OF_MADE.update(ops if of_made else ())
        OF_ELEMENTS.update(ops if rounds else ())
        return rule

    return register


def aligned(a: Elements, b: Elements) -> tuple[Elements, Elements]:
    """Elements whose shapes broadcast, with the residues as the first axis of both."""
    rank = max(a.ndim, b.ndim)
    return tuple(x.reshape(x.shape[0], *(1,) * (rank - x.ndim), *x.shape[1:]) for x in (a, b))  # type: ignore[return-value]


def _binary(function: Callable[[PrimeField, Elements, Elements], Elements]) -> Rule:
    return lambda work, *operands: reduce(lambda a, b: function(work.field, *aligned(a, b)), operands)


@means("MatMul")
def _matmul(work: FieldCall, a: Elements, b: Elements) -> Elements:
    rows, columns = a.ndim > 2, b.ndim > 2  # a vector is one row, or one column
    a, b = aligned(a if rows else a[:, None], b if columns else b[..., None])
    found = work.field.product(a, b)
    found = found if columns else found[..., 0]
    return found if rows else found.squeeze(-2 if columns else -1)


@means("Gemm")
def _gemm(work: FieldCall, a: Elements, b: Elements, c: Elements | None = None) -> Elements:
    gemm_sizes(work.call)
    a = a.swapaxes(1, 2) if work.call.integer("transA") else a
    b = b.swapaxes(1, 2) if work.call.integer("transB") else b
    found = scaled(work, work.field.product(a, b), "alpha")
    if c is None:
        return found
    return work.field.add(*aligned(found, scaled(work, c, "beta")))


def scaled(work: FieldCall, x: Elements, name: str) -> Elements:
    """Elements times an attribute."""
    factor = work.call.number(name)
    return x if factor == 1.0 else work.field.multiply(x, work.like(factor, x))


def windows(window: Window, x: Elements, outside: float) -> Elements:
    """The taps of a window [residues, batch, channels, taps, *positions]."""
    image = window.padded(x.reshape(-1, *x.shape[2:]), outside)
    taps = [image[place] for place in window.taps()]
    return np.stack(taps, 2).reshape(x.shape[0], x.shape[1], x.shape[2], len(taps), *taps[0].shape[2:])


@means("Conv")
def _conv(work: FieldCall, x: Elements, w: Elements, b: Elements | None = None) -> Elements:
    window, group = conv_window(work.call), work.call.integer("group")
    residues, maps, size = w.shape[0], w.shape[1], int(np.prod(window.output))
    taps = windows(window, x, 0.0).reshape(residues, x.shape[1], group, -1, size)
    weights = w.reshape(residues, 1, group, maps // group, -1)
    found = work.field.product(weights, taps).reshape(residues, x.shape[1], maps, *window.output)
    if b is None:
        return found
    return work.field.add(found, b.reshape(b.shape[0], 1, -1, *(1,) * len(window.output)))


@means("MaxPool", of_made=True)
def _max_pool(work: FieldCall, x: Elements) -> Elements:
    return work.field.extreme(windows(pool_window(work.call), x, -np.inf), 3)[:, :, :, 0]


@means("AveragePool")
def _average_pool(work: FieldCall, x: Elements) -> Elements:
    window = pool_window(work.call)
    total = work.field.reduced(windows(window, x, 0.0).sum(axis=3))
    counts = work.field.of_numbers(averaged_counts(work.call, window))
    return work.field.multiply(total, work.field.inverse(counts))


@means("GlobalAveragePool")
def _global_average(work: FieldCall, x: Elements) -> Elements:
    axes = tuple(range(2, x.ndim - 1))
    return _mean(work.field, x, axes)


def _mean(field: PrimeField, x: Elements, axes: Sequence[int]) -> Elements:
    count = int(np.prod([x.shape[axis + 1] for axis in axes]))
    total = field.sum(x, axes)
    return field.multiply(total, field.inverse(np.full_like(total, float(count))))


def _reduction(kind: str) -> Rule:
    def rule(work: FieldCall, x: Elements, *rest: Any) -> Elements:
        axes, kept = reduced_axes(work.call), bool(work.call.integer("keepdims"))
        if kind == "sum":
            found = work.field.sum(x, axes)
        elif kind == "mean":
            found = _mean(work.field, x, axes)
        else:
            found = x
            for axis in axes:
                found = work.field.extreme(found, axis + 1, 1 if kind == "max" else -1)
        left = [extent for axis, extent in enumerate(x.shape[1:]) if axis not in axes]
        return found if kept else found.reshape(found.shape[0], *left)

    return rule


@means("RunningSum")
def _running_sum(work: FieldCall, x: Elements) -> Elements:
    axis, reverse = work.call.integer("axis") % (x.ndim - 1) + 1, bool(work.call.integer("reverse"))
    lanes = np.moveaxis(np.flip(x, axis) if reverse else x, axis, 0)
    total, sums = np.zeros_like(lanes[0]), np.zeros_like(lanes)
    for at, element in enumerate(lanes):
        before, total = total, work.field.add(total, element)
        sums[at] = before if work.call.integer("exclusive") else total
    found = np.moveaxis(sums, 0, axis)
    return np.flip(found, axis) if reverse else found


@means("Softmax")
def _softmax(work: FieldCall, x: Elements) -> Elements:
    axis = work.call.integer("axis") % (x.ndim - 1)
    return _softened(work.field, x, axis)


def _softened(field: PrimeField, x: Elements, axis: int) -> Elements:
    largest = field.extreme(x, axis + 1)
    powers = field.exp(field.subtract(x, largest))
    return field.multiply(powers, field.inverse(field.sum(powers, (axis,))))


@means("LayerNormalization")
def _layer_norm(work: FieldCall, x: Elements, scale: Elements, shift: Elements | None = None) -> Elements:
    field, rank = work.field, x.ndim - 1
    axes = tuple(range(work.call.integer("axis") % rank, rank))
    centred = field.subtract(x, _mean(field, x, axes))
    found = _standardized(work, centred, axes, scale)
    return found if shift is None else field.add(*aligned(found, shift))


@means("RMSNormalization")
def _rms_norm(work: FieldCall, x: Elements, scale: Elements) -> Elements:
    rank = x.ndim - 1
    return _standardized(work, x, tuple(range(work.call.integer("axis") % rank, rank)), scale)


def _standardized(work: FieldCall, x: Elements, axes: Sequence[int], scale: Elements) -> Elements:
    """Numbers over the root of their mean square, times a scale.

    Compiled programs hold n epsilon, so it is the root of the sum of n squares and n epsilon, times the root
    of n.
    """
    field, count = work.field, int(np.prod([x.shape[axis + 1] for axis in axes]))
    total = field.sum(field.multiply(x, x), axes)
    epsilon, counts = work.call.number("epsilon"), np.full_like(total, float(count))
    if work.compiled:
        more = work.like(count * epsilon, total)
    else:
        more = field.multiply(counts, work.like(epsilon, total))
    total, root = field.add(total, more), field.sqrt(counts)
    found = field.multiply(x, field.multiply(field.inverse(field.sqrt(total)), root))
    return field.multiply(*aligned(found, scale))


@means("NormalizedGroups")
def _group_norm(work: FieldCall, x: Elements, scale: Elements, shift: Elements) -> Elements:
    """Groups of channels, and all positions of an image, less their mean over the root of their variance."""
    field, groups = work.field, work.call.integer("groups")
    flat = x.reshape(*x.shape[:2], groups, -1)
    centred = field.subtract(flat, _mean(field, flat, (2,)))
    variance = _mean(field, field.multiply(centred, centred), (2,))
    root = field.sqrt(field.add(variance, work.like(work.call.number("epsilon"), variance)))
    found = field.multiply(centred, field.inverse(root)).reshape(x.shape)
    return _scaled_and_shifted(field, found, scale, shift)


def _scaled_and_shifted(field: PrimeField, x: Elements, scale: Elements, shift: Elements) -> Elements:
    """One scale and one shift for each channel (axis 1)."""
    columns = [each.reshape(each.shape[0], 1, -1, *(1,) * (x.ndim - 3)) for each in (scale, shift)]
    return field.add(field.multiply(x, columns[0]), columns[1])


@means("BatchNormalization")
def _batch_norm(work: FieldCall, x: Elements, *parameters: Elements) -> Elements:
    """Channels less their mean over the root of their variance, which are operands."""
    field, (scale, shift, mean, variance) = work.field, parameters[:4]
    root = field.sqrt(field.add(variance, work.like(work.call.number("epsilon"), variance)))
    mean, factor = (
        each.reshape(each.shape[0], 1, -1, *(1,) * (x.ndim - 3)) for each in (mean, field.inverse(root))
    )
    return _scaled_and_shifted(field, field.multiply(field.subtract(x, mean), factor), scale, shift)


def _viewed(work: FieldCall, index: int, x: Elements) -> Elements:
    """A matrix of attention: a view of its operand, by the places of elements."""
    places = matrices(work.call, index).of(np.arange(x[0].size).reshape(x.shape[1:]))
    return x.reshape(x.shape[0], -1)[:, places]


@means("FusedAttention")
def _attention(work: FieldCall, *operands: Elements | None) -> Elements:
    field, call = work.field, work.call
    if call.number("softcap") or call.integer("zero_rows"):
        raise NotFollowed("attention with a softcap, or with rows whose keys are all hidden")
    q, k, v = (_viewed(work, index, x) for index, x in enumerate(operands[:3]) if x is not None)
    scores = field.product(q, k.swapaxes(-1, -2))
    scores = field.multiply(scores, work.like(call.number("scale"), scores))
    mask = operands[3] if len(operands) > 3 else None
    if mask is not None:
        scores = field.add(*aligned(scores, mask))
    largest = field.extreme(scores, scores.ndim - 1)
    powers = field.exp(field.subtract(scores, largest))
    sums = field.inverse(field.sum(powers, (powers.ndim - 2,)))
    found = field.product(powers, v)
    found = field.multiply(found, sums)
    return found.transpose(0, *(axis + 1 for axis in result_order(call)))


@means("Rotary")
def _rotary(work: FieldCall, x: Elements, cosine: Elements, sine: Elements) -> Elements:
    """Features times cosines, and their partners, some negated, times sines."""
    field, turn = work.field, np.array(work.call.integers("turn"))
    places = features(work.call).of(np.arange(x[0].size).reshape(x.shape[1:]))
    rows = x.reshape(x.shape[0], -1)[:, places]
    partners = rows[..., np.abs(turn) - 1] * np.sign(turn)
    turned = field.multiply(*aligned(partners, sine))
    return field.add(field.multiply(*aligned(rows, cosine)), turned)


@means("Recurrence")
def _recurrence(work: FieldCall, x: Elements, weights: Elements, h: Elements, *rest: Elements) -> Elements:
    """The states of all steps of a recurrent layer, followed by the last cells if it has some."""
    next_state = _CELLS[work.call.string("kind")]
    cells, shift = [*rest, None, None][:2]
    steps = range(x.shape[1])
    found = np.zeros((x.shape[0], len(steps) + (cells is not None), *h.shape[1:]))
    for time in reversed(steps) if work.call.integer("backwards") else steps:
        h, cells = next_state(work, x[:, time], weights, h, cells, shift)
        found[:, time] = h
    if cells is not None:
        found[:, -1] = cells
    return found


_Cell = Callable[..., tuple[Elements, Elements | None]]
"""Computes the next state and cells: of a call, a step's gates, weights, state, cells, and a shift."""
_CELLS: dict[str, _Cell] = {}


def _cell(kind: str) -> Callable[[_Cell], _Cell]:
    """Decorator that registers the cells of a kind of layer."""
    return lambda function: _CELLS.setdefault(kind, function)


@_cell("RNN")
def _rnn(work: FieldCall, x: Elements, weights: Elements, h: Elements, *rest: Any) -> Any:
    return work.field.hashed("tanh", work.field.add(x, work.field.product(h, weights))), None


@_cell("LSTM")
def _lstm(work: FieldCall, x: Elements, weights: Elements, h: Elements, cells: Elements, *rest: Any) -> Any:
    field = work.field
    *gates, new = np.split(field.add(x, field.product(h, weights)), 4, -1)
    i, o, f = (field.hashed("sigmoid", gate) for gate in gates)
    cells = field.add(field.multiply(f, cells), field.multiply(i, field.hashed("tanh", new)))
    return field.multiply(o, field.hashed("tanh", cells)), cells


@_cell("GRU")
def _gru(work: FieldCall, x: Elements, weights: Elements, h: Elements, cells: None, shift: Any) -> Any:
    field = work.field
    (*of_gates, of_new), (*parts, new) = np.split(weights, 3, -1), np.split(x, 3, -1)
    sums = (field.add(part, field.product(h, of)) for part, of in zip(parts, of_gates, strict=True))
    z, r = (field.hashed("sigmoid", each) for each in sums)
    reset_first = work.call.integer("reset_first")
    inner = field.product(field.multiply(r, h) if reset_first else h, of_new)
    if shift is not None:
        inner = field.add(*aligned(inner, shift))
    new = field.hashed("tanh", field.add(new, inner if reset_first else field.multiply(r, inner)))
    return field.add(new, field.multiply(z, field.subtract(h, new))), None


@means("Relu")
def _relu(work: FieldCall, x: Elements) -> Elements:
    return work.field.larger(x, work.like(0.0, x))


@means("Where", of_made=True)
def _where(work: FieldCall, condition: Any, a: Elements, b: Elements) -> Elements:
    """``condition`` holds truth values, or elements that are 1 or 0."""
    made = is_elements(condition)
    chosen = work.field.truth(condition) if made else condition[None]
    unknown = np.isnan(condition) if made else np.zeros_like(chosen)
    rank = max(chosen.ndim, a.ndim, b.ndim)
    parts = [x.reshape(x.shape[0], *(1,) * (rank - x.ndim), *x.shape[1:]) for x in (chosen, a, b, unknown)]
    return np.where(parts[3], np.nan, np.where(*parts[:3]))


def _relation(name: str) -> Rule:
    return lambda work, a, b: work.field.holds(name, *aligned(a, b))


@means("Cast", of_made=True)
def _cast(work: FieldCall, x: Any) -> Elements:
    """Cast to another format, which changes no float; truth values become 1 and 0, bytes numbers."""
    if not is_elements(x):
        raise NotFollowed("a cast of integers")
    if not work.call.outputs or work.call.attrs.get("to") not in _FLOAT_TYPES:
        raise NotFollowed("a cast of floats to integers")
    return work.field.add(x, np.full_like(x, float(OFFSET))) if work.call.tensor(0).dtype == "uint8" else x


_FLOAT_TYPES = (1, 10, 16)
"""ONNX's numbers of float32, float16 and bfloat16."""


means("Equal")(_relation("eq"))
means("Greater")(_relation("gt"))
means("GreaterOrEqual")(_relation("ge"))
means("Less")(_relation("lt"))
means("LessOrEqual")(_relation("le"))
means("Add", "Sum")(_binary(PrimeField.add))
means("Sub")(_binary(PrimeField.subtract))
means("Mul")(_binary(PrimeField.multiply))
means("Div")(_binary(lambda field, a, b: field.multiply(a, field.inverse(b))))
means("Max")(_binary(PrimeField.larger))
means("Min")(_binary(lambda field, a, b: field.larger(a, b, -1)))
means("Neg")(lambda work, x: -x)
means("ReduceSum")(_reduction("sum"))
means("ReduceMean")(_reduction("mean"))
means("ReduceMax")(_reduction("max"))
means("ReduceMin")(_reduction("min"))
