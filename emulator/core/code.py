"""The program text as the kernel core runs it: the fetched bytes, and their decoded words.

Both are copies. A program's writes to its own text in DDR take effect after a fence.i of that tile.
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
from tx8isa.table import compressed as rvc
from tx8isa.table import encoding
from tx8isa.table import scalar as rv

from .float_unit import unit_kernel
from .predecode import ENGINE, PARCEL, Words, float_operations, predecode, reads_clock
from .translate import Translation

_LARGEST = 1 << 30
_CONTROL = 8 // PARCEL
"""Position of the control word in an engine instruction."""
_LONGEST = 4 * 63
"""Bytes of the longest instruction that a header word can announce."""

_PLACES = np.array([state.PLAIN, state.CODE_WORDS, state.CODE_BASE, state.TEXT, state.FLOAT_UNIT])
"""Positions of the words that describe a tile's program, and never change while it runs."""


class CodeError(Tx8Error):
    """A program whose text the kernel core cannot fetch."""


@dataclass(frozen=True)
class Code:
    """``words[i]`` belongs to the instruction at core address ``base + PARCEL*i``; ``text`` are the bytes.

    One more word after the last is not an instruction, so that the loop need not check for the end.
    """

    base: int
    text: Bytes
    words: Words
    spans: tuple[tuple[int, int], ...]
    """(address, bytes) of the executable segments; the gaps between them hold no instructions."""
    translation: Translation = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "translation", Translation(self.words))

    def index(self, address: int) -> int | None:
        """Return the index of the word at a core address; None if no instruction can begin there."""
        at, odd = divmod(address - self.base, PARCEL)
        return at if not odd and 0 <= at < self.words.size - 1 else None

    def word(self, address: int) -> int | None:
        """Return the undecoded instruction at a core address.

        None where the program lacks one of its bytes.
        """
        at = address - self.base
        word = int.from_bytes(self.text[at : at + 4].tobytes(), "little") if at >= 0 else 0
        size = rvc.length(word)
        inside = any(first <= address <= first + length - size for first, length in self.runs)
        return word & (1 << 8 * size) - 1 if inside else None

    def missing(self, address: int) -> int:
        """Return the address that cannot be fetched if ``word`` is None: that of the instruction, or of its
        second half."""
        begins = any(first <= address <= first + length - PARCEL for first, length in self.runs)
        return address + PARCEL if begins else address

    def scalar(self, address: int) -> tuple[Scalar, dict[str, int]]:
        """Return the scalar instruction that the compiled loop stopped at, and its field values.

        A compressed instruction is returned as the full one. A program that polls a register stops at the
        same instruction repeatedly, so each is decoded once.
        """
        if address not in self._scalars:
            self._scalars[address] = self._decoded_scalar(address)
        return self._scalars[address]

    def _decoded_scalar(self, address: int) -> tuple[Scalar, dict[str, int]]:
        word = self.word(address)
        found = None if word is None else rvc.expand(word) if rvc.is_compressed(word) else rv.decode(word)
        if found is None:
            raise AssertionError("the compiled loop only stops at instructions it knows")
        return found

    @cached_property
    def _scalars(self) -> dict[int, tuple[Scalar, dict[str, int]]]:
        return {}

    def size(self, address: int) -> int:
        """Return the bytes of the instruction at a core address, even if its word is marked."""
        if address not in self._sizes:
            at = address - self.base
            found = encoding.decode(self.text[at : at + _LONGEST].tobytes())
            if isinstance(found, encoding.DecodedInstruction):
                self._sizes[address] = found.size
            else:
                self._sizes[address] = rvc.length(int(self.text[at]))
        return self._sizes[address]

    @cached_property
    def _sizes(self) -> dict[int, int]:
        return {}

    @cached_property
    def runs(self) -> tuple[tuple[int, int], ...]:
        """(address, bytes) of the executable segments; adjacent ones are joined."""
        runs: list[tuple[int, int]] = []
        for address, size in sorted(self.spans):
            if runs and sum(runs[-1]) == address:
                address, size = runs[-1][0], runs.pop()[1] + size
            runs.append((address, size))
        return tuple(runs)

    @cached_property
    def float_unit(self) -> int:
        """Return the address of the floating-point unit, 0 when no instruction needs it."""
        return unit_kernel() if np.isin(self.words & 0xFF, float_operations()).any() else 0

    @cached_property
    def expected_slots(self) -> list[int]:
        """Return the kernels' slots of the engine instructions in the text."""
        places = np.flatnonzero(self.words & 0xFF == ENGINE)
        halves = self.text.view("<u2")
        low, high = (halves[places + _CONTROL + half].astype(np.int64) for half in (0, 1))
        control = low | high << 16
        return expected_slots(self.words[places] >> 32 & (1 << WORKER_SHIFT) - 1, control)

    @cached_property
    def reads_clock(self) -> bool:
        """True if an instruction reads simulated time."""
        return reads_clock(self.words)

    @cached_property
    def _values(self) -> Words:
        """Return the values of the words ``_PLACES`` of a tile that runs this program."""
        plain, text = self.words.ctypes.data, self.text.ctypes.data
        return np.array([plain, self.words.size - 1, self.base, text, self.float_unit], dtype=np.int64)

    def install(self, words: Words) -> None:
        """Make a tile, given by the words of its state, run this program."""
        words[_PLACES] = self._values
        words[state.CODE] = self.translation.dispatch.ctypes.data


def check_machine(image: Image, machine: Machine) -> None:
    """Raise Tx8Error when an image was laid out for another machine."""
    if tuple(image.windows) != ddr_windows(machine):
        name = image.machine if isinstance(image.machine, str) else image.machine.get("name")
        raise Tx8Error(
            f"the program was made for machine {name}, whose DDR windows are not those of {machine.name}: "
            "give the machine description it was made with"
        )
    harts = machine.tiles * machine.chip_count
    beyond = [tile for tile in image.tile_entries if tile >= harts]
    if beyond:
        text = f"the program has an entry for tile {beyond[0]}"
        raise Tx8Error(f"{text}, machine {machine.name} has {harts} tiles")


def load_code(image: Image, machine: Machine) -> Code:
    """Load the executable segments of an image into one array; gaps between them hold no instructions."""
    segments = [segment for segment in image.segments if "x" in segment.flags]
    for segment in segments:
        _check_window(segment, machine)
    for entry in (image.entry, *image.tile_entries.values()):
        if entry % PARCEL or not any(s.address <= entry < s.address + len(s.data) for s in segments):
            raise CodeError(f"entry 0x{entry:x}: expected a multiple of {PARCEL} inside the code")
    base = min((s.address for s in segments), default=0) & ~3
    size = max((s.address + len(s.data) for s in segments), default=0) + 3 - base & ~3
    text = anonymous(max(size, 4)) if size <= _LARGEST else None
    words = anonymous(8 * (max(size, PARCEL) // PARCEL + 1)) if size <= _LARGEST else None
    if text is None or words is None:
        raise CodeError(f"the code is spread over {size} bytes, which the host refuses or exceeds {_LARGEST}")
    spans = tuple((segment.address, len(segment.data)) for segment in segments)
    code = Code(base, text, words.view(np.int64), spans)
    for segment in segments:
        _copy(code, segment.address, segment.data)
    _decode(code)
    return code


def fetch_again(code: Code, read: Callable[[int, int], Bytes | None]) -> Code:
    """Return the code as memory holds it now, the same object when nothing has changed.

    ``read(address, size)`` gives bytes as the kernel core sees them.
    """
    fresh = Code(code.base, code.text.copy(), np.zeros_like(code.words), code.spans)
    for address, size in code.spans:
        data = read(address, size)
        if data is None:
            raise AssertionError("an executable segment lies in memory, or it could not be loaded")
        _copy(fresh, address, data.tobytes())
    _decode(fresh)
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


def _copy(code: Code, address: int, data: bytes | memoryview) -> None:
    at = address - code.base
    code.text[at : at + len(data)] = np.frombuffer(data, dtype=np.uint8)


def _decode(code: Code) -> None:
    """Decode the text; words outside the segments are not instructions."""
    for address, size in code.runs:
        at = address - code.base
        first, end = -(-at // PARCEL), (at + size) // PARCEL
        if first < end:
            code.words[first:end] = predecode(code.text[PARCEL * first : PARCEL * end].tobytes())
