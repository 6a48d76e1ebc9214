"""Keys and values of an attention in the scratchpad: all of a head, or a few blocks that move on.

Tiles that work on the same heads can load them together: of each block of K or V one tile reads the rows from
DDR, and the DTE gives them to the rest of the team. What it writes is ordered with nothing, so the team meets
in every step: a block is read from DDR in one step, sent in the next and used from the one after that.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from compiler.codegen.expr import Value, bounds, highest
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.aligned import Aligned, Grid, aligned_bytes, load_aligned
from compiler.codegen.slices.precision import part_count
from compiler.codegen.slices.tensors import Stretch, stretches
from compiler.codegen.slices.vector import Vector, convert
from compiler.codegen.teams.team import Team, meet, tiles_from
from tx8isa.numbers.division import round_up
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import LINE_BYTES

from .operands import first_of_row
from .plan import Problem


class Slots:
    """Places for blocks of ``rows`` rows of operand ``index`` (Q, K or V) as the matrix engine takes them."""

    def __init__(self, kernel: Kernel, p: Problem, index: int, rows: int, count: int) -> None:
        self.kernel, self.p, self.index, self.count = kernel, p, index, count
        self.name, self.channels = "qkv"[index], p.operands[index].shape[-1]
        self.fmt = Format.TF32 if part_count(p.fmt) > 1 else p.fmt
        self.span = round_up(aligned_bytes(rows, self.channels, self.fmt), LINE_BYTES)
        self.bases = [
            kernel.buffer(f"{self.name}{part}", count * self.span) for part in range(part_count(p.fmt))
        ]

    def block(self, number: Value, rows: int) -> list[Aligned]:
        """The parts of block ``number``, which has so many rows."""
        slot = number % self.count * self.span
        return [Aligned(base + slot, self.fmt, Grid(rows, 1, rows), self.channels) for base in self.bases]

    def load(self, number: Value, head: Value, begin: Value, rows: int) -> Aligned:
        """Start to load a block, rows of a head from ``begin`` on, to its slot if no arithmetic is needed."""
        tensor, lies = self.p.work.input(self.index), self.p.operands[self.index]
        first, grid = first_of_row(lies, head, begin), Grid(rows, 1, rows)
        at_once = len(self.bases) == 1 and tensor.fmt is self.fmt
        into = self.block(number, rows)[0].base if at_once else None
        return load_aligned(
            self.kernel, self.name, tensor, first, lies.strides[-2], grid, self.channels, into=into
        )

    def put(self, number: Value, loaded: Aligned, scale: float = 1.0) -> None:
        """What was loaded, times ``scale``, to its slot."""
        kernel, targets, n = self.kernel, self.block(number, loaded.grid.room), loaded.elements
        if scale != 1.0:
            Vector(kernel, loaded.fmt, n).vs("mul", loaded.base, loaded.base, scale)
        if len(targets) > 1 or loaded.fmt is not self.fmt:
            convert(kernel, targets[0].base, loaded.base, n, loaded.fmt, self.fmt)
        for low in targets[1:]:
            Vector(kernel, Format.FP32, n).vv("sub", low.base, loaded.base, targets[0].base)
            convert(kernel, low.base, low.base, n, Format.FP32, low.fmt)

    def send(self, number: Value, rows: int, tiles: Value) -> None:
        """Give a block to other tiles."""
        size = aligned_bytes(rows, self.channels, self.fmt) - LINE_BYTES
        for part in self.block(number, rows):
            self.kernel.emit("dte.broadcast", dst=part.base, src=part.base, tiles=tiles, n=size)


class Walk(NamedTuple):
    """A way through blocks of keys of a head: ``begin`` to below ``end`` of a stretch.

    ``prepare`` is called for each block when the one before it is not used yet, then ``use``. ``meanwhile``:
    what else to do when the first block is prepared. ``values``: V is needed as well as K.
    """

    head: Value
    stretch: Stretch
    begin: Value
    end: Value
    values: bool
    prepare: Callable[[Value], None]
    use: Callable[[Value], None]
    meanwhile: Callable[[], None]


_Apply = Callable[[int, Value, Stretch, Value], None]
"""What is done for a block: of K (0) or V (1), of a head, of a stretch, at a step."""


class Keys:
    """K and V; ``team``: the tiles that load them together, None where each tile loads its own."""

    def __init__(self, kernel: Kernel, p: Problem, team: Team | None) -> None:
        self.kernel, self.p, self.team = kernel, p, team
        count = p.blocks if p.resident else p.slots
        self.slots = [Slots(kernel, p, index, p.keys, count) for index in (1, 2)]
        self.others = team.tiles - tiles_from(kernel, kernel.tile, 1) if team is not None else 0

    def rows(self, which: int, stretch: Stretch, step: Value) -> list[Aligned]:
        """The parts of a block of K (0) or V (1)."""
        return self.slots[which].block(self._number(stretch, step), stretch.size)

    def load_all(self, which: int, head: Value) -> None:
        """All blocks of K (0) or V (1), if they stay."""
        if not self.p.resident:
            return
        if self.team is None:
            self._all(partial(self._fill, which, head))
            return
        if which == 0:  # until then others may use what belongs to the head before
            meet(self.kernel, self.team)
        for apply in (self._fill, self._send):
            self._all(partial(self._mine, apply, which, head))
            meet(self.kernel, self.team)

    def walk(self, way: Walk) -> None:
        """Go through blocks, loading them on the way if they do not stay."""
        if self.p.resident:
            self._go(way, lambda step: None, 0)
        elif self.team is None:
            self._go(way, lambda step: self._needed(way, step, self._fill), 2)
        else:
            self._go_together(way, self.team)

    def _go(self, way: Walk, fetch: Callable[[Value], None], ahead: int) -> None:
        """``fetch`` is called for each block ``ahead`` steps before it is used."""
        kernel, first, end = self.kernel, way.begin, way.end
        for early in range(ahead):
            fetch(kernel.let(first + early))
        with kernel.if_below(first, end):
            way.prepare(first)
        way.meanwhile()
        with kernel.loop(end, first) as step:
            following = kernel.let(step + 1)
            fetch(kernel.let(step + ahead))
            with kernel.if_below(following, end):
                way.prepare(following)
            way.use(step)

    def _go_together(self, way: Walk, team: Team) -> None:
        kernel, first, end = self.kernel, way.begin, way.end

        def move(step: Value, apply: _Apply) -> None:
            self._needed(way, step, partial(self._mine, apply))

        for ahead in range(3):
            move(kernel.let(first + ahead), self._fill)
        meet(kernel, team)
        for ahead in range(2):
            move(kernel.let(first + ahead), self._send)
        meet(kernel, team)
        way.prepare(first)
        way.meanwhile()
        with kernel.loop(end, first) as step:
            following = kernel.let(step + 1)
            move(kernel.let(step + 3), self._fill)
            move(kernel.let(step + 2), self._send)
            with kernel.if_below(following, end):
                way.prepare(following)
            way.use(step)
            meet(kernel, team)

    def _all(self, apply: Callable[[Stretch, Value], None]) -> None:
        for stretch in stretches(self.p.n, self.p.keys):
            with self.kernel.loop(stretch.count) as step:
                apply(stretch, step)

    def _needed(self, way: Walk, step: Value, apply: _Apply) -> None:
        """Something for the blocks of K, and of V, of a step, if there is such a step."""
        if bounds(step)[0] < highest(way.end):
            with self.kernel.if_below(step, way.end):
                for which in range(1 + way.values):
                    apply(which, way.head, way.stretch, step)

    def _mine(self, apply: _Apply, which: int, head: Value, stretch: Stretch, step: Value) -> None:
        """Something for a block, if that falls to this tile."""
        assert self.team is not None
        number, size = self._number(stretch, step), self.team.size
        whose = number + (which + size) - self.team.member
        with self.kernel.if_zero(whose % size):
            apply(which, head, stretch, step)

    def _fill(self, which: int, head: Value, stretch: Stretch, step: Value) -> None:
        begin = self.kernel.let(step * stretch.size + stretch.start)
        slots, number = self.slots[which], self._number(stretch, step)
        slots.put(number, slots.load(number, head, begin, stretch.size))

    def _send(self, which: int, head: Value, stretch: Stretch, step: Value) -> None:
        self.slots[which].send(self._number(stretch, step), stretch.size, self.others)

    def _number(self, stretch: Stretch, step: Value) -> Value:
        """The number of a block of keys."""
        return step + stretch.start // self.p.keys
