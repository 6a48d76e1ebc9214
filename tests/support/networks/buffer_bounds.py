"""Accesses of engines that leave the buffers of the scratchpad which the program declares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

import emulator
from asm.image import Image, read_image, write_image
from compiler.driver import Program
from compiler.graph import Array
from emulator.tile.fault import Fault
from emulator.timing.slices import Batch, Sink
from emulator.watch.accesses import spm_accesses


class BoundsSink:
    """A sink of simulated time that keeps every access that no single live buffer holds."""

    def __init__(self, image: Image) -> None:
        self._image = image
        columns = zip(*((live.begin, live.end, live.address, live.size) for live in image.live), strict=True)
        self._begin, self._end, self._first, self._size = map(np.array, columns)
        self.found = set[tuple[int, int, int, int]]()
        """Program counter, first byte, bytes, and 1 for a write."""

    def take(self, batch: Batch) -> None:
        """Take slices that have become final."""
        accesses = spm_accesses(batch.slices, batch.ranges)
        pcs = batch.slices["pc"][accesses.row]
        distinct = np.unique([pcs, accesses.first, accesses.size, accesses.written], axis=1)
        for pc, first, size, written in distinct.T.tolist():
            last = first + size - self._first
            inside = (self._first <= first) & (last <= self._size)
            if not (inside & (self._begin <= pc) & (pc < self._end)).any():
                self.found.add((pc, first, size, written))

    def close(self, ends: Sequence[int]) -> None:
        """Finish after the run."""

    def lines(self) -> Iterator[str]:
        """A line for each access, with its instruction's place."""
        for pc, first, size, written in sorted(self.found):
            file, line = self._image.lines.get(pc, ("", 0))
            what = "writes" if written else "reads"
            yield f"{file}:{line}, node {self._image.nodes.get(pc, '')}: {what} {size} bytes at 0x{first:x}"


def beyond_buffers(program: Program, inputs: Mapping[str, Array]) -> list[str]:
    """The accesses of a compiled program's run that leave its buffers; a line for each.

    The run computes data only where the kernel core reads what engines compute.
    """
    image = read_image(write_image(program.image), "prog.bin")
    if not image.live:
        return []
    loaded = emulator.Program(image, program.machine)
    sink = BoundsSink(image)
    if cycles_without_data(loaded, inputs, [sink]) is None:
        sink = BoundsSink(image)
        loaded.start(inputs, timed=True, sinks=[sink]).run()
    return list(sink.lines())


def cycles_without_data(
    program: emulator.Program, inputs: Mapping[str, Array], sinks: Sequence[Sink] = ()
) -> int | None:
    """The cycles of a run that computes no data; None where the kernel core reads what engines compute."""
    system = program.start(inputs, timed=True, data=False, sinks=sinks)
    try:
        system.run()
    except Fault as fault:
        assert str(fault).endswith("a run without data (data=False) cannot go on"), fault
        return None
    return system.cycles
