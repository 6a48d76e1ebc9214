"""The JSON note of an image: buffers, entries, checksums and the tables from address to line and node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import accumulate, chain, groupby, repeat
from operator import sub
from typing import Annotated, Any, TypeVar
from zlib import crc32

import msgspec
from msgspec import UNSET, Meta, UnsetType

from .types import (
    LIVE_ROLES,
    VERSION,
    Buffer,
    Dimension,
    EntryPoint,
    Image,
    ImageError,
    LazyMapping,
    LazySequence,
    LiveRange,
    Segment,
    Shapes,
    Window,
)

_T = TypeVar("_T")
_Unsigned = Annotated[int, Meta(ge=0)]
_Positive = Annotated[int, Meta(ge=1)]


class _Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class SegmentNote(_Record, frozen=True):
    """Section of one loadable segment, in the order of the program headers, and CRC-32 of its bytes."""

    section: str
    crc32: _Unsigned


class WindowNote(_Record, frozen=True):
    """One DDR window."""

    address: _Unsigned
    bytes: _Positive


class BufferNote(_Record, frozen=True):
    """One named tensor."""

    name: str
    kind: str
    address: _Unsigned
    format: str
    shape: tuple[_Unsigned, ...]
    layout: str
    dtype: str | None


class ExtentsNote(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The extents of an input or output."""

    kind: str
    name: str
    extents: tuple[str, ...]


class RoomNote(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The axis along which an input or output reserves memory for its largest extent."""

    kind: str
    name: str
    axis: _Unsigned


class ShapesNote(_Record, frozen=True):
    """Dynamic sizes: the shape block; name, least, usual and most of each dimension; the extents."""

    address: _Unsigned
    dimensions: tuple[tuple[str, _Unsigned, _Positive, _Positive], ...]
    extents: tuple[ExtentsNote, ...]
    room: tuple[RoomNote, ...] | msgspec.UnsetType = msgspec.UNSET


class EntryPointNote(_Record, frozen=True):
    """The entry of a network, in a program of several networks."""

    name: str
    address: _Unsigned
    buffers: tuple[BufferNote, ...]


class NodeTable(_Record, frozen=True):
    """address -> name. ``addresses``: the first, then differences. ``runs``: index into names, count, ..."""

    names: list[str]
    runs: list[_Unsigned]
    addresses: list[_Unsigned]


class LineTable(_Record, frozen=True):
    """address -> (file, line). As NodeTable with files as names; ``lines`` is encoded as ``addresses``."""

    names: list[str]
    runs: list[_Unsigned]
    addresses: list[_Unsigned]
    lines: list[int]


class LiveNote(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One live range of the scratchpad."""

    name: str
    role: str
    node: str
    address: _Unsigned
    bytes: _Positive
    begin: _Unsigned
    end: _Unsigned


class Note(_Record, frozen=True):
    """The whole descriptor. The tables remain bytes until they are needed."""

    version: int
    machine: str | dict[str, Any]
    entry: _Unsigned
    tile_entries: dict[int, int]
    windows: tuple[WindowNote, ...]
    buffers: tuple[BufferNote, ...]
    segments: tuple[SegmentNote, ...]
    lines: msgspec.Raw
    nodes: msgspec.Raw
    live: msgspec.Raw
    shapes: ShapesNote | msgspec.UnsetType = msgspec.UNSET
    entry_points: tuple[EntryPointNote, ...] | UnsetType = UNSET
    """Only in an image with several networks."""


class _Version(msgspec.Struct):
    version: int


def encode_note(image: Image) -> bytes:
    """Encode the descriptor of an image as JSON."""
    note = Note(
        version=image.version,
        machine=image.machine,
        entry=image.entry,
        tile_entries=dict(sorted(image.tile_entries.items())),
        windows=tuple(WindowNote(*window) for window in image.windows),
        buffers=_buffer_notes(image.buffers),
        segments=tuple(SegmentNote(s.section, crc32(s.data)) for s in image.segments),
        lines=msgspec.Raw(msgspec.json.encode(_line_table(image.lines))),
        nodes=msgspec.Raw(msgspec.json.encode(_node_table(image.nodes))),
        live=msgspec.Raw(msgspec.json.encode([LiveNote(*live) for live in image.live])),
        shapes=msgspec.UNSET if image.shapes is None else _shapes_note(image.shapes),
        entry_points=tuple(
            EntryPointNote(each.name, each.address, _buffer_notes(each.buffers))
            for each in image.entry_points
        )
        or UNSET,
    )
    return msgspec.json.encode(note)


def _shapes_note(shapes: Shapes) -> ShapesNote:
    extents = tuple(ExtentsNote(*key, found) for key, found in shapes.extents.items())
    room = tuple(RoomNote(*key, axis) for key, axis in shapes.room.items())
    dimensions = tuple((d.name, d.least, d.usual, d.most) for d in shapes.dimensions)
    return ShapesNote(shapes.address, dimensions, extents, room or msgspec.UNSET)


def _shapes(note: ShapesNote | msgspec.UnsetType) -> Shapes | None:
    if note is msgspec.UNSET:
        return None
    extents = {(each.kind, each.name): each.extents for each in note.extents}
    room = {(each.kind, each.name): each.axis for each in note.room or ()}
    return Shapes(note.address, tuple(Dimension(*each) for each in note.dimensions), extents, room)


def decode_note(descriptor: bytes, name: str) -> Note:
    """Decode the descriptor of the image file ``name``; ImageError when it is malformed."""
    return _decode(descriptor, Note, name)


def check_version(descriptor: bytes, name: str) -> None:
    """Raise ImageError unless the descriptor is of the version that ``decode_note`` understands."""
    version = _decode(descriptor, _Version, name).version
    if version != VERSION:
        raise ImageError(f"{name}: image format version {version}: this tool reads version {VERSION}")


def image_fields(note: Note, segments: tuple[Segment, ...], name: str) -> dict[str, Any]:
    """Convert the note to the fields of an ``Image``."""
    return {
        "entry": note.entry,
        "segments": segments,
        "tile_entries": note.tile_entries,
        "buffers": _buffers(note.buffers),
        "lines": LazyMapping(partial(_lines, bytes(note.lines), name)),
        "nodes": LazyMapping(partial(_nodes, bytes(note.nodes), name)),
        "live": LazySequence(partial(_live, bytes(note.live), name)),
        "machine": note.machine,
        "windows": tuple(Window(window.address, window.bytes) for window in note.windows),
        "version": note.version,
        "shapes": _shapes(note.shapes),
        "entry_points": tuple(
            EntryPoint(each.name, each.address, _buffers(each.buffers)) for each in note.entry_points or ()
        ),
    }


def _buffer_notes(buffers: Iterable[Buffer]) -> tuple[BufferNote, ...]:
    return tuple(BufferNote(b.name, b.kind, b.address, b.format, b.shape, b.layout, b.dtype) for b in buffers)


def _buffers(notes: Iterable[BufferNote]) -> tuple[Buffer, ...]:
    return tuple(Buffer(b.name, b.kind, b.address, b.format, b.shape, b.layout, b.dtype) for b in notes)


def _decode(data: bytes, of: type[_T], name: str) -> _T:
    try:
        return msgspec.json.decode(data, type=of)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ImageError(f"{name}: corrupted image: note .note.tx8: {error}") from None


def _differences(values: Sequence[int]) -> list[int]:
    return [*values[:1], *map(sub, values[1:], values)]


def _runs(values: Iterable[str]) -> tuple[list[str], list[int]]:
    """Distinct values in order of appearance, and (index, how often in a row) flattened."""
    index: dict[str, int] = {}
    runs: list[int] = []
    for value, group in groupby(values):
        runs += (index.setdefault(value, len(index)), len(list(group)))
    return list(index), runs


def _line_table(lines: Mapping[int, tuple[str, int]]) -> LineTable:
    addresses = sorted(lines)
    rows = [lines[address] for address in addresses]
    names, runs = _runs(file for file, _ in rows)
    return LineTable(names, runs, _differences(addresses), _differences([line for _, line in rows]))


def _node_table(nodes: Mapping[int, str]) -> NodeTable:
    addresses = sorted(nodes)
    names, runs = _runs(nodes[address] for address in addresses)
    return NodeTable(names, runs, _differences(addresses))


def _column(table: LineTable | NodeTable, name: str) -> tuple[list[int], list[str]]:
    """Expand a table to addresses and their names; its columns are checked first."""
    indices, counts, addresses = table.runs[::2], table.runs[1::2], table.addresses
    consistent = (
        len(indices) == len(counts)
        and sum(counts) == len(addresses)
        and all(index < len(table.names) for index in indices)
        and all(addresses[1:])
    )
    if not consistent:
        raise ImageError(f"{name}: corrupted image: the columns of a table of .note.tx8 do not agree")
    texts = chain.from_iterable(map(repeat, map(table.names.__getitem__, indices), counts))
    return list(accumulate(addresses)), list(texts)


def _lines(raw: bytes, name: str) -> dict[int, tuple[str, int]]:
    table = _decode(raw, LineTable, name)
    addresses, files = _column(table, name)
    if len(table.lines) != len(addresses):
        raise ImageError(f"{name}: corrupted image: the columns of a table of .note.tx8 do not agree")
    return dict(zip(addresses, zip(files, accumulate(table.lines), strict=True), strict=True))


def _nodes(raw: bytes, name: str) -> dict[int, str]:
    return dict(zip(*_column(_decode(raw, NodeTable, name), name), strict=True))


def _live(raw: bytes, name: str) -> list[LiveRange]:
    notes = _decode(raw, list[LiveNote], name)
    wrong = next((note for note in notes if note.begin >= note.end or note.role not in LIVE_ROLES), None)
    if wrong is not None:
        raise ImageError(f"{name}: corrupted image: live range {wrong.name!r} of .note.tx8 makes no sense")
    return [LiveRange(*msgspec.structs.astuple(note)) for note in notes]
