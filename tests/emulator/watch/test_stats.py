"""--stats: sums against naive counting, the bound against arithmetic by hand, text, JSON, command line."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

import asm
import emulator
from asm.image import Image, write_image
from compiler.cli import main as compile_main
from emulator.chip.memories import Memories
from emulator.cli import main
from emulator.engines import tables
from emulator.engines.queues import MAX_FIELDS
from emulator.tile.tile import Status, Tile
from emulator.timing.slices import MOST_RANGES, SLICE, TICKS, Batch, Cause, Track
from emulator.watch.stats import output, roofline
from emulator.watch.stats.result import make_report
from emulator.watch.stats.sink import Statistics
from emulator.watch.stats.text import WIDTH, describe
from emulator.watch.stats.types import NodeTime, Report, schema
from time_slices import BASE, Slices, repeated
from tx8isa.machine.description import TX81, Machine, load_machine
from tx8isa.numbers.formats import Format

MACHINE = load_machine(None)
Capture = pytest.CaptureFixture[str]
STRETCHED = (Cause.BANK, Cause.DDR, Cause.NOC)


def tiles(status: Status = Status.EXITED) -> list[Tile]:
    memories = Memories(asm.assemble("nop", machine=MACHINE), MACHINE)
    made = [memories.make_tile(number, False) for number in range(MACHINE.tiles)]
    for tile in made:
        tile.status = status
    return made


def ends_of(ends: Sequence[int]) -> list[int]:
    """Ends for all tiles of the machine."""
    return [*ends, *[0] * (MACHINE.tiles - len(ends))]


def counted(
    image: Image, batches: Iterable[Batch], ends: Sequence[int], machine: Machine = MACHINE
) -> Statistics:
    found = Statistics(image, machine)
    for batch in batches:
        found.take(batch)
    found.close(ends_of(ends))
    return found


def report_of(found: Statistics, groups: dict[str, str] | None = None) -> Report:
    return make_report(found, tiles(), groups)


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


# --- the bound ----------------------------------------------------------------------------


def image(nodes: dict[int, str]) -> Image:
    return Image(entry=BASE, segments=(), nodes=nodes, lines={BASE: ("k.s", 3)})


def one(mnemonic: str = "ct.add.vv", fields: dict[str, int] | None = None, **columns: int) -> tuple[Any, ...]:
    """A slice of an instruction and its operands; times in cycles."""
    number = tables.numbers()[mnemonic]
    record = tables.records()[number]
    row = {
        "track": int(record.engine),
        "record": number,
        "pc": BASE,
        "ended": 10,
        "blocker": -1,
        "target": -1,
        **columns,
    }
    operands = [(fields or {}).get(operand.name, 0) for operand in record.operands]
    return row, operands


def core(cause: Cause, started: int, ended: int, **columns: int) -> tuple[Any, ...]:
    row = {"track": Track.CORE, "record": -1, "cause": cause, "pc": BASE, "started": started, "ended": ended}
    return {**row, "blocked": ended - started, "blocker": -1, "target": -1, **columns}, []


def batch(*rows: tuple[Any, ...]) -> Batch:
    slices = np.zeros(len(rows), dtype=SLICE)
    fields = np.zeros((len(rows), MAX_FIELDS), dtype=np.int64)
    for at, (row, operands) in enumerate(rows):
        for name, value in row.items():
            slices[name][at] = value * (TICKS if name in ("issued", "started", "ended", "blocked") else 1)
        fields[at, : len(operands)] = operands
    return Batch(slices, np.zeros((len(rows), MOST_RANGES, 3), dtype=np.int64), fields)


def resources(*rows: tuple[Any, ...], machine: Machine = MACHINE) -> dict[str, float]:
    found = counted(image({}), [batch(*rows)], [10_000 * TICKS], machine)
    return {resource.name: resource.cycles for resource in report_of(found).resources}


@pytest.mark.parametrize(
    ("mnemonic", "fmt", "name", "per_cycle"),
    [
        ("ct.add.vv", Format.FP16, "CT", 64),
        ("ct.add.vv", Format.FP32, "CT", 32),
        ("ct.cvt.fp32.fp16", None, "CT", 32),
        ("ne.gemm", Format.FP16, "NE", 8000),
        ("ne.gemm", Format.INT8, "NE", 16000),
        ("ne.gemm", Format.FP32, "NE", 1300),
    ],
)
def test_least_time_of_arithmetic(mnemonic: str, fmt: Format | None, name: str, per_cycle: float) -> None:
    fields = {} if fmt is None else {"format": int(fmt)}
    found = resources(one(mnemonic, fields, operations=320_000))
    assert found == pytest.approx({name: 320_000 / per_cycle})


def test_least_time_of_moves() -> None:
    found = resources(
        one("rdma", ddr_read=64_000, spm_written=64_000),
        one("rdma", tile=1, ddr_read=64_000, spm_written=64_000),
        one("wdma", started=20, ended=30, number=1, ddr_written=22_000, spm_read=22_000),
        one("td.transpose", started=40, ended=50, number=2, spm_read=1280, spm_written=2560),
    )
    rate = MACHINE.timing.rdma.rate.value
    assert found == pytest.approx(
        {
            "RDMA": 128_000 / rate / 2,
            "WDMA": 22_000 / MACHINE.timing.wdma.rate.value / 2,
            "TDMA": 2560 / 128 / 2,
            "DDR": 150_000 / 150,
        }
    )


def test_the_busiest_link_counts() -> None:
    """Tiles are numbered down the columns; a packet goes along x, then along y."""
    assert roofline.route(MACHINE, 0, 10) == [(0, 4), (4, 8), (8, 9), (9, 10)]
    assert roofline.route(MACHINE, 10, 0) == [(10, 6), (6, 2), (2, 1), (1, 0)]
    assert roofline.route(MACHINE, 7, 7) == []
    copies = [
        one("dte.unicast", target=10, spm_written=1280),
        one("dte.unicast", number=1, target=8, spm_written=2560),
        one("dte.unicast", number=2, target=0, spm_written=99_999),
    ]
    found = counted(image({}), [batch(*copies)], [100 * TICKS])
    report = report_of(found)
    assert [(k.source, k.target, k.bytes) for k in report.links] == [
        (0, 4, 3840),
        (4, 8, 3840),
        (8, 9, 1280),
        (9, 10, 1280),
    ]
    assert {r.name: r.cycles for r in report.resources} == pytest.approx({"NoC": 30.0})
    paths = {path.path: path.bytes for path in report.paths}
    assert paths == {"tile to tile (DTE)": 3840, "inside a tile (DTE)": 99_999}


def test_every_engine_record_has_a_class_of_arithmetic() -> None:
    for number, record in enumerate(tables.records()):
        codes = [int(Format[fmt.name]) for fmt in record.formats] or [0]
        for code in codes:
            known = roofline.classes()[number, code] < roofline.CLASSES - 1
            assert known == (record.engine in (Track.CT, Track.NE)), (record.mnemonic, code)


def test_peaks_are_those_of_the_machine(tmp_path: Path) -> None:
    text = TX81.read_text().replace("fp16 = { value = 64,", "fp16 = { value = 128,", 1)
    (tmp_path / "fast.toml").write_text(text)
    row = one("ct.add.vv", {"format": int(Format.FP16)}, operations=6400)
    assert resources(row) == {"CT": 100.0}
    assert resources(row, machine=load_machine(tmp_path / "fast.toml")) == {"CT": 50.0}


def test_the_bound_and_what_is_reached() -> None:
    rows = [
        one("ct.add.vv", {"format": int(Format.FP16)}, operations=6400, ended=300),
        one("rdma", ddr_read=500, spm_written=500, number=1, ended=50),
    ]
    report = report_of(counted(image({}), [batch(*rows)], [400 * TICKS]))
    assert (report.bound, report.reached, report.cycles, report.tiles_used) == ("CT", 0.25, 400.0, 1)
    assert report.milliseconds == pytest.approx(4e-4) and report.last_tile == 0
    keys = {figure.key: (figure.value, figure.evidence) for figure in report.figures}
    assert keys["engines.ct.fp16"] == (64, "spec") and keys["ddr.nominal"] == (150e9, "assumed")


def test_nothing_done_has_no_bound() -> None:
    report = report_of(counted(image({}), [], [50 * TICKS]))
    assert report.bound is None and report.losses == [] and report.resources == []
    assert any("no engine had anything to do" in line for line in describe(report))
    assert list(describe(report_of(counted(image({}), [], []))))  # not even a cycle


# --- losses -------------------------------------------------------------------------------


def losses(ends: int, *rows: tuple[Any, ...]) -> dict[str, float]:
    report = report_of(counted(image({}), [batch(*rows)], [ends * TICKS]))
    return {loss.text: loss.cycles for loss in report.losses}


def ct(**columns: int) -> tuple[Any, ...]:
    return one("ct.add.vv", {"format": int(Format.FP16)}, **columns)


@pytest.mark.parametrize(
    ("rows", "part", "cycles"),
    [
        ([ct(operations=640, ended=50)], "slower than its peak (50 cycles for each of 1, 10 at peak)", 40),
        ([ct(operations=640, ended=50)], "CT on tile 0 has nothing to do", 50),
        (
            [
                ct(
                    operations=640,
                    started=30,
                    ended=50,
                    number=1,
                    cause=Cause.DEPENDENCY,
                    blocked=25,
                    blocker=0,
                ),
                one("rdma", ended=30),
            ],
            "CT on tile 0 has work that waits for older work of RDMA",
            25,
        ),
        ([ct(operations=640, ended=50, cause=Cause.BANK, blocked=20)], "scratchpad banks", 20),
        (
            [ct(operations=640, ended=50), ct(operations=6400, ended=90, tile=1)],
            "tile 1 has more work for CT",
            45,
        ),
        (
            [ct(operations=640, ended=50), core(Cause.BARRIER, 50, 80)],
            "its core executes and issues 70%, waits at barriers 30%",
            50,
        ),
    ],
)
def test_losses_in_words(rows: list[tuple[Any, ...]], part: str, cycles: int) -> None:
    found = losses(100, *rows)
    assert [value for text, value in found.items() if part in text] == [cycles], found


def test_a_taken_ddr_is_no_loss_when_it_is_the_bound() -> None:
    slow = one("rdma", ended=90, cause=Cause.DDR, blocked=50, ddr_read=12_000, spm_written=12_000)
    report = report_of(counted(image({}), [batch(slow)], [100 * TICKS]))
    assert report.bound == "RDMA" and any("other tiles use the DDR" in loss.text for loss in report.losses)
    rows = [
        one("rdma", tile=t, ended=90, cause=Cause.DDR, blocked=50, ddr_read=1000, spm_written=1000)
        for t in range(12)
    ]
    report = report_of(counted(image({}), [batch(*rows)], [100 * TICKS] * 12))
    assert report.bound == "DDR" and not any("other tiles" in loss.text for loss in report.losses)


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


# --- real programs ------------------------------------------------------------------------

PROGRAM = """
.input x, fp16, 16x2048
.output y, fp16, 16x2048
.text
_start: csrr t0, mhartid
    li t1, 4096
    mul t0, t0, t1
    la a0, x
    la a1, y
    add a0, a0, t0
    add a1, a1, t0
    .node "load"
    rdma.fp16 dst=0x10000, src=a0, n=2048
    .node "square"
    ct.mul.vv.fp16 dst=0x20000, src0=0x10000, src1=0x10000, n=2048
    .node "store"
    wdma.fp16 dst=a1, src=0x20000, n=2048
    ncc.wait
    ncc.barrier
    li a0, {status}
    li a7, 93
    ecall
"""


@pytest.fixture
def program(tmp_path: Path) -> list[str]:
    np.save(tmp_path / "x.npy", np.ones((16, 2048), dtype=np.float16))
    (tmp_path / "p.bin").write_bytes(write_image(asm.assemble(PROGRAM.format(status=0), name="p.s")))
    return [str(tmp_path / "p.bin"), "--input", f"x={tmp_path / 'x.npy'}"]


def test_a_real_program(program: list[str], capsys: Capture) -> None:
    assert main([*program, "--stats=json"]) == 0
    found = json.loads(capsys.readouterr().out)
    jsonschema.validate(found, schema())
    assert found["complete"] and found["tiles_used"] == 16 and found["engine_instructions"] == 16 * 5
    assert {path["path"]: path["bytes"] for path in found["paths"]} == {
        "DDR to SPM (RDMA)": 65536,
        "SPM to DDR (WDMA)": 65536,
        "DDR, all engines": 131072,
        "operands of CT": 131072,
        "results of CT": 65536,
    }
    assert found["bound"] == "DDR" and found["resources"]
    nodes = {node["name"]: node for node in found["nodes"]}
    assert sum(node["cycles"] for node in nodes.values()) == pytest.approx(found["cycles"])
    assert nodes["square"]["operations"] == 16 * 2048 and nodes["load"]["ddr_bytes"] == 65536
    ct_row = next(row for row in found["engines"] if (row["tile"], row["engine"]) == (3, "CT"))
    assert ct_row["waiting"].keys() == {"RDMA"} and ct_row["instructions"] == 1
    assert [row["instruction"] for row in found["executed"]][:1] != []
    timing = MACHINE.timing.ct
    assert ct_row["busy"] == pytest.approx(timing.fixed.value + 2048 / timing.rates.fp16.value, rel=0.05)


def test_threads_do_not_change_a_digit(program: list[str], capsys: Capture) -> None:
    texts = []
    for threads in (1, 2, 4):
        assert main([*program, "--stats", "--threads", str(threads)]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] == texts[2] and texts[0].startswith("time ")


def test_stats_may_stand_before_the_program(program: list[str], capsys: Capture) -> None:
    assert main(["--stats", *program]) == 0
    first = capsys.readouterr().out
    assert main([*program, "--stats=text"]) == 0
    assert capsys.readouterr().out == first


def test_a_wrong_form_is_refused(program: list[str], capsys: Capture) -> None:
    with pytest.raises(SystemExit) as left:
        main([*program, "--stats=xml"])
    assert left.value.code == 2 and "invalid choice: 'xml'" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["--stats", "--stats=json"])
def test_a_run_that_stopped_tells_what_it_did(
    program: list[str], tmp_path: Path, capsys: Capture, form: str
) -> None:
    (tmp_path / "p.bin").write_bytes(write_image(asm.assemble(PROGRAM.format(status=4), name="p.s")))
    assert main([*program, form]) == 3
    out, err = capsys.readouterr()
    assert "exited with status 4" in err
    assert main([*program, form, "--max-instructions", "20"]) == 3
    out, err = capsys.readouterr()
    if form == "--stats":
        assert "where the run stopped" in out.splitlines()[0]
    else:
        assert json.loads(out)["complete"] is False


GRAPH = {
    "name": "tiny",
    "opset": 20,
    "outputs": ["y"],
    "inputs": [{"name": "x", "dtype": "float32", "shape": [64, 64]}],
    "nodes": [
        {"op": "Relu", "name": "up", "inputs": ["x"], "outputs": ["r"], "attrs": {}},
        {"op": "Sigmoid", "name": "down", "inputs": ["r"], "outputs": ["y"], "attrs": {}},
    ],
}


def test_the_compiler_prints_statistics_of_its_nodes(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "tiny.json"
    path.write_text(json.dumps(GRAPH))
    assert compile_main([str(path), "--run", "--dtype", "fp16", "--stats=json"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert "pass" in err and "random inputs" in err
    assert found["nodes"][0]["name"] == "up" and found["complete"]
    assert compile_main(["--stats", str(path), "--run", "--dtype", "fp16", "-q"]) == 0
    lines = capsys.readouterr().out.splitlines()
    column, row = lines[0].split().index("cycles") - 2, lines[1].split()  # "max abs error" is one column
    assert int(row[column].replace(",", "")) == int(found["cycles"])
    assert any(line.startswith("nodes ") for line in lines)


def test_statistics_need_a_run(tmp_path: Path, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as left:
        compile_main([str(tmp_path / "tiny.json"), "--stats"])
    assert left.value.code == 2 and "--stats need --run" in capsys.readouterr().err


def test_without_stats_no_time_is_simulated(program: list[str]) -> None:
    loaded = emulator.load(program[0])
    system = loaded.start({"x": np.ones((16, 2048), dtype=np.float16)})
    assert system.cycles is None
