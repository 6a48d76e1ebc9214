"""Products with packed weights: every division gives exactly NumPy's numbers and has no race.

Integers times powers of two, so that every sum is exact in any order. With random scales, the weights must
equal those that the format rounds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import ml_dtypes
import numpy as np
import pytest

from compiler.codegen.kernel import Kernel, Target
from compiler.codegen.slices.tensors import DdrTensor
from compiler.graph import Array, Tensor
from compiler.lowering.matmul.packed.chunk import Numbers, PackedChunk, packed_chunks
from compiler.lowering.matmul.packed.packed_matmul import packed_matmul
from compiler.lowering.record import LOWERINGS, Cut, Work
from compiler.operators.record import Call
from matmul_cases import SPM, step
from phase_harness import generated_in, phase_program, run_phase, travelling
from tx8isa.numbers.formats import Format

DTYPES = {Format.FP16: np.dtype(np.float16), Format.BF16: np.dtype(ml_dtypes.bfloat16)}


@dataclass(frozen=True)
class Case:
    """A product as a phase by itself: the work, its left operand, and its result."""

    work: Work
    left: Array
    want: Array

    def lower(self, kernel: Kernel) -> None:
        packed_matmul(kernel, self.work)

    @property
    def tensors(self) -> list[DdrTensor]:
        """The operands that the program keeps unchanged in DDR."""
        steps = [tensor for each in self.work.steps for tensor in each.operands]
        return [tensor for tensor in (self.work.input(0), *steps) if tensor is not None]

    def cut(self, cut: Cut | None) -> Case:
        return replace(self, work=replace(self.work, cut=cut))

    def cuts(self, tiles: int = 16) -> list[Cut]:
        proposed = LOWERINGS["PackedMatMul"].cuts
        assert proposed is not None
        return list(proposed(Target(tiles, SPM, self.work.arithmetic), self.work))

    def packed_cuts(self, tiles: int = 16) -> list[Cut]:
        return [cut for cut in self.cuts(tiles) if cut.choice("way", "") == "packed"]

    def check(self, tiles: int = 16) -> list[str]:
        """Check that results are exact and free of hazards; returns the lines of code."""
        inputs = {"a": self.left}
        got, lines = run_phase(self.lower, inputs, self.tensors, self.work.output, tiles, strict=True)
        assert np.array_equal(got.astype(np.float64).reshape(self.want.shape), self.want), self.work.cut
        return lines


def made(
    rows: int,
    inner: int,
    columns: int,
    bits: int,
    block: int,
    zeros: bool = False,
    fmt: Format = Format.FP16,
    stored: Format | None = None,
) -> Case:
    """Integers of all values of so many bits, scales that are powers of two."""
    rng, half, blocks = np.random.default_rng(bits + block), 1 << (bits - 1), -(-inner // block)
    left = rng.integers(-3, 4, (rows, inner)).astype(np.float64)
    values = rng.integers(-half, half, (inner, columns)).astype(np.int8)
    scale = np.exp2(rng.integers(-4, 3, (blocks, columns))).astype(np.float32)
    zero = rng.integers(-half, half, (blocks, columns)).astype(np.int8) if zeros else None
    at = np.arange(inner) // block
    weights = (values.astype(np.float64) - (0 if zero is None else zero[at])) * scale[at]
    constants = [item for item in (values, scale, zero) if item is not None]
    tensors = tuple(
        Tensor(name, dtype, item.shape)
        for name, dtype, item in zip(
            "awsz", ("float32", "int8", "float32", "int8"), (left, *constants), strict=False
        )
    )
    operands = [DdrTensor("a", stored or fmt, left.shape)]
    formats = (Format.INT8, fmt, Format.INT8)
    for tensor, kind, item in zip(tensors[1:], formats, constants, strict=False):
        operands.append(DdrTensor(tensor.name, kind, item.shape, item))
    missing = (None,) * (4 - len(tensors))
    call = Call(
        20, {"bits": bits, "block_size": block}, (*tensors, *missing), (None, *constants, *missing), ("y",)
    )
    output = DdrTensor("y", Format.FP32, (rows, columns))
    work = Work("n", "PackedMatMul", (*operands, *missing), output, call=call, compute=fmt)
    return Case(work, left, left @ weights)


KINDS = [(bits, block, zeros) for bits in (2, 4, 8) for block in (32, 256) for zeros in (False, True)]


@pytest.mark.parametrize(("bits", "block", "zeros"), KINDS)
@pytest.mark.parametrize("fmt", [Format.FP16, Format.BF16])
def test_every_kind_of_numbers(fmt: Format, bits: int, block: int, zeros: bool) -> None:
    case = made(1, 256, 512, bits, block, zeros, fmt)
    cuts = case.packed_cuts()
    assert cuts
    lines = case.cut(cuts[0]).check()
    assert any("packed_weights" in line for line in lines)


@pytest.mark.long
def test_every_division_that_is_proposed() -> None:
    case = made(3, 768, 1280, 4, 64)
    cuts = case.packed_cuts()
    assert len({cut.size("planes") for cut in cuts}) > 1
    assert len({cut.size("k") for cut in cuts}) > 1
    for cut in cuts:
        case.cut(cut).check()


@pytest.mark.parametrize("tiles", [1, 3, 4, 16])
def test_blocks_of_columns_in_turns(tiles: int) -> None:
    case = made(2, 256, 19 * 64, 4, 32)
    for cut in case.packed_cuts(tiles)[:2]:
        case.cut(cut).check(tiles)


@pytest.mark.parametrize("spm", [64, 200, 256, 400, 512, 3000])
def test_a_division_that_is_proposed_fits_the_scratchpad(spm: int) -> None:
    """The buffers of each code fit this many KiB."""
    case = made(3, 1024, 1280, 8, 32)
    target = Target(4, spm << 10, Format.FP16)
    proposed = LOWERINGS["PackedMatMul"].cuts
    assert proposed is not None
    found = [cut for cut in proposed(target, case.work) if cut.choice("way", "") == "packed"]
    assert bool(found) == (spm >= 200)
    for cut in found:
        generated_in(case.cut(cut).lower, target, target.spm_bytes)


def test_results_do_not_depend_on_host_threads() -> None:
    case = made(2, 512, 1024, 4, 32, zeros=True)
    program, _ = phase_program(case.lower, case.tensors, case.work.output, 16)
    given = travelling({"a": case.left}, case.tensors)
    found = {program.run(given, threads=threads)["y"].tobytes() for threads in (1, 2)}
    assert len(found) == 1


@pytest.mark.parametrize("stored", [Format.FP16, Format.FP32])
def test_many_rows_and_an_operand_that_is_rounded_when_loaded(stored: Format) -> None:
    case = made(64, 256, 256, 4, 32, stored=stored)
    case.cut(case.packed_cuts()[0]).check()


def test_steps_follow_the_product() -> None:
    case = made(2, 256, 256, 4, 32)
    bias = DdrTensor("b", Format.FP32, (256,), np.arange(256, dtype=np.float32))
    steps = (step("Add", case.work.output, bias), step("Relu", case.work.output))
    want = np.maximum(case.want + np.arange(256), 0)
    case = Case(replace(case.work, steps=steps), case.left, want)
    case.cut(case.packed_cuts()[0]).check()


@pytest.mark.parametrize("inner", [256, 96])
def test_weights_that_are_floats_are_the_other_way(inner: int) -> None:
    """It is the only division in which rows or columns are not whole planes."""
    case = made(2, inner, 512, 4, 32)
    assert bool(case.packed_cuts()) == (inner == 256)
    others = [cut for cut in case.cuts() if cut not in case.packed_cuts()]
    for cut in others[:3]:
        lines = case.cut(cut).check()
        assert not any("packed_weights" in line for line in lines)


def test_in_fp32_weights_are_floats() -> None:
    case = made(2, 256, 512, 4, 32, fmt=Format.FP32)
    assert not case.packed_cuts()
    case.check(4)


def test_a_cut_of_another_product_is_refused() -> None:
    case, other = made(1, 256, 512, 4, 32), made(1, 768, 512, 4, 32)
    cut = next(cut for cut in other.packed_cuts() if cut.size("k") == 768)
    with pytest.raises(ValueError, match="does not divide a product of 1 x 256 x 512"):
        case.cut(cut).check()


# --- the bytes in DDR ------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_a_chunk_has_no_more_bytes_than_its_numbers_need(bits: int) -> None:
    chunk = PackedChunk(256, 2, bits, 128, False, Format.FP16)
    assert chunk.packed == 256 * 128 * bits // 8
    assert chunk.size == chunk.packed + 2 * (256 // 128) * 128


@pytest.mark.parametrize("fmt", DTYPES)
def test_scales_are_rounded_once(fmt: Format) -> None:
    """The factor is the scale in the format of the weights times a power of two."""
    rng = np.random.default_rng(0)
    scale = (rng.uniform(0.5, 1, (2, 64)) * np.exp2(rng.integers(-13, 6, (2, 64)))).astype(np.float32)
    numbers = Numbers(np.zeros((64, 64), np.int8), scale, None, 4, 32)
    chunk = PackedChunk(64, 1, 4, 32, False, fmt)
    (data,) = packed_chunks(numbers, chunk)
    for field, power in ((0, 16.0), (1, 1.0)):
        begin = chunk.scales(field)
        found = data[begin : begin + chunk.vector].view(DTYPES[fmt]).astype(np.float64)
        np.testing.assert_array_equal(found, scale[field].astype(DTYPES[fmt]).astype(np.float64) * power)
