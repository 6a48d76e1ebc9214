"""A recurrent layer as one phase: weights and state stay in the scratchpad, the steps are a loop.

What does not depend on the state was multiplied before for all steps. Rows of the batch are independent of
each other and dealt to tiles; the gates of a row are planes side by side, so one instruction serves them all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Argument, Kernel
from compiler.codegen.slices.aligned import (
    BLOCK,
    Aligned,
    Grid,
    aligned_bytes,
    load_aligned,
    load_vector,
    narrowed_slice,
    per_channel,
    slice_buffer,
    store_aligned,
    widened_slice,
)
from compiler.codegen.slices.aligned import channel_vector as vector_in_ddr
from compiler.codegen.slices.precision import constant_parts, engine_format, multiply_parts, part_count, split
from compiler.codegen.slices.tensors import Stretch, stretches
from compiler.codegen.slices.vector import Vector, convert
from compiler.codegen.spm import SpmOverflow
from compiler.graph import Array
from compiler.operators.recurrent.recurrence import GATES
from tx8isa.numbers.division import ceil_div
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import Layout
from tx8isa.numbers.packing import pack

from .record import Work, lowering

_WORD = 4
_MOST_ROWS = 512
_RESERVED_BYTES = 4096
"""Scratchpad bytes for the ends of lines that buffers do not fill."""


@lowering("Recurrence")
def recurrence(kernel: Kernel, work: Work) -> None:
    """The rows of a block are one operand of the matrix engine."""
    batch, columns = work.input(0).shape[1:]
    hidden = work.input(1).shape[0]
    weights = _weights(kernel, work)
    first = 0
    for stretch in stretches(batch, _rows(kernel, work, batch, hidden, columns)):
        with kernel.items(stretch.count, first) as item:
            begin = kernel.let(item * stretch.size + stretch.start)
            layer = _Layer(kernel, work, begin, stretch, [address(kernel) for address in weights])
            layer.run()
        first += stretch.count


Loader = Callable[[Kernel], Value]


def _weights(kernel: Kernel, work: Work) -> list[Loader]:
    """What loads R as the matrix engine takes it, of FP32 in two parts."""
    matrix, fmt = work.input(1), engine_format(work.output.fmt)

    def image(part: int) -> Array:
        data = constant_parts(np.asarray(matrix.value), work.output.fmt)[part]
        return np.asarray(pack(np.ascontiguousarray(data), fmt, Layout.CX).view(data.dtype))

    def load(symbol: Value, kernel: Kernel) -> Value:
        place = kernel.buffer("weights", matrix.size * fmt.bits // 8)
        kernel.emit(f"rdma.{fmt.token}", dst=place, src=symbol, n=matrix.size)
        return place

    parts = range(part_count(work.output.fmt))
    symbols = [kernel.constant_made("weights", fmt, matrix.size, partial(image, part)) for part in parts]
    return [partial(load, symbol) for symbol in symbols]


def _rows(kernel: Kernel, work: Work, batch: int, hidden: int, columns: int) -> int:
    """Rows of a block: an even share of the tiles, or what fits beside the weights."""
    fmt, parts = work.output.fmt, part_count(work.output.fmt)
    left = kernel.budget - parts * hidden * columns * engine_format(fmt).bits // 8 - _RESERVED_BYTES
    rows = min(ceil_div(batch, kernel.target.tiles), _MOST_ROWS)

    def need(rows: int) -> int:
        gates = 2 * aligned_bytes(rows, columns, fmt) + 2 * aligned_bytes(rows, columns, Format.FP32)
        return gates + 12 * aligned_bytes(rows, hidden, Format.FP32)

    while rows > 1 and need(rows) > left:
        rows = ceil_div(rows, 2)
    if need(rows) > left:
        raise SpmOverflow(f"the weights of {hidden} hidden units do not fit the SPM")
    return rows


@dataclass
class _Layer:
    """The code of all steps for some rows; ``state`` is H as the next product takes it."""

    kernel: Kernel
    work: Work
    begin: Value
    rows: Stretch
    weights: list[Value]

    def __post_init__(self) -> None:
        source, self.hidden = self.work.input(0), self.work.input(1).shape[0]
        self.steps, self.batch, self.columns = source.shape
        self.kind = self.work.spec.string("kind")
        self.fmt = self.work.output.fmt
        self.grid = Grid(self.rows.size, 1, self.rows.size)
        self.words = self.rows.size * self.hidden

    @property
    def vector(self) -> Vector:
        """Instructions over one value for each row and unit."""
        return Vector(self.kernel, Format.FP32, self.words)

    def run(self) -> None:
        """The steps in their order; of an LSTM the cells behind them."""
        kernel = self.kernel
        state = self._initial(2, "state")
        memory = state
        if self.kind != "RNN":
            memory = self._kept("memory", self._initial(3, "cells") if self.kind == "LSTM" else state)
        shift = self._shift() if self.kind == "GRU" and self.work.has(4) else None
        with kernel.loop(self.steps) as turn:
            time = kernel.let(self.steps - 1 - turn) if self.work.spec.integer("backwards") else turn
            first = (time * self.batch + self.begin) * self.columns
            x = load_aligned(kernel, "x", self.work.input(0), first, self.columns, self.grid, self.columns)
            gates = widened_slice(kernel, x.at(kernel.let(x.base), x.fmt))
            gates = gates.at(kernel.let(gates.base), gates.fmt)
            made = _CELLS[self.kind](self, gates, state, memory, shift)
            self._round(made, state)
            self._store(state, time)
        if self.kind == "LSTM":
            self._store(narrowed_slice(kernel, memory, self.fmt), self.steps)

    def _initial(self, operand: int, name: str) -> Aligned:
        first = self.begin * self.hidden
        tensor = self.work.input(operand)
        return load_aligned(self.kernel, name, tensor, first, self.hidden, self.grid, self.hidden)

    def _kept(self, name: str, source: Aligned) -> Aligned:
        """A copy in FP32 that lives from step to step."""
        kept = slice_buffer(self.kernel, name, Format.FP32, self.grid, self.hidden)
        self._into(kept.base, widened_slice(self.kernel, source).base)
        return kept

    def _into(self, target: Value, source: Value) -> None:
        self.vector.vs("add", target, source, -0.0)

    def _shift(self) -> Value:
        vector = vector_in_ddr(self.kernel, "shift_data", self.work.input(4))
        return load_vector(self.kernel, "shift", vector, 0, self.hidden)

    def _round(self, made: Value, state: Aligned) -> None:
        if self.fmt is Format.FP32:
            self._into(state.base, made)
        else:
            convert(self.kernel, state.base, made, self.words, Format.FP32, self.fmt)

    def _store(self, data: Aligned, row: Value) -> None:
        first = (row * self.batch + self.begin) * self.hidden
        store_aligned(self.kernel, data, self.work.output, first, self.hidden)

    def product(self, state: Aligned, out: Value, gates: range, accumulate: bool) -> None:
        """out = H R of some gates, added to what is there with ``accumulate``."""
        fmt = engine_format(self.fmt)
        skipped = gates.start * self.hidden * self.hidden * fmt.bits // 8
        left = [piece.base for piece in split(self.kernel, state)]
        right = [part + skipped for part in self.weights]
        sizes: dict[str, Argument] = {"m": self.rows.size, "n": len(gates) * self.hidden, "k": self.hidden}
        multiply_parts(
            self.kernel,
            f"ne.gemm.{fmt.token}",
            ("a", left),
            ("b", right),
            out,
            accumulate,
            {**sizes, "rt": 1, "out_format": "fp32"},
        )

    def gate(self, gates: Aligned, number: int) -> Value:
        """Where the planes of a gate are."""
        return gates.plane(number * self.hidden // BLOCK)

    def several(self, count: int) -> Vector:
        """Instructions over ``count`` gates."""
        return Vector(self.kernel, Format.FP32, count * self.words)


def _rnn(layer: _Layer, gates: Aligned, state: Aligned, memory: Aligned, shift: Value | None) -> Value:
    layer.product(state, gates.base, range(1), True)
    layer.vector.unary("tanh", gates.base, gates.base)
    return gates.base


def _lstm(layer: _Layer, gates: Aligned, state: Aligned, memory: Aligned, shift: Value | None) -> Value:
    """Gates i, o, f, c; ``memory`` has the cells."""
    v = layer.vector
    layer.product(state, gates.base, range(4), True)
    i, o, f, c = (layer.gate(gates, number) for number in range(4))
    layer.several(3).unary("sigmoid", i, i)
    v.unary("tanh", c, c)
    v.vv("mul", memory.base, memory.base, f)
    v.vv("mul", c, c, i)
    v.vv("add", memory.base, memory.base, c)
    v.unary("tanh", c, memory.base)
    v.vv("mul", c, c, o)
    return c


def _gru(layer: _Layer, gates: Aligned, state: Aligned, memory: Aligned, shift: Value | None) -> Value:
    """Gates z, r, h; ``memory`` has the state in FP32, ``shift`` is added inside the product with r."""
    kernel, v = layer.kernel, layer.vector
    layer.product(state, gates.base, range(2), True)
    z, r, h = (layer.gate(gates, number) for number in range(3))
    inner = slice_buffer(kernel, "inner", Format.FP32, layer.grid, layer.hidden)
    layer.product(state, inner.base, range(2, 3), False)
    layer.several(2).unary("sigmoid", z, z)
    if shift is not None:
        per_channel(kernel, "add", inner, shift)
    v.vv("mul", inner.base, inner.base, r)
    v.vv("add", h, h, inner.base)
    v.unary("tanh", h, h)
    v.vv("sub", memory.base, memory.base, h)
    v.vv("mul", memory.base, memory.base, z)
    v.vv("add", memory.base, memory.base, h)
    return memory.base


_CELLS = {"RNN": _rnn, "LSTM": _lstm, "GRU": _gru}
assert set(_CELLS) == set(GATES)
