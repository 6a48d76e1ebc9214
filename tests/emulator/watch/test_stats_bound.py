"""The least time of a program's work, and its losses against that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from emulator.engines import tables
from emulator.timing.slices import TICKS, Cause, Track
from emulator.watch.stats import roofline
from emulator.watch.stats.text import describe
from made_statistics import MACHINE, batch, core, counted, ct, image, one, report_of
from tx8isa.machine.description import TX81, Machine, load_machine
from tx8isa.numbers.formats import Format


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
    assert keys["engines.ct.fp16"] == (64, "spec") and keys["ddr.nominal"] == (150e9, "board")


def test_nothing_done_has_no_bound() -> None:
    report = report_of(counted(image({}), [], [50 * TICKS]))
    assert report.bound is None and report.losses == [] and report.resources == []
    assert any("no engine had anything to do" in line for line in describe(report))
    assert list(describe(report_of(counted(image({}), [], []))))  # not even a cycle


def losses(ends: int, *rows: tuple[Any, ...]) -> dict[str, float]:
    report = report_of(counted(image({}), [batch(*rows)], [ends * TICKS]))
    return {loss.text: loss.cycles for loss in report.losses}


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
