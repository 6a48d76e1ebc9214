"""An image as text that assembles to the same image."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from asm.image.types import ABSOLUTE, Buffer, Image, Segment, Shapes, Symbol
from asm.instructions.text import quote, scalar_text, wide_text
from asm.syntax.source import SECTION_NAME
from tx8isa.errors import Tx8Error
from tx8isa.riscv.compressed import COMPRESSED_BYTES
from tx8isa.riscv.format import SCALAR_BYTES
from tx8isa.riscv.registers import REGISTERS
from tx8isa.table import compressed as rvc
from tx8isa.table import encoding
from tx8isa.tools.files import Bytes

_NAME = re.compile(r"[A-Za-z_.$][\w.$]*")
_FLAGS = {"rx": "ax", "rw": "aw", "r": "a"}
_KINDS = {"func": "@function", "object": "@object"}
_WORDS_PER_LINE = 4
_ZERO_RUN = re.compile(rb"\0{32,}")


def disassemble_image(image: Image, section: str | None = None) -> str:
    """Return the program text of an image, or of one section of it.

    Tx8Error when a name in it cannot be written in assembly, or there is no such section.

    ``.loc``, ``.node``, ``.live`` and ``.dead`` carry tables, ``.base`` and ``.entry`` the addresses. So
    assembling the text gives the same file, byte for byte.
    """
    if section is None:
        lines, segments = [*_head(image)], image.segments
    else:
        lines, segments = [], tuple(s for s in image.segments if s.section == section)
        if not segments:
            known = " ".join(segment.section for segment in image.segments)
            raise Tx8Error(f"no section {section}: the image has {known}")
    for segment in segments:
        lines += _SegmentText(image, segment).lines()
    return "\n".join((*lines, ""))


def _head(image: Image) -> Iterator[str]:
    name = image.machine if isinstance(image.machine, str) else image.machine.get("name")
    if name:
        yield f".machine {quote(str(name))}"
    yield from _declarations(image)
    for buffer in image.buffers:
        yield _buffer(buffer)
    for each in image.entry_points:
        yield f".entry_point {quote(each.name)}, {each.address:#x}"
        for buffer in each.buffers:
            yield _buffer(buffer)
    if image.shapes is not None:
        yield from _shapes(image.shapes)


def _shapes(shapes: Shapes) -> Iterator[str]:
    """Write the directives of dynamic sizes."""
    for each in shapes.dimensions:
        yield f".dimension {quote(each.name)}, {each.least}, {each.usual}, {each.most}"
    for (kind, name), extents in shapes.extents.items():
        yield f".extents {kind}, {quote(name)}, {', '.join(map(_extent, extents))}"
    for (kind, name), axis in shapes.room.items():
        yield f".room {kind}, {quote(name)}, {axis}"
    yield f".shapes {shapes.address:#x}"


def _extent(extent: str) -> str:
    return extent if extent.isdigit() else quote(extent)


def _buffer(buffer: Buffer) -> str:
    shape = "x".join(map(str, buffer.shape)) or "scalar"
    parts = (buffer.kind, quote(buffer.name), buffer.format, shape, buffer.layout, buffer.dtype or "-")
    return f".buffer {', '.join(parts)}, {buffer.address:#x}"


def _declarations(image: Image) -> Iterator[str]:
    """Declare binding, type and size of symbols, and values of symbols that are numbers, in table order."""
    for name, symbol in image.symbols.items():
        if not _NAME.fullmatch(name) or name in REGISTERS or name.startswith(".L") or name == ".":
            raise Tx8Error(f"symbol {name!r} cannot be written in assembly")
        yield f"{'.globl' if symbol.binding == 'global' else '.local'} {name}"
        if symbol.kind in _KINDS:
            yield f".type {name}, {_KINDS[symbol.kind]}"
        if symbol.size:
            yield f".size {name}, {symbol.size}"
        if symbol.section == ABSOLUTE:
            yield f"{name} = {symbol.address:#x}"


class _SegmentText:
    """The text of one segment."""

    def __init__(self, image: Image, segment: Segment) -> None:
        self.image, self.segment = image, segment
        self.start = segment.address
        self.end = segment.address + len(segment.data)
        self.file_line: tuple[str, int] | None = None
        self.node = ""
        self.marks = self._marks()
        self.places = sorted(self.marks)
        self.targets = self._targets() if segment.flags == "rx" else {}
        self.stops = sorted({*self.marks, *self.targets})

    def _marks(self) -> dict[int, list[str]]:
        """The lines before an address: labels, entries."""
        marks: dict[int, list[str]] = defaultdict(list)
        last = self.start + self.segment.size
        for name, symbol in self.image.symbols.items():
            if symbol.section == self.segment.section:
                at = min(max(symbol.address, self.start), last)
                marks[at].append(f"{name}:" if at == symbol.address else _distant(name, symbol, at))
        if self.segment.flags == "rx":
            if self.start <= self.image.entry < self.end:
                marks[self.image.entry].append(".entry")
            for tile, address in self.image.tile_entries.items():
                if self.start <= address < self.end:
                    marks[address].append(f".tile {tile}")
            self._mark_live(marks)
        return marks

    def _mark_live(self, marks: dict[int, list[str]]) -> None:
        """Mark ends of live ranges before beginnings of others, which may use the same bytes."""
        here = [live for live in self.image.live if self.start <= live.begin < live.end <= self.end]
        for live in here:
            marks[live.end].append(f".dead {quote(live.name)}")
        for live in here:
            node = f", {quote(live.node)}" if live.node else ""
            text = f".live {quote(live.name)}, {live.role}, {live.address:#x}, {live.size}{node}"
            marks[live.begin].append(text)

    def lines(self) -> list[str]:
        segment = self.segment
        if not SECTION_NAME.fullmatch(segment.section):
            raise Tx8Error(f"section {segment.section!r} cannot be written in assembly")
        lines = ["", f'.section {segment.section}, "{_FLAGS[segment.flags]}"', f".base {self.start:#x}"]
        if segment.flags == "rx":
            lines += [".loc", *self._code()]
        else:
            lines += self._data(self.start, self.end)
        lines += self._tail()
        if self.node:
            lines.append('.node ""')
        return lines

    def _tail(self) -> Iterator[str]:
        at, last = self.end, self.start + self.segment.size
        for place in [p for p in self.places if at <= p <= last]:
            if place > at:
                yield f"    .zero {place - at}"
            yield from self.marks[place]
            at = place
        if last > at:
            yield f"    .zero {last - at}"

    def _pieces(self) -> Iterator[tuple[int, int, bool]]:
        """(start, end, is_data) of the ranges of a code segment, ascending."""
        at = self.start
        for start, end in self.image.data_ranges:
            if self.start <= start < self.end:
                if start > at:
                    yield at, start, False
                yield start, end, True
                at = end
        if at < self.end:
            yield at, self.end, False

    def _targets(self) -> dict[int, str]:
        """Make a label for every target of a branch in this segment."""
        names = {
            symbol.address: name
            for name, symbol in self.image.symbols.items()
            if symbol.section == self.segment.section
        }
        found: dict[int, str] = {}
        for start, end, is_data in self._pieces():
            for at, _ in self._instructions(start, end) if not is_data else ():
                decoded = rvc.decode_at(self.segment.data, at - self.start)
                if decoded and "target" in decoded[1]:
                    target = at + decoded[1]["target"]
                    if self.start <= target < self.end:
                        found[target] = names.get(target, f".L{target:x}")
        return found

    def _instructions(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield address and length of consecutive scalar instructions; the last may be truncated."""
        at = start
        while at < end:
            size = min(rvc.length(self.segment.data[at - self.start]), end - at)
            yield at, size
            at += size

    def _word(self, at: int) -> int:
        offset = at - self.start
        return int.from_bytes(self.segment.data[offset : offset + 4], "little")

    def _code(self) -> Iterator[str]:
        for start, end, is_data in self._pieces():
            yield from self._mixed(start, end) if is_data else self._scalars(start, end)

    def _before(self, at: int, instruction: bool = True) -> Iterator[str]:
        """Write the lines before an instruction: labels, and its source line and node if they change."""
        yield from self.marks.get(at, ())
        label = self.targets.get(at, "")
        if label.startswith(".L"):
            yield f"{label}:"
        if not instruction:
            return
        node = self.image.nodes.get(at, "")
        if node != self.node:
            self.node = node
            yield f".node {quote(node)}"
        file_line = self.image.lines.get(at)
        if file_line != self.file_line:
            self.file_line = file_line
            yield f".loc {quote(file_line[0])} {file_line[1]}" if file_line else ".loc"

    def _scalars(self, start: int, end: int) -> Iterator[str]:
        code = self.segment.data[start - self.start : end - self.start]
        for at, size in self._instructions(start, end):
            decoded = rvc.decode_at(code, at - start)
            yield from self._before(at)
            yield from self._inside(at, size)
            word = self._word(at) & (1 << 8 * size) - 1
            if decoded is not None:
                yield "    " + scalar_text(*decoded, at, self.targets)
            elif size == rvc.length(word):
                yield f"    .insn {word:#0{2 + 2 * size}x}  # illegal: no instruction has this encoding"
            else:
                yield from _dump(code[at - start :])

    def _inside(self, at: int, size: int) -> Iterator[str]:
        """Define labels whose addresses are inside an instruction."""
        for place in range(at + 1, at + size):
            names = [mark[:-1] for mark in self.marks.get(place, ()) if mark.endswith(":")]
            label = self.targets.get(place, "")
            for name in [*names, label] if label.startswith(".L") else names:
                yield f"{name} = . + {place - at}"

    def _mixed(self, start: int, end: int) -> Iterator[str]:
        """Engine instructions and data."""
        at = plain = start
        grain = COMPRESSED_BYTES if self.image.compressed else SCALAR_BYTES
        while at < end:
            decoded = encoding.decode(self.segment.data, at - self.start) if not at % grain else None
            following = min(at + grain - at % grain, end)
            text = None
            if isinstance(decoded, encoding.DecodedInstruction) and at + decoded.size <= end:
                text = wide_text(decoded)
                following = at + decoded.size if text is not None else following
            if text is not None:
                yield from self._data(plain, at)
                yield from self._before(at)
                yield from self._inside(at, following - at)
                yield "    " + text
                plain = following
            elif isinstance(decoded, encoding.IllegalBytes) and encoding.is_wide(self._word(at)):
                yield from self._data(plain, at)
                yield from self._illegal(at, following, decoded.reason)
                plain = following
            at = following
        yield from self._data(plain, end)

    def _illegal(self, at: int, end: int, reason: str) -> Iterator[str]:
        """Write a header word without a valid engine instruction as data."""
        *lines, last = self._data(at, end)
        yield from lines
        yield f"{last}  # illegal: {reason}"

    def _data(self, start: int, end: int) -> Iterator[str]:
        """Write words and bytes, split at every label."""
        if start == end:
            return
        first, last = bisect_right(self.stops, start), bisect_left(self.stops, end)
        ordered = [start, *self.stops[first:last], end]
        for at, stop in pairwise(ordered):
            yield from self._before(at, instruction=False)
            yield from _dump(self.segment.data[at - self.start : stop - self.start])


def _distant(name: str, symbol: Symbol, at: int) -> str:
    """The definition of a symbol whose address is outside its section."""
    return (
        f"{name} = . + {symbol.address - at}"
        if symbol.address > at
        else f"{name} = . - {at - symbol.address}"
    )


def _dump(data: Bytes) -> Iterator[str]:
    """Write data directives; consecutive zeros are one line."""
    at = 0
    for run in _ZERO_RUN.finditer(data):
        yield from _words(data[at : run.start()])
        yield f"    .fill {run.end() - run.start()}"
        at = run.end()
    yield from _words(data[at:])


def _words(data: Bytes) -> Iterator[str]:
    whole = len(data) // 4 * 4
    step = 4 * _WORDS_PER_LINE
    for at in range(0, whole, step):
        words = (data[i : i + 4] for i in range(at, min(at + step, whole), 4))
        yield "    .word " + ", ".join(f"0x{int.from_bytes(word, 'little'):08x}" for word in words)
    if data[whole:]:
        yield "    .byte " + ", ".join(f"0x{byte:02x}" for byte in data[whole:])
