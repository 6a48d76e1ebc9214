"""The contents of a program image as plain records; ``asm.image`` writes and reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple, TypeVar, overload

from tx8isa.errors import Tx8Error
from tx8isa.machine.description import Machine, load_machine
from tx8isa.tools.command_line import one_line
from tx8isa.tools.files import Bytes

VERSION = 2
"""The format version that this package writes and reads."""

ABSOLUTE = "*ABS*"
"""Section of a symbol that is a number and no address, as GNU nm and objdump spell it."""

_K = TypeVar("_K")
_V = TypeVar("_V")


class ImageError(Tx8Error):
    """A program image that cannot be written, or a file that is not one.

    The names and words of a damaged image, which messages quote, may hold line ends.
    """

    def __init__(self, text: str) -> None:
        super().__init__(one_line(text))


class Window(NamedTuple):
    """A range of addresses that maps to DDR: DDR offset = address - window."""

    address: int
    size: int


def ddr_windows(machine: Machine) -> tuple[Window, ...]:
    """The DDR windows of a machine: the core's cached and uncached ones, and the engines'."""
    windows = machine.windows
    core = min(windows.ddr_core_bytes, machine.ddr.bytes)
    return (
        Window(windows.ddr_cached, core),
        Window(windows.ddr_uncached, core),
        Window(windows.ddr_engine, machine.ddr.bytes),
    )


@cache
def _packaged_windows() -> tuple[Window, ...]:
    return ddr_windows(load_machine(None))


@dataclass(frozen=True)
class Segment:
    """Bytes to load, and the name of their section.

    ``size`` is the length in memory; the bytes after ``data`` are zero. ``flags``: rx, rw or r.
    """

    section: str
    address: int
    data: Bytes
    size: int
    flags: str


@dataclass(frozen=True)
class Buffer:
    """A named tensor in DDR.

    ``kind``: input, output or constant. ``format`` and ``layout`` are spelt as in assembly (``fp16``,
    ``ncx``). ``dtype``: NumPy name of the element type in files, None for the format's own.
    """

    name: str
    kind: str
    address: int
    format: str
    shape: tuple[int, ...]
    layout: str
    dtype: str | None = None


@dataclass(frozen=True)
class EntryPoint:
    """One of several networks of an image: the start address of every tile, and the network's own tensors."""

    name: str
    address: int
    buffers: tuple[Buffer, ...] = ()


class Dimension(NamedTuple):
    """A dynamic size: each run chooses it in ``least`` .. ``most``; ``usual`` is the one to optimise for."""

    name: str
    least: int
    usual: int
    most: int


SUM = " + "
"""Separates the dimensions of a sum."""


@dataclass(frozen=True)
class Shapes:
    """The declarations of a program that runs a range of sizes.

    ``address`` is the address of the shape block in DDR, words of 8 bytes: first the sizes of the
    ``dimensions``, then words that the program writes. ``extents`` has the extents of inputs and outputs, by
    kind and name. For each axis it is a number, the name of a dimension, a sum such as ``past + new``, or
    ``@2``, the third word of the block. The shape of such a buffer is the largest one. The elements of a
    smaller array are compact from its beginning. ``room`` names an axis of other buffers, along which they
    reserve the largest extent; elements have the same places as in the largest array.
    """

    address: int
    dimensions: tuple[Dimension, ...]
    extents: Mapping[tuple[str, str], tuple[str, ...]]
    room: Mapping[tuple[str, str], int] = field(default_factory=dict)


LIVE_ROLES = ("weights", "input", "value", "output", "exchange", "staging", "temporary")
"""Roles of bytes in the scratchpad (docs/image.md explains each word)."""


class LiveRange(NamedTuple):
    """Bytes of the scratchpad of every tile, and what they hold between two addresses of the code.

    They hold ``name`` from the instruction at ``begin`` to the last before ``end``. ``role``: one of
    ``LIVE_ROLES``; ``node``: the graph node that they serve, empty for none.
    """

    name: str
    role: str
    node: str
    address: int
    size: int
    begin: int
    end: int


class Symbol(NamedTuple):
    """The address of a name. ``kind``: notype, object or func; ``binding``: local or global."""

    address: int
    size: int = 0
    kind: str = "notype"
    section: str = ".text"
    binding: str = "local"


@dataclass(frozen=True, repr=False)
class Image:
    """A program with everything that a loader, a debugger or a report needs.

    ``entry`` is where every tile starts, except those of ``tile_entries`` (tile -> address; tiles of several
    chips are numbered consecutively). ``entry_points`` are the networks of an image that has several; the
    first one starts at ``entry``. ``buffers`` then has the buffers of all networks
    (``asm.image.entry_points``). ``data_ranges`` are the [start, end) of code segments that no RISC-V
    disassembler should read as instructions: engine instructions and constants; ascending. ``lines`` maps the
    address of an instruction to (file, line), ``nodes`` to the name of the graph node it was made for.
    ``live`` is the contents of the scratchpad, sorted by ``begin``. ``compressed`` says that instructions
    begin at any multiple of 2 bytes, not of 4. ``shapes``: the dynamic sizes. In an image that was read,
    symbols, data_ranges, lines, nodes and live are decoded when they are first asked for.
    """

    entry: int
    segments: tuple[Segment, ...]
    tile_entries: Mapping[int, int] = field(default_factory=dict)
    symbols: Mapping[str, Symbol] = field(default_factory=dict)
    data_ranges: Sequence[tuple[int, int]] = ()
    buffers: tuple[Buffer, ...] = ()
    lines: Mapping[int, tuple[str, int]] = field(default_factory=dict)
    nodes: Mapping[int, str] = field(default_factory=dict)
    live: Sequence[LiveRange] = ()
    machine: str | dict[str, Any] = "tx81"
    windows: tuple[Window, ...] = field(default_factory=_packaged_windows)
    version: int = VERSION
    compressed: bool = False
    entry_points: tuple[EntryPoint, ...] = ()
    shapes: Shapes | None = None

    def __repr__(self) -> str:
        size = sum(len(segment.data) for segment in self.segments)
        return f"<Image: {len(self.segments)} segments, {size:,} bytes, {len(self.buffers)} buffers>"


class LazyMapping(Mapping[_K, _V]):
    """A mapping that is made on first use; ImageError at that time if its bytes are invalid."""

    def __init__(self, load: Callable[[], dict[_K, _V]]) -> None:
        self._load = load
        self._table: dict[_K, _V] | None = None

    @property
    def table(self) -> dict[_K, _V]:
        if self._table is None:
            self._table = self._load()
        return self._table

    def __getitem__(self, key: _K) -> _V:
        return self.table[key]

    def __iter__(self) -> Iterator[_K]:
        return iter(self.table)

    def __len__(self) -> int:
        return len(self.table)

    def __repr__(self) -> str:
        return repr(self.table)


class LazySequence(Sequence[_V]):
    """A sequence that is made on first use."""

    def __init__(self, load: Callable[[], list[_V]]) -> None:
        self._load = load
        self._items: list[_V] | None = None

    @property
    def items(self) -> list[_V]:
        if self._items is None:
            self._items = self._load()
        return self._items

    @overload
    def __getitem__(self, index: int) -> _V: ...

    @overload
    def __getitem__(self, index: slice) -> list[_V]: ...

    def __getitem__(self, index: int | slice) -> _V | list[_V]:
        return self.items[index]

    def __len__(self) -> int:
        return len(self.items)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self.items == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self.items)
