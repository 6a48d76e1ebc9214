"""Products by whole rows, whose right operand all tiles load together: no short run, whatever the sizes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from compiler.codegen.kernel import Target
from compiler.codegen.slices.tensors import DdrTensor
from compiler.lowering.generate import attempt
from compiler.lowering.record import Cut
from matmul_cases import SPM, Case, integers, made, step
from phase_harness import phase_program, travelling
from tx8isa.numbers.formats import Format


def by_rows(size: int) -> Cut:
    return Cut(sizes=(("m", size),), choices=(("way", "rows"),))


def proposed(case: Case, tiles: int = 16, spm: int = SPM) -> list[Cut]:
    return [cut for cut in case.all_cuts(tiles, spm) if cut.choice("way", "plan") == "rows"]


def loads(lines: list[str]) -> list[str]:
    return [line for line in lines if "rdma" in line or "wdma" in line]


@pytest.mark.parametrize("fmt", [Format.FP16, Format.BF16, Format.TF32, Format.FP32])
@pytest.mark.parametrize("trans_b", [0, 1])
def test_nothing_has_to_come_out_even(trans_b: int, fmt: Format) -> None:
    """A prime number of rows, terms and columns; all that is loaded and stored is one run."""
    b = (139, 131) if trans_b else (131, 139)
    case = made((127, 131), b, fmt, transA=0, transB=trans_b)
    for cut in proposed(case):
        lines = case.cut(cut).check()
        assert sum("dte.broadcast" in line for line in lines) == 1
        assert not any("iter" in line for line in loads(lines))


@pytest.mark.parametrize("size", [8, 11, 3])
@pytest.mark.parametrize("stored", [Format.FP16, Format.FP32])
def test_no_hazard_and_no_dependence_on_threads(size: int, stored: Format) -> None:
    """A block for each tile, for some tiles, and several for each."""
    case = made((127, 70), (70, 257), Format.FP16, stored=stored, out=Format.FP16).cut(by_rows(size))
    program, _ = phase_program(case.lower, case.tensors, case.work.output, 16)
    given = travelling(case.inputs, case.tensors)
    once = program.run(given, strict=True)["y"]
    assert not program.hazards
    assert np.array_equal(once.astype(np.float64), case.want)
    for threads in (1, 2):
        assert program.run(given, threads=threads)["y"].tobytes() == once.tobytes()


def test_what_follows_a_product() -> None:
    case = made((70, 65), (65, 201), Format.FP16, out=Format.FP16)
    v, w = DdrTensor("v", Format.FP32, (201,)), DdrTensor("w", Format.FP16, (70, 201))
    y, vector, other = case.work.output, integers((201,), 3), integers((70, 201), 4)
    steps = (step("Add", y, v), step("Sub", y, w), step("Relu", y))
    want = np.maximum(case.want + vector - other, 0)
    case = Case(replace(case.work, steps=steps), {**case.inputs, "v": vector, "w": other}, want)
    for cut in (by_rows(5), by_rows(2)):
        case.cut(cut).check()


def test_proposed_where_all_tiles_can_keep_the_right_operand() -> None:
    small, large = made((1024, 256), (256, 512)), made((1024, 2048), (2048, 2048))
    assert [cut.size("m") for cut in proposed(small)] == [64, 32]
    assert not proposed(large)
    assert [cut.size("m") for cut in proposed(small, spm=0xC0000)] == [11, 8]


@pytest.mark.parametrize(
    "case",
    [
        made((3, 70, 64), (3, 64, 128)),
        made((70, 64), (64, 128), constant=True),
        made((64, 70), (64, 128), transA=1, transB=0),
        made((70, 4100), (4100, 8)),
    ],
    ids=["batches", "constant", "rows that are columns", "more rows than an instruction takes"],
)
def test_other_products_are_refused(case: Case) -> None:
    assert not proposed(case)
    with pytest.raises(ValueError, match="do not divide a product of"):
        attempt("p0", case.cut(by_rows(5)).work, Target(16, SPM, Format.FP16), SPM, False)


def test_one_tile_has_nobody_to_share_with() -> None:
    assert not proposed(made((70, 64), (64, 128)), tiles=1)
