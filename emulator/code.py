"""The program text as the kernel core runs it: the bytes as loaded, and their decoded words.

Both are copies: what a program writes over its own text in DDR is not executed (there is no fence.i).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from asm.image import Image, Segment
from tx8isa.errors import Tx8Error
from tx8isa.machine import Machine

from .memory import Bytes, anonymous
from .predecode import Words, predecode

_LARGEST = 1 << 30


class CodeError(Tx8Error):
    """A program whose text the kernel core cannot fetch."""


@dataclass(frozen=True)
class Code:
    """``words[i]`` belongs to the four bytes of ``text`` at core address ``base + 4*i``."""

    base: int
    text: Bytes
    words: Words

    def word(self, address: int) -> int:
        """The undecoded word at a core address inside the text."""
        at = address - self.base
        return int.from_bytes(self.text[at : at + 4].tobytes(), "little")


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
    words = anonymous(max(2 * size, 8)) if size <= _LARGEST else None
    if text is None or words is None:
        raise CodeError(f"the code is spread over {size} bytes, which the host refuses or exceeds {_LARGEST}")
    code = Code(base, text, words.view(np.int64))
    for segment in segments:
        _fill(code, segment)
    return code


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


def _fill(code: Code, segment: Segment) -> None:
    """Copy and decode a segment; words that it does not fill are no instructions."""
    at = segment.address - code.base
    code.text[at : at + len(segment.data)] = np.frombuffer(segment.data, dtype=np.uint8)
    first, end = (at + 3) // 4, (at + len(segment.data)) // 4
    if first < end:
        code.words[first:end] = predecode(code.text[4 * first : 4 * end].tobytes())
