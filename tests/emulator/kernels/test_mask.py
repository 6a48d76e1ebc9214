"""Masked moves and tables: against numpy, against the slow reference, and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asm
from asm.diagnostics import AsmError
from kernel_bench import SPM_BYTES, Tile, patterns
from returned_values import put
from tx8isa.numbers.formats import FLOATS, Format

COMPILED = pytest.mark.parametrize("compiled", [False, True], ids=["interpreted", "compiled"])
LENGTHS = (0, 1, 63, 64, 65, 1000)
DST, SRC0, SRC1 = 0x8000, 0x1000, 0x4000
Array = np.ndarray[Any, Any]

MAGNITUDE = {Format.FP16: 0x7FFF, Format.BF16: 0x7FFF, Format.FP32: 0x7FFFFFFF, Format.TF32: 0x7FFFE000}
"""Bits that are all clear in a zero (docs/isa.md, Formats)."""


def unsigned(bits: int) -> np.dtype[Any]:
    return np.dtype(f"u{bits // 8}")


def words(tile: Tile, at: int, n: int, bits: int) -> Array:
    return tile.spm[at : at + n * bits // 8].view(unsigned(bits)).copy()


def masked(fmt: Format, n: int, seed: int) -> tuple[Tile, Array, Array]:
    """A tile with ``n`` elements at SRC0 and a mask at SRC1 that has zeros of both signs, NaN and ones."""
    tile = Tile(seed, fmt)
    one = {Format.FP16: 0x3C00, Format.BF16: 0x3F80}.get(fmt, 0x3F800000)
    sign, nan = 1 << fmt.bits - 1, MAGNITUDE[fmt]
    choices = np.array([0, sign, one, sign | one, nan, ~MAGNITUDE[fmt] & (1 << fmt.bits) - 1])
    mask = tile.rng.choice(choices, n).astype(unsigned(fmt.bits))
    put(tile, SRC1, mask)
    return tile, words(tile, SRC0, n, fmt.bits), mask


# --- maskmove -----------------------------------------------------------------------------


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("fmt", FLOATS)
def test_maskmove_copies_where_the_mask_is_not_zero(fmt: Format, n: int) -> None:
    tile, source, mask = masked(fmt, n, n)
    before = tile.spm.copy()
    kept = words(tile, DST, n, fmt.bits)
    tile.run("ct.maskmove", fmt, True, {"dst": DST, "src0": SRC0, "src1": SRC1, "n": n})
    expected = np.where(mask & np.array(MAGNITUDE[fmt], mask.dtype) != 0, source, kept)
    assert words(tile, DST, n, fmt.bits).tolist() == expected.tolist()
    end = DST + n * fmt.bits // 8
    assert np.array_equal(tile.spm[:DST], before[:DST])
    assert np.array_equal(tile.spm[end:], before[end:])


@COMPILED
@pytest.mark.parametrize("fmt", FLOATS)
def test_maskmove_equals_reference(fmt: Format, compiled: bool) -> None:
    for n in LENGTHS if compiled else (0, 1, 65):
        for moved in ({}, {"dst": SRC0}, {"dst": SRC1}, {"dst": SRC0 + 8}, {"dst": SRC1 - 8}, {"src1": SRC0}):
            places = {"dst": DST, "src0": SRC0, "src1": SRC1, "n": n} | moved
            masked(fmt, n, n)[0].check("ct.maskmove", fmt, compiled, **places)


def test_maskmove_of_the_last_bytes_of_spm() -> None:
    tile, source, mask = masked(Format.FP16, 4, 1)
    tile.run("ct.maskmove", Format.FP16, True, {"dst": SPM_BYTES - 8, "src0": SRC0, "src1": SRC1, "n": 4})
    chosen = mask & 0x7FFF != 0
    assert words(tile, SPM_BYTES - 8, 4, 16)[chosen].tolist() == source[chosen].tolist()


# --- maskgather.v -------------------------------------------------------------------------


def gathered(before: Array, base: int, offsets: Array, size: int) -> list[int]:
    """Words at byte offsets from ``base``, 0 outside of SPM."""
    found = []
    for offset in offsets.tolist():
        at = base + offset
        inside = at + size <= len(before)
        found.append(int.from_bytes(before[at : at + size].tobytes(), "little") if inside else 0)
    return found


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("fmt", FLOATS)
def test_maskgather_v_takes_elements_by_index(fmt: Format, n: int) -> None:
    tile = Tile(n, fmt)
    index = tile.rng.integers(0, 2000, n).astype(unsigned(fmt.bits))
    put(tile, SRC1, index)
    source = words(tile, SRC0, 2000, fmt.bits)
    places = {"dst": DST, "src0": SRC0, "src1": SRC1, "n": n, "entries": 2000}
    tile.run("ct.maskgather.v", fmt, True, places)
    assert words(tile, DST, n, fmt.bits).tolist() == source[index].tolist()


def test_maskgather_v_as_the_probe_used_it() -> None:
    """130 unsigned 16-bit indices into 260 elements, including indices of 256 and more."""
    tile = Tile(4, Format.FP16)
    index = np.arange(130, dtype=np.uint16) * 2 + 1
    put(tile, SRC1, index)
    source = words(tile, SRC0, 260, 16)
    places = {"dst": DST, "src0": SRC0, "src1": SRC1, "n": 130, "entries": 260}
    tile.run("ct.maskgather.v", Format.FP16, True, places)
    assert words(tile, DST, 130, 16).tolist() == source[1::2].tolist()


@COMPILED
@pytest.mark.parametrize("fmt", [Format.FP16, Format.FP32])
def test_indices_read_spm_as_addressed(fmt: Format, compiled: bool) -> None:
    """Beyond the entries, into the old result, up to the last byte of SPM and beyond it."""
    size, n = fmt.bits // 8, 65
    for furthest in (100, (DST - SRC0) // size + 10, (SPM_BYTES - SRC0) // size, 0xFFFF, (1 << fmt.bits) - 1):
        tile = Tile(3, fmt)
        index = tile.rng.integers(0, furthest, n, endpoint=True).astype(unsigned(fmt.bits))
        index[:4] = furthest, furthest - 1, 0, furthest
        put(tile, SRC1, index)
        before = tile.spm.copy()
        places = {"dst": DST, "src0": SRC0, "src1": SRC1, "n": n, "entries": 1}
        tile.check("ct.maskgather.v", fmt, compiled, **places)
        expected = gathered(before, SRC0, index.astype(np.int64) * size, size)
        assert words(tile, DST, n, fmt.bits).tolist() == expected


@COMPILED
@pytest.mark.parametrize("mnemonic", ["ct.maskgather.v", "ct.lut16", "ct.lut32"])
def test_gathers_are_a_snapshot(mnemonic: str, compiled: bool) -> None:
    fmt = Format.FP16 if mnemonic == "ct.maskgather.v" else None
    bits = 32 if mnemonic == "ct.lut32" else 16
    for places in ({"dst": SRC0}, {"dst": SRC1}, {"dst": SRC0 + 16}, {"dst": SRC1 - 4}, {"src1": SRC0}):
        for n in LENGTHS if compiled else (0, 65):
            tile = Tile(n)
            put(tile, SRC1, tile.rng.integers(0, 2000, n).astype(unsigned(bits)))
            values = {"dst": DST, "src0": SRC0, "src1": SRC1, "n": n, "entries": 100} | places
            tile.check(mnemonic, fmt, compiled, **values)


# --- tables -------------------------------------------------------------------------------


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("bits", [16, 32])
def test_lut_reads_at_byte_offsets(bits: int, n: int) -> None:
    tile, size = Tile(n), bits // 8
    entry = tile.rng.integers(0, 256, n)
    put(tile, SRC1, (entry * size).astype(unsigned(bits)))
    table = words(tile, SRC0, 256, bits)
    tile.run(f"ct.lut{bits}", None, True, {"dst": DST, "src0": SRC0, "src1": SRC1, "n": n, "entries": 256})
    assert words(tile, DST, n, bits).tolist() == table[entry].tolist()


@COMPILED
@pytest.mark.parametrize("bits", [16, 32])
def test_lut_offsets_may_be_odd_and_lead_anywhere(bits: int, compiled: bool) -> None:
    size = bits // 8
    last = SPM_BYTES - size - SRC0
    edge = [last, last + 1, last + size, 0, 1, 3, (1 << bits) - 1, DST - SRC0 + 1, 1 << bits - 1]
    tile = Tile(5)
    offsets = np.array([o for o in edge if o < 1 << bits], unsigned(bits))
    put(tile, SRC1, offsets)
    before = tile.spm.copy()
    n = len(offsets)
    places = {"dst": DST, "src0": SRC0, "src1": SRC1, "n": n, "entries": 4}
    tile.check(f"ct.lut{bits}", None, compiled, **places)
    found = words(tile, DST, n, bits).tolist()
    assert found == gathered(before, SRC0, offsets, size)
    assert found[0] == int.from_bytes(before[-size:].tobytes(), "little")
    assert found[1] == found[2] == 0


def test_an_odd_offset_needs_no_other_one_beyond_the_table() -> None:
    tile = Tile(6)
    put(tile, SRC1, np.array([1, 3, 5], np.uint16))
    expected = gathered(tile.spm, SRC0, np.array([1, 3, 5]), 2)
    tile.run("ct.lut16", None, True, {"dst": DST, "src0": SRC0, "src1": SRC1, "n": 3, "entries": 4})
    assert words(tile, DST, 3, 16).tolist() == expected


# --- maskgather.bv ------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 0.98, 1.0])
@pytest.mark.parametrize("fmt", [Format.FP16, Format.TF32])
def test_maskgather_bv_packs_the_chosen_elements(fmt: Format, share: float) -> None:
    for n in (*LENGTHS, 7, 8, 9):
        for shift in (0, 3):  # mask bytes need no alignment
            tile = Tile(n, fmt)
            chosen = tile.rng.random(n) < share
            put(tile, SRC1 + shift, np.packbits(chosen, bitorder="little"))
            source, before = words(tile, SRC0, n, fmt.bits), tile.spm.copy()
            places = {"dst": DST, "src0": SRC0, "src1": SRC1 + shift, "n": n}
            tile.run("ct.maskgather.bv", fmt, True, places)
            count = int(chosen.sum())
            assert words(tile, DST, count, fmt.bits).tolist() == source[chosen].tolist()
            end = DST + count * fmt.bits // 8
            assert np.array_equal(tile.spm[end:], before[end:])
            assert np.array_equal(tile.spm[:DST], before[:DST])


@COMPILED
@pytest.mark.parametrize("fmt", FLOATS)
def test_maskgather_bv_equals_reference(fmt: Format, compiled: bool) -> None:
    """Bits beyond the count are random here and must not matter, nor may the operands' overlap."""
    for n in LENGTHS if compiled else (0, 1, 65, 130):
        for moved in ({}, {"dst": SRC0}, {"dst": SRC0 + 8}, {"dst": SRC0 - 4}, {"dst": SRC1}, {"src1": SRC0}):
            places = {"dst": DST, "src0": SRC0, "src1": SRC1, "n": n} | moved
            Tile(n, fmt).check("ct.maskgather.bv", fmt, compiled, **places)


def test_maskgather_bv_of_the_last_bytes_of_spm() -> None:
    tile = Tile(2)
    source = patterns(Format.FP32, 9, tile.rng)
    put(tile, SRC0, source)
    put(tile, SPM_BYTES - 2, np.array([0b10000001, 0xFF], np.uint8))
    places = {"dst": SPM_BYTES - 36, "src0": SRC0, "src1": SPM_BYTES - 2, "n": 9}
    tile.run("ct.maskgather.bv", Format.FP32, True, places)
    assert words(tile, SPM_BYTES - 36, 3, 32).tolist() == source[[0, 7, 8]].tolist()


# --- what is refused ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ct.maskmove.fp16 dst=0x2ffffe, src0=0, src1=0x1000, n=2", "dst"),
        ("ct.maskmove.fp16 dst=0x10, src0=0x2ffffe, src1=0x1000, n=2", "src0"),
        ("ct.maskmove.fp16 dst=0x10, src0=0, src1=0x2ffffe, n=2", "src1"),
        ("ct.maskmove.int8 dst=0x10, src0=0, src1=0x1000, n=2", "int8"),
        ("ct.maskmove.fp16 dst=0x10, src0=0, n=2", "src1 missing"),
        ("ct.maskgather.v.fp32 dst=0, src0=0x2ffff0, src1=0x100, n=1, entries=5", "src0"),
        ("ct.maskgather.v.fp32 dst=0, src0=0, src1=0x100, n=1", "entries missing"),
        ("ct.maskgather.bv.fp16 dst=0, src0=0x100, src1=0x2fffff, n=9", "src1"),
        ("ct.maskgather.bv.fp16 dst=0x2ffffe, src0=0x100, src1=0, n=9", "dst"),
        ("ct.maskgather.bv.bool dst=0, src0=0x100, src1=0, n=9", "bool"),
        ("ct.lut16 dst=0, src0=0x2ffff8, src1=0x100, n=1, entries=5", "src0"),
        ("ct.lut32 dst=0, src0=0x100, src1=0x2ffffc, n=2, entries=5", "src1"),
        ("ct.lut32.fp32 dst=0, src0=0x100, src1=0, n=2, entries=5", "lut32"),
        ("ct.lut16 dst=0, src0=0x100, src1=0, n=0x1000000, entries=5", "16777215"),
    ],
)
def test_what_does_not_fit_is_refused(text: str, message: str) -> None:
    with pytest.raises(AsmError) as caught:
        asm.assemble(f"_start: {text}")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "ct.maskmove.fp16 dst=0x2ffffc, src0=0x2ffffc, src1=0x2ffffc, n=2",
        "ct.maskgather.v.fp32 dst=0x2ffffc, src0=0x2fffec, src1=0x2ffffc, n=1, entries=5",
        "ct.maskgather.bv.fp16 dst=0x2ffff0, src0=0x100, src1=0x2fffff, n=8",
        "ct.lut16 dst=0x2ffffe, src0=0x2ffff6, src1=0x2ffffe, n=1, entries=5",
        "ct.lut32 dst=0, src0=0x100, src1=0x100, n=1, entries=1",
    ],
)
def test_what_just_fits_is_accepted(text: str) -> None:
    asm.assemble(f"_start: {text}")
