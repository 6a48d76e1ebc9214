"""Checked kernels: equal bytes as the plain ones, and numeric exceptions compared with exact arithmetic."""

from __future__ import annotations

from random import Random

import pytest

from checked_runs import RECORDS, WATCHED, run_checked
from emulator.kernels import kernel_name
from emulator.memory import state
from extreme_operands import Bench
from record_operands import draw
from tx8isa.numbers.formats import Format
from tx8isa.records.meaning import Convert, Elementwise, Pool, Reduce
from tx8isa.records.record import Instruction
from worker_programs import run, saved

INFINITE, NAN_INPUT, OVERFLOW, INEXACT, INTEGER = 1 << 2, 1 << 3, 1 << 5, 1 << 6, 1 << 7
RNE, RTZ, RUP, RDN, STOCHASTIC = range(5)


# --- the same bytes -----------------------------------------------------------------------


def same_bytes(record: Instruction, fmt: Format | None, sizes: tuple[int, ...], compiled: bool) -> None:
    rng = Random(record.mnemonic)
    for size in sizes:
        case = draw(record, fmt, size, rng)
        if case is None:
            continue
        plain, checked = Bench(case, size), Bench(case, size)
        plain.execute_kernel(case, compiled)
        bits = run_checked(checked, record, fmt, case.values, compiled)
        assert (plain.spm == checked.spm).all(), f"{fmt!r} {case.named}"
        assert plain.state[state.RANDOM] == checked.state[state.RANDOM]
        assert plain.state[state.NUMERIC] == 0 and bits & ~0xEC == 0


@pytest.mark.parametrize("record", WATCHED, ids=lambda r: r.mnemonic)
def test_checked_kernels_store_the_same_bytes(record: Instruction) -> None:
    formats = record.formats or (None,)
    same_bytes(record, formats[WATCHED.index(record) % len(formats)], (1, 17), False)


@pytest.mark.parametrize("record", WATCHED[::23], ids=lambda r: r.mnemonic)
def test_compiled_checked_kernels_store_the_same_bytes(record: Instruction) -> None:
    formats = record.formats or (None,)
    same_bytes(record, formats[WATCHED.index(record) % len(formats)], (0, 1, 17, 64, 65), True)


@pytest.mark.long
@pytest.mark.parametrize("record", WATCHED, ids=lambda r: r.mnemonic)
def test_every_compiled_checked_kernel_stores_the_same_bytes(record: Instruction) -> None:
    for fmt in record.formats or (None,):
        same_bytes(record, fmt, (0, 1, 15, 17, 64, 65, 17, 65), True)


# --- when they run ------------------------------------------------------------------------

SUM = "ct.add.vv.fp16 dst=0x200, src0=0, src1=0x100, n=4\n"
BIG = "td.memset.fp16 dst=0, value=0x7bff, n=4\n td.memset.fp16 dst=0x100, value=0x7bff, n=4\n"
CT_FIELD = 8


def unmask(bits: int) -> str:
    """Clear these bits of the mask of worker 0."""
    return f"li t4, {((1 << 48) - 1) ^ bits}\n sd t4, 0x770(t0)\n"


READ = "ncc.wait\n ld s0, 0x750(t0)\n ld s1, 0x750(t1)\n"


def test_all_masked_nothing_is_looked_for() -> None:
    assert saved(run(BIG + SUM + READ), 2) == [0, 0]


@pytest.mark.parametrize("bit", [INFINITE, NAN_INPUT, OVERFLOW, INEXACT, INTEGER])
def test_one_bit_unmasked_shows_all(bit: int) -> None:
    found = saved(run(BIG + unmask(bit << CT_FIELD) + SUM + READ), 2)
    assert found == [(INFINITE | OVERFLOW | INEXACT) << CT_FIELD, 0]


@pytest.mark.parametrize("bits", [1 << 8, 1 << 9, 0xFF, 0xFF << 16])
def test_other_bits_unmasked_change_nothing(bits: int) -> None:
    assert saved(run(BIG + unmask(bits) + SUM + READ), 1) == [0]


def test_the_mask_is_that_of_the_worker() -> None:
    other = SUM.replace("n=4", "n=4, worker=1") + "ncc.wait worker=1\n"
    assert saved(run(BIG + "ncc.wait\n" + unmask(0xFF << CT_FIELD) + other + READ), 2) == [0, 0]


def test_masked_again_the_plain_kernel_runs() -> None:
    text = BIG + unmask(0xFF << CT_FIELD) + SUM + "ncc.wait\n" + "li t4, -1\n sd t4, 0x770(t0)\n" + SUM + READ
    assert saved(run(text), 1) == [0]  # bit 49 of the mask cleared the exception of the first one


def test_a_copy_raises_nothing_of_an_infinity() -> None:
    infinite = BIG.replace("0x7bff", "0x7c00")
    copy = "td.nhwc2nchw.fp16 dst=0x200, src0=0, shape=[1,1,1,4], dst_shape=[1,1,1,4]\n"
    text = infinite + unmask((1 << 48) - 1) + copy + READ
    assert saved(run(text), 1) == [0]


def test_data_movement_has_no_checked_variant() -> None:
    assert all(isinstance(i.meaning, Elementwise | Convert | Reduce | Pool) for i in WATCHED)
    plain, checked = (kernel_name(RECORDS["td.pad"], Format.FP16, True, c) for c in (False, True))
    assert plain == checked
