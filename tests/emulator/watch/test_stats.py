"""--stats: sums against naive counting, the bound against arithmetic by hand, text, JSON, command line."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import jsonschema
import msgspec
import numpy as np
import pytest

from emulator.tile.tile import Status
from emulator.timing.slices import SLICE, TICKS, Batch, Cause, Track
from emulator.watch.stats import output
from emulator.watch.stats.sink import Statistics
from emulator.watch.stats.text import WIDTH, describe
from emulator.watch.stats.types import NodeTime, schema
from made_statistics import MACHINE, batch, core, counted, ct, ends_of, image, one, report_of, tiles
from time_slices import BASE, Slices, repeated

Capture = pytest.CaptureFixture[str]
STRETCHED = (Cause.BANK, Cause.DDR, Cause.NOC)


@pytest.fixture(scope="module")
def random_run() -> tuple[Slices, list[Batch], Statistics]:
    made = Slices(seed=5, tiles=4, instructions=150)
    batches = list(made.batches())
    return made, batches, counted(made.image, batches, made.ends)


# --- sums against naive counting ----------------------------------------------------------


def rows_of(batches: Iterable[Batch]) -> list[dict[str, Any]]:
    names = SLICE.names or ()
    return [dict(zip(names, row.tolist(), strict=True)) for batch in batches for row in batch.slices]


def union(spans: Iterable[tuple[int, int]]) -> int:
    """Ticks covered by any of the spans."""
    total, reached = 0, 0
    for first, last in sorted(spans):
        total += max(last - max(first, reached), 0)
        reached = max(reached, last)
    return total


def test_every_tick_of_a_track_is_counted_once(random_run: tuple[Slices, list[Batch], Statistics]) -> None:
    made, batches, found = random_run
    rows = rows_of(batches)
    times = found.times.sum(axis=0)
    for tile in range(4):
        for track in Track:
            mine = [r for r in rows if r["tile"] == tile and r["track"] == track]
            spans = [(r["started"], r["ended"]) for r in mine]
            waiting = Cause.DEPENDENCY if track is not Track.CORE else None
            occupied = sum(int(times[tile, track, c]) for c in Cause if c is not waiting)
            assert occupied == union(spans)
            with_waits = [
                (
                    r["started"] - r["blocked"] * (r["cause"] == Cause.DEPENDENCY and track != Track.CORE),
                    r["ended"],
                )
                for r in mine
            ]
            assert times[tile, track].sum() == union(with_waits) <= made.ends[tile]


def test_causes_of_engines_without_overlap(random_run: tuple[Slices, list[Batch], Statistics]) -> None:
    _, batches, found = random_run
    expected: Counter[tuple[int, int, int]] = Counter()
    for row in rows_of(batches):
        where = row["tile"], row["track"]
        if row["track"] == Track.CORE:
            expected[(*where, row["cause"])] += row["ended"] - row["started"]
        elif row["track"] != Track.DTE:
            length = row["ended"] - row["started"]
            stretched = row["blocked"] if row["cause"] in STRETCHED else 0
            expected[(*where, Cause.NOTHING)] += length - stretched
            if row["blocked"]:
                expected[(*where, row["cause"])] += row["blocked"]
    times = found.times.sum(axis=0)
    for tile, track, cause in np.ndindex(times.shape):
        if track != Track.DTE:
            assert times[tile, track, cause] == expected[tile, track, cause], (
                tile,
                Track(track),
                Cause(cause),
            )


def test_who_holds_whom(random_run: tuple[Slices, list[Batch], Statistics]) -> None:
    _, batches, found = random_run
    rows = rows_of(batches)
    track = {(r["tile"], r["number"]): r["track"] for r in rows if r["track"] != Track.CORE}
    held, queued = np.zeros_like(found.held), np.zeros_like(found.queued)
    for row in rows:
        if row["cause"] == Cause.DEPENDENCY and row["track"] != Track.DTE:
            held[row["tile"], row["track"], track[row["tile"], row["blocker"]]] += row["blocked"]
        if row["cause"] == Cause.QUEUE:
            queued[row["tile"], track[row["tile"], row["number"]]] += row["blocked"]
    others = [t for t in Track if t is not Track.DTE]
    assert (found.held[:, others] == held[:, others]).all() and held.any()
    assert (found.queued == queued).all() and queued.any()
    assert not found.held[:, :, -1].any() and not found.queued[:, -1].any()


def test_a_blocker_that_nobody_has_seen_is_unknown() -> None:
    rows = [
        one(cause=Cause.DEPENDENCY, started=50, ended=60, blocked=20, blocker=7, number=9),
        core(Cause.QUEUE, 60, 70, number=11),
    ]
    found = counted(image({}), [batch(*rows)], [80 * TICKS])
    assert found.held[0, Track.CT, -1] == 20 * TICKS and found.queued[0, -1] == 10 * TICKS
    engine = report_of(found).engines[0]
    assert engine.waiting == {"unknown": 20.0} and report_of(found).cores[0].queue == {"unknown": 10.0}


def test_instructions_bytes_and_operations(random_run: tuple[Slices, list[Batch], Statistics]) -> None:
    made, batches, found = random_run
    instructions: dict[tuple[str, int, int], set[int]] = defaultdict(set)
    moved: Counter[tuple[str, int, str]] = Counter()
    operations: Counter[str] = Counter()
    sent: Counter[tuple[int, int]] = Counter()
    for row in rows_of(batches):
        node = made.image.nodes[row["pc"]]
        if row["track"] != Track.CORE:
            instructions[node, row["tile"], row["track"]].add(row["number"])
        for name in ("spm_read", "spm_written", "ddr_read", "ddr_written"):
            moved[node, row["track"], name] += row[name]
        operations[node] += row["operations"]
        if row["track"] == Track.DTE:
            sent[row["tile"], row["target"]] += row["spm_written"] + row["ddr_written"]
    for number, node in enumerate(found.places.names):
        assert found.operations[number].sum() == operations[node]
        for tile, track in np.ndindex(*found.instructions.shape[1:]):
            assert found.instructions[number, tile, track] == len(instructions[node, tile, track])
        for column, name in enumerate(("spm_read", "spm_written", "ddr_read", "ddr_written")):
            for track in Track:
                assert found.moved[number, :, track, column].sum() == moved[node, track, name]
    for (tile, target), size in sent.items():
        assert found.sent[:, tile, target].sum() == size
    assert found.sent.sum() == sum(sent.values()) > 0


def finish_by_hand(made: Slices, batches: Sequence[Batch], tile: int) -> Counter[str]:
    """Ticks by which each node moves a tile's end, slices in the order of the program."""
    mine = [r for r in rows_of(batches) if r["tile"] == tile]
    mine.sort(key=lambda r: (r["number"], r["track"] != Track.CORE))
    found: Counter[str] = Counter()
    reached = 0
    for row in mine:
        found[made.image.nodes[row["pc"]]] += max(row["ended"] - reached, 0)
        reached = max(reached, row["ended"])
    found[""] += made.ends[tile] - reached
    return found


@pytest.mark.parametrize("seed", range(3))
def test_time_of_nodes_adds_up_to_the_end_of_every_tile(seed: int) -> None:
    made = Slices(seed, tiles=3, instructions=80)
    batches = list(made.batches())
    found = counted(made.image, batches, made.ends)
    for tile in range(3):
        expected = finish_by_hand(made, batches, tile)
        ticks = dict(zip(found.places.names, found.finish.ticks[:, tile].tolist(), strict=False))
        assert {n: t for n, t in ticks.items() if t} == {n: t for n, t in expected.items() if t}
        assert sum(ticks.values()) == made.ends[tile]


def test_hidden_work_costs_its_node_nothing() -> None:
    rows = [
        one(pc=BASE, ended=100),
        one(pc=BASE + 4, mnemonic="rdma", number=1, started=5, ended=90),
        one(pc=BASE + 4, mnemonic="rdma", number=2, started=90, ended=130),
    ]
    found = counted(image({BASE: "a", BASE + 4: "b"}), [batch(*rows)], [140 * TICKS])
    assert [(n.name, n.cycles) for n in report_of(found).nodes] == [("a", 100.0), ("b", 30.0), ("", 10.0)]


@pytest.mark.parametrize(
    ("reached", "shown"), [(0.25, "25.0%"), (1.0, "100.0%"), (1.04, "hidden"), (5.71, "hidden")]
)
def test_no_node_reaches_more_than_its_bound(reached: float, shown: str) -> None:
    """The work of a hidden node takes longer than the time it adds to the run; the data has its share."""
    found = counted(image({BASE: "a"}), [batch(one(pc=BASE, ended=100))], [100 * TICKS])
    report = report_of(found)
    node = msgspec.structs.replace(report.nodes[0], reached=reached, bound="CT")
    text = "\n".join(describe(msgspec.structs.replace(report, nodes=[node])))
    (line,) = [line for line in text.splitlines() if line.startswith("a ")]
    assert line.split()[4] == shown
    assert "571" not in text


def sums(found: Statistics) -> list[Any]:
    nodes, places = len(found.places.names), len(found.places.pcs)
    order = np.argsort(found.places.pcs)
    by_node = [getattr(found, name)[:nodes].tolist() for name in ("times", "moved", "operations", "sent")]
    return [
        found.places.names,
        *by_node,
        found.held.tolist(),
        found.queued.tolist(),
        found.finish.ticks[:nodes].tolist(),
        found.place_times[:places][order].tolist(),
        found.place_instructions[:places][order].tolist(),
    ]


def test_how_slices_are_cut_into_batches_does_not_matter(
    random_run: tuple[Slices, list[Batch], Statistics], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, batches, found = random_run
    pieces = [
        Batch(*(column[at : at + 37] for column in whole))
        for whole in batches
        for at in range(0, len(whole.slices), 37)
    ]
    assert sums(counted(made.image, pieces, made.ends)) == sums(found)


def test_batches_may_be_overwritten_afterwards(random_run: tuple[Slices, list[Batch], Statistics]) -> None:
    made, batches, found = random_run
    again = Statistics(made.image, MACHINE)
    for whole in batches:
        copy = Batch(*(column.copy() for column in whole))
        again.take(copy)
        for column in copy:
            column[:] = 0
    again.close(ends_of(made.ends))
    assert sums(again) == sums(found)


def test_memory_does_not_grow_with_the_run() -> None:
    made = Slices(seed=1, tiles=4, instructions=100)
    batches = list(made.batches())
    found = counted(made.image, batches, made.ends)
    many = list(repeated(batches, 40))
    again = counted(made.image, many, made.ends)
    assert again.times.sum() == 40 * found.times.sum()
    assert again.instructions.sum() == 40 * found.instructions.sum()
    sizes = [sum(v.nbytes for v in vars(x).values() if isinstance(v, np.ndarray)) for x in (found, again)]
    assert sizes[0] == sizes[1]


# --- engines, cores, nodes, groups --------------------------------------------------------


def test_parts_of_engines_and_cores_add_up(random_run: tuple[Slices, list[Batch], Statistics]) -> None:
    report = report_of(random_run[2])
    assert {row.engine for row in report.engines if row.tile == 0} <= {track.name for track in Track}
    for row in report.engines:
        whole = row.busy + sum(row.waiting.values()) + row.bank + row.ddr + row.noc + row.idle
        assert whole == pytest.approx(report.cycles) and row.idle >= 0
    for core_row in report.cores:
        waits = [*core_row.queue.values(), *core_row.engines.values(), core_row.dte, core_row.arrival]
        whole = core_row.executing + sum(waits) + core_row.barrier + core_row.ended
        assert whole == pytest.approx(report.cycles)
    assert report.cores[15].ended == report.cycles  # it never ran


def test_groups_are_sums_of_their_nodes(random_run: tuple[Slices, list[Batch], Statistics]) -> None:
    _, _, found = random_run
    groups = {"node0": "stem", "node1": "head", "node2": "stem", "absent": "nobody"}
    report = report_of(found, groups)
    assert report_of(found).groups == []
    nodes: dict[str, NodeTime] = {node.name: node for node in report.nodes}
    stem, head = report.groups
    assert (stem.name, head.name) == ("stem", "head") and head.cycles == nodes["node1"].cycles
    assert stem.cycles == pytest.approx(nodes["node0"].cycles + nodes["node2"].cycles)
    assert stem.instructions == nodes["node0"].instructions + nodes["node2"].instructions
    least = nodes["node0"].resources["CT"] + nodes["node2"].resources["CT"]
    assert stem.resources["CT"] == pytest.approx(least)
    assert stem.bound and stem.reached == pytest.approx(max(stem.resources.values()) / stem.cycles)
    assert any(line.startswith("groups") for line in describe(report))


def test_places_name_line_and_instruction() -> None:
    rows = [
        ct(ended=30),
        ct(tile=1, ended=40, cause=Cause.BANK, blocked=5),
        core(Cause.DEPENDENCY, 40, 45, pc=BASE + 4),
    ]
    first, second = report_of(counted(image({BASE: "a"}), [batch(*rows)], [50 * TICKS])).places
    assert (first.file, first.line, first.instruction, first.node) == ("k.s", 3, "ct.add.vv", "a")
    assert (first.count, first.busy, first.lost) == (2, 65.0, 5.0)
    assert (second.address, second.file, second.instruction, second.lost) == (BASE + 4, None, "", 5.0)


def test_evidence_counts_what_was_used() -> None:
    used = report_of(counted(image({}), [batch(ct())], [20 * TICKS])).evidence
    more = report_of(counted(image({}), [batch(ct(), core(Cause.BARRIER, 10, 15))], [20 * TICKS])).evidence
    assert sum(more.values()) == sum(used.values()) + 1  # timing.barrier has one coefficient
    assert more[MACHINE.timing.barrier.fixed.evidence] == used[MACHINE.timing.barrier.fixed.evidence] + 1


# --- text and JSON ------------------------------------------------------------------------


def test_json_keeps_its_schema(random_run: tuple[Slices, list[Batch], Statistics]) -> None:
    found = json.loads("\n".join(output.lines(random_run[2], tiles(), as_json=True)))
    checker = jsonschema.Draft202012Validator(schema())
    checker.validate(found)
    assert found["version"] == 1 and found["cycles"] == max(random_run[0].ends) / TICKS
    for key, wrong in (("version", 2), ("bound", "GPU"), ("cycles", -1), ("engines", {})):
        assert not checker.is_valid({**found, key: wrong})
    assert not checker.is_valid({**found, "more": 1})
    assert not checker.is_valid({key: value for key, value in found.items() if key != "nodes"})


def test_text_fits_and_has_every_table(random_run: tuple[Slices, list[Batch], Statistics]) -> None:
    text = list(output.lines(random_run[2], tiles(Status.RUNNING)))
    assert max(map(len, text)) <= WIDTH == 110
    starts = ["time ", "bound ", "tiles ", "losses ", "evidence ", "least time at peak", "engines"]
    starts += ["kernel core", "engine waits for", "bytes ", "arithmetic ", "nodes ", "places "]
    for start in starts:
        assert any(line.startswith(start) for line in text), start
    assert "where the run stopped" in text[0] and "docs/timing.md" in "".join(text)


def test_long_names_do_not_break_the_table() -> None:
    nodes = {BASE: "a/very/long/name/of/a/node/that/goes/on/and/on", BASE + 4: "b"}
    rows = [ct(ended=30), ct(pc=BASE + 4, started=40, ended=60, number=1)]
    text = list(describe(report_of(counted(image(nodes), [batch(*rows)], [70 * TICKS]))))
    assert max(map(len, text)) <= WIDTH
    at = next(n for n, line in enumerate(text) if line.startswith("nodes"))
    assert text[at + 1].startswith("a/very/long/name/of/a/no... ") and text[at + 2].split()[:3] == [
        "b",
        "30",
        "42.9%",
    ]


def test_tiles_that_do_the_same_share_a_line() -> None:
    rows = [ct(tile=tile, ended=30 if tile != 7 else 40) for tile in range(16)]
    text = list(describe(report_of(counted(image({}), [batch(*rows)], [50 * TICKS] * 16))))
    at = text.index(next(line for line in text if line.startswith("tiles  ") and "core" in line))
    assert [line.split()[0] for line in text[at + 1 : at + 4]] == ["0..6", "7", "8..15"]
