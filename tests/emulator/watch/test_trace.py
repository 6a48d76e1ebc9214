"""--trace: the file has the format that viewers expect, and the contents of the slices."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from asm.image import Image
from emulator.engines import queues, tables
from emulator.timing.slices import TICKS, Cause, Track
from made_traces import EMPTY, MACHINE, batch, made, write
from time_slices import BASE, Slices
from trace_reader import Event, Read
from tx8isa.machine.description import load_machine


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
    # one slice for each target of a copy, which are kept together
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
    """It is no instruction, so it has no operands; a copy to DDR arrives nowhere."""
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
        (Track.CORE, (1000, 9000), (2000, 9000), (7000, 7000)),  # the wait ends with its cause
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
    """If engines work ahead, a run starts where the one before ends; runs are in order, whatever comes
    first."""
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


# --- the reader finds mistakes ------------------------------------------------------------


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
