"""Conditions between the parts of an image that must hold before a loader may trust it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise

from tx8isa.errors import Tx8Error
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import Layout
from tx8isa.riscv.compressed import COMPRESSED_BYTES

from .chips import OF_CHIPS, problems_of_chips
from .dwarf import SECTIONS as DEBUG_SECTIONS
from .entry_points import problems_of_entries
from .types import SUM, VERSION, Buffer, Image, Segment, Shapes, Window

FLAGS = ("rx", "rw", "r")
KINDS = ("input", "output", "constant")
OWN_SECTIONS = (".note.tx8", ".symtab", ".strtab", ".shstrtab", *DEBUG_SECTIONS)
_MAX_SEGMENTS = 4096
_EXTENT = re.compile(r"@?\d{1,18}")
_NUMBER = re.compile(r"\d{1,18}")


def problem(image: Image) -> str | None:
    """Return the first mistake in an image, or None. Tables that are decoded on demand are not checked."""
    return next(_problems(image), None)


def ddr_offset(address: int, windows: Sequence[Window]) -> int | None:
    """Return the DDR offset of an address, None outside of all windows."""
    for window in windows:
        if window.address <= address < window.address + window.size:
            return address - window.address
    return None


def _problems(image: Image) -> Iterator[str]:
    if image.version != VERSION:
        yield f"format version {image.version}: this tool knows version {VERSION}"
    if len(image.segments) > _MAX_SEGMENTS:
        yield f"{len(image.segments)} segments: at most {_MAX_SEGMENTS} are allowed"
    for segment in image.segments:
        yield from _segment_problems(segment, image.windows)
    yield from _name_problems("segments of section", [segment.section for segment in image.segments])
    yield from _overlaps(image)
    yield from problems_of_chips(image)
    yield from _entry_problems(image)
    yield from _all_buffer_problems(image.buffers, image.windows)
    yield from problems_of_entries(image)
    if image.shapes is not None:
        yield from _shape_problems(image, image.shapes)
    yield from _name_problems("entry points", [each.name for each in image.entry_points])
    for each in image.entry_points:
        yield from _all_buffer_problems((*image.buffers, *each.buffers), image.windows)


def _all_buffer_problems(buffers: Sequence[Buffer], windows: Sequence[Window]) -> Iterator[str]:
    for buffer in buffers:
        yield from _buffer_problems(buffer, windows)
    for kind in KINDS:  # an input and an output may share a name, as in a graph that returns its input
        yield from _name_problems(f"{kind} buffers", [b.name for b in buffers if b.kind == kind])


def _shape_problems(image: Image, shapes: Shapes) -> Iterator[str]:
    """Return the mistake in the declarations of dynamic sizes."""
    yield from _name_problems("dimensions", [each.name for each in shapes.dimensions])
    lengths = {extents[shapes.room[key]] for key, extents in shapes.extents.items() if _has_axis(shapes, key)}
    for each in shapes.dimensions:
        first = 0 if each.name in lengths else 1
        if not first <= each.least <= each.usual <= each.most:
            found, order = f"{each.least}:{each.usual}:{each.most}", f"ascending order from {first} on"
            yield f"dimension {each.name}: {found}, expected least:usual:most, in {order}"
    if ddr_offset(shapes.address, image.windows) is None:
        yield f"the shape block at {shapes.address:#x} lies in no DDR window"
    known = {each.name for each in shapes.dimensions}
    buffers = {(buffer.kind, buffer.name): buffer for buffer in image.buffers}
    for (kind, name), extents in shapes.extents.items():
        where = f"extents of {kind} {name}"
        if (kind, name) not in buffers:
            yield f"{where}: there is no such buffer"
        elif len(extents) != len(buffers[kind, name].shape):
            yield f"{where}: {len(extents)}, expected {len(buffers[kind, name].shape)}"
        for extent in extents:
            parts = extent.split(SUM)
            if extent not in known and not _EXTENT.fullmatch(extent) and not _is_sum(parts, known):
                wanted = "a number, a dimension, a sum of them, or @ and the number of a word"
                yield f"{where}: {extent!r}, expected {wanted}"
    yield from _room_problems(shapes, buffers)


def _is_sum(parts: Sequence[str], known: Collection[str]) -> bool:
    return len(parts) > 1 and all(part in known or _NUMBER.fullmatch(part) for part in parts)


def _has_axis(shapes: Shapes, key: tuple[str, str]) -> bool:
    """Return True if a buffer has room along one of its axes."""
    return key in shapes.room and 0 <= shapes.room[key] < len(shapes.extents[key])


def _room_problems(shapes: Shapes, buffers: Mapping[tuple[str, str], Buffer]) -> Iterator[str]:
    """Yield mistakes in the axes along which inputs and outputs reserve their largest extent."""
    most = {each.name: each.most for each in shapes.dimensions}
    for key, axis in shapes.room.items():
        where, extents = f"room of {key[0]} {key[1]}", shapes.extents.get(key, ())
        if key not in buffers or len(extents) != len(buffers[key].shape) or not 0 <= axis < len(extents):
            yield f"{where}: axis {axis}, expected an axis of a buffer whose extents are declared"
            continue
        for at, (extent, size) in enumerate(zip(extents, buffers[key].shape, strict=True)):
            parts = [most.get(part) or int(part) for part in extent.split(SUM) if "@" not in part]
            if (at != axis and extent != str(size)) or sum(parts) > size or "@" in extent:
                yield f"{where}: {extent!r} of {size}, expected at most that, and the same along other axes"


def _name_problems(what: str, names: list[str]) -> Iterator[str]:
    for name in names:
        if not name or "\0" in name:
            yield f"a name among the {what} is empty or holds a NUL: {name!r}"
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        yield f"two {what} {twice}"


def _segment_problems(segment: Segment, windows: Sequence[Window]) -> Iterator[str]:
    where = f"segment {segment.section}"
    if segment.section in OWN_SECTIONS:
        yield f"{where}: this section name is kept for the image's own tables"
    if segment.flags not in FLAGS:
        yield f"{where}: flags '{segment.flags}', expected one of {' '.join(FLAGS)}"
    if segment.size < max(len(segment.data), 1):
        yield f"{where}: size {segment.size}, expected at least 1 and its {len(segment.data)} bytes of data"
    fits = (
        window.address <= segment.address and segment.address + segment.size <= window.address + window.size
        for window in windows
    )
    if not any(fits):
        allowed = " ".join(
            f"{window.address:#x}..{window.address + window.size - 1:#x}" for window in windows
        )
        last = segment.address + segment.size - 1
        yield f"{where}: {segment.address:#x}..{last:#x} lies in no DDR window, expected {allowed or 'one'}"


def _overlaps(image: Image) -> Iterator[str]:
    placed = sorted(
        (ddr_offset(segment.address, image.windows) or 0, segment.size, segment.section)
        for segment in image.segments
        if not segment.section.startswith(OF_CHIPS)
    )
    for (start, size, name), (following, _, other) in pairwise(placed):
        if following < start + size:
            yield f"segments {name} and {other} overlap at DDR offset {following:#x}"


def _entry_problems(image: Image) -> Iterator[str]:
    entries = [("entry", image.entry)]
    entries += [(f"entry of tile {tile}", address) for tile, address in image.tile_entries.items()]
    entries += [(f"entry point {each.name}", each.address) for each in image.entry_points]
    code = [segment for segment in image.segments if segment.flags == "rx"]
    for what, address in entries:
        if address % COMPRESSED_BYTES:
            yield f"{what} {address:#x} is not a multiple of {COMPRESSED_BYTES}"
        if not any(segment.address <= address < segment.address + len(segment.data) for segment in code):
            yield f"{what} {address:#x} lies in no code"
    for tile in image.tile_entries:
        if tile < 0:
            yield f"entry of tile {tile}: tiles count from 0"


def _buffer_problems(buffer: Buffer, windows: Sequence[Window]) -> Iterator[str]:
    where = f"buffer {buffer.name}"
    if buffer.kind not in KINDS:
        yield f"{where}: kind '{buffer.kind}', expected one of {' '.join(KINDS)}"
    if ddr_offset(buffer.address, windows) is None:
        yield f"{where}: address {buffer.address:#x} lies in no DDR window"
    for extent in buffer.shape:
        if not 0 <= extent < 1 << 63:
            yield f"{where}: extent {extent} of shape {list(buffer.shape)}, expected 0 or more"
    try:
        Format.parse(buffer.format)
        blocked = Layout.parse(buffer.layout).blocked
    except Tx8Error as error:
        yield f"{where}: {error}"
    else:
        if blocked and 0 in buffer.shape:
            found = f"shape {list(buffer.shape)} in layout {buffer.layout}"
            yield f"{where}: {found}, expected extents of 1 or more"
