"""Costs of engine instructions: published measurements, every record, other machines, bad coefficients."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise, product
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import asm
from emulator.engines import queues, tables
from emulator.engines.issue import gather_arguments
from machine_files import packaged_table, toml
from record_operands import SOLVERS, Case, draw
from tx8isa.cost import instructions as cost
from tx8isa.cost import terms as cost_terms
from tx8isa.machine.description import Machine, MachineError, load_machine
from tx8isa.numbers.formats import Format
from tx8isa.records import meaning as m
from tx8isa.records.record import Engine, Instruction
from tx8isa.table import encoding
from tx8isa.table.encoding import argument_values
from tx8isa.table.registry import by_mnemonic, instructions

MACHINE = load_machine(None)
WITHOUT_DATA = (m.Action.WAIT, m.Action.BARRIER, m.Action.SEND_WAIT)


def cycles(text: str, machine: Machine = MACHINE) -> float:
    """Time of one assembled instruction on an idle tile, in cycles."""
    data = next(s.data for s in asm.assemble(text).segments if s.section == ".text")
    decoded = encoding.decode(data)
    assert isinstance(decoded, encoding.DecodedInstruction)
    found = cost.cost(decoded.instruction, machine)
    return (found.fixed + cost.evaluate(found.data, decoded.instruction, decoded.values)) / cost.TICKS


def nest(n: int, inner: int, rows: int, source: str = "src_stride0=0") -> str:
    """A gatherscatter of rows of ``inner`` blocks of n bytes, packed at its target."""
    trips = f"src_iter0={inner}, src_iter1={rows}, dst_iter0={inner}, dst_iter1={rows}"
    strides = f"{source}, dst_stride0={n}, dst_stride1={n * inner}"
    return f"td.gatherscatter dst=0x80000, src0=0x10000, n={n}, {trips}, {strides}"


# --- measurements ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "measured"),
    [
        ("ct.add.vv.fp16 dst=0x30000, src0=0x10000, src1=0x20000, n=128", 47),
        ("ct.add.vv.fp16 dst=0x30080, src0=0x10080, src1=0x20080, n=128", 47),
        ("ct.add.vv.fp16 dst=0x30040, src0=0x10000, src1=0x20000, n=128", 50),
        ("ct.add.vv.fp16 dst=0x30000, src0=0x10000, src1=0x200c0, n=128", 50),
        ("ct.add.vv.fp16 dst=0x30000, src0=0x10000, src1=0x20000, n=2048", 78),
        ("ct.add.vv.fp16 dst=0x30000, src0=0x10000, src1=0x20000, n=2048", 79),
        ("ct.add.vv.fp16 dst=0x30000, src0=0x10000, src1=0x20000, n=8192", 178.5),
        ("ct.exp.v.fp32 dst=0x10000, src0=0x10000, n=65536", 25200),
        ("ne.gemm.fp16 a=0x10000, b=0x20000, out=0x30000, m=1, k=16, n=16", 82.0),
        ("ne.gemm.fp16 a=0x10000, b=0x20000, out=0x30000, m=128, k=128, n=128", 622.5),
        ("ne.gemm.fp16 a=0x10000, b=0x20000, out=0x80000, m=256, k=256, n=128, out_format=fp32", 2524),
        ("ne.gemm.bf16 a=0x10000, b=0x20000, out=0x80000, m=256, k=128, n=256, out_format=fp32", 2524),
        ("ne.gemm.bf16 a=0x10000, b=0x80000, out=0x100000, m=256, k=512, n=512, out_format=fp32", 18539),
        ("rdma.fp16 dst=0x10000, src=0x280000000, n=512, stride0=4096, iter0=2048", 2048 * 49.4),
        ("wdma.fp16 dst=0x280000000, src=0x10000, n=512, stride0=4096, iter0=2048", 62800),
        ("rdma.fp16 dst=0x10000, src=0x280000000, n=128", 234),
        ("rdma.fp16 dst=0x10000, src=0x280000000, n=2048", 350.2),
        ("wdma.fp16 dst=0x280000000, src=0x10000, n=2048", 263.0),
        ("wdma.fp16 dst=0x280000000, src=0x10000, n=1048576", 66000),
        (nest(4, 64, 16), 2125),
        (nest(4, 64, 64), 8365),
        (nest(4, 64, 256), 33358),
        (nest(4, 256, 64), 32938),
        (nest(1024, 256, 1), 3445),
        ("td.memset.fp16 dst=0x10000, value=0, n=2048", 73.0),
        ("td.memset.fp16 dst=0x10000, value=0, n=8192", 202),
        ("td.memset.fp16 dst=0x10000, value=0, n=32768", 703),
    ],
)
def test_measured_times(text: str, measured: float) -> None:
    assert cycles(text) == pytest.approx(measured, rel=0.05)


def test_a_short_copy_is_the_fit_that_misses_most() -> None:
    """57 cycles were measured; the published fit to the long copies gives 60.3."""
    assert cycles(nest(256, 4, 1, "src_stride0=256")) == pytest.approx(60.3, abs=0.1)


def test_short_rows_of_a_fill_cost_more() -> None:
    """Measured: 64 rows of 64 B are slower than 32 of 128 B, which are as fast as one run of 4 KiB."""
    rows = "td.memset.fp16 dst=0x10000, value=0, n={}, stride0=512, iter0={}"
    assert cycles(rows.format(32, 64)) > cycles(rows.format(64, 32)) == cycles(rows.format(2048, 1))


def test_watchdog_limit_is_reached_where_it_was_seen() -> None:
    """A command of 32,000 transfers of 4 bytes ended in time, one of 33,000 did not."""
    assert cycles(nest(4, 250, 128)) < 65535 < cycles(nest(4, 250, 132))


# --- every record ---------------------------------------------------------------------------


def drawn(record: Instruction, size: int, seed: int) -> Case:
    for attempt in range(20):
        fmt = record.formats[(seed + attempt) % len(record.formats)] if record.formats else None
        case = draw(record, fmt, size, Random(1000 * attempt + seed))
        if case is not None:
            return case
    raise AssertionError(f"no operands for {record.mnemonic} of size {size}")


@pytest.mark.parametrize("record", instructions(), ids=lambda record: record.mnemonic)
def test_every_record_has_a_cost_that_grows(record: Instruction) -> None:
    found = cost.cost(record, MACHINE)
    sums = []
    for size in (64, 1280):
        total = 0
        for seed in range(4):
            case = drawn(record, size, seed)
            data = cost.evaluate(found.data, record, case.values)
            operations = cost.evaluate(found.operations, record, case.values)
            assert isinstance(data, int)
            assert 0 <= data < 1 << 40
            assert (operations > 0) == (record.engine in (Engine.CT, Engine.NE))
            total += data
        sums.append(total)
    assert found.fixed > 0
    still = record.engine is Engine.SCALAR or getattr(record.meaning, "action", None) in WITHOUT_DATA
    assert sums == [0, 0] if still else 0 < sums[0] < sums[1]


def test_every_function_is_used_and_every_meaning_known() -> None:
    used = {
        t.function
        for c in (cost.cost(r, MACHINE) for r in instructions())
        for t in (c.data, c.operations, c.moved, c.runs)
        if t is not None
    }
    assert used == set(cost.FUNCTIONS)
    assert {type(record.meaning) for record in instructions()} == set(SOLVERS)


def test_ct_and_tdma_share_a_path() -> None:
    shared = {r.engine for r in instructions() if cost.cost(r, MACHINE).exclusive}
    alone = {r.engine for r in instructions() if not cost.cost(r, MACHINE).exclusive}
    assert shared == {Engine.CT, Engine.TDMA}
    assert not shared & alone


@pytest.mark.parametrize("record", instructions(), ids=lambda record: record.mnemonic)
def test_compiled_code_finds_the_same(record: Instruction) -> None:
    """The table of costs, read as compiled code reads it, gives the same as the functions themselves."""
    table = tables.costs(MACHINE)
    scratch = np.zeros(queues.WORDS, dtype=np.int64)
    call = tables.write_dispatcher(list(cost.FUNCTIONS), queues.ARGUMENTS)
    found = cost.cost(record, MACHINE)
    row = tables.numbers()[record.mnemonic] * tables.COSTS
    assert table[row + tables.C_FIXED] == found.fixed
    assert table[row + tables.C_EXCLUSIVE] == found.exclusive
    case = drawn(record, 64, 1)
    scratch[queues.HEAD : queues.HEAD + len(case.values)] = np.array(case.values, dtype=np.uint64).view(
        np.int64
    )
    q, t = scratch.ctypes.data, table.ctypes.data
    for term, number, count, first in (
        (found.data, tables.C_DATA, tables.C_DATA_COUNT, tables.C_DATA_ARGUMENTS),
        (found.operations, tables.C_OPERATIONS, tables.C_OPERATIONS_COUNT, tables.C_OPERATIONS_ARGUMENTS),
        (found.moved, tables.C_MOVED, tables.C_MOVED_COUNT, tables.C_MOVED_ARGUMENTS),
        (found.runs, tables.C_RUNS, tables.C_RUNS_COUNT, tables.C_RUNS_ARGUMENTS),
    ):
        if term is None:  # the bytes of the ranges count, and there are no runs
            assert table[row + count] == 0
            continue
        gather_arguments(t, row + first, int(table[row + count]), q, queues.HEAD)
        assert call(int(table[row + number]), q) == cost.evaluate(term, record, case.values)


# --- by enumeration -------------------------------------------------------------------------


def test_prices_are_exact_to_a_tick() -> None:
    rng = Random(3)
    for _ in range(2000):
        units, price = rng.randrange(1 << rng.randint(1, 40)), rng.randrange(1, 1 << 22)
        assert 0 <= Fraction(units * price, cost.UNITS) - cost_terms.priced(units, price) < 1
    assert cost_terms.priced(1 << 56, 1 << 50) == cost_terms.MOST_TICKS


@pytest.mark.parametrize("mnemonic", ["rdma", "wdma"])
def test_runs_of_a_load_are_those_of_its_bytes(mnemonic: str) -> None:
    """Blocks that follow each other in memory are one run, whatever their loops."""
    record, rng = by_mnemonic()[mnemonic], Random(5)
    timing = getattr(MACHINE.timing, mnemonic)
    found = cost.cost(record, MACHINE)
    several = 0
    for _ in range(300):
        n, trips = rng.choice((8, 32, 256)), [rng.randint(1, 4) for _ in range(3)]
        packed = [n, n * trips[0], n * trips[0] * trips[1]]
        strides = [step + rng.choice((0, gap)) for step, gap in zip(packed, (24, 1000, 40000), strict=True)]
        case = Case(record, Format.INT8, {o.name: 0 for o in record.operands})
        case.put(
            n=n, **{f"iter{i}": trips[i] for i in range(3)}, **{f"stride{i}": strides[i] for i in range(3)}
        )
        starts = [
            i * strides[0] + j * strides[1] + k * strides[2]
            for k, j, i in product(range(trips[2]), range(trips[1]), range(trips[0]))
        ]
        gaps = [a + n != b for a, b in pairwise(starts)]
        lengths = [n]
        for gap in gaps:
            if gap:
                lengths.append(0)
            lengths[-1] += n
        several += len(lengths) > 1
        byte = round(cost.UNITS * cost.TICKS / timing.rate.value) / cost.UNITS / cost.TICKS
        times = [size * byte for size in lengths]
        expected = (sum(times) + (len(times) - 1) * timing.run.value) * cost.TICKS
        assert found.runs is not None
        assert cost.evaluate(found.runs, record, case.values) == len(lengths)
        assert cost.evaluate(found.data, record, case.values) == pytest.approx(expected, abs=len(lengths))
    assert several > 100


@pytest.mark.parametrize("mnemonic", ["ne.conv", "ne.dwconv", "ne.bwconv"])
def test_operations_of_convolutions(mnemonic: str) -> None:
    """Twice the products over every result position, place of the window and channel."""
    record = by_mnemonic()[mnemonic]
    term = cost.cost(record, MACHINE).operations
    for seed in range(10):
        case = drawn(record, 5, seed)
        n, h, w, c = case.get("dst_shape")
        kx, ky, *_ = case.get("window")
        channels = case.get("shape")[3]
        products = n * h * w * c * kx * ky * (channels if mnemonic == "ne.conv" else 1)
        if mnemonic == "ne.bwconv":
            extent = record.operand("dy").extent
            assert extent is not None
            arguments = argument_values(record, extent.arguments, case.values)
            # dy as if it had 256 channels of a byte: a line for each result position
            positions = extent.length(8, *arguments[1:6], 256) // 256
            products = kx * ky * w * channels * positions
        assert cost.evaluate(term, record, case.values) == 2 * products > 0


def test_operations_of_matrix_products() -> None:
    """Twice the products over every batch, row, column and term; one matrix may serve all batches."""
    record = by_mnemonic()["ne.gemm"]
    term, batches = cost.cost(record, MACHINE).operations, set[int]()
    for seed in range(10):
        case = drawn(record, 5, seed)
        lb, rb, m, k, n = (int(case.values[record.index(name)]) for name in ("lb", "rb", "m", "k", "n"))
        products = (lb if rb == 1 else rb) * m * k * n
        batches.add(max(lb, rb))
        assert cost.evaluate(term, record, case.values) == 2 * products > 0
    assert max(batches) > 1


# --- other machines -------------------------------------------------------------------------


def figures(node: Any, key: str = "timing") -> list[str]:
    """Keys of the figures of a table."""
    if not isinstance(node, dict):
        return []
    if "value" in node:
        return [key]
    return [found for name, child in node.items() for found in figures(child, f"{key}.{name}")]


FIGURES = figures(packaged_table()["timing"])
OF_THE_CHIP = [
    *figures(packaged_table()["timing"]["issue"], "timing.issue"),
    "timing.core.load",
    "timing.core.uncached_load",
    "timing.core.divide",
    "timing.core.cache_line",
    "timing.core.cache",
    "timing.core.line",
    "timing.spm.collision",
    "timing.dte.issue",
    "timing.dte.first",
    "timing.dte.hop",
    "timing.core.register_read",
    "timing.core.csr_read",
    "timing.core.program",
    "timing.ddr.run",
]
"""Figures that are not part of an instruction's own cost."""


def forget_range(figure: dict[str, Any]) -> None:
    """Leave a figure only its value, which may then be any."""
    figure.pop("least", None)
    figure.pop("most", None)


def write(table: dict[str, Any], key: str, value: object, folder: Path) -> Path:
    """A description with one figure changed."""
    node = table
    *path, last = key.split(".")
    for name in path:
        node = node[name]
    if value is None:
        del node[last]
    else:
        node[last] = value
    file = folder / "m.toml"
    file.write_text(toml(table))
    return file


@pytest.mark.parametrize("key", FIGURES)
def test_a_machine_with_another_figure_has_other_costs(
    key: str, table: dict[str, Any], tmp_path: Path
) -> None:
    node: Any = table
    for name in key.split("."):
        node = node[name]
    forget_range(node)
    machine = load_machine(write(table, f"{key}.value", node["value"] * 0.75 or 1.0, tmp_path))
    same = np.array_equal(tables.costs(machine), tables.costs(MACHINE))
    assert same == (key in OF_THE_CHIP)


def test_lines_are_as_wide_as_the_path(table: dict[str, Any], tmp_path: Path) -> None:
    machine = load_machine(write(table, "spm.engine_rate.value", 256, tmp_path))
    text = "ct.add.vv.fp16 dst=0x30080, src0=0x10000, src1=0x20000, n=129"
    assert cycles(text) == pytest.approx(44.9 + 3 * 64 / 60.3, abs=0.01)
    assert cycles(text, machine) == pytest.approx(44.9 + 2 * 128 / 60.3 + 3, abs=0.01)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("timing.rdma.rate.value", 0, "found 0, expected a number from 0.1 to 1000000.0"),
        ("timing.ct.fixed.value", -1, "found -1, expected a number from 0 to 100000.0"),
        ("timing.ct.fixed.value", "fast", "found 'fast', expected a number from 0 to 100000.0"),
        ("timing.ne.efficiency.value", 1.1, "found 1.1, expected a number from 0.01 to 1"),
        ("timing.wdma.rate.unit", "byte/s", "found 'byte/s', expected 'byte/cycle'"),
        ("timing.dte.hop", None, "missing, expected a table"),
        ("timing.dte.hop.source", None, "missing, expected a non-empty string"),
        ("timing.rdma.run.least", 23, "found 23.0, expected at most 22.0 (timing.rdma.run.value)"),
        ("timing.rdma.run.most", 17.5, "found 17.5, expected at least 22.0 (timing.rdma.run.value)"),
        ("timing.rdma.run.most", -1, "found -1, expected a number from 0 to 100000.0"),
        ("timing.rdma.run.most", 2e5, "found 200000.0, expected a number from 0 to 100000.0"),
        ("timing.rdma.run.most", "high", "found 'high', expected a number from 0 to 100000.0"),
        ("timing.rdma.rate.most", 129, "found 129.0, expected at most 128.0 (spm.engine_rate.value)"),
        ("timing.tdma.rate.value", 129, "found 129.0, expected at most 128.0 (spm.engine_rate.value)"),
        ("timing.ct.rates.fp32.value", 33, "found 33.0, expected at most 32.0 (engines.ct.fp32.value)"),
        ("timing.issue.flow", "c", "found 'c', expected 'text' or 'c-runtime'"),
        ("timing.issue.rdma", None, "missing, expected a table"),
    ],
)
def test_bad_coefficients_are_refused_by_key(
    key: str, value: object, message: str, table: dict[str, Any], tmp_path: Path
) -> None:
    path = write(table, key, value, tmp_path)
    with pytest.raises(MachineError) as caught:
        load_machine(path)
    assert str(caught.value) == f"{path}: key {key}: {message}"


MEMORY = {"n": 1, "h": 64, "iter1": 1, "iter2": 1, "iter0": 256}
"""Operands that keep the largest instructions inside the largest memory: extents of shapes, trip counts."""


def test_no_time_overflows(table: dict[str, Any], tmp_path: Path) -> None:
    """The largest operands that a memory of 4 GiB holds, on the slowest machine that can be described."""
    slowest = {"cycle": 1e5, "ratio": 100}
    for key in FIGURES:
        node: Any = table
        for name in key.split("."):
            node = node[name]
        forget_range(node)
        node["value"] = slowest.get(node["unit"], 0.1)
    for name in ("efficiency", "efficiency_wide"):
        table["timing"]["ne"][name]["value"] = 0.01
    table["timing"]["spm"]["collision"]["value"] = 1
    machine = load_machine(write(table, "name", "slow", tmp_path))
    for record in instructions():
        values = []
        for operand in record.operands:
            lanes = [MEMORY.get(lane.name, lane.high) for lane in operand.lanes]
            name = operand.name.partition("_")[2] or operand.name
            values.append(encoding.pack_lanes(lanes) if lanes else MEMORY.get(name, operand.high))
        if record.formats:
            for operand in ("format", "out_format", "psum_format"):
                if operand in [each.name for each in record.operands]:
                    values[record.index(operand)] = int(record.formats[0])
        if "n" in [operand.name for operand in record.operands]:
            values[record.index("n")] = record.operand("n").high
        found = cost.cost(record, machine)
        assert 1 << 26 < found.fixed + cost.evaluate(found.data, record, values) < 1 << 62, record.mnemonic
