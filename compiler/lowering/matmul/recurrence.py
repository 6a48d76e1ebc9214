"""Computes a recurrent layer in one phase: weights and state stay in the scratchpad, and the steps are a
loop.

The products that do not depend on the state were computed before, for all steps at once. Tiles divide the
rows of the batch, which are independent. The gates of a row are adjacent planes, so that one instruction
computes all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Argument, Kernel
from compiler.codegen.slices.aligned import (
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
from compiler.codegen.slices.tensors import BLOCK, Stretch, stretches
from compiler.codegen.slices.vector import Vector, convert
from compiler.codegen.spm import SpmOverflow
from compiler.graph import Array
from compiler.lowering.record import Engine, Work, lowering
from compiler.operators.recurrent.recurrence import GATES
from tx8isa.numbers.division import ceil_div
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import Layout
from tx8isa.numbers.packing import pack

_MOST_BLOCK_ROWS = 512
_RESERVED_BYTES = 4096
"""Scratchpad bytes for the ends of lines that buffers do not fill."""


@lowering("Recurrence", engines=(Engine.MATRIX, Engine.VECTOR))
def recurrence(kernel: Kernel, work: Work) -> None:
    """Computes the layer for blocks of rows of the batch; a block is one operand of the matrix engine."""
    batch, columns = work.input(0).shape[1:]
    hidden = work.input(1).shape[0]
    loaders = _weight_loaders(kernel, work)
    first = 0
    for stretch in stretches(batch, _block_rows(kernel, work, batch, hidden, columns)):
        with kernel.items(stretch.count, first) as item:
            begin = kernel.let(item * stretch.size + stretch.start)
            layer = _LayerCode(kernel, work, begin, stretch, [load(kernel) for load in loaders])
            layer.run()
        first += stretch.count


_Loader = Callable[[Kernel], Value]
"""Emits a load; returns the address."""


def _weight_loaders(kernel: Kernel, work: Work) -> list[_Loader]:
    """Loaders of the recurrent weights R in the format of the matrix engine, two parts for FP32."""
    matrix, fmt = work.input(1), engine_format(work.output.fmt)

    def image(part: int) -> Array:
        data = constant_parts(np.asarray(matrix.value), work.output.fmt)[part]
        return np.asarray(pack(np.ascontiguousarray(data), fmt, Layout.CX).view(data.dtype))

    def load(symbol: Value, kernel: Kernel) -> Value:
        address = kernel.buffer("weights", matrix.size * fmt.bits // 8)
        kernel.emit(f"rdma.{fmt.token}", dst=address, src=symbol, n=matrix.size)
        return address

    parts = range(part_count(work.output.fmt))
    symbols = [kernel.lazy_constant("weights", fmt, matrix.size, partial(image, part)) for part in parts]
    return [partial(load, symbol) for symbol in symbols]


def _block_rows(kernel: Kernel, work: Work, batch: int, hidden: int, columns: int) -> int:
    """Rows of a block: equally many for all tiles, or as many as fit with the weights."""
    fmt, parts = work.output.fmt, part_count(work.output.fmt)
    left = kernel.budget - parts * hidden * columns * engine_format(fmt).bits // 8 - _RESERVED_BYTES
    rows = min(ceil_div(batch, kernel.target.tiles), _MOST_BLOCK_ROWS)

    def need(rows: int) -> int:
        gates = 2 * aligned_bytes(rows, columns, fmt) + 2 * aligned_bytes(rows, columns, Format.FP32)
        return gates + 12 * aligned_bytes(rows, hidden, Format.FP32)

    while rows > 1 and need(rows) > left:
        rows = ceil_div(rows, 2)
    if need(rows) > left:
        raise SpmOverflow(f"the weights of {hidden} hidden units do not fit the SPM")
    return rows


@dataclass
class _LayerCode:
    """The code of all steps for a block of rows."""

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
        """Write all steps in their order; an LSTM stores its cells after the last state."""
        kernel = self.kernel
        state = self._initial(2, "state")
        memory = state
        if self.kind != "RNN":
            memory = self._fp32_copy("memory", self._initial(3, "cells") if self.kind == "LSTM" else state)
        shift = self._shift() if self.kind == "GRU" and self.work.has(4) else None
        with kernel.loop(self.steps) as iteration:
            time = (
                kernel.let(self.steps - 1 - iteration) if self.work.spec.integer("backwards") else iteration
            )
            first = (time * self.batch + self.begin) * self.columns
            x = load_aligned(kernel, "x", self.work.input(0), first, self.columns, self.grid, self.columns)
            gates = widened_slice(kernel, x.at(kernel.let(x.base), x.fmt))
            gates = gates.at(kernel.let(gates.base), gates.fmt)
            new_state = _CELLS[self.kind](self, gates, state, memory, shift)
            self.round(new_state, state)
            self._store(state, time)
        if self.kind == "LSTM":
            self._store(narrowed_slice(kernel, memory, self.fmt), self.steps)

    def _initial(self, operand: int, name: str) -> Aligned:
        first = self.begin * self.hidden
        tensor = self.work.input(operand)
        return load_aligned(self.kernel, name, tensor, first, self.hidden, self.grid, self.hidden)

    def _fp32_copy(self, name: str, source: Aligned) -> Aligned:
        """A copy in FP32 that stays in the scratchpad for all steps."""
        copy = slice_buffer(self.kernel, name, Format.FP32, self.grid, self.hidden)
        self._copy_words(copy.base, widened_slice(self.kernel, source).base)
        return copy

    def _copy_words(self, target: Value, source: Value) -> None:
        self.vector.vs("add", target, source, -0.0)

    def _shift(self) -> Value:
        vector = vector_in_ddr(self.kernel, "shift_data", self.work.input(4))
        return load_vector(self.kernel, "shift", vector, 0, self.hidden)

    def round(self, new_state: Value, state: Aligned) -> None:
        if self.fmt is Format.FP32:
            self._copy_words(state.base, new_state)
        else:
            convert(self.kernel, state.base, new_state, self.words, Format.FP32, self.fmt)

    def _store(self, data: Aligned, row: Value) -> None:
        first = (row * self.batch + self.begin) * self.hidden
        store_aligned(self.kernel, data, self.work.output, first, self.hidden)

    def product(self, state: Aligned, out: Value, gates: range, accumulate: bool) -> None:
        """out = H R for some gates, added to ``out`` if ``accumulate``."""
        fmt = engine_format(self.fmt)
        skipped = gates.start * self.hidden * self.hidden * fmt.bits // 8
        left_operand = [piece.base for piece in split(self.kernel, state)]
        right = [part + skipped for part in self.weights]
        sizes: dict[str, Argument] = {"m": self.rows.size, "n": len(gates) * self.hidden, "k": self.hidden}
        multiply_parts(
            self.kernel,
            f"ne.gemm.{fmt.token}",
            ("a", left_operand),
            ("b", right),
            out,
            accumulate,
            {**sizes, "rt": 1, "out_format": "fp32"},
        )

    def gate_address(self, gates: Aligned, number: int) -> Value:
        """The address of the first plane of a gate."""
        return gates.plane(number * self.hidden // BLOCK)

    def gate_vector(self, count: int) -> Vector:
        """Instructions over ``count`` gates."""
        return Vector(self.kernel, Format.FP32, count * self.words)


_Cell = Callable[[_LayerCode, Aligned, Aligned, Aligned, Value | None], Value]
_CELLS: dict[str, _Cell] = {}


def _cell(kind: str) -> Callable[[_Cell], _Cell]:
    """Decorator: the function computes the new state of cells of a kind from their gates."""

    def register(function: _Cell) -> _Cell:
        _CELLS[kind] = function
        return function

    return register


@_cell("RNN")
def _rnn(layer: _LayerCode, gates: Aligned, state: Aligned, memory: Aligned, shift: Value | None) -> Value:
    """Code of a simple RNN: one gate, whose tanh is the new state."""
    layer.product(state, gates.base, range(1), True)
    layer.vector.unary("tanh", gates.base, gates.base)
    return gates.base


@_cell("LSTM")
def _lstm(layer: _LayerCode, gates: Aligned, state: Aligned, memory: Aligned, shift: Value | None) -> Value:
    """Code of an LSTM: gates i, o, f, c; ``memory`` has the cells."""
    vector = layer.vector
    layer.product(state, gates.base, range(4), True)
    i, o, f, c = (layer.gate_address(gates, number) for number in range(4))
    layer.gate_vector(3).unary("sigmoid", i, i)
    vector.unary("tanh", c, c)
    vector.vv("mul", memory.base, memory.base, f)
    vector.vv("mul", c, c, i)
    vector.vv("add", memory.base, memory.base, c)
    vector.unary("tanh", c, memory.base)
    vector.vv("mul", c, c, o)
    return c


@_cell("GRU")
def _gru(layer: _LayerCode, gates: Aligned, state: Aligned, memory: Aligned, shift: Value | None) -> Value:
    """Code of a GRU: gates z, r, h. ``memory`` has the state in FP32; ``shift`` is added to the product with
    the state."""
    kernel, vector = layer.kernel, layer.vector
    layer.product(state, gates.base, range(2), True)
    z, r, h = (layer.gate_address(gates, number) for number in range(3))
    inner = slice_buffer(kernel, "inner", Format.FP32, layer.grid, layer.hidden)
    reset_first = bool(layer.work.spec.integer("reset_first"))
    if not reset_first:
        layer.product(state, inner.base, range(2, 3), False)
    layer.gate_vector(2).unary("sigmoid", z, z)
    if reset_first:
        vector.vv("mul", r, r, memory.base)
        reset = slice_buffer(kernel, "reset", layer.fmt, layer.grid, layer.hidden)
        layer.round(r, reset)
        layer.product(reset, inner.base, range(2, 3), False)
    if shift is not None:
        per_channel(kernel, "add", inner, shift)
    if not reset_first:
        vector.vv("mul", inner.base, inner.base, r)
    vector.vv("add", h, h, inner.base)
    vector.unary("tanh", h, h)
    vector.vv("sub", memory.base, memory.base, h)
    vector.vv("mul", memory.base, memory.base, z)
    vector.vv("add", memory.base, memory.base, h)
    return memory.base


assert set(_CELLS) == set(GATES)
