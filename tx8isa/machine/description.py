"""The machine description: every number of a chip that a program or a tool may depend on, read from TOML.

The packaged ``machines/tx81.toml`` is the TX81; another grid, scratchpad or bandwidth is another file.
The records below state each key's type and range once; parsing, error texts and the JSON Schema
(``msgspec.json.schema(Machine)``) follow from them. The facts, and how sure each is, are in the TOML file.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_args

import msgspec
from msgspec import Meta

from tx8isa.errors import Tx8Error
from tx8isa.numbers.layouts import LINE_BYTES
from tx8isa.tools.suggestions import did_you_mean

from .figures import Bandwidth, ElementRate, Frequency, OperationRate, PortWidth, Record
from .timing import Timing

TX81 = Path(__file__).parent / "machines" / "tx81.toml"
"""The description that ``load_machine(None)`` reads."""

ADDRESS_LIMIT = 1 << 39
"""Bit 39 of an address names another card, the tile is above it (docs/isa.md, Copies between tiles, spec)."""

_Address = Annotated[int, Meta(ge=0, le=ADDRESS_LIMIT - LINE_BYTES, multiple_of=LINE_BYTES)]
_SpmBytes = Annotated[int, Meta(ge=LINE_BYTES, le=1 << 32, multiple_of=LINE_BYTES)]  # operands have 32 bits
_DdrBytes = Annotated[int, Meta(ge=4096, le=ADDRESS_LIMIT, multiple_of=4096)]


class MachineError(Tx8Error):
    """A machine description that cannot be read or contradicts itself, or a tile it does not have."""


class Grid(Record, frozen=True):
    """The mesh of tiles on a chip."""

    x: Annotated[int, Meta(ge=1, le=256, description="Columns; a coordinate has 8 bits.")]
    y: Annotated[int, Meta(ge=1, le=256, description="Rows; a coordinate has 8 bits.")]


class Tile(Record, frozen=True):
    """The units of one tile, besides its memory."""

    workers: Annotated[int, Meta(ge=1, le=3, description="Register windows of the NCC.")]
    dte_blocks: Annotated[int, Meta(ge=1, le=4, description="Register blocks of the DTE.")]


class Spm(Record, frozen=True):
    """The scratchpad of one tile."""

    bytes: Annotated[_SpmBytes, Meta(description="Size.")]
    reserved: Annotated[
        _SpmBytes, Meta(description="First byte kept for the core's runtime; the size: none.")
    ]
    banks: Annotated[int, Meta(ge=1, le=256, description="Banks, interleaved by bank_bytes.")]
    bank_bytes: Annotated[int, Meta(ge=16, le=65536, multiple_of=16, description="Width of a bank line.")]
    reset_byte: Annotated[int, Meta(ge=0, le=255, description="What every byte holds before it is written.")]
    bank_rate: Annotated[PortWidth, Meta(description="One bank.")]
    engine_rate: Annotated[PortWidth, Meta(description="The path of one NCC engine to the scratchpad.")]


class Ddr(Record, frozen=True):
    """The memory that all tiles of a chip share."""

    bytes: Annotated[_DdrBytes, Meta(description="Size.")]
    bank_bytes: Annotated[int, Meta(ge=64, le=1 << 20, multiple_of=64, description="Bank line.")]
    peak: Annotated[Bandwidth, Meta(description="Of the chip, all tiles together.")]
    nominal: Annotated[Bandwidth, Meta(description="Operating point of the chip, all tiles together.")]


class Windows(Record, frozen=True):
    """The addresses of the units in a tile's address space; the scratchpad itself starts at 0."""

    spm_weak: Annotated[_Address, Meta(description="As the core sees it, weakly ordered.")]
    spm_strong: Annotated[_Address, Meta(description="As the core sees it, strongly ordered.")]
    ddr_cached: Annotated[_Address, Meta(description="DDR byte 0 as the core sees it, cached.")]
    ddr_uncached: Annotated[_Address, Meta(description="DDR byte 0 as the core sees it, uncached.")]
    ddr_core_bytes: Annotated[_DdrBytes, Meta(description="Length of either of the core's DDR windows.")]
    ddr_engine: Annotated[_Address, Meta(description="DDR byte 0 in the operands of NCC instructions.")]
    ncc: Annotated[_Address, Meta(description="Registers of worker 0.")]
    ncc_stride: Annotated[
        int, Meta(ge=0x800, le=1 << 32, multiple_of=16, description="From a worker to the next.")
    ]
    pmu: Annotated[_Address, Meta(description="Performance counters of the NCC.")]
    pmu_bytes: Annotated[int, Meta(ge=0x400, le=1 << 24, multiple_of=16, description="Their length.")]
    dte: Annotated[_Address, Meta(description="Registers of DTE block 0.")]
    dte_stride: Annotated[
        int, Meta(ge=0x200, le=1 << 20, multiple_of=8, description="From a block to the next.")
    ]
    dte_bytes: Annotated[
        int, Meta(ge=0x200, le=1 << 24, multiple_of=8, description="Length of all, counters included.")
    ]


_Depth = Annotated[int, Meta(ge=1, le=255, description="Pending instructions per worker.")]


class Queues(Record, frozen=True):
    """Depth of the instruction queues."""

    ct: _Depth
    ne: _Depth
    rdma: _Depth
    wdma: _Depth
    tdma: _Depth


class CtRates(Record, frozen=True):
    """Peak of the vector engine of one tile, by element format."""

    fp16: ElementRate
    bf16: ElementRate
    fp32: ElementRate


class NeRates(Record, frozen=True):
    """Peak of the matrix engine of one tile, by element format."""

    int8: OperationRate
    fp16: OperationRate
    bf16: OperationRate
    tf32: OperationRate
    fp32: OperationRate


_Step = Annotated[int, Meta(ge=1, le=4096, description="Extent of one matrix product of the array.")]


class NeArray(Record, frozen=True):
    """The product the processing elements take at once: m x k times k x n."""

    m: _Step
    k: _Step
    n: _Step


class Engines(Record, frozen=True):
    """Clock and peak rates of the engines of one tile."""

    clock: Frequency
    ct: CtRates
    ne: NeRates
    ne_array: NeArray


class Noc(Record, frozen=True):
    """The network between neighbouring tiles."""

    link_out: Annotated[Bandwidth, Meta(description="One of a tile's four directions, leaving it.")]
    link_in: Annotated[Bandwidth, Meta(description="One of a tile's four directions, entering it.")]


class Card(Record, frozen=True):
    """The connections that leave the chip."""

    c2c_out: Annotated[Bandwidth, Meta(description="One of four directions to other cards, leaving.")]
    c2c_in: Annotated[Bandwidth, Meta(description="One of four directions to other cards, entering.")]
    host: Annotated[Bandwidth, Meta(description="The host link, both ways together.")]


class Window(NamedTuple):
    """A piece of a tile's address space; ``base`` and ``size`` in bytes."""

    name: str
    base: int
    size: int


class Machine(Record, frozen=True):
    """A chip and its tiles; immutable and hashable."""

    name: Annotated[str, Meta(min_length=1, description="What images and reports call this machine.")]
    grid: Grid
    tile: Tile
    spm: Spm
    ddr: Ddr
    windows: Windows
    queues: Queues
    engines: Engines
    noc: Noc
    card: Card
    timing: Timing

    @property
    def tiles(self) -> int:
        """Tiles on the chip."""
        return self.grid.x * self.grid.y

    def tile_xy(self, tile: int) -> tuple[int, int]:
        """Mesh coordinates of a tile, whose id is x * grid.y + y (docs/isa.md, Tiles and numbers, spec)."""
        if not 0 <= tile < self.tiles:
            raise MachineError(f"tile {tile}: expected 0..{self.tiles - 1} on machine {self.name}")
        return divmod(tile, self.grid.y)

    def hartid(self, chip: int, tile: int) -> int:
        """The value of ``mhartid`` on the kernel core of a tile: chip * tiles + tile (proposed)."""
        self.tile_xy(tile)
        return chip * self.tiles + tile

    def memory_map(self) -> tuple[Window, ...]:
        """The windows of this description in a tile's address space, ascending and without overlap.

        The ``spm`` windows show the same bytes, and so do the ``ddr`` windows (proposed); the core's end
        where the DDR does.
        """
        at = self.windows
        core = min(at.ddr_core_bytes, self.ddr.bytes)
        windows = [Window("spm", 0, self.spm.bytes)]
        windows += [Window(name, getattr(at, name), self.spm.bytes) for name in ("spm_weak", "spm_strong")]
        windows += [Window(name, getattr(at, name), core) for name in ("ddr_cached", "ddr_uncached")]
        windows += [
            Window("ddr_engine", at.ddr_engine, self.ddr.bytes),
            Window("ncc", at.ncc, at.ncc_stride * self.tile.workers),
            Window("pmu", at.pmu, at.pmu_bytes),
            Window("dte", at.dte, at.dte_bytes),
        ]
        return tuple(sorted(windows, key=lambda window: window.base))


def load_machine(path: str | Path | None = None) -> Machine:
    """The machine described by a TOML file; None is the packaged TX81, which is read once in a process.

    MachineError is one line that names the file and every wrong key with the value found and what is allowed.
    """
    return _packaged() if path is None else _read(Path(path))


@cache
def _packaged() -> Machine:
    return _read(TX81)


def _read(path: Path) -> Machine:
    import tomllib  # imported here: importing this module must stay cheap for users that read no file

    try:
        table = tomllib.loads(path.read_bytes().decode())
    except OSError as error:
        raise MachineError(f"{path}: cannot read the machine description: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise MachineError(f"{path}: not a TOML file: byte {error.start} is not UTF-8 text") from None
    except tomllib.TOMLDecodeError as error:
        raise MachineError(f"{path}: not a TOML file: {error}") from None
    try:
        machine = msgspec.convert(table, Machine)
    except msgspec.ValidationError:
        # The error names one key at most; ``_faults`` names them all, with the values found.
        raise MachineError(f"{path}: {'; '.join(_faults(Machine, table, ''))}") from None
    contradictions = "; ".join(_contradictions(machine))
    if contradictions:
        raise MachineError(f"{path}: {contradictions}")
    return machine


def _faults(record: type[msgspec.Struct], table: object, prefix: str) -> Iterator[str]:
    """The faults of a table read as ``record``, key by key; ``prefix`` is its own key and a dot."""
    if not isinstance(table, dict):
        yield f"key {prefix[:-1]}: found {_found(table)}, expected a table"
        return
    fields = {field.encode_name: field.type for field in msgspec.structs.fields(record)}
    for key in table:
        if key not in fields:
            name = key if key.isidentifier() else repr(key)
            near = did_you_mean(key, fields) or f"expected one of {' '.join(fields)}"
            yield f"key {prefix}{name}: unknown, {near}"
    for key, annotation in fields.items():
        kind = _kind(annotation)
        nested = isinstance(kind, type) and issubclass(kind, msgspec.Struct)
        if key not in table:
            yield f"key {prefix}{key}: missing, expected {'a table' if nested else _allowed(annotation)}"
        elif nested:
            yield from _faults(kind, table[key], f"{prefix}{key}.")
        else:
            try:
                msgspec.convert(table[key], annotation)
            except msgspec.ValidationError:
                yield f"key {prefix}{key}: found {_found(table[key])}, expected {_allowed(annotation)}"


def _contradictions(machine: Machine) -> Iterator[str]:
    """Values that are each in range but do not go together."""
    spm, windows = machine.spm, machine.windows
    interleave = spm.banks * spm.bank_bytes
    if spm.bytes % interleave:
        allowed = f"a multiple of {_number(interleave)} (spm.banks x spm.bank_bytes)"
        yield f"key spm.bytes: found {_number(spm.bytes)}, expected {allowed}"
    if spm.reserved > spm.bytes:
        allowed = f"at most {_number(spm.bytes)} (spm.bytes)"
        yield f"key spm.reserved: found {_number(spm.reserved)}, expected {allowed}"
    blocks = machine.tile.dte_blocks * windows.dte_stride
    if windows.dte_bytes < blocks:
        allowed = f"at least {_number(blocks)} (tile.dte_blocks x windows.dte_stride)"
        yield f"key windows.dte_bytes: found {_number(windows.dte_bytes)}, expected {allowed}"
    if machine.ddr.nominal.value > machine.ddr.peak.value:
        allowed = f"at most {machine.ddr.peak.value!r} (ddr.peak.value)"
        yield f"key ddr.nominal.value: found {machine.ddr.nominal.value!r}, expected {allowed}"
    yield from _too_fast(machine)
    placed = machine.memory_map()
    for window in placed:
        if window.base + window.size > ADDRESS_LIMIT:
            found = f"key windows.{window.name}: found {_range(window)}"
            yield f"{found}, expected an end below {ADDRESS_LIMIT:#x}"
    for low, high in combinations(placed, 2):
        if low.base + low.size > high.base:
            found = f"key windows.{high.name}: found {_range(high)}"
            yield f"{found}, expected it apart from {low.name} at {_range(low)}"


def _too_fast(machine: Machine) -> Iterator[str]:
    """Rates of the model of time that no engine's path or peak allows, and a cold start that is none."""
    timing, path = machine.timing, machine.spm.engine_rate.value
    limits = [
        ("rdma.rate", timing.rdma.rate.value, path, "spm.engine_rate.value"),
        ("wdma.rate", timing.wdma.rate.value, path, "spm.engine_rate.value"),
        ("tdma.rate", timing.tdma.rate.value, path, "spm.engine_rate.value"),
        ("tdma.fill_rate", timing.tdma.fill_rate.value, path, "spm.engine_rate.value"),
        ("core.issue", timing.core.issue.value, timing.core.issue_cold.value, "timing.core.issue_cold.value"),
    ]
    for name in ("fp16", "bf16", "fp32"):
        peak = getattr(machine.engines.ct, name).value
        limits.append(
            (f"ct.rates.{name}", getattr(timing.ct.rates, name).value, peak, f"engines.ct.{name}.value")
        )
    for key, value, limit, other in limits:
        if value > limit:
            yield f"key timing.{key}.value: found {value!r}, expected at most {limit!r} ({other})"


def _range(window: Window) -> str:
    return f"{window.base:#x}..{window.base + window.size - 1:#x}"


def _kind(annotation: Any) -> Any:
    """The type under ``Annotated``, or the type itself."""
    return get_args(annotation)[0] if hasattr(annotation, "__metadata__") else annotation


def _allowed(annotation: Any) -> str:
    """The values a key may have, in words: the range of its Meta, or the literals."""
    kind = _kind(annotation)
    if kind not in (int, float, str):
        return " or ".join(repr(choice) for choice in get_args(kind))
    if kind is str:
        return "a non-empty string"
    limits = [meta for meta in annotation.__metadata__ if meta.ge is not None]
    low, high, step = limits[0].ge, limits[0].le, limits[0].multiple_of
    text = f"{'an integer' if kind is int else 'a number'} from {_number(low)} to {_number(high)}"
    return f"{text}, a multiple of {_number(step)}" if step else text


def _found(value: object) -> str:
    """A TOML value in one short piece."""
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "an array"
    if isinstance(value, int) and not isinstance(value, bool):
        return _number(value)
    return repr(value)


def _number(value: float) -> str:
    """A number as messages show it: sizes and addresses in hexadecimal."""
    return f"{value:#x}" if isinstance(value, int) and value >= 4096 else repr(value)
