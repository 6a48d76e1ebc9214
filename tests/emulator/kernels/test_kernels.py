"""The contract of the kernel layer, and the bench on which the other test_kernels files run kernels.

``Tile.check`` runs one kernel and the slow reference on equal memories and compares every byte.
"""

from __future__ import annotations

import numpy as np
import pytest

from emulator.kernels import kernel_name, make_kernel, make_table
from emulator.kernels.reference import execute
from emulator.kernels.shared.lfsr import random_bits, step
from emulator.native.keys import kernel_key
from kernel_bench import NOT_HERE, RECORDS, field_values, variants
from tx8isa.numbers.formats import FLOATS, Format
from tx8isa.records.meaning import Convert, Convolution, Elementwise, Matrix
from tx8isa.records.record import Instruction
from tx8isa.table.registry import instructions


def test_every_record_has_a_kernel_for_each_format() -> None:
    assert len(variants()) > 300
    for instruction, fmt, nearest in variants():
        assert callable(make_kernel(instruction, fmt, nearest))


def test_kernels_share_a_name_exactly_when_they_share_code() -> None:
    """The object cache's key without the name is the same for equal code."""
    keys: dict[str, set[str]] = {}
    for variant in variants():
        keys.setdefault(kernel_name(*variant), set()).add(kernel_key(make_kernel(*variant), "", 2))
    assert all(len(found) == 1 for found in keys.values())
    assert len(keys) > 280


def test_kernel_names_are_readable() -> None:
    assert kernel_name(RECORDS["td.pad"], Format.BF16, True) == "td.pad.16bit"
    assert kernel_name(RECORDS["ct.exp.v"], Format.BF16, True) == "ct.lookup.v"
    assert kernel_name(RECORDS["ct.add.vv"], Format.FP16, False) == "ct.add.vv.fp16.rounded"
    assert kernel_name(RECORDS["ct.cvt.fp16.int8"], None, True) == "ct.cvt.fp16.int8"


@pytest.mark.parametrize("instruction", [i for i in instructions() if isinstance(i.meaning, NOT_HERE)])
def test_records_of_other_units_are_refused(instruction: Instruction) -> None:
    fmt = instruction.formats[0] if instruction.formats else None
    with pytest.raises(ValueError, match=instruction.mnemonic):
        make_kernel(instruction, fmt, True)
    if isinstance(instruction.meaning, Matrix | Convolution):
        return
    with pytest.raises(ValueError, match=instruction.mnemonic):
        execute(instruction, fmt, field_values(instruction, {}), bytearray(64), bytearray(64))


@pytest.mark.parametrize(
    ("mnemonic", "fmt"),
    [
        ("ct.add.vv", Format.INT8),
        ("ct.add.vv", None),
        ("td.memset", Format.BOOL),
        ("ct.cvt.fp16.int8", Format.FP16),
    ],
)
def test_formats_a_record_does_not_have_are_refused(mnemonic: str, fmt: Format | None) -> None:
    with pytest.raises(ValueError, match="has no format"):
        make_kernel(RECORDS[mnemonic], fmt, True)


def test_tables_exist_exactly_for_costly_functions_of_16_bits() -> None:
    for instruction, fmt, _ in variants():
        meaning = instruction.meaning
        wanted = (
            isinstance(meaning, Elementwise)
            and instruction.mnemonic.endswith(".v")
            and not meaning.single
            and fmt in (Format.FP16, Format.BF16)
        )
        if not wanted:
            assert make_table(instruction, fmt) is None
    table = make_table(RECORDS["ct.sqrt.v"], Format.FP16)
    assert table is not None and table.dtype == np.uint16 and table.shape == (65536,)
    assert table is make_table(RECORDS["ct.sqrt.v"], Format.FP16)
    assert table[0x4400] == 0x4000  # the root of 4


Columns = list[int]
"""A 32 x 32 matrix of bits: column k is the image of 1 << k."""


def image(matrix: Columns, vector: int) -> int:
    result = 0
    for k, column in enumerate(matrix):
        if vector >> k & 1:
            result ^= column
    return result


def test_lfsr_has_the_full_period() -> None:
    """Its matrix over GF(2) has order 2**32 - 1: that power is 1, and no power by a prime factor less is."""
    identity = [1 << k for k in range(32)]
    matrix = [step(1 << k) for k in range(32)]
    rng = np.random.default_rng(1)
    for vector in rng.integers(1, 1 << 32, 50).tolist():
        assert step(vector) == image(matrix, vector)

    def power(exponent: int) -> Columns:
        result, base = identity, matrix
        while exponent:
            if exponent & 1:
                result = [image(base, column) for column in result]
            base = [image(base, column) for column in base]
            exponent >>= 1
        return result

    order = (1 << 32) - 1
    assert power(order) == identity
    for prime in (3, 5, 17, 257, 65537):
        assert power(order // prime) != identity


def test_lfsr_never_stops_at_zero() -> None:
    assert step(0) == step(1) != 0


def test_random_bits_are_spread_evenly() -> None:
    """4,096 draws: mean, and mean product of neighbours, within five standard deviations of uniform ones."""
    state_, draws = 0xACE1, []
    for _ in range(4096):
        state_ = step(state_)
        assert 0 < state_ < 1 << 32
        draws.append(random_bits(state_) / 2.0**52)
    assert all(0 <= x < 1 for x in draws)
    x = np.array(draws)
    assert abs(x.mean() - 0.5) < 5 * (1 / 12 / 4096) ** 0.5
    assert abs(((x[1:] - 0.5) * (x[:-1] - 0.5)).mean()) < 5 * (1 / 12) / 4095**0.5


def test_converts_have_no_format_suffix() -> None:
    assert all(not i.formats for i in instructions() if isinstance(i.meaning, Convert))
    assert all(i.formats == FLOATS for i in instructions() if isinstance(i.meaning, Elementwise))
