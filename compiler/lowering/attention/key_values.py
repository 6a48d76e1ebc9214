"""Keys and values of a head in the scratchpad: all blocks, or a few that are replaced as a sweep advances.

Tiles that work on the same heads can load them as a team: one tile reads a block of K or V from DDR, and the
DTE sends it to the others. Nothing orders the writes of the DTE, so the team meets in every step: a block is
read from DDR in one step, sent in the next and used from the one after that.

If there is room for the keys and values of two heads, another worker of the engines loads those of the next
head while worker 0 computes this one. They are sent during its last block of queries, and the team meets once
a head.
"""

from __future__ import annotations

from collections.abc import Callable
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

    ``prepare`` is called for each block before ``use`` is called for the one before it, so that the engines
    overlap; ``meanwhile`` once, after the first block is prepared.
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
_SlotAction = Callable[[Value, int, Value, Stretch, Value], None]
"""Code for one block: the slot of the head's first block, then as for ``_BlockAction``."""


class KeyValues:
    """K and V of a head; ``team``: the tiles that load them together, None if each tile loads its own."""

    def __init__(self, kernel: Kernel, plan: AttentionPlan, team: Team | None, part: Value = 0) -> None:
        """``part``: the number of this tile among the tiles that share the keys of a head."""
        self.kernel, self.plan, self.team = kernel, plan, team
        self.first = kernel.let(part * plan.own_blocks)
        count = plan.own_blocks * plan.heads_in_room if plan.resident else plan.slots
        self.slots = [BlockSlots(kernel, plan, index, plan.block_keys, count) for index in (1, 2)]
        self.base: Value = 0
        """The number of the slot with the first block of this head."""
        self.others = team.tiles - tiles_from(kernel, kernel.tile, 1) if team is not None else 0

    def rows(self, which: int, stretch: Stretch, step: Value) -> list[Aligned]:
        """The parts of a block of KEYS or VALUES."""
        return self.slots[which].block(self.base + self._number(stretch, step), stretch.size)

    @property
    def _loads_ahead(self) -> bool:
        return self.plan.heads_in_room > 1

    def begin(self, first: Value, end: Value) -> None:
        """Load the first of the heads from ``first`` to before ``end``, if each is loaded before its turn."""
        if not self._loads_ahead:
            return
        assert self.team is not None
        with self.kernel.if_below(first, end):
            self._share(self._fill, first, self._first_slot(first))
            meet(self.kernel, self.team)
            self._share(self._send, first, self._first_slot(first))

    def begin_head(self, head: Value, end: Value) -> None:
        """Make the keys of a head ready; begin to load the next one if each is loaded before its turn."""
        if not self._loads_ahead:
            self.load_all(KEYS, head)
            return
        assert self.team is not None
        kernel, following = self.kernel, self.kernel.let(head + 1)
        self.base = kernel.let(self._first_slot(head))
        meet(kernel, self.team)
        with kernel.if_below(following, end), kernel.on_worker(_LOADING):
            self._share(self._fill, following, self._first_slot(following))

    def begin_values(self, head: Value) -> None:
        """Make the values of a head ready, during its first block of queries."""
        if not self._loads_ahead:
            self.load_all(VALUES, head)

    def send_next(self, head: Value, end: Value) -> None:
        """Send the next head to the team, during the last block of queries, if it has been loaded."""
        kernel, following = self.kernel, self.kernel.let(head + 1)
        with kernel.if_below(following, end):
            with kernel.on_worker(_LOADING):
                kernel.emit("ncc.wait")
            self._share(self._send, following, self._first_slot(following))

    def end_head(self) -> None:
        """End a head after its blocks of queries: loads of the next head use their buffers until here."""
        if self._loads_ahead:
            self.kernel.await_worker(_LOADING)

    def _first_slot(self, head: Value) -> Value:
        """The slot with the first block of a head: two heads use them in turns."""
        return head % 2 * self.plan.own_blocks

    def _share(self, action: _SlotAction, head: Value, base: Value) -> None:
        """The action for the blocks of KEYS and VALUES that this tile loads for its team."""
        for which in (KEYS, VALUES):
            self._all_blocks(partial(self._if_mine, partial(action, base), which, head))

    def load_all(self, which: int, head: Value) -> None:
        """Load all blocks of KEYS or VALUES, if they stay in the scratchpad."""
        if not self.plan.resident:
            return
        if self.team is None:
            self._all_blocks(partial(self._fill, 0, which, head))
            return
        if which == KEYS:  # other tiles may still use the keys and values of the head before
            meet(self.kernel, self.team)
        for action in (self._fill, self._send):
            self._all_blocks(partial(self._if_mine, partial(action, 0), which, head))
            meet(self.kernel, self.team)

    def sweep(self, sweep: KeySweep) -> None:
        """Emit a sweep, which loads the blocks if they do not stay."""
        if self.plan.resident:
            self._sweep(sweep, lambda step: None, 0)
        elif self.team is None:
            self._sweep(sweep, lambda step: self._if_swept(sweep, step, partial(self._fill, 0)), 2)
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
            move(kernel.let(first + ahead), partial(self._fill, 0))
        meet(kernel, team)
        for ahead in range(2):
            move(kernel.let(first + ahead), partial(self._send, 0))
        meet(kernel, team)
        sweep.prepare(first)
        sweep.meanwhile()
        with kernel.loop(end, first) as step:
            following = kernel.let(step + 1)
            move(kernel.let(step + 3), partial(self._fill, 0))
            move(kernel.let(step + 2), partial(self._send, 0))
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

    def _fill(self, base: Value, which: int, head: Value, stretch: Stretch, step: Value) -> None:
        """Load a block into its slot; ``base`` is the slot of the head's first block."""
        begin = self.kernel.let(step * stretch.size + stretch.start)
        slots, number = self.slots[which], base + self._number(stretch, step)
        slots.put(number, slots.load(number, head, begin, stretch.size))

    def _send(self, base: Value, which: int, head: Value, stretch: Stretch, step: Value) -> None:
        self.slots[which].send(base + self._number(stretch, step), stretch.size, self.others)

    def _number(self, stretch: Stretch, step: Value) -> Value:
        """The number of a block among all of the head."""
        return step + stretch.start // self.plan.block_keys
