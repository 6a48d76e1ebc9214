"""The machine description: every number of a chip on which a program or a tool may depend, read from TOML.

The packaged ``machines/tx81.toml`` describes the TX81; other files describe other grids, scratchpads or
bandwidths. The records below declare each key's type and range; parsing, error texts and the JSON Schema
(``msgspec.json.schema(Machine)``) are derived from them. The TOML file says how certain each fact is.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tx8isa.numbers.layouts import LINE_BYTES
from tx8isa.tools.suggestions import did_you_mean

from . import messages
from .chips import Chips, contradictions
from .ends import figures
from .figures import Bandwidth, Coefficient, ElementRate, Frequency, OperationRate, PortWidth, Record
from .tables import MACHINES, packaged_file, packaged_names, read_table
from .tables import MachineError as MachineError
from .timing import Flow, Timing

TX81 = MACHINES / "tx81.toml"
"""The description that ``load_machine(None)`` reads."""

ADDRESS_LIMIT = 1 << 39
"""First address that selects a card (bit 39) or a tile (above) (docs/isa.md, Copies between tiles, spec)."""

_Address = Annotated[int, Meta(ge=0, le=ADDRESS_LIMIT - LINE_BYTES, multiple_of=LINE_BYTES)]
_SpmBytes = Annotated[int, Meta(ge=LINE_BYTES, le=1 << 32, multiple_of=LINE_BYTES)]  # operands have 32 bits
_DdrBytes = Annotated[int, Meta(ge=4096, le=ADDRESS_LIMIT, multiple_of=4096)]


class Grid(Record, frozen=True):
    """The mesh of tiles on a chip."""

    x: Annotated[int, Meta(ge=1, le=256, description="Columns; a coordinate has 8 bits.")]
    y: Annotated[int, Meta(ge=1, le=256, description="Rows; a coordinate has 8 bits.")]


class Tile(Record, frozen=True):
    """The units of one tile except its memory."""

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
    """The product that the processing elements compute at once: m x k times k x n."""

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
    """A range of a tile's address space; ``base`` and ``size`` in bytes."""

    name: str
    base: int
    size: int


class Machine(Record, frozen=True):
    """A chip and its tiles; immutable and hashable."""

    name: Annotated[str, Meta(min_length=1, description="The machine's name in images and reports.")]
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
    chips: Chips | UnsetType = UNSET
    """Unset: one chip with unknown links."""

    @property
    def chip_count(self) -> int:
        """The number of chips."""
        return 1 if self.chips is UNSET else self.chips.count

    def of_chips(self, x: int, y: int) -> Machine:
        """Return this machine with another number of chips, all of whose tiles are good.

        MachineError when the description has no links, or the table of cards has too few entries.
        """
        if self.chips is UNSET:
            raise MachineError(
                f"machine {self.name} has no links between chips: give its description a table [chips]"
            )
        chips = msgspec.structs.replace(self.chips, x=x, y=y, good=UNSET)
        machine = msgspec.structs.replace(self, name=f"{self.name} x {x}x{y}", chips=chips)
        wrong = "; ".join(_wrong_chips(machine))
        if wrong:
            raise MachineError(f"{x}x{y} chips of machine {self.name}: {wrong}")
        return machine

    def issued_by(self, flow: Flow) -> Machine:
        """Return this machine with the submission times of another ``Flow``."""
        issue = msgspec.structs.replace(self.timing.issue, flow=flow)
        return msgspec.structs.replace(self, timing=msgspec.structs.replace(self.timing, issue=issue))

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

        All ``spm`` windows map the same bytes, and so do all ``ddr`` windows (proposed). The core's windows
        end where the DDR ends.
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
    """Load the machine described by a TOML file, or the packaged one of that name; None is the packaged TX81.

    MachineError is one line that names the file and each wrong key with the value found and the allowed ones.
    """
    if path is None:
        path = TX81
    elif isinstance(path, str) and path in packaged_names():
        path = MACHINES / f"{path}.toml"
    file = Path(path)
    return _packaged(file) if file.parent == MACHINES else _read(file)


def packaged_machine(name: str) -> Machine | None:
    """Return the machine of a packaged description; None for an unknown name."""
    file = packaged_file(name)
    return None if file is None else _packaged(file)


@cache
def _packaged(path: Path) -> Machine:
    """Read a packaged description, once in a process."""
    return _read(path)


def _read(path: Path) -> Machine:
    table = read_table(path)
    try:
        machine = msgspec.convert(table, Machine)
    except msgspec.ValidationError:
        # The error names only one key; ``_faults`` names all of them, with the values found.
        raise MachineError(f"{path}: {'; '.join(_faults(Machine, table, ''))}") from None
    contradictions = "; ".join(_contradictions(machine))
    if contradictions:
        raise MachineError(f"{path}: {contradictions}")
    return machine


def _faults(record: type[msgspec.Struct], table: object, prefix: str) -> Iterator[str]:
    """Yield the faults of a table read as ``record``, key by key; ``prefix`` is the table's key and a dot."""
    if not isinstance(table, dict):
        yield f"key {prefix[:-1]}: found {messages.found(table)}, expected a table"
        return
    fields = {field.encode_name: field.type for field in msgspec.structs.fields(record)}
    needed = {field.encode_name for field in msgspec.structs.fields(record) if field.required}
    for key in table:
        if key not in fields:
            name = key if key.isidentifier() else repr(key)
            near = did_you_mean(key, fields) or f"expected one of {' '.join(fields)}"
            yield f"key {prefix}{name}: unknown, {near}"
    for key, annotation in fields.items():
        kind = messages.kind(annotation)
        nested = isinstance(kind, type) and issubclass(kind, msgspec.Struct)
        expected = "a table" if nested else messages.allowed(annotation)
        if key not in table and key in needed:
            yield f"key {prefix}{key}: missing, expected {expected}"
        elif key not in table:
            continue
        elif nested:
            yield from _faults(kind, table[key], f"{prefix}{key}.")
        else:
            try:
                msgspec.convert(table[key], annotation)
            except msgspec.ValidationError:
                yield f"key {prefix}{key}: found {messages.found(table[key])}, expected {expected}"


def _contradictions(machine: Machine) -> Iterator[str]:
    """Yield values that are in range but contradict each other."""
    spm, windows = machine.spm, machine.windows
    interleave = spm.banks * spm.bank_bytes
    if spm.bytes % interleave:
        allowed = f"a multiple of {messages.number(interleave)} (spm.banks x spm.bank_bytes)"
        yield f"key spm.bytes: found {messages.number(spm.bytes)}, expected {allowed}"
    if spm.reserved > spm.bytes:
        allowed = f"at most {messages.number(spm.bytes)} (spm.bytes)"
        yield f"key spm.reserved: found {messages.number(spm.reserved)}, expected {allowed}"
    blocks = machine.tile.dte_blocks * windows.dte_stride
    if windows.dte_bytes < blocks:
        allowed = f"at least {messages.number(blocks)} (tile.dte_blocks x windows.dte_stride)"
        yield f"key windows.dte_bytes: found {messages.number(windows.dte_bytes)}, expected {allowed}"
    yield from _outside(machine)
    yield from _too_fast(machine)
    yield from _wrong_chips(machine)
    placed = machine.memory_map()
    for window in placed:
        if window.base + window.size > ADDRESS_LIMIT:
            found = f"key windows.{window.name}: found {_range(window)}"
            yield f"{found}, expected an end below {ADDRESS_LIMIT:#x}"
    for low, high in combinations(placed, 2):
        if low.base + low.size > high.base:
            found = f"key windows.{high.name}: found {_range(high)}"
            yield f"{found}, expected it apart from {low.name} at {_range(low)}"


def _wrong_chips(machine: Machine) -> Iterator[str]:
    """Yield contradictions between the table of chips and the rest of the description."""
    if machine.chips is not UNSET:
        at, ddr = machine.windows, min(machine.windows.ddr_core_bytes, machine.ddr.bytes)
        yield from contradictions(machine.chips, machine.tiles, at.ddr_cached, ddr)


def _outside(machine: Machine) -> Iterator[str]:
    """Yield figures whose range excludes their value."""
    for key, figure in figures(machine):
        value, other = figure.value, f"{figure.value!r} ({key}.value)"
        if figure.least is not msgspec.UNSET and figure.least > value:
            yield f"key {key}.least: found {figure.least!r}, expected at most {other}"
        if figure.most is not msgspec.UNSET and figure.most < value:
            yield f"key {key}.most: found {figure.most!r}, expected at least {other}"
    nominal, peak = machine.ddr.nominal, machine.ddr.peak.value
    yield from _beyond("ddr.nominal", nominal, peak, "ddr.peak.value")


def _too_fast(machine: Machine) -> Iterator[str]:
    """Yield rates of the model of time above an engine's path or peak."""
    timing, path = machine.timing, machine.spm.engine_rate.value
    for key, rate in (
        ("rdma.rate", timing.rdma.rate),
        ("wdma.rate", timing.wdma.rate),
        ("tdma.rate", timing.tdma.rate),
        ("tdma.fill_rate", timing.tdma.fill_rate),
    ):
        yield from _beyond(f"timing.{key}", rate, path, "spm.engine_rate.value")
    for name in ("fp16", "bf16", "fp32"):
        peak, rate = getattr(machine.engines.ct, name).value, getattr(timing.ct.rates, name)
        yield from _beyond(f"timing.ct.rates.{name}", rate, peak, f"engines.ct.{name}.value")


def _beyond(key: str, figure: Coefficient, limit: float, other: str) -> Iterator[str]:
    """Yield messages for a value or a range that exceeds another figure."""
    for name in ("value", "most"):
        found = getattr(figure, name)
        if found is not msgspec.UNSET and found > limit:
            yield f"key {key}.{name}: found {found!r}, expected at most {limit!r} ({other})"


def _range(window: Window) -> str:
    return f"{window.base:#x}..{window.base + window.size - 1:#x}"
