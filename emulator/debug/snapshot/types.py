"""The contents of a snapshot, as plain records that can be written to a file."""

from __future__ import annotations

from typing import Literal

import msgspec

from tx8isa.errors import Tx8Error


class SnapshotError(Tx8Error):
    """A file that is not a complete snapshot, or a snapshot of another program, machine or emulator."""


class _Record(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    pass


class Blocks(_Record, frozen=True):
    """The pieces of a memory that differ from the state after loading."""

    numbers: bytes
    """int64: position of each piece, in pieces."""
    data: bytes


class SavedEntry(_Record, frozen=True):
    """An instruction in a queue: its sequence number and its words, see ``queues``."""

    number: int
    head: bytes
    fields: bytes


class Worker(_Record, frozen=True):
    """The queues and registers of one worker."""

    header: bytes
    entries: list[SavedEntry]
    registers: bytes


class SavedChannel(_Record, frozen=True):
    """A DTE register block that was used."""

    block: int
    busy: bool
    status: int
    registers: dict[int, int]


class Stream(_Record, frozen=True):
    """A stream that was used."""

    number: int
    config: int
    base: int
    ready: int
    counts: list[int]


class SavedDtePmu(_Record, frozen=True):
    """Performance counters of the DTE."""

    enabled: bool
    successes: list[int]
    bytes: list[int]
    failures: int


class SavedSide(_Record, frozen=True):
    """One side of a copy; see ``tile.events.Side``."""

    in_ddr: bool
    start: int
    strides: tuple[int, int, int]


class SavedTarget(_Record, frozen=True):
    """A side that is written; see ``tile.events.Target``."""

    tile: int
    side: SavedSide
    user_id: int


class SavedCopy(_Record, frozen=True, tag="Copy"):
    """A copy that was started but not carried out; ``block`` None: by an instruction."""

    size: int
    trips: tuple[int, int, int]
    sources: list[SavedSide]
    targets: list[SavedTarget]
    block: int | None


class SavedUpdate(_Record, frozen=True, tag="Update"):
    """A packet counter update that is on its way; see ``chip.stream.Update``."""

    target: int
    stream: int
    packet: int
    refusal: str


class TileState(_Record, frozen=True):
    """All state of a tile on which the rest of a run depends."""

    words: bytes
    """int64: the words of ``state`` that are kept."""
    write_back: int
    """The worker whose write-back registers the next result goes to."""
    workers: list[Worker]
    counts: bytes
    lines: bytes
    spm: Blocks
    status: str
    group: int
    exit_code: int
    pmu: dict[int, int]
    counted: bytes
    begun: bytes
    csrs: dict[str, int]
    output: list[tuple[int, bytes]]
    code: bytes | None
    """The program text, when it is not the image's since a fence.i."""
    poll: str
    quantum_end: int | None
    """The instruction at which a tile's quantum ends, in an interrupted round."""
    checked: int
    """The streams whose addresses are checked, as bits."""
    streams: list[Stream]
    channels: list[SavedChannel]
    dte: SavedDtePmu
    started: list[SavedCopy | SavedUpdate]


class SavedCore(_Record, frozen=True):
    """The activity of a tile's kernel core in simulated time: the words ``P_*`` of ``timing.layout``."""

    doing: int
    clock: int
    due: int
    holds: bool
    """True if its clock delays the others while its log is processed."""
    retired: int
    number: int
    since: int
    freed: int


class SavedUnit(_Record, frozen=True):
    """An engine: ``E_*``. Its next event follows from the instruction that it executes."""

    event: int
    """Time at which an engine without an instruction tries again."""
    free: int
    served: int


class SavedStart(_Record, frozen=True):
    """The state of an instruction since its engine has begun it."""

    started: int
    blocked: int
    cause: int
    blocker: int


class SavedInstruction(_Record, frozen=True):
    """An instruction in a queue or at an engine: ``S_*``."""

    words: bytes
    """int64: as in the log, beginning with the program counter."""
    number: int
    issued: int
    depends: int
    """A bit for each older instruction of the worker that it waits for, the oldest the lowest."""
    released: int
    begun: SavedStart | None


class SavedTransfer(_Record, frozen=True):
    """The bytes of a copy on its way."""

    record: int
    size: int
    sides: int
    runs: int
    begin: int
    payload: bytes
    """int64: both ranges, then operands."""


class SavedMessage(_Record, frozen=True):
    """A copy to one target, or a packet counter update, on its way: ``M_*``."""

    place: int
    phase: int
    number: int
    pc: int
    target: int
    stream: int
    issued: int
    end: int
    blocked: int
    cause: int
    transfer: SavedTransfer | None
    """The transfer of a copy; None for a packet counter update."""


class SavedFlow(_Record, frozen=True):
    """A flow from or to DDR: ``F_*``."""

    tile: int
    who: int
    end: int
    demand: int


class SimulatedTile(_Record, frozen=True):
    """A tile in simulated time."""

    core: SavedCore
    sent: int
    sent_done: int
    path_free: int
    path_holder: int
    union_since: int
    last_end: int
    busy: list[int]
    blocked: list[list[int]]
    arrived: list[int]
    units: list[SavedUnit]
    workers: list[list[SavedInstruction]]
    """For each worker: its instructions, the oldest first."""
    messages: list[SavedMessage]
    rows: bytes
    """int64: rows of the log that were not processed yet."""


class SimulatedChip(_Record, frozen=True):
    """One simulation. It omits what follows from the machine, and the next events."""

    now: int
    virtual: int
    since: int
    over: bool
    links: list[int]
    flows: list[SavedFlow]
    tiles: list[SimulatedTile]


class SavedMoment(_Record, frozen=True):
    """The simulated time that a program is about to read; see ``tile.moment``."""

    clock: int
    busy: list[int]
    blocked: list[list[int]]


class TileTime(_Record, frozen=True):
    """The records of a tile besides the simulation: see ``timing.saved``."""

    skipped: int
    dropped: int
    progress: int
    efforts: int
    came_from: int
    before: int
    library: int
    kinds: bytes
    lines: bytes
    polled_at: int
    polls: dict[int, int]
    sent: int
    carried: int
    arrived: list[int]
    seen: list[int]
    moment: SavedMoment | None
    coming: list[tuple[int, int]]


class SavedTime(_Record, frozen=True):
    """Simulated time of a chip."""

    run: SimulatedChip
    tiles: list[TileTime]
    replays: list[SimulatedChip]
    """The run simulated with the machine's figures at both ends of their ranges, if asked for."""


class Options(_Record, frozen=True):
    """The rules of the machine that the run was started with; see ``RunOptions``."""

    on_exception: Literal["stop", "drop"]
    write_span: Literal["exact", "hostile"]
    ne_post: Literal["ignore", "proposed"]


class Snapshot(_Record, frozen=True):
    """The state of a whole chip between two instructions of each tile."""

    program: str
    """Digest of the loaded bytes and of the tiles' entries."""
    machine: str
    """Name of the machine and digest of its description."""
    emulator: int
    """Checksum of the numbers of records and words of the state."""
    options: Options
    tiles: list[TileState]
    ddr: Blocks
    simulated: SavedTime | None
    """The state of simulated time, None when it was off."""
