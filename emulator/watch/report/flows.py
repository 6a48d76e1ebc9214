"""Flows between graph nodes through DDR: the bytes that each node reads from another one's results.

DDR is divided into blocks, each with the node that wrote it last. So a flow is exact to a block at either end
of a range. Loads and stores of the kernel core are not seen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from asm.image import Buffer, Image, ddr_offset
from emulator.engines.queues import DDR
from emulator.memory.buffers import size_of
from emulator.watch.bins import Ints
from emulator.watch.phase_graph import PhaseBox, phase_graph

CONSTANTS, INPUTS, OUTPUTS, NOTHING = -1, -2, -3, -4
"""Pseudo-nodes: the data of the image, inputs and outputs of the run, unwritten bytes."""
_BLOCKS = 1 << 20
_LEAST_SHIFT = 6
Range = tuple[int, int]
"""First byte in DDR, and bytes."""


class Flows:
    """The DDR accesses of a run; ``bytes`` has the sums by writer and reader."""

    def __init__(self, image: Image) -> None:
        data = [
            (first, segment.size)
            for segment in image.segments
            if (first := ddr_offset(segment.address, image.windows)) is not None
        ]
        inputs, self._outputs = (_ranges(image, kind) for kind in ("input", "output"))
        end = max((first + size for first, size in (*data, *inputs, *self._outputs)), default=0)
        self._shift = max(_LEAST_SHIFT, (end // _BLOCKS).bit_length())
        self._writer = np.full((end >> self._shift) + 1, NOTHING, dtype=np.int32)
        self.bytes: dict[tuple[int, int], float] = defaultdict(float)
        for ranges, source in ((data, CONSTANTS), (inputs, INPUTS), (self._outputs, NOTHING)):
            for each in ranges:
                self._writer[self._blocks(each)] = source

    def _blocks(self, each: Range) -> slice:
        first, size = each
        return slice(first >> self._shift, (first + size - 1 >> self._shift) + 1)

    def add(self, slices: npt.NDArray[np.void], ranges: Ints, nodes: Ints) -> None:
        """Take slices and their nodes. A slice reads when it starts, and has written when it ends."""
        there = np.arange(ranges.shape[1]) < slices["sources"][:, None]
        row, which = np.nonzero(there & (ranges[..., 0] >= DDR) & (ranges[..., 1] > 0))
        first, size, written = ranges[row, which].T
        time = np.where(written == 1, slices["ended"][row], slices["started"][row])
        moved = (
            slices["ddr_read"][row] * size / np.bincount(row, size * (written == 0), len(slices))[row].clip(1)
        )
        for at in np.lexsort((written == 0, time)).tolist():
            blocks = self._blocks((int(first[at]) - DDR, int(size[at])))
            if written[at]:
                self._writer[blocks] = nodes[row[at]]
            else:
                self._read(blocks, int(nodes[row[at]]), float(moved[at]))

    def _read(self, blocks: slice, reader: int, moved: float) -> None:
        """Add bytes that a node reads, in equal parts from the writers of the blocks."""
        writers = self._writer[blocks]
        found, counts = np.unique(writers, return_counts=True)
        for writer, count in zip(found.tolist(), counts.tolist(), strict=True):
            self.bytes[writer, reader] += moved * count / len(writers)

    def final(self) -> dict[tuple[int, int], int]:
        """The bytes by writer and reader after the run, including bytes that remain in outputs."""
        found = {pair: round(moved) for pair, moved in self.bytes.items()}
        for each in self._outputs:
            writers, counts = np.unique(self._writer[self._blocks(each)], return_counts=True)
            for writer, count in zip(writers.tolist(), counts.tolist(), strict=True):
                pair = writer, OUTPUTS
                found[pair] = found.get(pair, 0) + round(each[1] * count / counts.sum())
        return {pair: moved for pair, moved in found.items() if moved and pair[0] != NOTHING}


def drawn(texts: Mapping[str, Any]) -> str:
    """Draw the flows from a page's JSON part as SVG; an empty text for a program of fewer than two nodes."""
    cycles = {node["node"]: node["cycles"] for node in texts["node_times"]}
    ends = {end for *pair, _ in texts["flows"] for end in pair if CONSTANTS not in pair}
    numbers = [at for at in range(len(texts["nodes"])) if at in ends or (at and cycles.get(at))]
    boxes = {at: PhaseBox(texts["nodes"][at] or "(no node)", [at], cycles.get(at, 0.0)) for at in numbers}
    boxes = {INPUTS: PhaseBox("inputs", []), **boxes, OUTPUTS: PhaseBox("outputs", [])}
    boxes = {at: box for at, box in boxes.items() if at >= 0 or at in ends}
    place = {at: number for number, at in enumerate(boxes)}
    flows = {}
    for writer, reader, moved in texts["flows"]:
        if writer == CONSTANTS and reader in boxes:
            boxes[reader].constants += moved
        elif writer in place and reader in place:
            flows[place[writer], place[reader]] = moved
    return phase_graph(list(boxes.values()), flows)


def _ranges(image: Image, kind: str) -> list[Range]:
    """Yield the ranges of the buffers of a kind."""
    return [_range(image, buffer) for buffer in image.buffers if buffer.kind == kind]


def _range(image: Image, buffer: Buffer) -> Range:
    first = ddr_offset(buffer.address, image.windows)
    assert first is not None  # the addresses were checked when the image was read
    return first, size_of(buffer.format, buffer.shape, buffer.layout)
