"""The benchmark of all instructions: a row for every record, legal operands, peers that do the same work."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from documents import cells
from paths import ROOT
from scripts import benchmark_modules
from tx8isa.records.record import Engine
from tx8isa.table.registry import by_mnemonic, instructions

MODULES = ("_report", "_operands", "_peers", "_bench", "instructions")


@pytest.fixture(scope="module")
def benchmark() -> Iterator[SimpleNamespace]:
    """The modules of the folder, which is not a package."""
    with benchmark_modules(*MODULES) as modules:
        yield modules


@pytest.fixture(scope="module")
def bench(benchmark: SimpleNamespace) -> Any:
    return benchmark.bench.Bench()


def case(benchmark: SimpleNamespace, name: str) -> Any:
    (found,) = (c for c in benchmark.operands.all_cases() if c.name == name)
    return found


# -- rows --------------------------------------------------------------------------------------------------


def test_every_record_has_a_row_and_names_are_unique(benchmark: SimpleNamespace) -> None:
    """Building a row checks values, rules and ranges as the emulator does."""
    engines = (Engine.CT, Engine.NE, Engine.RDMA, Engine.WDMA, Engine.TDMA)
    expected = {i.mnemonic for i in instructions() if i.engine in engines}
    rows = benchmark.operands.all_cases()
    assert {c.instruction.mnemonic for c in rows} == expected
    assert len({c.name for c in rows}) == len(rows)
    assert all(c.elements >= 1 << 16 and c.traffic > 0 for c in rows)


def test_a_record_without_operands_for_its_meaning_fails(benchmark: SimpleNamespace) -> None:
    strange = replace(by_mnemonic()["ct.add.vv"], meaning=object())
    with pytest.raises(LookupError, match=r"ct\.add\.vv: .* has no typical operands for it"):
        benchmark.operands.cases(strange)


@pytest.mark.parametrize(
    ("mnemonic", "operands", "message"),
    [
        ("ct.add.vuv.fp32", {"n": 64, "unit": 65}, "operand 'unit': 65 is outside 1..64"),
        ("ct.add.vuv_loop.fp32", {"n": 65, "unit": 64, "full": 65, "full_unit": 64}, "n must be a multiple"),
        ("ct.add.vv.fp32", {"n": 1 << 18}, "bytes of SPM"),
        ("rdma.fp32", {"n": 64, "stride0": 1 << 20, "iter0": 64}, "of DDR are too many"),
    ],
)
def test_operands_the_emulator_would_refuse_fail(
    benchmark: SimpleNamespace, mnemonic: str, operands: dict[str, int], message: str
) -> None:
    record = by_mnemonic()[mnemonic.removesuffix(".fp32")]
    fmt = next(f for f in record.formats if f.token == "fp32")
    with pytest.raises(ValueError, match=message):
        benchmark.operands._complete(record, (fmt, "", operands, 1, 0))


def test_traffic_is_what_the_extents_say(benchmark: SimpleNamespace) -> None:
    n = 128 << 10
    assert case(benchmark, "ct.add.vv.fp16").traffic == 3 * 2 * n
    assert case(benchmark, "ct.eq.bv.vs.fp32").traffic == 4 * n + n // 8
    assert case(benchmark, "ct.cvt.int8.fp32").traffic == 5 * n
    assert case(benchmark, "rdma.fp16 rows of 64 bytes").traffic == 2 * 2 * n


# -- peers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        *("ct.add.vv.fp32", "ct.sub.vs.fp32", "ct.div.vuv.fp32", "ct.mul.vuv_loop.fp32"),
        *("ct.max.vuv_loop.fp16", "ct.lt.vuv.fp32", "ct.ge.bv.vv.fp32", "ct.and.vv.fp16"),
        *("ct.abs.v.fp16", "ct.relu.v.fp32"),
        *("ct.and.bv.bvubv_loop", "ct.lut16", "ct.maskgather.v.fp32", "ct.bit2fp.fp16", "td.pad.fp16"),
        *("ct.maskgather.bv.fp32", "ct.reduce.max.fp32 over hw"),
    ],
)
def test_a_peer_does_the_work_of_its_row(benchmark: SimpleNamespace, bench: Any, name: str) -> None:
    row = case(benchmark, name)
    bench.kernel(row)(1)
    call = benchmark.peers.peer(row, lambda operand, dtype: bench.memory(row, operand, dtype))
    expected = np.asarray(call())
    dtype = np.uint8 if expected.dtype == bool and row.format is None else expected.dtype
    if expected.dtype == bool:
        dtype = benchmark.peers.DTYPES[row.format]
    found = bench.memory(row, "dst", dtype)[: expected.size]
    assert expected.size > 1000 or "reduce" in name
    np.testing.assert_array_equal(found, expected.astype(dtype).reshape(-1))


def test_every_peer_runs(benchmark: SimpleNamespace, bench: Any) -> None:
    without = 0
    for row in benchmark.operands.all_cases():
        bench.fill(row)
        call = benchmark.peers.peer(row, lambda operand, dtype, row=row: bench.memory(row, operand, dtype))
        if call is None:
            without += 1
        elif "fp16" not in row.name:  # slow, and the same code as for fp32
            with np.errstate(all="ignore"):
                call()
    assert without < 100


def test_a_row_is_measured(benchmark: SimpleNamespace, bench: Any) -> None:
    add = case(benchmark, "ct.add.vv.fp32")
    row = benchmark.instructions.row_of(add, [benchmark.instructions.measure(bench, add)])
    assert 1e7 < row.rate < 1e12
    assert 0.001 < row.share < 10
    assert row.numpy is not None and 0.001 < row.numpy < 1000


def test_figures_are_medians_of_all_passes(benchmark: SimpleNamespace) -> None:
    add = case(benchmark, "ct.add.vv.fp32")
    quiet, disturbed = {"kernel": [2.0, 2.0], "copy": [1.0, 1.0]}, {"kernel": [9.0, 9.0], "copy": [8.0, 8.0]}
    row = benchmark.instructions.row_of(add, [quiet, disturbed, quiet])
    assert (row.rate, row.share, row.numpy) == (add.elements / 2, 0.5, None)
    twice = {"kernel": [1.0], "copy": [1.0], "numpy": [3.0]}
    assert benchmark.instructions.row_of(add, [twice]).numpy == 3.0


# -- the report --------------------------------------------------------------------------------------------


def row(benchmark: SimpleNamespace, name: str, share: float, rate: float = 1e9, numpy: float = 1.0) -> Any:
    return benchmark.instructions.Row(case(benchmark, name), rate, share, numpy)


def test_reasons_must_be_there_exactly_for_slow_rows(
    benchmark: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benchmark.instructions, "REASONS", {"ct.sin.*": "because"})
    slow, fast = row(benchmark, "ct.add.vv.fp32", 0.049), row(benchmark, "ct.add.vv.fp16", 0.05)
    explained, excused = row(benchmark, "ct.sin.v.fp32", 0.01), row(benchmark, "ct.sin.v.fp16", 0.5)
    assert list(benchmark.instructions.unexplained([slow, fast, explained, excused])) == [
        "ct.add.vv.fp32: 4.9% of a copy, and no reason is given",
        "ct.sin.v.fp16: 50.0% of a copy, so it needs no reason",
    ]
    text = benchmark.instructions.page([slow, explained])
    assert "| `ct.sin.v.fp32` | 1.000 | 1.0% | 1.00 | because |" in text
    assert "- ct.add.vv.fp32: 4.9% of a copy, and no reason is given" in text


def test_reasons_are_of_rows(benchmark: SimpleNamespace) -> None:
    names = [c.name for c in benchmark.operands.all_cases()]
    match = benchmark.instructions.fnmatchcase
    assert [p for p in benchmark.instructions.REASONS if not any(match(n, p) for n in names)] == []


def test_goals_are_promised_by_their_lowest_row(
    benchmark: SimpleNamespace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(benchmark.report.ROWS, str(tmp_path / "rows"))
    rows = [
        row(benchmark, "ct.add.vv.fp32", 0.9),
        row(benchmark, "ct.mul.vv.fp32", 0.8),
        row(benchmark, "ct.exp.v.fp32", 0.1, numpy=1.5),
        row(benchmark, "ct.tanh.v.bf16", 0.1, rate=2.4e9),
        row(benchmark, "ct.eq.bv.vv.fp16", 0.51),
    ]
    benchmark.instructions.judge(rows)
    promised = [json.loads(line) for line in (tmp_path / "rows").read_text().splitlines()]
    assert [(p["figure"], p["goal"]) for p in promised] == [(0.8, 0.85), (1.5, 1.0), (2.4, 2.5), (0.51, 0.5)]
    missed = [line.split()[1] for line in capsys.readouterr().out.splitlines()]
    assert missed == ["ct.mul.vv.fp32:", "ct.tanh.v.bf16:"]


def test_every_goal_has_rows(benchmark: SimpleNamespace) -> None:
    rows = [benchmark.instructions.Row(c, 1.0, 1.0, 1.0) for c in benchmark.operands.all_cases()]
    counts = [len(members) for _, members in benchmark.instructions.goals(rows)]
    assert len(counts) == 7 and min(counts) >= 1


def test_the_page_has_the_rows_of_the_records(benchmark: SimpleNamespace) -> None:
    text = (ROOT / "docs/instruction_speed.md").read_text(encoding="utf-8")
    shown = [cells(line)[0].strip("`") for line in re.findall(r"(?m)^\| `.*", text)]
    expected = [c.name for c in benchmark.operands.all_cases()]
    assert sorted(shown) == sorted(expected), "run python benchmarks/instructions.py"
    assert re.search(r"^Measured on: .+, \d+ cores, Python 3", text, re.MULTILINE)


def test_a_pattern_without_rows_is_usage(
    benchmark: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert benchmark.instructions.main(["ct.nothing*"]) == 2
    assert capsys.readouterr().err == "no row matches ct.nothing*\n"
