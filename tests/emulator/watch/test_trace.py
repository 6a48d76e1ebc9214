"""--trace: the file is what viewers expect, and says what the slices say."""

from __future__ import annotations

import gzip
import importlib.util
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import jsonschema
import numpy as np
import pytest

import asm
from asm.disassembler import disassemble_image
from asm.image import Image, Segment, write_image
from emulator import cli, load
from emulator.engines import queues, tables
from emulator.program import travel_dtype
from emulator.timing.slices import MOST_RANGES, SLICE, TICKS, Batch, Cause, Track
from emulator.watch.trace.sink import CHUNK, Trace
from paths import ROOT
from record_operands import draw
from time_slices import BASE, Slices, repeated
from trace_reader import Event, Read
from tx8isa.errors import Tx8Error
from tx8isa.machine.description import Machine, load_machine
from tx8isa.records.record import Engine
from tx8isa.table.encoding import encoder

MACHINE = load_machine(None)
EMPTY = Image(entry=BASE, segments=())


def write(
    path: Path, image: Image, batches: Iterable[Batch], ends: list[int], machine: Machine = MACHINE
) -> Trace:
    trace = Trace(path, image, machine, "prog.bin")
    for batch in batches:
        trace.take(batch)
    trace.close(ends)
    return trace


def made(path: Path, image: Image, batches: Iterable[Batch], ends: list[int] | None = None) -> Read:
    write(path, image, batches, ends or []).finish()
    return Read(path)


def batch(*rows: dict[str, Any], ranges: dict[int, list[list[int]]] | None = None) -> Batch:
    """Slices given by their columns; what is not given: on tile 0, no record, not blocked."""
    slices = np.zeros(len(rows), dtype=SLICE)
    noted = np.zeros((len(rows), MOST_RANGES, 3), dtype=np.int64)
    for at, row in enumerate(rows):
        usual = {
            "record": tables.numbers()["ct.add.vv"],
            "number": at,
            "pc": BASE,
            "blocker": -1,
            "target": -1,
        }
        for name, value in {**usual, "issued": row.get("started", 0), **row}.items():
            slices[at][name] = value
        own = (ranges or {}).get(at, [])
        slices[at]["sources"] = len(own)
        noted[at, : len(own)] = np.reshape(own, (-1, 3))
    return Batch(slices, noted, np.zeros((len(rows), queues.MAX_FIELDS), dtype=np.int64))


@pytest.fixture(scope="module")
def random(tmp_path_factory: pytest.TempPathFactory) -> tuple[Slices, np.ndarray, Read]:
    """A random program, all its slices, and its trace."""
    program = Slices(seed=5, tiles=4, instructions=120)
    batches = list(program.batches())
    path = tmp_path_factory.mktemp("trace") / "out.json"
    return (
        program,
        np.concatenate([b.slices for b in batches]),
        made(path, program.image, batches, program.ends),
    )


def key(event: Event) -> tuple[int, int, str]:
    return event["pid"] - 1, event["args"]["instruction number"], event["cat"]


# --- slices -------------------------------------------------------------------------------


def test_every_slice_is_there_once(random: tuple[Slices, np.ndarray, Read]) -> None:
    _, slices, read = random
    engines = slices[slices["track"] != Track.CORE]
    expected = Counter(
        (
            int(s["tile"]),
            int(s["number"]),
            Track(s["track"]).name,
            round(int(s["started"]) / 1e6, 6),
            round(int(s["ended"] - s["started"]) / 1e6, 6),
            round(int(s["issued"]) / 1e6, 6),
        )
        for s in engines
    )
    found = Counter((*key(e), e["ts"], e["dur"], e["args"]["issued"]) for e in read.engine_slices())
    assert found == expected
    assert len(read.slices("core")) == len(slices) - len(engines)
    assert read.summary["slices"] == len(slices)


def test_durations_add_up(random: tuple[Slices, np.ndarray, Read]) -> None:
    _, slices, read = random
    for tile in range(4):
        for track in Track:
            rows = slices[(slices["tile"] == tile) & (slices["track"] == track)]
            category = "core" if track is Track.CORE else track.name
            found = sum(e["dur"] for e in read.slices(category) if e["pid"] == tile + 1)
            assert found == pytest.approx(int((rows["ended"] - rows["started"]).sum()) / 1e6, abs=1e-7)


def test_what_is_moved_and_what_held(random: tuple[Slices, np.ndarray, Read]) -> None:
    _, slices, read = random
    found = {(*key(e), e["args"].get("to tile", -1)): e["args"] for e in read.engine_slices()}
    columns = {
        "SPM read": "spm_read",
        "SPM written": "spm_written",
        "DDR read": "ddr_read",
        "DDR written": "ddr_written",
        "operations": "operations",
    }
    held = 0
    for row in slices[slices["track"] != Track.CORE]:
        arguments = found[int(row["tile"]), int(row["number"]), Track(row["track"]).name, int(row["target"])]
        assert {name: arguments.get(name, 0) for name in columns} == {
            name: row[column] for name, column in columns.items()
        }
        assert arguments.get("held for (cycles)", 0) == pytest.approx(row["blocked"] / TICKS, abs=1e-3)
        assert arguments.get("held by instruction", -1) == row["blocker"]
        assert ("held by" in arguments) == (row["blocked"] > 0)
        held += "held by" in arguments
    assert held > 20


def test_lines_and_nodes(random: tuple[Slices, np.ndarray, Read]) -> None:
    program, slices, read = random
    pcs = {(int(s["tile"]), int(s["number"])): int(s["pc"]) for s in slices[slices["track"] != Track.CORE]}
    image = program.image
    for event in read.engine_slices():
        pc = pcs[key(event)[:2]]
        file, line = image.lines[pc]
        assert event["args"]["source"] == f"{file}:{line}"
        assert event["args"]["node"] == image.nodes[pc]
        assert event["args"]["pc"] == f"0x{pc:x}"


def test_waits_are_named_by_cause(random: tuple[Slices, np.ndarray, Read]) -> None:
    _, slices, read = random
    cores = slices[slices["track"] == Track.CORE]
    assert Counter(e["name"] for e in read.slices("core")) == {
        "wait: queue full": (cores["cause"] == Cause.QUEUE).sum(),
        "wait: dependency": (cores["cause"] == Cause.DEPENDENCY).sum(),
        "wait: copies": (cores["cause"] == Cause.DTE).sum(),
        "wait: arrival": (cores["cause"] == Cause.ARRIVAL).sum(),
        "wait: barrier": (cores["cause"] == Cause.BARRIER).sum(),
    }


def test_processes_and_threads(tmp_path: Path) -> None:
    rows = [
        {"track": Track.CT, "tile": 7, "started": 10, "ended": 20},
        {"track": Track.CT, "tile": 7, "worker": 2, "started": 30, "ended": 40},
        {"track": Track.CORE, "tile": 7, "record": -1, "cause": Cause.QUEUE, "started": 1, "ended": 2},
    ]
    read = made(tmp_path / "t.json", EMPTY, [batch(*rows)])
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in read.phase("M") if e["name"] == "thread_name"}
    assert [names[at] for at in sorted(names)] == ["core", "CT", "CT worker 2"]
    processes = {e["pid"]: e["args"]["name"] for e in read.phase("M") if e["name"] == "process_name"}
    assert processes[8] == "tile 7 (1,3)"
    assert len(processes) == MACHINE.tiles + 1
    order = {e["pid"]: e["args"]["sort_index"] for e in read.phase("M") if e["name"] == "process_sort_index"}
    assert [processes[pid] for pid in sorted(order, key=lambda pid: order[pid])][:2] == [
        "chip (tx81)",
        "tile 0 (0,0)",
    ]


def test_what_overlaps_gets_lanes(tmp_path: Path) -> None:
    times = [(0, 100), (50, 120), (60, 130), (100, 140), (125, 150)]
    rows = [{"track": Track.NE, "started": a, "ended": b} for a, b in times]
    read = made(tmp_path / "t.json", EMPTY, [batch(*rows)])  # reading checks that nothing overlaps
    assert Counter(e["tid"] - read.slices()[0]["tid"] for e in read.slices()) == {0: 2, 1: 2, 2: 1}


def test_times_follow_the_clock(tmp_path: Path) -> None:
    text = Path(str(load_machine.__globals__["__file__"])).with_name("machines") / "tx81.toml"
    fast = tmp_path / "fast.toml"
    fast.write_text(text.read_text().replace("clock = { value = 1e9", "clock = { value = 2e9"))
    row = {"started": 4000, "ended": 8000, "ddr_read": 64, "track": Track.RDMA}
    write(tmp_path / "t.json", EMPTY, [batch(row)], [], load_machine(fast)).finish()
    read = Read(tmp_path / "t.json")
    assert [(e["ts"], e["dur"]) for e in read.slices()] == [(0.002, 0.002)]
    assert max(value for _, value in read.counter(1, "DDR GB/s", "read")) == 32


# --- operands -----------------------------------------------------------------------------


def encoded(seed: int) -> tuple[Image, Batch, list[tuple[str, dict[str, str], set[str]]]]:
    """One instruction of every record, as a program; their slices; (name, operands, in registers) each.

    The names and operands are what the disassembler says of the same values without registers.
    """
    rng = Random(seed)
    cases, plain, marked, slices, register_names = [], [], [], [], []
    for record in tables.records():
        fmt = rng.choice(record.formats) if record.formats else None
        case = draw(record, fmt, rng.randint(1, 100), rng)
        if case is None:
            continue
        values = [
            v + (o.memory == "ddr") * MACHINE.windows.ddr_engine
            for v, o in zip(case.values, record.operands, strict=True)
        ]
        marks = [o for o in record.operands if o.words and rng.random() < 0.4]
        bits = sum(1 << record.index(o.name) for o in marks)
        coded = [8 if bits >> i & 1 else v for i, v in enumerate(values)]
        cases.append(case)
        register_names.append({o.name for o in marks})
        plain.append(encoder(record).encode(values))
        marked.append(encoder(record).encode(coded, bits))
    pc = BASE
    for number, (case, code) in enumerate(zip(cases, marked, strict=True)):
        record = tables.numbers()[case.record.mnemonic]
        engine = min(case.record.engine, Engine.DTE)
        slices.append(
            {"record": record, "pc": pc, "track": engine, "started": number * 10, "ended": number * 10 + 5}
        )
        pc += len(code)
    in_ddr = {
        at: [[case.named[o.name] + queues.DDR, 1, 0] for o in case.record.operands if o.memory == "ddr"]
        for at, case in enumerate(cases)
    }
    made_of = batch(*slices, ranges=in_ddr)
    for at, case in enumerate(cases):
        made_of.fields[at, : len(case.values)] = case.values
    return image_of(marked), made_of, list(zip(*spelt(image_of(plain)), register_names, strict=True))


def image_of(code: list[bytes]) -> Image:
    data = b"".join(code)
    segment = Segment(".text", BASE, data, len(data), "rx")
    lines = {BASE + at: ("100%d.s", at) for at in range(0, len(data), 4)}  # no format of ours
    return Image(entry=BASE, segments=(segment,), data_ranges=((BASE, BASE + len(data)),), lines=lines)


def spelt(image: Image) -> tuple[list[str], list[dict[str, str]]]:
    """Names and operands of the instructions of a program, by the disassembler."""
    found = re.findall(r"^    ([a-z]\S*\.\S+|rdma\S*|wdma\S*)(.*)$", disassemble_image(image), re.MULTILINE)
    operands = [dict(re.findall(r"([\w.]+)=(\[.*?\]|[^,\s]+)", text)) for _, text in found]
    return [name for name, _ in found], operands


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_operands_are_spelt_as_the_disassembler_does(tmp_path: Path, seed: int) -> None:
    image, slices, expected = encoded(seed)
    events = made(tmp_path / "t.json", image, [slices]).engine_slices()
    assert len(events) == len(expected) > 180
    for event, row, (name, operands, in_registers) in zip(events, slices.slices, expected, strict=True):
        text = event["args"]["operands"]
        found = dict(re.findall(r"(\w+)=(\[.*?\]|[^,\s]+)", text))
        assert event["name"] == name
        assert {n: v for n, v in found.items() if n in operands} == operands, text
        record = tables.records()[row["record"]]
        follow = {o.name for o in record.operands if isinstance(o.default, str)}  # a register perhaps
        assert set(found) - set(operands) <= in_registers | follow, text


def test_operands_where_the_text_says_something_else(tmp_path: Path) -> None:
    """A program that changed its text, or issued through registers: the values count, not the text."""
    image, slices, expected = encoded(4)
    for elsewhere in (image_of([bytes(len(image.segments[0].data))]), EMPTY):
        events = made(tmp_path / "t.json", elsewhere, [slices]).engine_slices()
        found = [dict(re.findall(r"(\w+)=(\[.*?\]|[^,\s]+)", e["args"]["operands"])) for e in events]
        assert [(e["name"], f) for e, f in zip(events, found, strict=True)] == [e[:2] for e in expected]


def test_an_address_in_ddr_or_spm(tmp_path: Path) -> None:
    """Operands that take both are told apart by the ranges."""
    number = tables.numbers()["dte.unicast"]
    record = tables.records()[number]
    row = {"record": number, "track": Track.DTE, "started": 0, "ended": 9000, "target": 3}
    given = batch(row, ranges={0: [[queues.DDR + 0x40, 8, 0], [0x80, 8, 1]]})
    given.fields[0, record.index("src")], given.fields[0, record.index("dst")] = 0x40, 0x80
    given.fields[0, record.index("n")] = 8
    (event,) = made(tmp_path / "t.json", EMPTY, [given]).engine_slices()
    assert f"src={MACHINE.windows.ddr_engine + 0x40:#x}" in event["args"]["operands"]
    assert "dst=0x80" in event["args"]["operands"]


def test_names_that_json_would_misread(tmp_path: Path) -> None:
    name = 'a"b\\c %d é\n'
    image = Image(entry=BASE, segments=(), nodes={BASE: name}, lines={BASE: (name, 3)})
    read = made(tmp_path / "t.json", image, [batch({"started": 0, "ended": 5000})])
    (event,) = read.engine_slices()
    assert (event["args"]["node"], event["args"]["source"]) == (name, f"{name}:3")
    assert [e["name"] for e in read.slices("node")] == [name]


# --- arrows -------------------------------------------------------------------------------


def test_arrows_lead_from_the_blocker_to_what_it_held(random: tuple[Slices, np.ndarray, Read]) -> None:
    _, slices, read = random
    held = slices[slices["blocker"] >= 0]
    arrows = [a for a in read.arrows() if a[0]["cat"] == "dependency"]
    assert len(arrows) == len(held) - read.summary["arrows left out"]
    assert read.summary["arrows left out"] == 0
    found = set()
    for begin, end in arrows:
        assert begin["pid"] == end["pid"]
        origins = {s["args"]["instruction number"] for s in read.at(begin)}
        for target in read.at(end):
            if target["args"].get("held by instruction", -1) in origins:
                found.add((begin["pid"], target["ts"], target["tid"]))
    # one slice for each target of a copy: they are held together
    assert len(found) == len(
        {(e["pid"], e["ts"], e["tid"]) for e in read.slices() if "held by instruction" in e["args"]}
    )


def test_copies_arrive_at_their_targets(random: tuple[Slices, np.ndarray, Read]) -> None:
    _, slices, read = random
    sent = slices[slices["target"] >= 0]
    assert Counter(
        (e["pid"] - 1, e["args"]["from tile"], e["dur"]) for e in read.slices("arriving")
    ) == Counter(
        (int(s["target"]), int(s["tile"]), round(int(s["ended"] - s["started"]) / 1e6, 6)) for s in sent
    )
    arrows = [a for a in read.arrows() if a[0]["cat"] == "copy"]
    assert len(arrows) == len(sent) > 20
    for begin, end in arrows:
        assert any(s["args"]["to tile"] == end["pid"] - 1 for s in read.at(begin))
        assert any(s["args"].get("from tile") == begin["pid"] - 1 for s in read.at(end))


def test_copies_that_registers_started(tmp_path: Path) -> None:
    """No instruction, so no operands; a copy to DDR arrives nowhere."""
    rows = [
        {"record": -1, "track": Track.DTE, "ended": 2000, "target": 3, "spm_written": 64},
        {"record": -1, "track": Track.DTE, "started": 2000, "ended": 4000, "target": 0, "ddr_written": 64},
    ]
    read = made(tmp_path / "t.json", EMPTY, [batch(*rows)])
    events = read.engine_slices()
    assert [(e["name"], e["cat"], "operands" in e["args"]) for e in events] == [("copy", "DTE", False)] * 2
    assert [e["pid"] for e in read.slices("arriving")] == [4]
    assert len(read.arrows()) == 1


def test_an_arrow_waits_for_where_it_comes_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("emulator.watch.trace.sink.CHUNK", 64)
    held = {"track": Track.NE, "number": 9, "started": 20_000, "ended": 30_000, "blocked": 5, "blocker": 4}
    origin = {"track": Track.CT, "number": 4, "started": 10_000, "ended": 20_000}
    idle = [{"track": Track.CORE, "cause": Cause.DTE, "started": i, "ended": i} for i in range(64)]
    for batches, lost in (([batch(held), batch(*idle), batch(origin)], 0), ([batch(held)], 1)):
        read = made(tmp_path / "t.json", EMPTY, batches)
        assert len(read.arrows()) == 1 - lost
        assert read.summary["arrows left out"] == lost


@pytest.mark.parametrize(
    ("track", "blocker", "held", "at"),
    [
        (Track.NE, (1000, 9000), (9000, 20_000), (7000, 9000)),
        (Track.CORE, (1000, 9000), (2000, 9000), (7000, 7000)),  # the wait ends with what it waits for
        (Track.RDMA, (1000, 90_000), (5000, 20_000), (5000, 5000)),  # both share the DDR
    ],
)
def test_where_arrows_begin_and_end(
    tmp_path: Path, track: Track, blocker: tuple[int, int], held: tuple[int, int], at: tuple[int, int]
) -> None:
    rows = [
        {"track": Track.CT, "started": blocker[0], "ended": blocker[1]},
        {
            "track": track,
            "number": 1,
            "started": held[0],
            "ended": held[1],
            "blocker": 0,
            "cause": 2,
            "blocked": 7,
        },
    ]
    ((begin, end),) = made(tmp_path / "t.json", EMPTY, [batch(*rows)]).arrows()
    assert (begin["ts"] * 1e6, end["ts"] * 1e6) == pytest.approx(at)


# --- nodes --------------------------------------------------------------------------------


def node_image(*names: str) -> Image:
    return Image(entry=BASE, segments=(), nodes={BASE + 4 * i: name for i, name in enumerate(names) if name})


def test_nodes_follow_one_another(tmp_path: Path) -> None:
    """A run starts where the one before ends, when engines work ahead; in order, whatever comes first."""
    times = [
        ("a", 0, 100),
        ("a", 10, 50),
        ("b", 60, 150),
        ("b", 150, 160),
        ("", 0, 900),
        ("c", 20, 90),
        ("d", 200, 210),
    ]
    image = node_image(*(name for name, _, _ in times))
    rows = [
        {"pc": BASE + 4 * i, "number": i, "track": i % 5, "started": a * TICKS, "ended": b * TICKS}
        for i, (_, a, b) in enumerate(times)
    ]
    for order in (rows, rows[::-1]):
        read = made(tmp_path / "t.json", image, [batch(*order)])
        found = [
            (e["name"], round(e["ts"] * 1e3), round(e["dur"] * 1e3), e["args"]["instructions"])
            for e in read.slices("node")
        ]
        assert found == [("a", 0, 100, 2), ("b", 100, 60, 2), ("d", 200, 10, 1)]  # c was over before b


def test_runs_of_a_node_join_over_many_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("emulator.watch.trace.sink.CHUNK", 1024)
    image = node_image("a", "b")
    rows = [
        {"pc": BASE + 4 * (i // 3 % 2), "number": i, "started": i * TICKS, "ended": (i + 1) * TICKS}
        for i in range(2048)
    ]
    read = made(tmp_path / "t.json", image, [batch(*rows[::2]), batch(*rows[1::2])])
    assert Counter(e["args"]["instructions"] for e in read.slices("node")).keys() >= {3}
    assert sum(e["args"]["instructions"] for e in read.slices("node")) <= len(rows)
    assert [e["name"] for e in read.slices("node")][:4] == ["a", "b", "a", "b"]


def test_no_nodes_no_track(tmp_path: Path) -> None:
    read = made(tmp_path / "t.json", EMPTY, [batch({"started": 0, "ended": 5})])
    assert "node" not in {e["args"].get("name") for e in read.phase("M")}


# --- counters -----------------------------------------------------------------------------


def test_counters_add_up(random: tuple[Slices, np.ndarray, Read]) -> None:
    """GB/s times microseconds is 1000 bytes; queue depth times microseconds is time that was waited."""
    _, slices, read = random
    for kind in ("read", "written"):
        total = int(slices[f"ddr_{kind}"].sum())
        assert read.integral(MACHINE.tiles + 1, "DDR GB/s", kind) * 1000 == pytest.approx(total, rel=0.02)
        for tile in range(4):
            own = int(slices[slices["tile"] == tile][f"ddr_{kind}"].sum())
            assert read.integral(tile + 1, "DDR GB/s", kind) * 1000 == pytest.approx(own, rel=0.03)
    for tile in range(4):
        for track in (Track.CT, Track.NE, Track.RDMA, Track.WDMA, Track.TDMA):
            rows = slices[(slices["tile"] == tile) & (slices["track"] == track)]
            waited = int((rows["started"] - rows["issued"]).sum()) / 1e6
            assert read.integral(tile + 1, "queue depth", track.name) == pytest.approx(
                waited, rel=0.01, abs=0.01
            )


def test_bandwidth_of_one_transfer(tmp_path: Path) -> None:
    """64 bytes a cycle from 100 to 200, in a run short enough for bins of one cycle."""
    row = {"track": Track.RDMA, "started": 100 * TICKS, "ended": 200 * TICKS, "ddr_read": 6400}
    read = made(tmp_path / "t.json", EMPTY, [batch(row)], [400 * TICKS])
    for pid in (1, MACHINE.tiles + 1):
        assert read.counter(pid, "DDR GB/s", "read") == [(0.1, 64), (0.2, 0), (0.4, 0)]


def test_queue_depth_of_two_that_wait(tmp_path: Path) -> None:
    rows = [
        {"track": Track.CT, "issued": 0, "started": 10 * TICKS, "ended": 20 * TICKS},
        {"track": Track.CT, "issued": 5 * TICKS, "started": 20 * TICKS, "ended": 30 * TICKS, "number": 1},
    ]
    read = made(tmp_path / "t.json", EMPTY, [batch(*rows)])
    assert read.counter(1, "queue depth", "CT") == [(0, 1), (0.005, 2), (0.01, 1), (0.02, 0), (0.03, 0)]


def test_scratchpad_in_use(tmp_path: Path) -> None:
    """Lines count from the first write to the last read, and not between a read and the next write."""
    times = [(0, 2), (10, 12), (20, 22), (30, 32), (40, 42)]
    rows = [{"started": a * TICKS, "ended": b * TICKS, "number": i} for i, (a, b) in enumerate(times)]
    ranges = {
        0: [[0x100, 0x300, 1]],  # lines 1, 2, 3 written
        1: [[0x180, 4, 0]],  # line 1 read
        2: [[0x2FF, 2, 0], [queues.DDR, 999, 1]],  # lines 2 and 3 read, DDR does not count
        3: [[0x100, 1, 1]],  # line 1 written again, and never read
        4: [[0x300, 1, 0], [0x1000, 0, 1]],  # line 3 read, nothing written
    }
    read = made(tmp_path / "t.json", EMPTY, [batch(*rows, ranges=ranges)])
    used = [(round(ts * 1000), value // 256) for ts, value in read.counter(1, "SPM in use", "bytes")]
    assert used == [(0, 3), (12, 2), (22, 1), (30, 2), (32, 1), (42, 0)]
    so_far = [
        (round(ts * 1000), value // 256) for ts, value in read.counter(1, "SPM written so far", "bytes")
    ]
    assert so_far == [(0, 3), (42, 0)]


def test_copies_use_the_scratchpad_of_their_target(tmp_path: Path) -> None:
    row = {
        "tile": 1,
        "track": Track.DTE,
        "record": tables.numbers()["dte.unicast"],
        "target": 2,
        "ended": 2000,
    }
    read = made(tmp_path / "t.json", EMPTY, [batch(row, ranges={0: [[0, 256, 0], [0, 512, 1]]})])
    assert read.counter(2, "SPM in use", "bytes") == [(0, 256), (0.002, 0)]
    assert read.counter(3, "SPM in use", "bytes") == [(0, 512), (0.002, 0)]


def test_scratchpad_against_a_plain_count(random: tuple[Slices, np.ndarray, Read]) -> None:
    """Written so far, at the end: the distinct lines of all written ranges."""
    program, _, read = random
    lines = defaultdict(set)
    again = Slices(seed=5, tiles=4, instructions=120)
    for given in again.batches():
        for row, ranges in zip(given.slices, given.ranges, strict=True):
            for first, size, written in ranges[: row["sources"]].tolist():
                if written and first < queues.DDR:
                    tile = int(row["target"]) if row["target"] >= 0 else int(row["tile"])
                    lines[tile].update(range(first // 256, (first + size - 1) // 256 + 1))
    assert again.ends == program.ends
    assert lines.keys() > set(range(4))
    for tile, written in lines.items():
        values = [value for _, value in read.counter(tile + 1, "SPM written so far", "bytes")]
        assert values[:-1] == sorted(values[:-1])
        assert values[-2] == 256 * len(written)


# --- the file -----------------------------------------------------------------------------


def test_compressed(tmp_path: Path) -> None:
    program = Slices(seed=2, tiles=2, instructions=20)
    batches = list(program.batches())
    for name in ("a.json", "a.json.gz", "b.json.gz"):
        write(tmp_path / name, program.image, batches, program.ends).finish()
    plain = (tmp_path / "a.json").read_bytes()
    assert gzip.decompress((tmp_path / "a.json.gz").read_bytes()) == plain
    assert (tmp_path / "a.json.gz").stat().st_size * 5 < len(plain)
    assert (tmp_path / "b.json.gz").read_bytes() == (tmp_path / "a.json.gz").read_bytes()


def test_how_slices_are_handed_over_makes_no_difference(tmp_path: Path) -> None:
    program = Slices(seed=3, tiles=3, instructions=30)
    batches = list(program.batches())
    assert sum(len(b.slices) for b in batches) < CHUNK
    single = [Batch(*(column[at : at + 1] for column in b)) for b in batches for at in range(len(b.slices))]
    write(tmp_path / "a.json", program.image, batches, program.ends).finish()
    write(tmp_path / "b.json", program.image, single, program.ends).finish()
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


def test_batches_may_be_used_again(tmp_path: Path) -> None:
    trace = Trace(tmp_path / "t.json", EMPTY, MACHINE)
    given = batch({"started": 1000, "ended": 2000})
    trace.take(given)
    given.slices["started"] = given.slices["ended"] = 0
    trace.close([])
    assert [e["ts"] for e in Read(tmp_path / "t.json").slices()] == [0.001]


@pytest.mark.parametrize("name", ["t.json", "t.json.gz"])
def test_a_run_without_slices(tmp_path: Path, name: str) -> None:
    read = made(tmp_path / name, EMPTY, [], [0] * 16)
    assert read.slices() == []
    assert read.summary["slices"] == 0
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_the_file_appears_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text("old")
    with Trace(path, EMPTY, MACHINE) as trace:
        trace.take(batch({"started": 0, "ended": 1}))
        assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["t.json"]
    assert path.read_text() == "old"
    with Trace(path, EMPTY, MACHINE) as trace:
        trace.close([])
    assert Read(path).slices() == []


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("none/t.json", "No such file or directory"),
        ("folder", "Is a directory"),
        ("file/t.json", "Not a directory"),
    ],
)
def test_paths_that_cannot_be_written(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(Tx8Error) as refused:
        Trace(tmp_path / name, EMPTY, MACHINE)
    assert str(refused.value) == f"{tmp_path / name}: cannot be written: {reason}"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "folder"]


def test_a_full_disk_does_not_disturb_the_run() -> None:
    trace = Trace("/dev/full", EMPTY, MACHINE)
    for _ in range(3):
        trace.take(batch(*({"started": i, "ended": i + 1, "number": i} for i in range(CHUNK))))
    trace.close([])
    with pytest.raises(Tx8Error, match=r"^/dev/full: the trace is lost: No space left on device$"):
        trace.finish()


def resident() -> int:
    """Bytes of memory that this process has now."""
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * 4096


def test_slices_are_not_kept() -> None:
    """A quarter of a million, of 578 bytes each."""
    image, given, _ = encoded(7)
    given = Batch(given.slices[:60], given.ranges[:60], given.fields[:60])
    count = 250_000 // len(given.slices) + 1
    trace = Trace("/dev/null", image, MACHINE)
    before = after = 0
    for turn, each in enumerate(repeated([given], count)):
        trace.take(each)
        if turn == count // 5:
            before = resident()
    after = resident()
    trace.close([])
    trace.finish()
    assert after - before < 24 << 20


# --- the reader sees what is wrong --------------------------------------------------------


@pytest.mark.parametrize(
    "event",
    [
        '{"ph":"X","pid":1,"tid":1,"name":"a","ts":1,"dur":-1}',
        '{"ph":"X","pid":1,"tid":1,"name":"a","dur":1}',
        '{"ph":"C","pid":1,"name":"a","ts":1,"args":{"x":-0.5}}',
        '{"ph":"s","pid":1,"tid":1,"name":"a","ts":1,"id":1,"cat":"x"}',
        '{"ph":"Z","pid":1,"name":"a","ts":1}',
        '{"ph":"M","pid":1,"tid":0,"name":"process_name","args":{"name":1}}',
        '{"ph":"X","pid":1,"tid":1,"name":"a","cat":"b","ts":1,"dur":2},'
        '{"ph":"X","pid":1,"tid":1,"name":"a","cat":"b","ts":2,"dur":2}',
    ],
)
def test_wrong_events_are_seen(tmp_path: Path, event: str) -> None:
    path = tmp_path / "t.json"
    path.write_text(f'{{"traceEvents":[{event}],"otherData":{{}}}}')
    with pytest.raises((AssertionError, jsonschema.ValidationError)):
        Read(path)


# --- programs -----------------------------------------------------------------------------

PROGRAM = """
        .input  x, fp16, 64
        .output y, fp16, 64
_start: csrr    t0, mhartid
        bnez    t0, done
        la      a0, x
        la      a1, y
        .node   "first"
        rdma.fp16 dst=0x10000, src=a0, n=64
        ct.add.vv.fp16 dst=0x20000, src0=0x10000, src1=0x10000, n=64
        .node   "second"
        wdma.fp16 dst=a1, src=0x20000, n=64
        ncc.wait
        .node   ""
done:   li      a0, 0
        li      a7, 93
        ecall
"""
FAULT = PROGRAM.replace(
    "        ncc.wait\n", "        ncc.wait\n        li a0, 0x70000000\n        sb a0, 0(a0)\n"
)


def prepared(folder: Path, text: str = PROGRAM) -> list[str]:
    """Arguments that run a program in a folder."""
    (folder / "prog.s").write_text(text)
    (folder / "prog.bin").write_bytes(write_image(asm.assemble(text, "prog.s")))
    np.save(folder / "x.npy", np.arange(64, dtype=np.float16))
    files = [str(folder / "prog.bin"), "--input", f"x={folder / 'x.npy'}"]
    return [*files, "--output-dir", str(folder / "out"), "-q"]


def test_a_program_and_its_trace(tmp_path: Path) -> None:
    path = tmp_path / "t.json.gz"
    assert cli.main([*prepared(tmp_path), "--trace", str(path)]) == 0
    assert (np.load(tmp_path / "out/y.npy") == np.arange(64) * 2).all()
    read = Read(path)
    lines = {number: line for number, line in enumerate(PROGRAM.splitlines(), 1) if "fp16 dst" in line}
    events = sorted(read.engine_slices(), key=lambda e: e["args"]["instruction number"])
    assert [(e["name"], e["cat"], e["args"]["node"], e["args"]["source"]) for e in events] == [
        (line.split()[0], line.split(".")[0].split()[0].upper(), node, f"prog.s:{number}")
        for (number, line), node in zip(lines.items(), ("first", "first", "second"), strict=True)
    ]
    assert [(s["name"], s["args"]["instructions"]) for s in read.slices("node")] == [
        ("first", 2),
        ("second", 1),
    ]
    assert events[1]["args"]["held by instruction"] == 0
    assert [e["args"]["instruction"] for e in read.slices("core")] == ["ncc.wait"]
    assert len(read.arrows()) == sum("held by instruction" in s["args"] for s in read.slices()) >= 2
    assert read.summary["program"] == str(tmp_path / "prog.bin")
    assert {path.name for path in tmp_path.iterdir()} == {"prog.s", "prog.bin", "x.npy", "out", "t.json.gz"}


def test_threads_of_the_host_make_no_difference(tmp_path: Path) -> None:
    text = (ROOT / "examples/assembly/allgather_ring.s").read_text()
    (tmp_path / "prog.bin").write_bytes(write_image(asm.assemble(text, "ring.s")))
    program = load(tmp_path / "prog.bin")
    inputs = {b.name: np.zeros(b.shape, dtype=travel_dtype(b)) for b in program.inputs}
    for threads in (1, 2, 4):
        trace = Trace(tmp_path / f"{threads}.json", program.image, program.machine, "ring")
        program.start(inputs, threads=threads, sinks=[trace]).run()
        trace.finish()
    one = (tmp_path / "1.json").read_bytes()
    assert (tmp_path / "2.json").read_bytes() == (tmp_path / "4.json").read_bytes() == one
    read = Read(tmp_path / "1.json")
    assert len(read.slices("arriving")) == len(read.slices("DTE")) > 100


def test_a_program_that_faults_leaves_a_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.json"
    assert cli.main([*prepared(tmp_path, FAULT), "--trace", str(path)]) == 3
    assert "fault: " in capsys.readouterr().err
    assert [e["cat"] for e in Read(path).engine_slices()] == ["RDMA", "CT", "WDMA"]


def test_a_run_that_is_cut_off_leaves_a_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.json"
    assert cli.main([*prepared(tmp_path), "--trace", str(path), "--max-instructions", "12"]) == 3
    assert "the limit given" in capsys.readouterr().err
    assert [e["cat"] for e in Read(path).engine_slices()] == ["RDMA", "CT"]


def test_no_run_when_the_trace_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "none" / "t.json"
    assert cli.main([*prepared(tmp_path), "--trace", str(path)]) == 1
    assert capsys.readouterr().err == (
        f"tx8emu: error: {path}: cannot be written: No such file or directory\n"
    )
    assert not (tmp_path / "out/y.npy").exists()


def test_a_lost_trace_costs_no_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*prepared(tmp_path), "--trace", "/dev/full"]) == 1
    said = "tx8emu: error: /dev/full: the trace is lost: No space left on device\n"
    assert capsys.readouterr().err == said
    assert (np.load(tmp_path / "out/y.npy") == np.arange(64) * 2).all()
    assert cli.main([*prepared(tmp_path, FAULT), "--trace", "/dev/full"]) == 3
    assert capsys.readouterr().err.endswith(said)


def test_input_that_is_refused_leaves_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = prepared(tmp_path)
    np.save(tmp_path / "x.npy", np.zeros(3))
    before = {path.name for path in tmp_path.iterdir()}
    assert cli.main([*arguments, "--trace", str(tmp_path / "t.json")]) == 1
    assert "input 'x'" in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} - {"out"} == before


def test_the_picture_is_what_the_trace_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = importlib.util.spec_from_file_location("trace_picture", ROOT / "docs/trace_picture.py")
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    events = script.trace()
    monkeypatch.setattr(script, "trace", lambda: events)
    assert script.main(["--check"]) == 0, "run python docs/trace_picture.py"
    monkeypatch.setattr(script, "TARGET", tmp_path / "trace.svg")
    assert script.main(["--check"]) == 1
    assert "run python docs/trace_picture.py" in capsys.readouterr().err
    assert script.main([]) == 0
    assert script.main(["--check"]) == 0
    assert script.main(["--chek"]) == 2
