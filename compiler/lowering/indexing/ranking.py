"""TopIndices: the largest elements of each row, found one by one by the vector engine.

A row is in the scratchpad. An instruction returns the place of its largest element. The core then replaces
that element by NaN, which the instruction never selects while a number is left. Before that, a NaN becomes
the infinity that ranks last, and zeros get equal signs. The core alone compares the elements of short rows,
of other axes than the last one, and of integers. It does so too if the last of equal elements is wanted.
"""

from __future__ import annotations

import math

from compiler.codegen import DEFAULT_TILES
from compiler.codegen.expr import Value, Variable, minimum
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.scalar import ScalarCode
from compiler.codegen.slices.vector import Vector
from compiler.evaluation.sizes import always, here, least, most
from compiler.graph import FLOATS
from compiler.lowering.record import EVERY_TYPE, Engine, Work, lowering
from compiler.operators.record import Call
from compiler.operators.types import axis_of
from tx8isa.cost.busy import busy_cycles
from tx8isa.numbers.division import ceil_div, round_up
from tx8isa.numbers.formats import EXPONENT_BITS, Format
from tx8isa.numbers.layouts import LINE_BYTES
from tx8isa.table.packets import WRITE_BACK

_FEWEST_ELEMENTS = 16
"""Least elements of a row for which the engine finds the largest element faster than the core."""
_FEWEST_COMPARED = 256
"""Elements beyond the fewest of each row, in all searches of a tile, that pay for the first commands."""
_LOADING = 1
"""The worker of the engines that loads a slice while worker 0 searches another."""


def _is_for_core(call: Call) -> bool:
    """for integers, in few or short rows, along other axes than the last, for the last of equal elements"""
    axis, shape = axis_of(call), call.shape(0)
    if call.tensor(0).dtype not in FLOATS or call.integer("last"):
        return True
    if not always(math.prod(shape[axis + 1 :]) == 1):
        return True
    searches = ceil_div(math.prod(shape[:axis]), DEFAULT_TILES) * call.integer("count")
    return bool(searches * (shape[axis] - _FEWEST_ELEMENTS) < _FEWEST_COMPARED)


@lowering("TopIndices", types=EVERY_TYPE, engines=(Engine.VECTOR,), on_core=_is_for_core, core_reads=True)
def top_indices(kernel: Kernel, work: Work) -> None:
    """The engine for rows that the scratchpad holds. If the number of indices is an operand, zeros follow."""
    ranking = _Ranking(kernel, work)
    size = 0 if _is_for_core(work.spec) else ranking.rows_at_once()
    if size < 1:
        ranking.by_core()
    else:
        ranking.by_engine(size)


class _Ranking:
    """The rows of one phase: ``wanted`` indices of each."""

    def __init__(self, kernel: Kernel, work: Work) -> None:
        self.kernel, self.core = kernel, ScalarCode(kernel)
        self.source, self.target = work.input(0), work.output
        axis = axis_of(work.spec)
        self.extent, self.inner = self.source.shape[axis], math.prod(self.source.shape[axis + 1 :])
        self.rows, self.wanted = self.source.size // self.extent, self.target.shape[axis]
        self.largest, self.last = bool(work.spec.integer("largest")), bool(work.spec.integer("last"))
        self.count = work.input(1) if work.has(1) else None

    def rows_at_once(self) -> int:
        """Rows of a slice: half of a tile's rows if that saves time, at most as many as half of the
        scratchpad holds.

        0 if a row is too long.
        """
        kernel, source, timing = self.kernel, self.source, self.kernel.target.machine.timing
        share = ceil_div(self.rows, kernel.target.tiles)
        half = ceil_div(share, 2)
        core, issue = timing.core, timing.issue
        again = issue.rdma.value + 2 * issue.ct.value + core.join.value + core.join_worker.value
        n = here(half * self.extent)
        if busy_cycles(f"rdma.{source.fmt.token}", kernel.target.machine, n=n) > again:
            share = half
        room = kernel.budget // 2 - LINE_BYTES
        rows: int = least(share, room // (most(self.extent) * source.bytes_each))
        return rows

    def by_engine(self, size: int) -> None:
        """Search slices of ``size`` rows; a worker of the engines loads the next slice at the same time."""
        kernel, tiles, blocks = self.kernel, self.kernel.target.tiles, ceil_div(self.rows, size)
        room = round_up(size * self.extent * self.source.bytes_each, LINE_BYTES)
        slices = kernel.buffer("rows", 2 * room if blocks > tiles else room)
        if self.count:
            self.core.acquire()
        found = self._found()
        with kernel.if_below(kernel.tile, blocks):
            self._load(kernel.tile, size, slices)
        with kernel.items(blocks) as item:
            if blocks > tiles:
                kernel.await_worker(_LOADING)
                with kernel.if_below(item + tiles, blocks), kernel.on_worker(_LOADING):
                    self._load(item + tiles, size, slices + (item // tiles + 1) % 2 * room)
            begin, data = kernel.let(item * size), kernel.let(slices + item // tiles % 2 * room)
            with kernel.loop(kernel.let(minimum(size, self.rows - begin))) as row:
                self._rank(data, row, kernel.let((begin + row) * self.wanted), found)
        self.core.emit("fence")

    def _load(self, item: Value, size: int, place: Value) -> None:
        """Load a slice, and make its elements comparable."""
        kernel, source, begin = self.kernel, self.source, item * size
        n = kernel.let(minimum(size, self.rows - begin) * self.extent)
        kernel.emit(f"rdma.{source.fmt.token}", dst=place, src=source.at(begin * self.extent), n=n)
        vector = Vector(kernel, source.fmt, n)
        if self.largest:
            vector.vs("max", place, place, -math.inf)
        else:
            vector.vs("min", place, place, math.inf)
        vector.vs("add", place, place, 0.0)

    def _rank(self, data: Value, row: Value, out: Value, found: Value) -> None:
        """Find the ``found`` largest elements of a row of a slice one after the other."""
        kernel, core, source = self.kernel, self.core, self.source
        name = "argmax" if self.largest else "argmin"
        with kernel.loop(found) as place:
            start = kernel.let(data + row * (self.extent * source.bytes_each))
            kernel.emit(f"ct.{name}.{source.fmt.token}", src0=start, n=self.extent)
            kernel.await_worker(0)
            index = self._returned()
            core.store(self.target, out + place, index.register, past_cache=True)
            if not always(self.wanted == 1):
                core.store_in_scratchpad(start + index * source.bytes_each, source.fmt, core.number(-1))
        self._zeros(out, found)

    def _returned(self) -> Variable:
        """The index that an instruction has returned."""
        machine = self.kernel.target.machine
        index = self.core.number(machine.windows.ncc)
        self.core.emit("lw", index, f"{WRITE_BACK[1].register}({index})")
        return Variable(index, 0, self.extent - 1)

    def by_core(self) -> None:
        """Sweep over the axis once for each index, which is the best element not found before."""
        core, kernel, extent, inner = self.core, self.kernel, self.extent, self.inner
        with core.elements(self.rows, 1) as number:
            outer, rest = kernel.let(number // inner), kernel.let(number % inner)
            start = kernel.let(outer * (extent * inner) + rest)
            out = kernel.let(outer * (self.wanted * inner) + rest)
            bound, previous = core.number(0), core.number(-1)
            found = self._found()
            with kernel.loop(found) as place:
                best, chosen = core.number(0), core.number(-1)
                with kernel.loop(extent) as at:
                    self._compare(start + at * inner, at, (bound, previous), (best, chosen))
                core.store(self.target, out + place * inner, chosen, past_cache=True)
                core.emit("mv", bound, best)
                core.emit("mv", previous, chosen)
            self._zeros(out, found)

    def _compare(self, element: Value, at: Value, before: tuple[str, str], best: tuple[str, str]) -> None:
        """Keep an element that is better than the best one and was not found before: its key and its
        place."""
        core = self.core
        key = core.load(self.source, element)
        self._replace_nan(key)
        sortable(core, key, self.source.fmt, self.largest)
        where = self.kernel.registers.compute(at)
        core.emit("bltz", before[1], "2f")
        core.emit("bgt", key, before[0], "9f")
        core.emit("blt", key, before[0], "2f")
        core.emit("ble", where, before[1], "9f")
        core.kernel.out.label("2")
        core.emit("bltz", best[1], "3f")
        core.emit("blt" if self.last else "ble", key, best[0], "9f")
        core.kernel.out.label("3")
        core.emit("mv", best[0], key)
        core.emit("mv", best[1], where)
        core.kernel.out.label("9")

    def _replace_nan(self, key: str) -> None:
        """Replace a NaN by the bits of the infinity that is found last."""
        core, fmt = self.core, self.source.fmt
        if fmt.is_float:
            sign = 1 << (fmt.bits - 1)
            infinity = sign - (sign >> EXPONENT_BITS[fmt])
            with self.kernel.registers.scope():
                magnitude, limit = core.register(), core.number(infinity)
                core.emit("li", magnitude, str(sign - 1))
                core.emit("and", magnitude, magnitude, key)
                core.emit("ble", magnitude, limit, "1f")
                core.emit("li", key, str(infinity - sign if self.largest else infinity))
                core.kernel.out.label("1")

    def _found(self) -> Value:
        """Number of indices that a row has; zeros follow."""
        return Variable(self.core.load(self.count, 0), 0, self.wanted) if self.count else self.wanted

    def _zeros(self, out: Value, found: Value) -> None:
        """Store a zero for each index that is not wanted."""
        if self.count:
            with self.kernel.loop(self.wanted, found) as place:
                self.core.store(self.target, out + place * self.inner, "zero", past_cache=True)


def sortable(core: ScalarCode, key: str, fmt: Format, largest: bool) -> None:
    """Change bits so that integer comparison orders them like the elements, in reverse unless ``largest``.

    Both zeros are equal.
    """
    if fmt.is_float:
        core.emit("bgez", key, "1f")
        flip = core.number((1 << (fmt.bits - 1)) - 1)
        core.emit("xor", key, key, flip)
        core.emit("addi", key, key, "1")
        core.kernel.out.label("1")
    if not largest:
        core.emit("not", key, key)
