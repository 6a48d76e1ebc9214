"""The program text as the kernel core runs it: the bytes as fetched, and their decoded words.

Both are copies: what a program writes over its own text in DDR is executed after a fence.i of that tile.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from asm.image import Image, Segment, ddr_windows
from emulator.engines.expected import expected_slots
from emulator.engines.tables import WORKER_SHIFT
from emulator.memory import state
from emulator.memory.areas import Bytes, anonymous
from tx8isa.errors import Tx8Error
from tx8isa.machine.description import Machine
from tx8isa.riscv.format import Scalar
from tx8isa.table import scalar as rv

from .float_unit import unit_kernel
from .predecode import ENGINE, Words, float_operations, predecode, reads_clock
from .translate import Translation

_LARGEST = 1 << 30


_PLACES = np.array([state.PLAIN, state.CODE_WORDS, state.CODE_BASE, state.TEXT, state.FLOAT_UNIT])
"""Positions of the words that say which program a tile runs, and never change while it runs."""


class CodeError(Tx8Error):
    """A program whose text the kernel core cannot fetch."""


@dataclass(frozen=True)
class Code:
    """``words[i]`` belongs to the four bytes of ``text`` at core address ``base + 4*i``.

    One more word after the last is no instruction, so that the loop need not look for the end.
    """

    base: int
    text: Bytes
    words: Words
    spans: tuple[tuple[int, int], ...]
    """(address, bytes) of the executable segments; the gaps between them hold no instructions."""
    translation: Translation = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "translation", Translation(self.words))

    def word(self, address: int) -> int | None:
        """The undecoded word at a core address, None outside the text."""
        at = address - self.base
        inside = 0 <= at < self.text.size
        return int.from_bytes(self.text[at : at + 4].tobytes(), "little") if inside else None

    def scalar(self, address: int) -> tuple[Scalar, dict[str, int]]:
        """The scalar instruction that the compiled loop stopped at, and its field values."""
        word = self.word(address)
        found = None if word is None else rv.decode(word)
        if found is None:
            raise AssertionError("the compiled loop only stops at instructions it knows")
        return found

    @cached_property
    def float_unit(self) -> int:
        """Address of the floating-point unit, 0 when no instruction needs it."""
        return unit_kernel() if np.isin(self.words & 0xFF, float_operations()).any() else 0

    @cached_property
    def expected_slots(self) -> list[int]:
        """The kernels' slots of the engine instructions in the text."""
        places = np.flatnonzero(self.words & 0xFF == ENGINE)
        control = self.text[: self.text.size & -4].view("<u4")[places + 2].astype(np.int64)
        return expected_slots(self.words[places] >> 32 & (1 << WORKER_SHIFT) - 1, control)

    @cached_property
    def reads_clock(self) -> bool:
        """Whether an instruction reads simulated time."""
        return reads_clock(self.words)

    @cached_property
    def _values(self) -> Words:
        """The values of the words ``_PLACES`` of a tile that runs this program."""
        plain, text = self.words.ctypes.data, self.text.ctypes.data
        return np.array([plain, self.words.size - 1, self.base, text, self.float_unit], dtype=np.int64)

    def install(self, words: Words) -> None:
        """Let a tile, given by the words of its state, run this program."""
        words[_PLACES] = self._values
        words[state.CODE] = self.translation.dispatch.ctypes.data


def check_machine(image: Image, machine: Machine) -> None:
    """Tx8Error when an image was laid out for another machine."""
    if tuple(image.windows) != ddr_windows(machine):
        name = image.machine if isinstance(image.machine, str) else image.machine.get("name")
        raise Tx8Error(
            f"the program was made for machine {name}, whose DDR windows are not those of {machine.name}: "
            "give the machine description it was made with"
        )
    beyond = [tile for tile in image.tile_entries if tile >= machine.tiles]
    if beyond:
        text = f"the program has an entry for tile {beyond[0]}"
        raise Tx8Error(f"{text}, machine {machine.name} has {machine.tiles} tiles")


def load_code(image: Image, machine: Machine) -> Code:
    """The executable segments of an image in one array; gaps between them hold no instructions."""
    segments = [segment for segment in image.segments if "x" in segment.flags]
    for segment in segments:
        _check_window(segment, machine)
    for entry in (image.entry, *image.tile_entries.values()):
        if entry % 4 or not any(s.address <= entry < s.address + len(s.data) for s in segments):
            raise CodeError(f"entry 0x{entry:x}: expected a multiple of 4 inside the code")
    base = min((s.address for s in segments), default=0) & ~3
    size = max((s.address + len(s.data) for s in segments), default=0) + 3 - base & ~3
    text = anonymous(max(size, 4)) if size <= _LARGEST else None
    words = anonymous(max(2 * size, 8) + 8) if size <= _LARGEST else None
    if text is None or words is None:
        raise CodeError(f"the code is spread over {size} bytes, which the host refuses or exceeds {_LARGEST}")
    spans = tuple((segment.address, len(segment.data)) for segment in segments)
    code = Code(base, text, words.view(np.int64), spans)
    for segment in segments:
        _fill(code, segment.address, segment.data)
    return code


def fetch_again(code: Code, read: Callable[[int, int], Bytes | None]) -> Code:
    """The code as memory holds it now, the same object when nothing has changed.

    ``read(address, size)`` gives bytes as the kernel core sees them.
    """
    fresh = Code(code.base, code.text.copy(), np.zeros_like(code.words), code.spans)
    for address, size in code.spans:
        data = read(address, size)
        if data is None:
            raise AssertionError("an executable segment lies in memory, or it could not be loaded")
        _fill(fresh, address, data.tobytes())
    return code if np.array_equal(fresh.text, code.text) else fresh


def _check_window(segment: Segment, machine: Machine) -> None:
    at = machine.windows
    size = min(at.ddr_core_bytes, machine.ddr.bytes)
    last = segment.address + segment.size - 1
    if not any(base <= segment.address and last < base + size for base in (at.ddr_cached, at.ddr_uncached)):
        raise CodeError(
            f"code of {segment.section} at 0x{segment.address:x}..0x{last:x}: the kernel core fetches from "
            f"0x{at.ddr_cached:x}..0x{at.ddr_cached + size - 1:x} and "
            f"0x{at.ddr_uncached:x}..0x{at.ddr_uncached + size - 1:x}"
        )


def _fill(code: Code, address: int, data: bytes) -> None:
    """Copy and decode a segment; words that it does not fill are no instructions."""
    at = address - code.base
    code.text[at : at + len(data)] = np.frombuffer(data, dtype=np.uint8)
    first, end = (at + 3) // 4, (at + len(data)) // 4
    if first < end:
        code.words[first:end] = predecode(code.text[4 * first : 4 * end].tobytes())
