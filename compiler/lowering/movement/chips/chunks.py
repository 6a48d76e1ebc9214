"""Exchanges chunks of a tile between chips: reduce-scatter adds them, all-gather distributes them.

A tile has a chunk for each member of its group in its scratchpad. On a ring a chunk visits every member,
which adds its own; then the finished chunks go round. Each takes size - 1 rounds. In a direct exchange every
member sends a chunk to each other member, which adds all of them in the same order. Then it sends its own
sums to all. On a tree a member sends its siblings their blocks of chunks and adds what it receives to its own
block, level by level. Then it sends them the sums of its own block, from the last level to the first.
Incoming chunks have separate places, so a member allows others to write once for all rounds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.vector import WIDE
from compiler.operators.domains.chips.collectives import DIRECT, TREE
from tx8isa.numbers.division import round_up
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import LINE_BYTES

from .member import GroupMember
from .registers import SUMS, WRITTEN

AtChunk = Callable[[int], None]
"""Is called with the number of places of a chunk before the member's own."""


def whole_lines(size: int) -> int:
    """Bytes of the whole lines for ``size`` bytes. Chunks share no line, because the last one may be written
    whole."""
    return round_up(size, LINE_BYTES)


@dataclass
class Chunks:
    """Chunks of ``elements`` elements, one after another in whole lines of the scratchpad from ``base``.

    ``arrived`` has room for size - 1 more, the addends from the others.
    """

    kernel: Kernel
    member: GroupMember
    base: Value
    arrived: Value
    fmt: Format
    elements: int

    @property
    def bytes(self) -> int:
        """Bytes of a chunk."""
        return self.elements * self.fmt.bits // 8

    def at(self, places: int) -> Value:
        """The address of the chunk that is ``places`` before the member's own."""
        return self.base + self.member.position(places) * whole_lines(self.bytes)

    def coming(self, number: int) -> Value:
        """The address where the chunk of round ``number`` arrives."""
        return self.arrived + number * whole_lines(self.bytes)

    @cached_property
    def rounds(self) -> range:
        return range(self.member.size - 1)

    def open(self) -> None:
        """Let the partners write the first message here."""
        self.member.expects(self.bytes)
        self.member.allow()

    def reduce(self) -> None:
        """Reduce the member's chunk over the group; the chunk before it must be loaded.

        Loads of other chunks may still be in progress.
        """
        self.kernel.receive(self.arrived)
        if self.member.way == DIRECT:
            self._reduce_directly()
        elif self.member.way == TREE:
            self._reduce_on_the_tree()
        else:
            self._reduce_on_the_ring()
        self.kernel.keep_alive(self.arrived)

    def _reduce_on_the_ring(self) -> None:
        member = self.member
        member.allowed()
        for number in self.rounds:
            member.send(self.kernel.let(self.at(number + 1)), self.coming(number), self.bytes, (SUMS, number))
            member.written(SUMS, number)
            self._add(self.at(number + 2), self.coming(number))

    def _reduce_directly(self) -> None:
        """Add chunks in one order on all members: from the member after this one to its own chunk."""
        member, first = self.member, self.coming(0)
        for number in self.rounds:
            member.allowed(number + 1)
            if number == 1:
                self.kernel.emit("ncc.wait")
            member.send(
                self.kernel.let(self.at(number + 1)),
                self.coming(number),
                self.bytes,
                (SUMS, number),
                number + 1,
            )
        for number in self.rounds:
            member.written(SUMS, number)
            if number:
                self._add(first, self.coming(number))
        self._add(self.at(0), first)

    def _reduce_on_the_tree(self) -> None:
        """Reduce level by level: add the siblings' blocks to the member's own.

        Whole lines are sent and added, since chunks share none.
        """
        member, line, number, coming = self.member, whole_lines(self.bytes), 0, 0
        self.kernel.emit("ncc.wait")
        for level, (_, fan, block) in enumerate(member.levels):
            with self.kernel.registers.scope():
                for by in range(1, fan):
                    member.allowed(number + by)
                    source = self.base + member.block(level, by) * line
                    target, packet = self.coming(coming + (by - 1) * block), (SUMS, number + by - 1)
                    member.send(source, target, block * line, packet, number + by)
                own = self.kernel.let(self.base + member.block(level, 0) * line)
                for by in range(1, fan):
                    member.arrived(SUMS, number + by - 1, block * line)
                    more = self.coming(coming + (by - 1) * block)
                    add_to(self.kernel, own, more, block * line * 8 // self.fmt.bits, self.fmt)
            number, coming = number + fan - 1, coming + (fan - 1) * block

    def _add(self, total: Value, more: Value) -> None:
        add_to(self.kernel, self.kernel.let(total), more, self.elements, self.fmt)

    def gather(self, finished: AtChunk) -> None:
        """Give every member the chunks of all; call ``finished`` for each chunk that has arrived."""
        kernel, member = self.kernel, self.member
        kernel.receive(self.base)
        if member.way == TREE:
            self._gather_on_the_tree(finished)
        else:
            self._gather_in_rounds(finished)
        kernel.keep_alive(self.base)

    def _gather_on_the_tree(self, finished: AtChunk) -> None:
        """The member calls ``finished`` for the chunks of a block while it sends the next block."""
        member, line = self.member, whole_lines(self.bytes)
        number, here = len(member.partners), [0]
        for level, (_, fan, block) in reversed(list(enumerate(member.levels))):
            number -= fan - 1
            with self.kernel.registers.scope():
                own = self.kernel.let(self.base + member.block(level, 0) * line)
                for by in range(1, fan):
                    member.send(own, own, block * line, (WRITTEN, number + by - 1), number + by)
            for each in here:
                finished(each)
            for by in range(1, fan):
                member.arrived(WRITTEN, number + by - 1, block * line)
            here = list(range(block, fan * block))
        for each in here:
            finished(each)

    def _gather_in_rounds(self, finished: AtChunk) -> None:
        kernel, member = self.kernel, self.member
        own = kernel.let(self.at(0))
        if member.way == DIRECT:
            for number in self.rounds:
                member.send(own, own, self.bytes, (WRITTEN, number), number + 1)
        for number in self.rounds:
            with kernel.registers.scope():
                if member.way != DIRECT:
                    chunk = kernel.let(self.at(number))
                    member.send(chunk, chunk, self.bytes, (WRITTEN, number))
                finished(0) if number == 0 else None
                member.written(WRITTEN, number)
                finished(-number - 1 if member.way == DIRECT else number + 1)


def add_to(kernel: Kernel, total: Value, more: Value, elements: int, fmt: Format) -> None:
    """Add received elements to those of a sum, and wait until that is done."""
    token = Format.FP32.token if fmt in WIDE else fmt.token
    kernel.emit(f"ct.add.vv.{token}", dst=total, src0=total, src1=more, n=elements)
    kernel.emit("ncc.wait")
