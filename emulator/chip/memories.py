"""Memories, decoded text and kernels that runs of the same program reuse.

A run marks the places that it writes: one byte for each line of SPM (``Scratchpad.lines``) and for each
granule of DDR (``memory.GRANULE_SHIFT``). ``Memories.reset`` restores the marked places; everything else is
as it was after loading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np

from asm.image import Image, ddr_offset
from emulator.core.code import Code, check_machine, load_code
from emulator.core.loop import DATA, run_kernel
from emulator.engines.issue import issue_kernel
from emulator.engines.slots import Slots
from emulator.memory.areas import (
    GRANULE_SHIFT,
    Bytes,
    HostMemoryError,
    anonymous,
    make_scratchpads,
    map_ddr,
    renew_in_huge_pages,
    scratch_memory,
)
from emulator.memory.made import MadeBytes
from emulator.memory.pages import SharedSegments
from emulator.memory.resetting import Area, Resetting, reset_kernel
from emulator.native import ahead
from emulator.tile.engines import Engines
from emulator.tile.tile import Tile, TileArrays, row_sizes
from tx8isa.errors import Tx8Error
from tx8isa.machine.description import Machine
from tx8isa.numbers.layouts import LINE_BYTES

from .host_threads import rounds_kernel

if TYPE_CHECKING:
    from emulator.timing.chip import SimulationArrays


RENEWED_AT = 8
"""The run after which scratchpads get large pages, because a program that ran this often will run again."""
LARGE = 1 / 8
"""The least share of the scratchpads that such a program writes.

For less, large pages cost more time than they save.
"""


class Memories:
    """The memories of one chip with a program loaded, for one system at a time.

    ``beside``: the memories of another chip with the same program, which runs at other times; they share the
    text of the program, compiled code, host threads and working memory. ``pages``: the large segments of the
    program; all memories share their pages until a page is written.
    """

    def __init__(
        self,
        image: Image,
        machine: Machine,
        beside: Memories | None = None,
        pages: SharedSegments | None = None,
    ) -> None:
        check_machine(image, machine)
        self.image, self.machine = image, machine
        self.code: Code = beside.code if beside else load_code(image, machine)
        self.code.translation.several_chips |= beside is not None
        ends = [self.offset(segment.address) + segment.size for segment in image.segments]
        self.ddr = map_ddr(machine, max(ends, default=0))
        self.ddr_area = Area(self.ddr, _marks(self.ddr.size), GRANULE_SHIFT, 0)
        self.spm = make_scratchpads(machine)
        self._resets = 0
        self._known_pieces: dict[int, Sequence[tuple[Bytes, Bytes]]] = {}
        self._load(0, self.ddr.size, pages)
        self.rows = np.zeros((machine.tiles, sum(row_sizes(machine))), dtype=np.int64)
        """The words of all tiles, a row for each; ``row_sizes`` lists them."""
        self.arrays = [
            TileArrays(number, machine, spm, self.ddr, self.ddr_area.marks, self.rows[number])
            for number, spm in enumerate(self.spm)
        ]
        self.thread_pool: ThreadPoolExecutor = (
            beside.thread_pool if beside else ThreadPoolExecutor(machine.tiles)
        )
        """Host threads, kept for the next run."""
        self._engines: dict[bool, Engines] = beside._engines if beside else {}
        self._loops: dict[int, int] = beside._loops if beside else {}
        self._scratch: list[Bytes] = beside._scratch if beside else []

    def prepare(self, ne_post: bool, checked: int, timed: bool) -> None:
        """Compile side by side the kernels of a run, as far as the text of the program shows them."""
        jobs = Slots(ne_post).jobs(self.code.expected_slots) if not checked & DATA else []
        others: list[Callable[[], object]] = [issue_kernel, rounds_kernel, partial(run_kernel, checked)]
        if timed:
            from emulator.timing.log import log_kernel
            from emulator.timing.simulate import simulate_kernel

            others += [simulate_kernel, log_kernel]
        ahead.prepare([*others, *jobs])

    def make_tile(self, number: int, serial: bool) -> Tile:
        """Make a tile in its reset state; ``serial`` as in ``RunOptions``."""
        arrays = self.arrays[number]
        arrays.reset(serial)
        return Tile(number, self.spm[number], arrays.words, arrays.queue, arrays.window, arrays.counts)

    def offset(self, address: int) -> int:
        """Return the offset in DDR of a core address; Tx8Error outside DDR."""
        offset = ddr_offset(address, self.image.windows)
        if offset is None:
            windows = " ".join(f"0x{w.address:x}..0x{w.address + w.size - 1:x}" for w in self.image.windows)
            raise Tx8Error(f"segment at 0x{address:x}: lies in no DDR window, expected {windows}")
        return offset

    def engines(self, ne_post: bool) -> Engines:
        """Return the compiled functions of the engines; ``ne_post`` as in ``Slots``."""
        if ne_post not in self._engines:
            self._engines[ne_post] = Engines(ne_post)
        return self._engines[ne_post]

    def loop(self, checked: int) -> int:
        """Return the address of the kernel core's loop; ``checked`` as in ``core.generate_run``."""
        if checked not in self._loops:
            self._loops[checked] = run_kernel(checked)
        return self._loops[checked]

    @cached_property
    def rounds(self) -> int:
        """Return the address of the function that runs rounds of tiles; see ``host_threads``."""
        return rounds_kernel()

    @cached_property
    def simulation(self) -> SimulationArrays:
        """The arrays of simulated time."""
        from emulator.timing.chip import SimulationArrays  # here: most runs do not need it

        return SimulationArrays(self.machine)

    @cached_property
    def made(self) -> MadeBytes:
        """Bytes that engines and copies would have written, in runs without data."""
        return MadeBytes(self.ddr, self.spm)

    @cached_property
    def _resetting(self) -> Resetting:
        byte, shift = self.machine.spm.reset_byte, LINE_BYTES.bit_length() - 1
        pads = [Area(spm.data, spm.lines, shift, byte) for spm in self.spm]
        return Resetting([self.ddr_area, *pads], reset_kernel())

    def scratch(self, threads: int) -> list[Bytes]:
        """Return working memory for each of ``threads`` host threads; its contents do not matter."""
        while len(self._scratch) < threads:
            self._scratch.append(scratch_memory())
        return self._scratch[:threads]

    def core_bytes(self, tile: int, address: int, size: int) -> Bytes | None:
        """Return bytes as the kernel core of a tile sees them, or None where it sees no memory."""
        windows = self.machine.windows
        ddr = self.ddr[: windows.ddr_core_bytes]
        for base, memory in (
            (windows.spm_weak, self.spm[tile].data),
            (windows.spm_strong, self.spm[tile].data),
            (windows.ddr_cached, ddr),
            (windows.ddr_uncached, ddr),
        ):
            if size >= 0 and base <= address and address + size <= base + memory.size:
                return memory[address - base : address - base + size]
        return None

    def ddr_range(self, address: int, size: int) -> Bytes:
        """Return DDR bytes in the engines' view; Tx8Error when they are not all mapped."""
        base = self.machine.windows.ddr_engine
        first = address - base
        if size < 0 or first < 0 or first + size > self.ddr.size:
            seen = f"0x{base:x}..0x{base + self.ddr.size - 1:x}"
            raise Tx8Error(f"DDR 0x{address:x}:{size} is outside {seen}, the engines' view")
        return self.ddr[first : first + size]

    def reset(self, threads: int = 1) -> None:
        """Restore the memories to their state after loading, with ``threads`` host threads."""
        self._resets += 1
        if "made" in self.__dict__:
            self.made.clear()
        if self._resets == RENEWED_AT and self._large():
            renew_in_huge_pages(self.spm)
        written = self._written_segments()
        work = self._resetting
        work.begin()
        jobs = [self.thread_pool.submit(work.share) for _ in range(threads - 1)]
        work.share()
        for job in jobs:
            job.result()
        for first in written:
            for target, data in self._pieces(first):
                target[:] = data

    def _pieces(self, first: int) -> Sequence[tuple[Bytes, Bytes]]:
        """Return the parts of the program's file in the granule of DDR at an offset, and their places.

        They are cached, because steps of a session write to the same granules again and again.
        """
        if first not in self._known_pieces:
            self._known_pieces[first] = [*self._file_parts(first, first + (1 << GRANULE_SHIFT))]
        return self._known_pieces[first]

    def _large(self) -> bool:
        """Return True if the last run has written more of the scratchpads than large pages cost."""
        lines = np.array([np.count_nonzero(pad.lines) for pad in self.spm])
        return bool(lines.sum() >= LARGE * sum(pad.lines.size for pad in self.spm))

    def _written_segments(self) -> list[int]:
        """Return the starts of marked granules of DDR that hold a part of the program's file."""
        found = set[int]()
        for first, marks in self._segment_marks:
            found.update((first + marks.nonzero()[0]).tolist())
        return [granule << GRANULE_SHIFT for granule in sorted(found)]

    @cached_property
    def _segment_marks(self) -> list[tuple[int, Bytes]]:
        """Return for each segment with data its first granule of DDR, and the marks of its granules."""
        found = []
        for segment in self.image.segments:
            if segment.data:
                at = self.offset(segment.address)
                first, end = at >> GRANULE_SHIFT, (at + len(segment.data) - 1 >> GRANULE_SHIFT) + 1
                found.append((first, self.ddr_area.marks[first:end]))
        return found

    def _load(self, start: int, end: int, pages: SharedSegments | None = None) -> None:
        """Load the part of the program's file that belongs into a range of DDR.

        Segments in ``pages`` are mapped there instead.
        """
        for target, data in self._file_parts(start, end, pages):
            target[:] = data

    def _file_parts(
        self, start: int, end: int, pages: SharedSegments | None = None
    ) -> Iterator[tuple[Bytes, Bytes]]:
        """Yield the copies of ``_load``: places in DDR, and the bytes of the file."""
        for segment in self.image.segments:
            if pages is not None and pages.map(segment.section, self.ddr):
                continue
            at = self.offset(segment.address)
            first, last = max(at, start), min(at + len(segment.data), end)
            if first < last:
                data = np.frombuffer(segment.data, dtype=np.uint8)
                yield self.ddr[first:last], data[first - at : last - at]


def _marks(size: int) -> Bytes:
    count = ((size >> GRANULE_SHIFT) + 8) & -8
    marks = anonymous(count)
    if marks is None:
        raise HostMemoryError(f"the host refuses {count} bytes of marks; raise the memory limit")
    return marks
