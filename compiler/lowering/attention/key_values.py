"""Keys and values of a head in the scratchpad: all blocks, or a few that are replaced as a sweep advances.

Tiles that work on the same heads can load them as a team: one tile reads a block of K or V from DDR, and the
DTE sends it to the others. Nothing orders the writes of the DTE, so the team meets in every step. A block is
read from DDR in one step, sent in the next step and used from the step after that.

If there is room for the keys and values of two heads, another worker of the engines loads those of the next
head while worker 0 computes this one. Keys are loaded during the first half of its blocks of queries, values
during the second. They are sent during the last block, and the team meets once for each head.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from compiler.codegen.expr import Value, bounds, highest
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.aligned import Aligned
from compiler.codegen.slices.tensors import Stretch, stretches
from compiler.codegen.teams.team import Team, meet, tiles_from
from compiler.evaluation.sizes import ever

from .plan import AttentionPlan
from .slots import BlockSlots

KEYS, VALUES = 0, 1
"""The two matrices by number."""
_LOADING = 1
"""The worker that loads the next head."""


@dataclass(frozen=True)
class KeySweep:
    """A loop over the blocks of keys of a head, from ``begin`` to below ``end`` of a stretch.

    ``prepare`` is called for a block before ``use`` is called for the block before it, so that the engines
    overlap. ``meanwhile`` is called once, after the first block is prepared.
    """

    head: Value
    stretch: Stretch
    begin: Value
    end: Value
    with_values: bool
    prepare: Callable[[Value], None]
    use: Callable[[Value], None]
    meanwhile: Callable[[], None]


_BlockAction = Callable[[int, Value, Stretch, Value], None]
"""Code for one block: KEYS or VALUES, the head, the stretch, the number of the block in it."""
_OwnAction = Callable[[int, Value, Stretch, Value], None]
"""Code for a block of a tile: KEYS or VALUES, the buffer for its rows, the stretch, its number."""


class KeyValues:
    """K and V of a head; ``team``: the tiles that load them together, None if each tile loads its own."""

    def __init__(self, kernel: Kernel, plan: AttentionPlan, team: Team | None, part: Value = 0) -> None:
        """``part``: the number of this tile among those that share the keys of a head."""
        self.kernel, self.plan, self.team = kernel, plan, team
        self.first = kernel.let(part * plan.own_blocks)
        count = plan.own_blocks * plan.heads_in_room if plan.resident else plan.slots
        kept = (plan.last_keys, plan.heads_in_room) if plan.resident else (None, 1)
        self.slots = [BlockSlots(kernel, plan, index, plan.block_keys, count, *kept) for index in (1, 2)]
        self.base: Value = 0
        """The number of the slot with the first block of this head."""
        sizes = [max(slots.raw_bytes(rows) for slots in self.slots) for rows in plan.own_rows]
        self.raws = [kernel.buffer("rows", size) for size in sizes] if self.loads_ahead else []
        """Buffers for the rows of the next head that this tile loads for its team."""
        direct = all(slots.direct for slots in self.slots)
        self.planes = kernel.buffer("planes", max(sizes)) if self.raws and not direct else 0
        self.others = team.tiles - tiles_from(kernel, kernel.tile, 1) if team is not None else 0

    def rows(self, which: int, stretch: Stretch, step: Value) -> list[Aligned]:
        """The parts of a block of KEYS or VALUES."""
        return self.slots[which].block(self.base + self._number(stretch, step), stretch.size)

    @property
    def loads_ahead(self) -> bool:
        """True if a team loads each head while it computes the one before."""
        return self.plan.heads_in_room > 1

    def begin(self, first: Value, end: Value) -> None:
        """Load the first head of ``first`` to ``end`` (excluded), if heads are loaded before their
        iterations."""
        if not self.loads_ahead:
            return
        assert self.team is not None
        with self.kernel.if_below(first, end):
            for which in (KEYS, VALUES):
                self._own_blocks(which, partial(self._fetch, first))
                self._own_blocks(which, partial(self._arrange, first))
            meet(self.kernel, self.team)
            self._send_own(first)

    def begin_head(self, head: Value) -> None:
        """Make the keys of a head ready."""
        if not self.loads_ahead:
            self.load_all(KEYS, head)
            return
        assert self.team is not None
        kernel = self.kernel
        self.base = kernel.let(self._first_slot(head))
        meet(kernel, self.team)

    def begin_values(self, head: Value) -> None:
        """Make the values of a head ready, during its first block of queries."""
        if not self.loads_ahead:
            self.load_all(VALUES, head)

    def load_next(self, head: Value, end: Value, turn: Value, turns: int) -> None:
        """Load blocks of the next head: keys in the first half of the iterations, values in the second.

        ``turn`` is the number of the block of queries; there are ``turns`` of them, and at most one more
        iteration. The last iteration of each half loads nothing.
        """
        following, own = self.kernel.let(head + 1), len(self.raws)
        for which, first, last in ((KEYS, 0, turns // 2), (VALUES, turns // 2, turns - 1)):
            for number in range(own):
                with (
                    self._in_turn(first + number * (last - first) // own, turn),
                    self.kernel.if_below(following, end),
                ):
                    self._load_own(which, number, following)

    def arrange_next(self, head: Value, end: Value, turn: Value, turns: int) -> None:
        """Arrange the keys of the next head in the middle turn, its values in turn ``turns`` - 1.

        The data is there: an engine waits for its operands, and later instructions wait with it.
        """
        for which, last in ((KEYS, turns // 2), (VALUES, turns - 1)):
            with self._in_turn(last, turn), self._after_loading(head, end) as following:
                self._arrange_own(which, following)

    @contextmanager
    def _in_turn(self, number: int, turn: Value) -> Iterator[None]:
        with self.kernel.if_below(number - 1, turn), self.kernel.if_below(turn, number + 1):
            yield

    def send_next(self, head: Value, end: Value) -> None:
        """Send the next head to the team, once it is arranged."""
        with self._after_loading(head, end) as following:
            self._send_own(following)

    def end_head(self) -> None:
        """End a head after its blocks of queries: loads of the next head use their buffers until here."""
        if self.loads_ahead:
            self.kernel.await_worker(_LOADING)

    @contextmanager
    def _after_loading(self, head: Value, end: Value) -> Iterator[Value]:
        """Write code for the next head, if there is one, once the instructions that load it are complete so
        far."""
        kernel, following = self.kernel, self.kernel.let(head + 1)
        with kernel.if_below(following, end):
            with kernel.on_worker(_LOADING):
                kernel.emit("ncc.wait")
            yield following

    def _first_slot(self, head: Value) -> Value:
        """The slot with the first block of a head: two heads use them alternately."""
        return head % 2 * self.plan.own_blocks

    def _own_blocks(self, which: int, action: _OwnAction) -> None:
        """The action for the blocks of KEYS or VALUES that this tile loads for its team."""
        for number in range(len(self.raws)):
            self._own_block(which, number, action)

    def _own_block(self, which: int, own: int, action: _OwnAction) -> None:
        """The action for block number ``own`` among them."""
        assert self.team is not None
        kernel, size = self.kernel, self.team.size
        number = kernel.let((self.team.member + (size - which)) % size + own * size)
        for stretch in stretches(self.plan.n, self.plan.block_keys):
            first = stretch.start // self.plan.block_keys
            with kernel.if_below(first - 1, number), kernel.if_below(number, first + stretch.count):
                action(which, self.raws[own], stretch, number)

    def _load_own(self, which: int, own: int, head: Value) -> None:
        with self.kernel.on_worker(_LOADING):
            self._own_block(which, own, partial(self._fetch, head))

    def _arrange_own(self, which: int, head: Value) -> None:
        with self.kernel.on_worker(_LOADING):
            self._own_blocks(which, partial(self._arrange, head))

    def _fetch(self, head: Value, which: int, rows: Value, stretch: Stretch, number: Value) -> None:
        begin = self.kernel.let(number * self.plan.block_keys)
        self.slots[which].fetch(rows, head, begin, stretch.size)

    def _arrange(self, head: Value, which: int, rows: Value, stretch: Stretch, number: Value) -> None:
        self.slots[which].arrange(self._first_slot(head) + number, rows, self.planes, stretch.size)

    def _send_own(self, head: Value) -> None:
        """Send the blocks of a head that this tile has loaded to its team."""
        base = self._first_slot(head)

        def send(which: int, rows: Value, stretch: Stretch, number: Value) -> None:
            self.slots[which].send(base + number, stretch.size, self.others)

        for which in (KEYS, VALUES):
            self._own_blocks(which, send)

    def load_all(self, which: int, head: Value) -> None:
        """Load all blocks of KEYS or VALUES, if they stay in the scratchpad."""
        if not self.plan.resident:
            return
        if self.team is None:
            self._all_blocks(partial(self._fill, which, head))
            return
        if which == KEYS:  # other tiles may still use the keys and values of the head before
            meet(self.kernel, self.team)
        for action in (self._fill, self._send):
            self._all_blocks(partial(self._if_mine, action, which, head))
            meet(self.kernel, self.team)

    def sweep(self, sweep: KeySweep) -> None:
        """Emit a sweep, which loads the blocks if they do not stay."""
        if self.plan.resident:
            self._sweep(sweep, lambda step: None, 0)
        elif self.team is None:
            self._sweep(sweep, lambda step: self._if_swept(sweep, step, self._fill), 2)
        else:
            self._sweep_together(sweep, self.team)

    def _sweep(self, sweep: KeySweep, fetch: Callable[[Value], None], ahead: int) -> None:
        """``fetch`` is called for each block ``ahead`` steps before it is used."""
        kernel, first, end = self.kernel, sweep.begin, sweep.end
        for early in range(ahead):
            fetch(kernel.let(first + early))
        with kernel.if_below(first, end):
            sweep.prepare(first)
        sweep.meanwhile()
        with kernel.loop(end, first) as step:
            following = kernel.let(step + 1)
            fetch(kernel.let(step + ahead))
            with kernel.if_below(following, end):
                sweep.prepare(following)
            sweep.use(step)

    def _sweep_together(self, sweep: KeySweep, team: Team) -> None:
        """Every block is read by one tile three steps ahead, sent two steps ahead."""
        kernel, first, end = self.kernel, sweep.begin, sweep.end

        def move(step: Value, action: _BlockAction) -> None:
            self._if_swept(sweep, step, partial(self._if_mine, action))

        for ahead in range(3):
            move(kernel.let(first + ahead), self._fill)
        meet(kernel, team)
        for ahead in range(2):
            move(kernel.let(first + ahead), self._send)
        meet(kernel, team)
        sweep.prepare(first)
        sweep.meanwhile()
        with kernel.loop(end, first) as step:
            following = kernel.let(step + 1)
            move(kernel.let(step + 3), self._fill)
            move(kernel.let(step + 2), self._send)
            with kernel.if_below(following, end):
                sweep.prepare(following)
            sweep.use(step)
            meet(kernel, team)

    def _all_blocks(self, action: Callable[[Stretch, Value], None]) -> None:
        for stretch in stretches(self.plan.n, self.plan.block_keys):
            end = stretch.count if self.plan.parts == 1 else self.first + self.plan.own_blocks
            with self.kernel.loop(end, self.first) as step:
                action(stretch, step)

    def _if_swept(self, sweep: KeySweep, step: Value, action: _BlockAction) -> None:
        """The action for the blocks of a step, if the sweep has such a step."""
        if ever(bounds(step)[0] < highest(sweep.end)):
            with self.kernel.if_below(step, sweep.end):
                for which in (KEYS, VALUES) if sweep.with_values else (KEYS,):
                    action(which, sweep.head, sweep.stretch, step)

    def _if_mine(self, action: _BlockAction, which: int, head: Value, stretch: Stretch, step: Value) -> None:
        """The action for a block, if this tile is the one of its team that loads the block."""
        assert self.team is not None
        number, size = self._number(stretch, step), self.team.size
        owner = number + (which + size) - self.team.member
        with self.kernel.if_zero(owner % size):
            action(which, head, stretch, step)

    def _fill(self, which: int, head: Value, stretch: Stretch, step: Value) -> None:
        begin = self.kernel.let(step * stretch.size + stretch.start)
        slots, number = self.slots[which], self._number(stretch, step)
        slots.put(number, slots.load(number, head, begin, stretch.size))

    def _send(self, which: int, head: Value, stretch: Stretch, step: Value) -> None:
        self.slots[which].send(self._number(stretch, step), stretch.size, self.others)

    def _number(self, stretch: Stretch, step: Value) -> Value:
        """The number of a block among all of the head."""
        return step + stretch.start // self.plan.block_keys
