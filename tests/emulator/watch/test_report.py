"""``--report``: sums against slow loops, bounds of size and memory, refused paths. The page in a browser:
``test_report_page``."""

from __future__ import annotations

import errno
import io
import json
import os
import pickle
import re
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import asm
import emulator
from asm.image import write_image
from emulator.cli import main
from emulator.engines import queues
from emulator.timing.slices import SLICE, TICKS, Batch, Cause, Track
from emulator.watch.accesses import spm_accesses
from emulator.watch.bins import Axis, halved, summed
from emulator.watch.report.activity import Links
from emulator.watch.report.data import content
from emulator.watch.report.file import PageFile, check_target
from emulator.watch.report.kinds import MOST, NOBODY, OTHER, Kinds, NodeNumbers
from emulator.watch.report.longest import Longest
from emulator.watch.report.page import make_page
from emulator.watch.report.residence import BLOCKS, COLUMNS, Residence
from emulator.watch.report.sink import BINS, MOST_SLICES, ReportSink
from emulator.watch.stats.sink import Statistics
from report_page import embedded
from report_tiles import tiles_of
from time_slices import Slices, repeated
from tx8isa.errors import Tx8Error
from tx8isa.machine.description import load_machine

MACHINE = load_machine(None)
MOST_BYTES = 5_000_000
"""Of a page."""


def reported(source: Slices, batches: list[Batch]) -> ReportSink:
    statistics = Statistics(source.image, MACHINE)
    report = ReportSink(source.image, MACHINE, statistics)
    for batch in batches:
        statistics.take(batch)
        report.take(batch)
    ends = [max(int(batch.slices["ended"].max()) for batch in batches)] * MACHINE.tiles
    statistics.close(ends)
    report.close(ends)
    return report


@pytest.fixture(scope="module")
def run() -> tuple[list[Batch], ReportSink]:
    source = Slices(seed=3, tiles=5, instructions=80)
    batches = list(source.batches())
    return batches, reported(source, batches)


def page_of(report: ReportSink, title: str = "prog.bin", fault: str = "") -> str:
    file = io.BytesIO()
    file.write(make_page(report, tiles_of(report), title, fault=fault))
    return file.getvalue().decode()


# --- bins -----------------------------------------------------------------------------------


def test_stretches_are_cut_at_the_borders_of_bins() -> None:
    rng = np.random.default_rng(1)
    first = rng.integers(0, 500, 60)
    end = first + rng.integers(0, 90, 60)
    pieces = Axis(40, 16).cut(first, end)
    found = np.zeros((60, 40), dtype=int)
    np.add.at(found, (pieces.row, pieces.bin), pieces.length)
    for row in range(60):
        ticks = np.bincount(np.arange(first[row], end[row]) // 16, minlength=40)
        assert (found[row] == ticks).all()
    assert set(pieces.row) == set(range(60))  # an empty stretch has its piece too


def test_an_axis_doubles_until_it_reaches() -> None:
    axis = Axis(8, 10)
    assert [axis.reach(80), axis.width] == [0, 10]
    assert [axis.reach(81), axis.width] == [1, 20]
    assert [axis.reach(1000), axis.width] == [3, 160]
    assert [axis.used(0), axis.used(160), axis.used(161)] == [1, 1, 2]


def test_folding_keeps_sums() -> None:
    values = np.arange(16).reshape(2, 8)
    assert halved(values).tolist() == [[1, 5, 9, 13, 0, 0, 0, 0], [17, 21, 25, 29, 0, 0, 0, 0]]
    assert summed(values, 3).tolist() == [[3, 12, 13], [27, 36, 29]]


# --- collected data -----------------------------------------------------------------------


def test_busy_times_are_those_of_the_slices(run: tuple[list[Batch], ReportSink]) -> None:
    batches, report = run
    width = report.axis.width
    expected: dict[tuple[int, int, int], int] = defaultdict(int)
    for row in np.concatenate([batch.slices for batch in batches]):
        for bin in range(int(row["started"]) // width, -(-int(row["ended"]) // width)):
            part = min(row["ended"], (bin + 1) * width) - max(row["started"], bin * width)
            expected[row["tile"], row["track"], bin] += int(part)
    found = {tuple(at): int(report.activity.busy[tuple(at)]) for at in np.argwhere(report.activity.busy)}
    assert found == {at: ticks for at, ticks in expected.items() if ticks}


def test_bytes_arrive_in_the_bins(run: tuple[list[Batch], ReportSink]) -> None:
    batches, report = run
    slices = np.concatenate([batch.slices for batch in batches])
    for tile in range(5):
        own = slices[slices["tile"] == tile]
        moved = [own["ddr_read"].sum(), own["ddr_written"].sum()]
        assert report.traffic.ddr[tile].sum(axis=1) == pytest.approx(moved)
    copies = slices[slices["target"] >= 0]
    assert len(copies) > 10
    hops = 0
    for row in copies:
        (x, y), (to_x, to_y) = MACHINE.tile_xy(int(row["tile"])), MACHINE.tile_xy(int(row["target"]))
        hops += (abs(x - to_x) + abs(y - to_y)) * int(row["spm_written"] + row["ddr_written"])
    assert report.traffic.link.sum() == pytest.approx(hops)


def test_a_packet_goes_along_x_first() -> None:
    links = Links(MACHINE)
    assert len(links.ends) == 48
    tile = {MACHINE.tile_xy(number): number for number in range(16)}
    taken, row = links.ways(np.array([tile[0, 3], tile[2, 2]]), np.array([tile[2, 1], tile[2, 2]]))
    stops = [(0, 3), (1, 3), (2, 3), (2, 2), (2, 1)]
    assert [links.ends[link] for link in taken] == [(tile[a], tile[b]) for a, b in pairwise(stops)]
    assert row.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("target", "stops"),
    [
        (8, [(0, 4), (4, 8)]),  # two columns to the right
        (2, [(0, 1), (1, 2)]),  # two rows down
    ],
)
def test_a_copy_along_one_direction(target: int, stops: list[tuple[int, int]]) -> None:
    """Ids of tiles count along y: with four rows, tile 4 is beside tile 0 and tile 1 below it."""
    text = f"_start: csrr t0, mhartid\n bnez t0, 1f\n dte.unicast dst=0x8000, src=0, n=96, tile={target}\n"
    image = asm.assemble(text + "dte.wait\n1: li a0, 0\n li a7, 93\n ecall\n")
    report = ReportSink(image, MACHINE, Statistics(image, MACHINE))
    emulator.Program(image, MACHINE).run({}, sinks=[report.statistics, report])
    moved = dict(zip(report.links.ends, report.traffic.link.sum(axis=1).tolist(), strict=True))
    assert {link: moved[link] for link in moved if moved[link]} == pytest.approx(dict.fromkeys(stops, 96))
    data, arrays = content(report, tiles_of(report), "", None)
    assert [data["tile_xy"][tile] for tile in (0, 1, 4)] == [(0, 0), (0, 1), (1, 0)]
    traffic = arrays["link_bytes"].sum(axis=1)
    assert [data["links"][link] for link in np.flatnonzero(traffic)] == stops


def slices_of(*rows: dict[str, int]) -> np.ndarray:
    made = np.zeros(len(rows), dtype=SLICE)
    made["target"] = made["blocker"] = -1
    for at, row in enumerate(rows):
        for name, value in row.items():
            made[name][at] = value
    return made


def test_data_live_from_the_write_to_the_last_read() -> None:
    width = BINS // COLUMNS
    residence = Residence(2, Axis(BINS, 1))
    # kind, first and last column, True if written: read twice, and changed in place; then written, never read
    events = [(7, 2, 3, 1), (8, 5, 5, 0), (9, 8, 9, 0), (9, 8, 9, 1), (10, 12, 12, 0), (11, 20, 20, 1)]
    slices = slices_of(
        *({"tile": 1, "started": c * width, "ended": d * width, "sources": 1} for _, c, d, _ in events)
    )
    ranges = np.zeros((len(events), 8, 3), dtype=np.int64)
    ranges[:, 0] = [(256, 512, written) for _, _, _, written in events]
    residence.add(slices, spm_accesses(slices, ranges), np.array([kind for kind, *_ in events]))
    row = np.zeros(COLUMNS, dtype=int)
    row[2:8], row[8:13], row[20] = 7, 9, 11
    expected = np.zeros((2, BLOCKS, COLUMNS), dtype=int)
    expected[1, 1:3] = row
    assert (residence.map == expected).all()


def test_it_does_not_matter_when_slices_are_looked_at() -> None:
    events = [(7, 2, 3, 1), (8, 5, 5, 0), (9, 8, 9, 0), (10, 30, 31, 1), (11, 60, 61, 0)]
    ranges = np.zeros((1, 8, 3), dtype=np.int64)
    time = Axis(BINS, 1)
    residence = Residence(1, time)
    for kind, begin, end, written in events:
        ranges[0, 0] = (256, 512, written)
        one = slices_of({"started": begin, "ended": end, "sources": 1})
        residence.add(one, spm_accesses(one, ranges), np.array([kind]))
    together = Residence(1, time)
    slices = slices_of(*({"started": c, "ended": d, "sources": 1} for _, c, d, _ in events))
    all_ranges = np.zeros((len(events), 8, 3), dtype=np.int64)
    all_ranges[:, 0] = [(256, 512, written) for _, _, _, written in events]
    together.add(slices, spm_accesses(slices, all_ranges), np.array([kind for kind, *_ in events]))
    assert (together.map == residence.map).all()
    assert set(together.map[0, 1]) == {0, 7, 10}


def test_ddr_is_no_scratchpad() -> None:
    residence = Residence(1, Axis(BINS, 1))
    ranges = np.zeros((1, 8, 3), dtype=np.int64)
    ranges[0, 0] = (queues.DDR + 256, 512, 1)
    slices = slices_of({"sources": 1})
    residence.add(slices, spm_accesses(slices, ranges), np.array([5]))
    assert not residence.map.any()


def test_a_copy_fills_the_scratchpad_of_its_target() -> None:
    """Its tile reads it."""
    residence = Residence(3, Axis(BINS, 1))
    ranges = np.zeros((1, 8, 3), dtype=np.int64)
    ranges[0, :2] = [(0, 256, 0), (512, 256, 1)]
    slices = slices_of({"tile": 1, "target": 2, "sources": 2})
    residence.add(slices, spm_accesses(slices, ranges), np.array([5]))
    assert np.argwhere(residence.map).tolist() == [[2, 2, 0]]


def test_a_map_grows_in_both_directions() -> None:
    time = Axis(BINS, 1)
    residence = Residence(1, time)
    ranges = np.zeros((1, 8, 3), dtype=np.int64)
    ranges[0, 0] = (0, 100, 1)
    slices = slices_of({"started": BINS - 1, "ended": BINS - 1, "sources": 1})
    residence.add(slices, spm_accesses(slices, ranges), np.array([5]))
    for _ in range(time.reach(4 * BINS)):
        residence.halve()
    ranges[0, 0] = (MACHINE.spm.bytes - 256, 256, 1)
    slices = slices_of({"started": 4 * BINS - 1, "ended": 4 * BINS - 1, "sources": 1})
    residence.add(slices, spm_accesses(slices, ranges), np.array([6]))
    assert residence.space.width * BLOCKS >= MACHINE.spm.bytes
    assert np.argwhere(residence.map).tolist() == [
        [0, 0, COLUMNS // 4 - 1],
        [0, (MACHINE.spm.bytes - 1) // residence.space.width, COLUMNS - 1],
    ]


def test_the_longest_slices_are_kept() -> None:
    rng = np.random.default_rng(2)
    longest, seen = Longest(50), []
    for turn in range(20):
        length = rng.integers(0, 10_000, 30)
        start = np.sort(rng.integers(0, 1000, 30)) + turn * 1000
        slices = slices_of(
            *(
                {"started": s, "ended": s + d, "number": n}
                for n, (s, d) in enumerate(zip(start, length, strict=True))
            )
        )
        longest.add(slices, np.arange(30))
        seen += length.tolist()
    kept = longest.final()
    assert longest.seen == 600
    assert sorted(kept["ended"] - kept["started"]) == sorted(seen)[-50:]
    assert (np.diff(kept["started"]) >= 0).all()


def test_of_equal_slices_an_even_sample_is_kept() -> None:
    longest = Longest(100)
    for turn in range(50):
        start = np.arange(turn * 100, turn * 100 + 100)
        slices = slices_of(*({"started": s, "ended": s + 1, "number": s} for s in start))
        longest.add(slices, np.zeros(100, dtype=int))
    quarters = np.bincount(longest.final()["started"] // 1250, minlength=4)
    assert quarters.sum() == 100
    assert quarters.min() >= 15


def test_kinds_run_out_gracefully() -> None:
    kinds = Kinds(NodeNumbers({pc: f"n{pc}" for pc in range(0, 4 * 70_000, 4)}))
    slices = np.zeros(70_000, dtype=SLICE)
    slices["pc"], slices["record"] = np.arange(70_000) * 4, 1
    numbers = kinds.of(slices)
    assert numbers.max() == MOST - 1
    assert (numbers[-4000:] == OTHER).all()
    assert NOBODY not in numbers
    assert (kinds.of(slices) == numbers).all()
    assert len(kinds.described()["name"]) == MOST


# --- the page -------------------------------------------------------------------------------


def test_the_page_holds_what_was_gathered(run: tuple[list[Batch], ReportSink]) -> None:
    batches, report = run
    content, arrays = embedded(page_of(report))
    slices = np.concatenate([batch.slices for batch in batches])
    assert content["slices_left_out"] == 0
    assert len(arrays["slice_start"]) == len(slices)
    length = slices["ended"] - slices["started"]
    assert arrays["slice_length"].sum(dtype=float) == pytest.approx(length.sum() / TICKS, rel=1e-5)
    shares = arrays["busy"].reshape(len(content["rows"]), content["bins"])
    exact = (
        report.activity.busy[tuple(np.transpose(content["rows"]))][:, : content["bins"]] / report.axis.width
    )
    assert np.abs(shares / 255 - np.minimum(exact, 1)).max() <= 1 / 255
    assert ((shares > 0) == (exact > 0)).all()
    assert sum(node["cycles"] for node in content["node_times"]) == pytest.approx(content["cycles"])
    assert [line["pc"] for line in content["lines"]] == sorted({int(pc) for pc in slices["pc"]})
    engines = slices[slices["track"] != Track.CORE]
    copies = engines[engines["track"] == Track.DTE]
    once = len(engines) - len(copies) + len(np.unique(copies[["tile", "number"]]))
    assert sum(line["times"] for line in content["lines"]) == once


def test_lines_say_what_stands_there(run: tuple[list[Batch], ReportSink]) -> None:
    content, arrays = embedded(page_of(run[1]))
    for line in content["lines"]:
        name = content["kinds"]["name"][line["kind"]]
        assert line["text"].startswith(name)
        assert line["file"] == "prog.s"
        assert content["nodes"][line["node"]].startswith("node")
    kinds, lines = arrays["slice_kind"], arrays["slice_line"]
    assert all(
        content["kinds"]["node"][k] == content["lines"][at]["node"]
        for k, at in zip(kinds, lines, strict=True)
    )


def test_a_page_fetches_nothing(run: tuple[list[Batch], ReportSink]) -> None:
    page = page_of(run[1])
    outside = re.findall(r"""(?:src|href)\s*=\s*["'](?!data:)[^"']+["']""", page.split("<script>")[0])
    assert outside == []
    assert "default-src 'none'" in page


def test_a_program_without_instructions_has_a_page() -> None:
    source = Slices(seed=1)
    statistics = Statistics(source.image, MACHINE)
    report = ReportSink(source.image, MACHINE, statistics)
    statistics.close([0] * 16)
    report.close([0] * 16)
    content, arrays = embedded(page_of(report))
    assert content["rows"] == content["lines"] == content["node_times"] == []
    assert not arrays["busy"].size


def test_names_cannot_break_out(run: tuple[list[Batch], ReportSink]) -> None:
    page = page_of(run[1], "</title><script>alert(1)</script>", "</script><b>")
    assert "alert(1)</script>" not in page
    assert "</script><b>" not in page
    assert embedded(page)[0]["fault"] == "</script><b>"


@pytest.mark.long
def test_many_slices_stay_small() -> None:
    source = Slices(seed=4, tiles=16, instructions=400, text=400, nodes=60)
    batches = list(source.batches())
    turns = -(-250_000 // sum(len(batch.slices) for batch in batches))
    statistics = Statistics(source.image, MACHINE)
    report = ReportSink(source.image, MACHINE, statistics)
    sizes = []
    for number, batch in enumerate(repeated(batches, turns)):
        report.take(batch)
        statistics.take(batch)
        if number % (len(batches) * turns // 4) == 0:
            own = {name: part for name, part in vars(report).items() if name != "statistics"}
            sizes.append(len(pickle.dumps(own)))
    assert max(sizes) < 40_000_000  # the kept data do not grow with the run
    report.close([report.end] * 16)
    statistics.close([report.end] * 16)
    assert report.longest.seen >= 250_000
    assert len(report.longest.final()) == MOST_SLICES
    assert len(page_of(report)) < MOST_BYTES / 2


def test_nothing_can_make_a_page_large() -> None:
    """Every array full of noise, which no packing makes smaller."""
    rng = np.random.default_rng(5)
    source = Slices(seed=4, tiles=16, instructions=30)
    report = reported(source, list(source.batches()))
    report.end = report.axis.width * BINS
    for array in (report.activity.busy, report.activity.kind, report.residence.map):
        array[:] = rng.integers(0, np.minimum(1 << 16, report.axis.width), array.shape)
    report.traffic.ddr[:], report.traffic.link[:] = (
        rng.random(report.traffic.ddr.shape),
        rng.random(report.traffic.link.shape),
    )
    noise = slices_of(*({} for _ in range(MOST_SLICES)))
    for name in ("pc", "started", "ended", "blocked"):
        noise[name] = rng.integers(0, 1 << 50, len(noise))
    report.longest.add(noise, rng.integers(0, 1 << 16, len(noise)))
    assert len(page_of(report)) < MOST_BYTES


def test_waits_of_the_core_are_named(run: tuple[list[Batch], ReportSink]) -> None:
    names = set(embedded(page_of(run[1]))[0]["kinds"]["name"])
    assert {"wait: barrier", "wait: queue full"} <= names
    assert Cause.NOTHING == 0


# --- where it is written --------------------------------------------------------------------


def finish(path: Path, fault: str = "") -> None:
    page = PageFile(str(path), Statistics(Slices(seed=3).image, MACHINE), "prog.bin")
    page.finish(tiles_of(page.sink), fault, None)


def test_a_report_is_written_whole(tmp_path: Path) -> None:
    path = tmp_path / "out.html"
    check_target(path)
    assert list(tmp_path.iterdir()) == []
    finish(path, "stopped")
    assert [p.name for p in tmp_path.iterdir()] == ["out.html"]
    check_target(path)
    assert embedded(path.read_text())[0]["fault"] == "stopped"


def test_a_page_that_cannot_be_written_in_the_end_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "out.html"
    path.write_text("older")
    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(Tx8Error, match=f"{path}: cannot be written: No space left on device"):
        finish(path)
    assert [p.read_text() for p in tmp_path.iterdir()] == ["older"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("missing/out.html", "No such file or directory"),
        (".", "a directory"),
        ("file/out.html", "Not a directory"),
        ("pipe", "no ordinary file"),
    ],
)
def test_a_path_that_cannot_be_written_is_refused(name: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Tx8Error, match=f".*: cannot be written: .*{reason}"):
        check_target(tmp_path / name)


# --- the command ----------------------------------------------------------------------------

PROGRAM = """
_start: csrr    t0, mhartid
        bnez    t0, done
        td.memset.fp16 dst=0x10000, value=1.5, n=512
        ct.add.vv.fp16 dst=0x10000, src0=0x10000, src1=0x10000, n=512
        ncc.wait
        {last}
done:   li      a0, 0
        li      a7, 93
        ecall
"""


def tx8emu(folder: Path, *arguments: str, last: str = "nop") -> int:
    image = folder / "prog.bin"
    image.write_bytes(write_image(asm.assemble(PROGRAM.format(last=last), "prog.s")))
    return main([str(image), "-q", *arguments])


def test_the_command_writes_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "out.html"
    assert tx8emu(tmp_path, "--report", str(path)) == 0
    assert capsys.readouterr() == ("", "")
    content, arrays = embedded(path.read_text())
    assert [content["tracks"][track] for _, track in content["rows"]] == ["CT", "TDMA", "CORE"]
    texts = {line["line"]: line["text"] for line in content["lines"]}
    assert texts[5] == "ct.add.vv.fp16 dst=0x10000, src0=0x10000, src1=0x10000, n=512"
    assert arrays["slice_length"].max() < content["cycles"]
    assert content["hazards"] is None


def test_a_run_that_faults_has_a_page_that_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "out.html"
    assert tx8emu(tmp_path, "--report", str(path), last="lw t0, 0(x0)") == 3
    content, _ = embedded(path.read_text())
    assert content["fault"] in capsys.readouterr().err
    assert "(prog.s:7)" in content["fault"]
    assert content["lines"]


def test_a_refused_path_is_one_line_before_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "folder.html"
    folder.mkdir()
    assert tx8emu(tmp_path, "--report", str(folder), last="lw t0, 0(x0)") == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line == f"tx8emu: error: {folder}: cannot be written: it is a directory"


def test_a_page_without_the_library_of_its_charts_is_refused_before_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("emulator.watch.report.file.find_spec", lambda name: None)
    assert tx8emu(tmp_path, "--report", str(tmp_path / "out.html"), last="lw t0, 0(x0)") == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line == (
        "tx8emu: error: the page of --report needs Bokeh, which draws its charts: pip install bokeh"
    )
    assert not (tmp_path / "out.html").exists()
    assert tx8emu(tmp_path, "--report", str(tmp_path / "out.json")) == 0


def test_the_page_has_an_option_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, data = tmp_path / "out.html", tmp_path / "out.json"
    assert tx8emu(tmp_path, "--html", str(page), "--report", str(data)) == 0
    assert capsys.readouterr() == ("", "")
    assert embedded(page.read_text())[0]["cycles"] == json.loads(data.read_text())["run"]["cycles"]


def test_a_report_with_the_suffix_of_data_is_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "out.json"
    assert tx8emu(tmp_path, "--report", str(path)) == 0
    assert capsys.readouterr() == ("", "")
    assert tx8emu(tmp_path, "--stats=json") == 0
    assert json.loads(path.read_text())["run"] == json.loads(capsys.readouterr().out)


def test_data_that_cannot_be_written_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tx8emu(tmp_path, "--report", str(tmp_path / "no" / "out.json")) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"tx8emu: error: {tmp_path}/no/out.json: cannot be written: ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--report", "run.txt"], "'run.txt' ends neither in .html, for a page, nor in .json, for data"),
        (["--report", "a.html/run"], "'a.html/run' ends neither in .html"),
        (["--html", "run.json"], "'run.json' does not end in .html: it is a page for a browser"),
        (["--html", "a.html", "--report", "b.html"], "--html and --report FILE.html both name the page"),
    ],
)
def test_a_suffix_that_contradicts_the_option_is_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as stopped:
        tx8emu(tmp_path, *arguments)
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err
