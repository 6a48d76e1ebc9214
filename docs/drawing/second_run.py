"""The work of the emulator in a first run, a second run, and a run without data of the same program."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

import asm
from emulator import Program
from emulator.chip.system import System
from emulator.memory.areas import GRANULE_SHIFT, LINE_SHIFT
from emulator.memory.buffers import travel_dtype
from emulator.session.runs import RepeatedRuns
from emulator.timing import layout
from emulator.timing.slices import Batch, Waiting
from emulator.watch.stats.sink import Statistics
from tx8isa.machine.description import load_machine

from .runs import ROOT
from .svg import GREY, WIDTH, Sheet

EXAMPLE = "examples/assembly/gemm_tiled.s"
COLUMNS = ("first run", "second run", "with --cycles-only")
ROW, LEFT, GAP = 28, 168, 6
DONE, KEPT, NONE = ("#dbe9f6", "#3b6ea5"), ("#ffffff", "#999999"), ("none", "none")
"""Fill and edge of a cell: work, a result that was kept, nothing to do."""


class Work(NamedTuple):
    """Counts of one run."""

    words: int
    """Decoded words of the program."""
    kernels: int
    """Kernels that are ready after the run."""
    ddr: int
    spm: int
    """Mapped bytes."""
    written: int
    """Bytes that are put back to their first contents after the run."""
    core: int
    engines: int
    """Executed instructions."""
    log: int
    """Bytes of the logs from which time is computed."""
    slices: int
    """Slices that the simulation of time has made."""


class _Counting(Waiting):
    """Counts the slices that a simulation makes; the second of two equal runs gets none."""

    slices = 0

    def take(self, batch: Batch) -> None:
        self.slices += len(batch.slices)
        super().take(batch)


def measured() -> list[Work]:
    """Return the work of the three runs, in the same memories."""
    program = Program(asm.assemble((ROOT / EXAMPLE).read_text(encoding="utf-8")), load_machine(None))
    inputs = {each.name: np.ones(each.shape, travel_dtype(each)) for each in program.inputs}
    runs, found = RepeatedRuns(program), []
    for data in (True, True, False):
        sink = _Counting(Statistics(program.image, program.machine))
        with runs.started(inputs, sinks=[sink], data=data) as system:
            system.run()
            sink.settle()
            found.append(_work(system, sink.slices))
    return found


def _work(system: System, slices: int) -> Work:
    memories = system.memories
    written = np.count_nonzero(memories.ddr_area.marks) << GRANULE_SHIFT
    written += sum(np.count_nonzero(pad.lines) << LINE_SHIFT for pad in memories.spm)
    return Work(
        words=memories.code.words.size,
        kernels=np.count_nonzero(memories.engines(False).slots.words[:, 0]),
        ddr=memories.ddr.size,
        spm=sum(pad.data.size for pad in memories.spm),
        written=int(written),
        core=sum(tile.retired for tile in system.tiles),
        engines=sum(int(tile.counts[:, 0].sum()) for tile in system.tiles),
        log=8 * int(memories.simulation.heads[:, layout.T_AT].sum()),
        slices=slices,
    )


def rows(works: list[Work]) -> Iterator[tuple[str, list[str]]]:
    """Yield the name of each step with the work of the runs; empty where there is none, ``kept`` in place of
    work."""
    first = works[0]
    yield "decode the program", [f"{first.words:,} words", "kept", "kept"]
    yield "compile or load kernels", [f"{first.kernels} kernels", "kept", ""]
    yield "map the memories", [f"{first.ddr >> 30} GiB, {first.spm >> 20} MiB", "kept", "kept"]
    yield "run the kernel core", [f"{work.core:,} instructions" for work in works]
    yield "check and queue", [f"{work.engines:,} instructions" for work in works]
    yield "execute on engines", [f"{work.engines:,} instructions" for work in works[:2]] + [""]
    yield "write logs for time", [f"{work.log >> 10:,} KiB" for work in works]
    yield "simulate time", [f"{work.slices:,} slices" if work.slices else "kept" for work in works]
    yield "put back written bytes", [f"{work.written >> 10:,} KiB" for work in works]


def draw() -> str:
    """The picture as SVG."""
    sheet = Sheet("The work of the emulator in a first and a second run of a program, and without data")
    sheet.write(12, 20, "*A program runs again", size=14)
    wide = (WIDTH - LEFT - 12) / len(COLUMNS)
    for column, name in enumerate(COLUMNS):
        sheet.write(LEFT + wide * (column + 0.5), 44, name, anchor="middle", fill=GREY)
    bottom = 52.0
    for name, cells in rows(measured()):
        sheet.write(LEFT - 8, bottom + 18, name, anchor="end")
        for column, cell in enumerate(cells):
            colours = KEPT if cell == "kept" else DONE if cell else NONE
            x = LEFT + wide * column + GAP / 2
            sheet.box(x, bottom + GAP / 2, wide - GAP, ROW - GAP, *colours)
            text, fill = cell or "not needed", GREY if cell in ("", "kept") else "#1a1a1a"
            sheet.write(x + (wide - GAP) / 2, bottom + 18, text, anchor="middle", fill=fill)
        bottom += ROW
    return sheet.text(bottom + 12)
