"""The buffers on the page of ``--report``: from the first access to the last, against a slow loop."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from asm.image import LIVE_ROLES, LiveRange
from emulator.engines import queues
from emulator.timing.slices import TICKS, Batch
from emulator.watch.report.data import content
from emulator.watch.report.lives import MOST_LIVES, NEVER, Lives
from emulator.watch.report.sink import ReportSink
from emulator.watch.stats.sink import Statistics
from report_tiles import tiles_of
from time_slices import BASE, Slices
from tx8isa.machine.description import load_machine

MACHINE = load_machine(None)
STEP = 8
"""Bytes of code from one instruction of ``Slices`` to the next."""


def drawn(rng: Random, batches: list[Batch], text: int) -> list[LiveRange]:
    """Ranges around the bytes that slices touch; two that are alive at once share no bytes."""
    touched = {
        ((int(row["pc"]) - BASE) // STEP, first)
        for batch in batches
        for row, ranges in zip(batch.slices, batch.ranges, strict=True)
        for first in ranges[: row["sources"], 0].tolist()
        if first < queues.DDR
    }
    found: list[LiveRange] = []
    for number in range(300):
        at, place = rng.choice(sorted(touched))
        first, size = place - rng.randrange(2) * 64, rng.choice([64, 512, 4096, 100_000])
        begin, end = rng.randrange(at + 1), rng.randrange(at + 1, text + 1)
        new = LiveRange(
            *(f"b{number}", rng.choice(LIVE_ROLES), "", max(first, 0), size),
            *(BASE + STEP * begin, BASE + STEP * end),
        )
        beside = all(
            new.end <= old.begin
            or old.end <= new.begin
            or new.address + new.size <= old.address
            or old.address + old.size <= new.address
            for old in found
        )
        if beside and new.address + new.size <= MACHINE.spm.bytes:
            found.append(new)
    return found


def slowly(batches: list[Batch], live: LiveRange) -> dict[int, tuple[int, int]]:
    """Start and end by tile."""
    found: dict[int, tuple[int, int]] = {}
    for batch in batches:
        for row, ranges in zip(batch.slices, batch.ranges, strict=True):
            if not live.begin <= row["pc"] < live.end:
                continue
            for first, size, written in ranges[: row["sources"]].tolist():
                if not size or not live.address <= first < live.address + live.size:
                    continue
                tile = int(row["target"] if written and row["target"] >= 0 else row["tile"])
                start, end = found.get(tile, (1 << 60, NEVER))
                found[tile] = min(start, int(row["started"])), max(end, int(row["ended"]))
    return found


@pytest.fixture(scope="module")
def run() -> tuple[list[Batch], list[LiveRange], ReportSink]:
    source = Slices(seed=8, tiles=4, instructions=50)
    batches = list(source.batches())
    ranges = drawn(Random(1), batches, len(source.text))
    image = replace(source.image, live=ranges)
    statistics = Statistics(image, MACHINE)
    report = ReportSink(image, MACHINE, statistics)
    for batch in batches:
        statistics.take(batch)
        report.take(batch)
    ends = [max(int(batch.slices["ended"].max()) for batch in batches)] * MACHINE.tiles
    statistics.close(ends)
    report.close(ends)
    return batches, ranges, report


def test_first_and_last_access_of_each_tile(run: tuple[list[Batch], list[LiveRange], ReportSink]) -> None:
    batches, _, report = run
    used = 0
    for number, live in enumerate(report.lives.ranges):
        expected = slowly(batches, live)
        for tile in range(MACHINE.tiles):
            found = (int(report.lives.start[number, tile]), int(report.lives.end[number, tile]))
            assert found == expected.get(tile, (NEVER, NEVER)), (live, tile)
        used += len(expected)
    assert used > 50


def test_the_most_that_is_alive_at_once(run: tuple[list[Batch], list[LiveRange], ReportSink]) -> None:
    _, ranges, report = run
    sums = {
        at: sum(live.size for live in ranges if live.begin <= at < live.end)
        for at in range(BASE, max(live.end for live in ranges), STEP)
    }
    peak, where = report.lives.peak()
    assert peak == max(sums.values()) == sums[where]
    assert all(sums[at] < peak for at in sums if at < where)


def test_the_page_has_them(run: tuple[list[Batch], list[LiveRange], ReportSink]) -> None:
    _, ranges, report = run
    texts, arrays = content(report, tiles_of(report), "", None)
    lives, tiles = texts["lives"], texts["active_tiles"]
    by_name = {live.name: live for live in ranges}
    assert sorted(lives["name"]) == sorted(by_name)
    for number, name in enumerate(lives["name"]):
        live = by_name[name]
        assert (lives["first"][number], lives["bytes"][number]) == (live.address, live.size)
        assert lives["roles"][lives["role"][number]] == live.role
        assert texts["nodes"][lives["phase"][number]] == report.image.nodes[live.begin]
    assert (lives["peak"], lives["left_out"]) == (report.lives.peak()[0], 0)
    assert lives["spm_bytes"] == MACHINE.spm.bytes
    for name, ticks in (("live_start", report.lives.start), ("live_end", report.lives.end)):
        expected = np.where(ticks == NEVER, NEVER, ticks / TICKS)[:, tiles].T
        assert np.allclose(arrays[name], expected)


def test_the_largest_are_followed() -> None:
    """A program may declare any number of them anywhere; ranges outside of the scratchpad are omitted."""
    many = [LiveRange(f"b{i}", "value", "", 256 * (i % 100), 1 + i, 8 * i, 8 * i + 8) for i in range(5000)]
    beyond = LiveRange("far", "value", "", MACHINE.spm.bytes - 1, 2, 0, 8)
    lives = Lives([*many, beyond], 16, MACHINE.spm.bytes)
    assert [live.size for live in lives.ranges] == [*range(1001, 5001)]
    assert (len(lives.ranges), lives.left_out) == (MOST_LIVES, 1001)


def test_a_program_that_declares_nothing_has_none() -> None:
    lives = Lives([], 16, MACHINE.spm.bytes)
    assert (lives.peak(), lives.ranges, lives.left_out) == ((0, 0), [], 0)
