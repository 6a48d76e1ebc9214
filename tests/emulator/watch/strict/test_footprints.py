"""The bytes that every record touches: other bytes never change, and have no influence, by the slow
reference."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from extreme_operands import KERNELS, Bench, one_format
from record_operands import DDR_BYTES, SPM_BYTES, Case, draw
from tx8isa.families.vector import packed_bits
from tx8isa.records.meaning import Gather
from tx8isa.records.record import Instruction, Operand
from tx8isa.table.encoding import argument_values
from tx8isa.table.footprint import footprint, runs
from tx8isa.table.registry import by_mnemonic

every_kernel = pytest.mark.parametrize("record", KERNELS, ids=lambda r: r.mnemonic)


def touched(case: Case, role: str) -> dict[str, np.ndarray]:
    """Return, by memory, the bytes that the operands of a role touch."""
    found = {"spm": np.zeros(SPM_BYTES, bool), "ddr": np.zeros(DDR_BYTES, bool)}
    for operand in case.addresses(role):
        first = case.named[operand.name]
        for offset, size in operand_runs(case, operand):
            assert offset >= 0 and offset + size <= case.length(operand), "outside its extent"
            found[operand.memory][first + offset : first + offset + size] = True
    return found


def operand_runs(case: Case, operand: Operand) -> list[tuple[int, int]]:
    assert operand.extent is not None
    arguments = argument_values(case.record, operand.extent.arguments, case.values)
    return list(runs(footprint(operand.extent.length, tuple(arguments), operand.role == "write")))


def cases(record: Instruction) -> list[Case]:
    rng = Random(f"footprint {record.mnemonic}")
    drawn = [draw(record, fmt, size, rng) for fmt in one_format(record, 1) for size in (1, 17, 65)]
    return [case for case in drawn if case is not None]


@every_kernel
def test_nothing_outside_is_written_or_has_influence(record: Instruction) -> None:
    for case in cases(record):
        read, written = touched(case, "read"), touched(case, "write")
        one, other = Bench(case, 1), Bench(case, 1)
        for seed, memory, name in ((7, other.spm, "spm"), (8, other.ddr, "ddr")):
            outside = ~(read[name] | written[name])
            memory[outside] = np.random.default_rng(seed).integers(0, 256, int(outside.sum()), np.uint8)
        if isinstance(record.meaning, Gather):  # indices that stay inside the table
            at, size = case.named["src1"], case.length(record.operand("src1"))
            one.spm[at : at + size] = other.spm[at : at + size] = 0
        before = {"spm": other.spm.copy(), "ddr": other.ddr.copy()}
        one.execute_reference(case)
        other.execute_reference(case)
        for name, first, second in (("spm", one.spm, other.spm), ("ddr", one.ddr, other.ddr)):
            assert (second == before[name])[~written[name]].all(), f"{case.named} writes outside"
            assert (first == second)[written[name]].all(), f"{case.named} reads outside"
        np.testing.assert_array_equal(one.write_back, other.write_back)


@every_kernel
def test_everything_inside_is_written(record: Instruction) -> None:
    """By instructions that write all of their results: two runs on different results leave the same bytes."""
    if record.mnemonic in ("ct.maskmove", "ct.maskgather.bv"):
        return  # they keep masked elements
    for case in cases(record):
        written = touched(case, "write")
        one, other = Bench(case, 1), Bench(case, 1)
        read = touched(case, "read")
        fresh = written["spm"] & ~read["spm"]
        for operand in case.addresses("write"):
            if operand.extent is not None and operand.extent.length is packed_bits:
                fresh[case.named[operand.name] + case.length(operand) - 1] = False  # keeps the bits after n
        other.spm[fresh] ^= 0xFF
        if isinstance(record.meaning, Gather):
            at, size = case.named["src1"], case.length(record.operand("src1"))
            one.spm[at : at + size] = other.spm[at : at + size] = 0
        one.execute_reference(case)
        other.execute_reference(case)
        assert (one.spm == other.spm)[fresh].all(), f"{case.named}: some of its result is not written"


@pytest.mark.parametrize(
    ("mnemonic", "operand", "arguments", "expected"),
    [
        ("ct.abs.v", "src0", (16, 3), [(0, 6)]),
        ("ct.reduce.sum", "src0", (32, 1, 1, 2, 60), [(0, 240), (256, 240)]),
        ("ct.reduce.sum", "src0", (16, 2, 1, 2, 3), [(0, 6), (8, 6), (256, 6), (264, 6)]),
        ("td.gatherscatter", "dst", (2, 4, 3, 0, 1, 0, 1), [(0, 2), (4, 2), (8, 2)]),
        ("rdma", "src", (16, 2, 8, 2, 64, 2, 0, 1), [(0, 4), (16, 4), (128, 4), (144, 4)]),
    ],
)
def test_by_hand(
    mnemonic: str, operand: str, arguments: tuple[int, ...], expected: list[tuple[int, int]]
) -> None:
    found = by_mnemonic()[mnemonic]
    extent = found.operand(operand).extent
    assert extent is not None
    assert list(runs(footprint(extent.length, arguments, found.operand(operand).role == "write"))) == expected
