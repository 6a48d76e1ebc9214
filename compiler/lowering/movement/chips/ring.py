"""Collectives over rings of chips.

A tile has a chunk for each member of its group in its scratchpad. To reduce, a chunk goes round the ring and
every member adds its own: the sum of chunk c begins with member c + 1 and ends with member c. To gather,
finished chunks go round. Each takes size - 1 steps, in which every link of the ring carries a chunk.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.vector import WIDE
from tx8isa.numbers.formats import Format

from .member import RingMember


@dataclass
class Ring:
    """Chunks of ``elements`` elements, one after another in the scratchpad from ``base`` on."""

    kernel: Kernel
    member: RingMember
    base: Value
    fmt: Format
    elements: int

    @property
    def bytes(self) -> int:
        """Bytes of a chunk."""
        return self.elements * self.fmt.bits // 8

    @cached_property
    def _arrived(self) -> Value:
        """The buffer for the chunk that comes while sums are made."""
        return self.kernel.buffer("arrived", self.bytes)

    def chunk(self, number: Value) -> Value:
        """The address of a chunk."""
        return self.base + number * self.bytes

    def _before(self, step: Value, places: int) -> Value:
        """The chunk so many places, and a step more, before that of this member."""
        size = self.member.size
        return (self.member.place + (2 * size - places) - step) % size

    def reduce(self) -> None:
        """Make the chunk of each member the sum over the group; other chunks are sums of some members."""
        kernel, member, arrived = self.kernel, self.member, self._arrived
        kernel.receive(arrived)
        token = Format.FP32.token if self.fmt in WIDE else self.fmt.token
        with kernel.loop(member.size - 1) as step:
            member.exchange(self.chunk(self._before(step, 1)), arrived, self.bytes)
            got = kernel.let(self.chunk(self._before(step, 2)))
            kernel.emit(f"ct.add.vv.{token}", dst=got, src0=got, src1=arrived, n=self.elements)
            kernel.emit("ncc.wait")
            member.sent()
        kernel.keep_alive(arrived)

    def gather(self) -> None:
        """Give every member the chunks of all."""
        kernel, member = self.kernel, self.member
        kernel.receive(self.base)
        with kernel.loop(member.size - 1) as step:
            chunk = kernel.let(self.chunk(self._before(step, 0)))
            member.exchange(chunk, chunk, self.bytes)
            member.sent()
        kernel.keep_alive(self.base)

    def broadcast(self) -> None:
        """Give every member the chunk of the first one; it goes along the ring."""
        kernel, member = self.kernel, self.member
        kernel.receive(self.base)
        with kernel.unless_zero(member.place):
            member.allow()
            member.written()
        with kernel.if_below(member.place, member.size - 1):
            member.send(self.base, self.base, self.bytes)
            member.sent()
        kernel.keep_alive(self.base)
