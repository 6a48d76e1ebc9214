"""The sums in the results of nodes: the terms that an element has, and sums of some of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.operators.reductions.axes import reduced_axes
from compiler.operators.windows.conv import conv_window
from tx8isa.numbers.prime_field import Elements, PrimeField

from .rules import RULES, FieldCall, scaled, windows

Places = npt.NDArray[np.int64]
"""Numbers of elements of an operand, in the order of memory; -1: none, but a zero of the padding."""
Index = tuple[int, ...]
Times = Callable[[Elements], Elements]


@dataclass(frozen=True)
class Part:
    """A sum that is a summand of an element: of products of two operands' elements, or of elements of one."""

    operands: Index
    """The numbers of the operands, each of which gives a factor of every term."""
    places: tuple[Places, ...]
    """For each operand the places [terms] of the factors of the element."""
    axes: Index
    """The axes of the last operand along which the terms differ."""
    total: Callable[..., Elements]
    """The sums of all elements of the result, from the operands."""
    orders: tuple[Places, ...]
    """The orders of terms in which programs add up."""
    scaled: Times = lambda terms: terms
    """Multiplies terms by the factor that all of them have."""

    def terms(self, field: PrimeField, factors: Sequence[Elements], places: Sequence[Places]) -> Elements:
        """The terms [residues, terms] from factors at given places of the operands."""
        return self.scaled(reduce(field.multiply, map(taken, factors, places)))

    def of_terms(self, factors: Sequence[Elements], chosen: Places) -> Elements:
        """The sums of all elements, with some of the terms alone."""
        shape = factors[-1].shape[1:] or (1,)
        where = np.unravel_index(self.places[-1][chosen], shape)
        mask = np.zeros([extent if axis in self.axes else 1 for axis, extent in enumerate(shape)], np.bool_)
        mask[tuple(at if axis in self.axes else 0 for axis, at in enumerate(where))] = True
        return self.total(*factors[:-1], np.where(mask, factors[-1], 0.0))


def taken(x: Elements, places: Places) -> Elements:
    """The elements [residues, places]; 0 where a place is -1."""
    flat = x.reshape(x.shape[0], -1)
    return np.where(places < 0, 0.0, flat[:, np.maximum(places, 0)])


def shifted(places: Places, size: int, by: int) -> Places:
    """The places of elements that are ``by`` further in memory; -1 outside of an operand of ``size``."""
    further = places + by
    return np.where((places < 0) | (further < 0) | (further >= size), -1, further)


_Parts = Callable[..., Iterator[Part]]
_PARTS: dict[str, _Parts] = {}


def _adds_up(op: str) -> Callable[[_Parts], _Parts]:
    """Decorator that registers the sums in the results of an operator."""

    def register(found: _Parts) -> _Parts:
        _PARTS[op] = found
        return found

    return register


def parts(work: FieldCall, op: str, operands: Sequence[Any], shape: Index, index: Index) -> Iterator[Part]:
    """The sums in an element of a node's only result; none for an operator without sums."""
    if op in _PARTS:
        yield from _PARTS[op](work, operands, shape, index)


def _numbers(x: Elements) -> Places:
    """The places of an operand's elements, in its shape."""
    return np.arange(x[0].size).reshape(x.shape[1:])


def _in_order(count: int) -> tuple[Places]:
    return (np.arange(count),)


def _rule(work: FieldCall, op: str) -> Callable[..., Elements]:
    """An operator without the addends that it takes besides a product."""
    return lambda *factors: RULES[op](work, *factors)


@_adds_up("MatMul")
def _matmul(work: FieldCall, operands: Sequence[Any], shape: Index, index: Index) -> Iterator[Part]:
    a, b = (_numbers(x) for x in operands)
    batch, (row, column) = index[:-2], index[-2:]
    left = np.broadcast_to(a, (*shape[:-2], *a.shape[-2:]))[batch][row]
    right = np.broadcast_to(b, (*shape[:-2], *b.shape[-2:]))[batch][:, column]
    yield Part((0, 1), (left, right), (b.ndim - 2,), _rule(work, "MatMul"), _in_order(left.size))


@_adds_up("Gemm")
def _gemm(work: FieldCall, operands: Sequence[Any], shape: Index, index: Index) -> Iterator[Part]:
    a, b = (_numbers(x) for x in operands[:2])
    row, column = index
    left = a[:, row] if work.call.integer("transA") else a[row]
    axis = work.call.integer("transB")
    right = b[column] if axis else b[:, column]
    orders, times = _in_order(left.size), partial(scaled, work, name="alpha")
    yield Part((0, 1), (left, right), (axis,), _rule(work, "Gemm"), orders, times)
    if len(operands) > 2 and operands[2] is not None:
        yield _addend(2, operands[2].shape[1:], shape, index, partial(scaled, work, name="beta"))


@_adds_up("Conv")
def _conv(work: FieldCall, operands: Sequence[Any], shape: Index, index: Index) -> Iterator[Part]:
    x, w = operands[:2]
    batch, row, *position = index
    window, group = conv_window(work.call), work.call.integer("group")
    channels, taps = w.shape[2], int(np.prod(w.shape[3:]))
    image = windows(window, _numbers(x)[None].astype(np.float64), -1.0)[0, batch]
    first = row // (shape[1] // group) * channels
    place: Any = (slice(first, first + channels), slice(None), *position)
    left = image[place].astype(np.int64).ravel()
    by_taps = np.arange(left.size).reshape(channels, taps).T.ravel()
    orders = (*_in_order(left.size), by_taps) if channels > 1 and taps > 1 else _in_order(left.size)
    axes = tuple(range(1, w.ndim - 1))
    yield Part((0, 1), (left, _numbers(w)[row].ravel()), axes, _rule(work, "Conv"), orders)
    if len(operands) > 2 and operands[2] is not None:
        yield _addend(2, (shape[1], *(1,) * len(position)), shape, index)


def _addend(at: int, own: Index, shape: Index, index: Index, times: Times = lambda terms: terms) -> Part:
    """An operand that broadcasts to the result; in its ``own`` shape."""
    place = np.broadcast_to(np.arange(math.prod(own)).reshape(own), shape)[index]

    def total(x: Elements) -> Elements:
        view = x.reshape(x.shape[0], *(1,) * (len(shape) - len(own)), *own)
        return np.broadcast_to(times(view), (x.shape[0], *shape))

    return Part((at,), (np.array([place]),), (), total, _in_order(1), times)


@_adds_up("Add")
@_adds_up("Sum")
def _sum(work: FieldCall, operands: Sequence[Any], shape: Index, index: Index) -> Iterator[Part]:
    for at, x in enumerate(operands):
        yield _addend(at, x.shape[1:], shape, index)


@_adds_up("ReduceSum")
def _total(work: FieldCall, operands: Sequence[Any], shape: Index, index: Index) -> Iterator[Part]:
    yield _reduced(work, "ReduceSum", operands[0], index)


@_adds_up("ReduceMean")
def _mean(work: FieldCall, operands: Sequence[Any], shape: Index, index: Index) -> Iterator[Part]:
    part = _reduced(work, "ReduceMean", operands[0], index)
    yield replace(part, scaled=partial(_over, work.field, part.places[0].size))


def _reduced(work: FieldCall, op: str, x: Elements, index: Index) -> Part:
    axes, rest = reduced_axes(work.call), iter(index)
    kept = work.call.integer("keepdims")
    where = [next(rest) if kept or axis not in axes else 0 for axis in range(x.ndim - 1)]
    place: Any = tuple(slice(None) if axis in axes else at for axis, at in enumerate(where))
    own = _numbers(x)[place].ravel()
    return Part((0,), (own,), axes, _rule(work, op), _in_order(own.size))


def _over(field: PrimeField, count: int, terms: Elements) -> Elements:
    """Terms over their number."""
    return field.multiply(terms, field.inverse(np.full_like(terms, float(count))))
