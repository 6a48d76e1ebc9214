"""Products by whole rows, whose right operand tiles keep: no short runs for any sizes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from compiler.codegen.kernel import Target
from compiler.codegen.slices.tensors import DdrTensor
from compiler.lowering.generate import attempt
from compiler.lowering.record import Cut
from matmul_cases import SPM, Case, integers, made, step
from phase_harness import output_of, phase_program, travelling
from tx8isa.numbers.formats import Format


def by_rows(size: int, alone: int = 0) -> Cut:
    """Blocks of ``size`` rows; ``alone`` tiles load the right operand themselves, or all tiles load it
    together."""
    tiles = (("m", alone),) if alone else ()
    return Cut(tiles, sizes=(("m", size),), choices=(("way", "rows"),))


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


@pytest.mark.parametrize("fmt", [Format.FP16, Format.BF16, Format.TF32, Format.FP32])
@pytest.mark.parametrize("trans_b", [0, 1])
def test_a_constant_is_one_run_for_every_tile(trans_b: int, fmt: Format) -> None:
    """Each tile loads it by itself, after its first rows; the rows that it loads and stores are one run."""
    b = (139, 131) if trans_b else (131, 139)
    case = made((1021, 131), b, fmt, constant=True, transA=0, transB=trans_b)
    found = [cut for cut in proposed(case) if cut.tiles]
    assert found
    for cut in found:
        lines = case.cut(cut).check()
        assert not any("iter" in line for line in loads(lines))
        assert not any("dte." in line or "ncc.barrier" in line for line in lines)
        parts = 2 if fmt is Format.FP32 else 1
        assert sum("rdma" in line and "weights" in line for line in lines) == parts
    together = case.cut(by_rows(8)).check()
    assert sum("dte.broadcast" in line for line in together) == (2 if fmt is Format.FP32 else 1)


@pytest.mark.parametrize("alone", [1, 5, 16])
@pytest.mark.parametrize("size", [1, 7, 127, 200])
def test_any_number_of_tiles_has_any_number_of_turns(size: int, alone: int) -> None:
    """Tiles without rows, with one block, and with several blocks whose last one is shorter."""
    case = made((127, 70), (70, 65), Format.FP16, constant=True, stored=Format.FP32)
    case = case.cut(by_rows(size, alone))
    program, _ = phase_program(case.lower, case.tensors, case.work.output, 16)
    given = travelling(case.inputs, case.tensors)
    assert np.array_equal(output_of(program, given).astype(np.float64), case.want)


def test_more_terms_than_an_image_has_rows() -> None:
    case = made((40, 4100), (4100, 9), constant=True, stored=Format.FP32)
    for cut in proposed(case):
        case.cut(cut).check()


@pytest.mark.parametrize("size", [8, 11, 3])
@pytest.mark.parametrize("stored", [Format.FP16, Format.FP32])
def test_no_hazard_and_no_dependence_on_threads(size: int, stored: Format) -> None:
    """A block for each tile, for some tiles, and several for each."""
    case = made((127, 70), (70, 257), Format.FP16, stored=stored, out=Format.FP16).cut(by_rows(size))
    program, _ = phase_program(case.lower, case.tensors, case.work.output, 16)
    given = travelling(case.inputs, case.tensors)
    once = output_of(program, given)
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


def test_what_follows_a_product_with_a_constant() -> None:
    case = made((70, 65), (65, 201), Format.FP16, constant=True, out=Format.FP16)
    w = DdrTensor("w", Format.FP16, (70, 201))
    y, other = case.work.output, integers((70, 201), 4)
    steps = (step("Sub", y, w), step("Relu", y))
    case = Case(
        replace(case.work, steps=steps), {**case.inputs, "w": other}, np.maximum(case.want - other, 0)
    )
    for cut in (by_rows(5), by_rows(5, 4), by_rows(40, 3)):
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
        made((64, 70), (64, 128), transA=1, transB=0),
        made((70, 4100), (4100, 8)),
    ],
    ids=["batches", "rows that are columns", "more rows than an instruction takes"],
)
def test_other_products_are_refused(case: Case) -> None:
    assert not proposed(case)
    with pytest.raises(ValueError, match="do not divide a product of"):
        attempt("p0", case.cut(by_rows(5)).work, Target(16, SPM, Format.FP16), SPM, False)


def test_one_tile_has_nobody_to_share_with() -> None:
    assert not proposed(made((70, 64), (64, 128)), tiles=1)


def test_only_a_constant_is_loaded_by_each_tile() -> None:
    constant = made((70, 64), (64, 128), constant=True)
    for case, cut in ((made((70, 64), (64, 128)), by_rows(5, 4)), (constant, by_rows(5, 17))):
        with pytest.raises(ValueError, match="do not divide a product of"):
            attempt("p0", case.cut(cut).work, Target(16, SPM, Format.FP16), SPM, False)


def test_a_constant_that_does_not_fit_is_not_kept() -> None:
    large = made((64, 2048), (2048, 2048), constant=True)
    assert not proposed(large)


def test_sizes_that_do_not_divide_are_proposed_as_those_that_do() -> None:
    """The cuts for a row, a term and a column more have as many tiles, and a row more at most."""
    even = proposed(made((1024, 256), (256, 512), constant=True, stored=Format.FP32))
    odd = proposed(made((1025, 257), (257, 513), constant=True, stored=Format.FP32))
    assert {cut.tiles for cut in even} == {cut.tiles for cut in odd}
