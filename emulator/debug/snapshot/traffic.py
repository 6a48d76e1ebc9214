"""Traffic between tiles, and the registers of devices, in a snapshot."""

from __future__ import annotations

from emulator.chip.copies import Channel
from emulator.chip.registers.dte import DteWindow
from emulator.chip.stream import PACKETS, STREAMS, Fsm, Update
from emulator.chip.traffic import Sent, Traffic
from emulator.engines.tables import MOST_BYTES
from emulator.tile.dte_pmu import DtePmu
from emulator.tile.events import Copy, Packet, Pieces, Side, Target
from emulator.tile.tile import Tile

from .bounds import expect
from .types import (
    SavedChannel,
    SavedCopy,
    SavedDtePmu,
    SavedSide,
    SavedTarget,
    SavedUpdate,
    SnapshotError,
    Stream,
)

Started = SavedCopy | SavedUpdate


def save_streams(fsm: Fsm) -> tuple[int, list[Stream]]:
    """Return the streams with checked addresses, and the streams that differ from their reset state."""
    counts = [fsm.counts[at : at + PACKETS] for at in range(0, STREAMS * PACKETS, PACKETS)]
    rows = zip(range(STREAMS), fsm.config, fsm.bases, fsm.ready, counts, strict=True)
    return fsm.check, [
        Stream(number, config, base, ready, received)
        for number, config, base, ready, received in rows
        if config or base or ready or any(received)
    ]


def restore_streams(fsm: Fsm, checked: int, streams: list[Stream]) -> None:
    """Restore the streams of ``save_streams``."""
    fsm.check = checked
    fsm.config, fsm.bases, fsm.ready = ([0] * STREAMS for _ in range(3))
    fsm.counts = [0] * (STREAMS * PACKETS)
    for one in streams:
        if not 0 <= one.number < STREAMS or len(one.counts) != PACKETS:
            raise SnapshotError(f"the saved state has a stream {one.number} of {len(one.counts)} packets")
        fsm.config[one.number], fsm.bases[one.number] = one.config, one.base
        fsm.ready[one.number] = one.ready
        fsm.counts[one.number * PACKETS : (one.number + 1) * PACKETS] = one.counts


def save_counters(counters: DtePmu) -> SavedDtePmu:
    """Return the DTE's performance counters."""
    return SavedDtePmu(counters.enabled, list(counters.successes), list(counters.bytes), counters.failures)


def restore_counters(counters: DtePmu, saved: SavedDtePmu) -> None:
    """Restore the counters of ``save_counters``."""
    if {len(saved.successes), len(saved.bytes)} != {len(counters.successes)}:
        raise SnapshotError(f"the saved state has DTE counters of {len(saved.successes)} channels")
    counters.enabled, counters.failures = saved.enabled, saved.failures
    counters.successes, counters.bytes = list(saved.successes), list(saved.bytes)


def save_channels(window: DteWindow, tile: int) -> list[SavedChannel]:
    """Return the register blocks of a tile that differ from their reset state."""
    return [
        SavedChannel(one.block, one.busy, one.status, dict(one.registers))
        for one in window.channels[tile]
        if one.busy or one.status or one.registers
    ]


def restore_channels(window: DteWindow, tile: int, channels: list[SavedChannel]) -> None:
    """Restore the channels of ``save_channels``."""
    blocks = window.channels[tile] = [Channel(block) for block in range(window.blocks)]
    for one in channels:
        if not 0 <= one.block < len(blocks):
            raise SnapshotError(f"the saved state has a DTE block {one.block}, expected 0..{len(blocks) - 1}")
        blocks[one.block] = Channel(one.block, one.busy, one.status, dict(one.registers))


def save_started(traffic: Traffic, tile: int) -> list[Started]:
    """Return copies and updates that a tile has started and that have not been carried out yet."""
    return [_saved(work) for work in traffic.started[tile]]


def _saved(work: Sent | Update) -> Started:
    if isinstance(work, Update):
        return SavedUpdate(work.target, *work.packet, work.refusal)
    copy, channel = work.copy, work.channel
    targets = [SavedTarget(target.tile, _side(target.side), target.user_id) for target in copy.targets]
    sources = [_side(side) for side in copy.sources]
    block = None if channel is None else channel.block
    return SavedCopy(copy.pieces.size, copy.pieces.trips, sources, targets, block)


def _side(side: Side) -> SavedSide:
    return SavedSide(side.in_ddr, side.start, side.strides)


def restore_started(traffic: Traffic, window: DteWindow, tile: Tile, started: list[Started]) -> None:
    """Restore the copies of ``save_started``; the channels of the tile have been restored before."""
    traffic.started[tile.number] = [_restored(traffic, window, tile, work) for work in started]


def _restored(traffic: Traffic, window: DteWindow, tile: Tile, work: Started) -> Sent | Update:
    if isinstance(work, SavedUpdate):
        known = 0 <= work.stream < STREAMS and 0 <= work.packet < PACKETS
        if not (known and 0 <= work.target < len(traffic.tiles)):
            raise SnapshotError(
                f"the saved state has an update for packet {work.packet} of stream {work.stream} "
                f"of tile {work.target}"
            )
        return Update(work.target, Packet(work.stream, work.packet), work.refusal)
    pieces = Pieces(work.size, work.trips)
    sources = tuple(Side(side.in_ddr, side.start, side.strides) for side in work.sources)
    targets = tuple(
        Target(one.tile, Side(one.side.in_ddr, one.side.start, one.side.strides), one.user_id)
        for one in work.targets
    )
    _check_copy(traffic, pieces, [(side, tile.number) for side in sources])
    _check_copy(traffic, pieces, [(target.side, target.tile) for target in targets])
    if not targets or len(sources) not in (1, len(targets)):
        raise SnapshotError(
            f"the saved state has a copy from {len(sources)} sources to {len(targets)} targets, "
            "expected one source, or one for each target"
        )
    expect("bytes of a copy", pieces.total, 1, MOST_BYTES)
    if work.block is not None:
        expect("DTE block of a copy", work.block, 0, window.blocks - 1)
    channel = None if work.block is None else window.channels[tile.number][work.block]
    return Sent(Copy(pieces, sources, targets), channel)


def _check_copy(traffic: Traffic, pieces: Pieces, sides: list[tuple[Side, int]]) -> None:
    for side, number in sides:
        known = 0 <= number < len(traffic.tiles)
        size = (traffic.ddr if side.in_ddr else traffic.tiles[number].spm.data).size if known else 0
        if not (
            min(pieces.size, *pieces.trips) > 0 <= min(side.start, *side.strides)
            and side.start + pieces.span(side.strides) <= size
        ):
            raise SnapshotError(f"the saved state has a copy that leaves the memory of tile {number}")
