"""RunningSum: adds to each element of a lane all earlier ones, by doubling, in many lanes at a time.

A slice is FP32 [axis, R] in the scratchpad. A step adds to each element the one ``shift`` positions before
it, from one buffer into the other. Zeros before the first position make a step one instruction. Backwards the
zeros are after the last position, at the beginning of a line, because an instruction writes the last line of
its result whole. On a longer axis the sum of the segments before a segment is added to its first element.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.lanes import AxisSegment, Folds, Lanes
from compiler.codegen.slices.vector import WORD
from compiler.evaluation.sizes import most
from compiler.lowering.record import Engine, Work, lowering
from compiler.operators.types import axis_of
from tx8isa.numbers.division import ceil_div
from tx8isa.numbers.layouts import LINE_BYTES

_WORDS = 7
"""FP32 elements of all buffers for one element of a slice: the slice, two sums with zeros, and the stored
result."""


@lowering("RunningSum", engines=(Engine.VECTOR,))
def running_sum(kernel: Kernel, work: Work) -> None:
    """Sums in FP32, rounded once."""
    source, axis = work.input(0), axis_of(work.spec)
    shape = source.shape
    folds = Folds(math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))
    lanes = Lanes(kernel, source, folds, 2 * source.bytes_each + _WORDS * WORD, joined=True)
    backwards, exclusive = bool(work.spec.integer("reverse")), bool(work.spec.integer("exclusive"))
    sums = _RunningSums(kernel, lanes, backwards, exclusive)
    with lanes.items() as item:
        sums.begin()
        with item.sweep(backwards) as segment:
            item.store(work.output, AxisSegment(sums.of(segment), segment.start, segment.count))


@dataclass
class _RunningSums:
    """The buffers of a phase: two alternating buffers of sums, and the sum of the elements before a
    segment."""

    kernel: Kernel
    lanes: Lanes
    backwards: bool
    exclusive: bool

    def __post_init__(self) -> None:
        kernel, self.row = self.kernel, WORD * self.lanes.width
        self.longest = most(self.lanes.segment)
        margin = (1 << max(self.longest - 1, 1).bit_length() - 1) * self.row
        room = ceil_div(self.longest * self.row, LINE_BYTES) * LINE_BYTES
        self.buffers = [kernel.buffer("sums", margin + room) for _ in range(2)]
        self.edge = room if self.backwards else margin
        """Bytes of a buffer before the end of the zeros, or before their beginning, which is a whole line."""
        self.carry = self.lanes.accumulator("carry")
        for buffer in self.buffers:
            zeros = buffer + room if self.backwards else buffer
            kernel.emit("td.memset.fp32", dst=zeros, value=0.0, n=margin // WORD)

    def _places(self, count: Value) -> tuple[Value, Value]:
        """Addresses in the two buffers for ``count`` elements of each lane, after or before the zeros."""
        if self.backwards:
            above = self.kernel.let(self.edge - count * self.row)
            return self.buffers[0] + above, self.buffers[1] + above
        return self.buffers[0] + self.edge, self.buffers[1] + self.edge

    def begin(self) -> None:
        """Start with an empty sum before the first segment."""
        if self.exclusive or not self.lanes.resident:
            self.kernel.emit("td.memset.fp32", dst=self.carry, value=0.0, n=self.lanes.width)

    def of(self, segment: AxisSegment) -> Value:
        """The address of the running sums of a segment."""
        kernel, lanes, one = self.kernel, self.lanes, self.lanes.lane_vector()
        now, other = self._places(segment.count)
        vector = lanes.vector(segment.count)
        last = 0 if self.backwards else kernel.let((segment.count - 1) * self.row)
        self._start(segment, now)
        shift = 1
        while shift < self.longest:
            before = shift * self.row if self.backwards else -shift * self.row
            vector.vv("add", other, now, now + before)
            now, other, shift = other, now, 2 * shift
        if not lanes.resident:
            one.vs("add", self.carry, now + last, 0.0)
            if self.exclusive:
                one.vv("add", self.carry, self.carry, segment.data + last)
        return now

    def _start(self, segment: AxisSegment, target: Value) -> None:
        """Write the elements that are summed, if ``exclusive`` each at the next place, with the carry.

        Backwards the carry is stored last, because it shares a line with the end of the other elements.
        """
        lanes, one = self.lanes, self.lanes.lane_vector()
        if not self.exclusive and lanes.resident:
            lanes.vector(segment.count).vs("add", target, segment.data, 0.0)
            return
        first = self.kernel.let((segment.count - 1) * self.row) if self.backwards else 0
        if not self.exclusive:
            one.vv("add", self.carry, self.carry, segment.data + first)
        if not self.backwards:
            one.vs("add", target, self.carry, 0.0)
        place = 0 if self.backwards else self.row
        source = self.row - place if self.exclusive else place
        if self.longest > 1:
            with self.kernel.if_below(1, segment.count):
                lanes.vector(segment.count - 1).vs("add", target + place, segment.data + source, 0.0)
        if self.backwards:
            one.vs("add", target + first, self.carry, 0.0)
