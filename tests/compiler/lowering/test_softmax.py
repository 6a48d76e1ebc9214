"""Softmax of rows that keep their order in the scratchpad."""

from __future__ import annotations

import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import compiler
import emulator
from asm.image import read_image, write_image
from compiler.driver import compile_graph
from compiler.graph import GraphError
from compiler.tools.run import execute, random_inputs
from compiler_harness import assert_right, draw, one, small_machine
from planned_cuts import plan_with_cut
from time_bench import changed
from tx8isa.machine.description import load_machine


@pytest.mark.parametrize("dtype", ["fp32", "tf32", "fp16", "bf16"])
@pytest.mark.parametrize("shape", [(70, 64), (5, 7, 100), (3, 500), (33, 130)], ids=str)
def test_rows(shape: tuple[int, ...], dtype: str) -> None:
    assert_right(one("Softmax", [shape], axis=-1), dtype, 4, scale=3.0)


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_rows_in_many_slices(dtype: str) -> None:
    assert_right(one("Softmax", [(90, 300)], axis=1), dtype, 3, small_machine(), scale=3.0)


@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
def test_rows_are_not_transposed(dtype: str) -> None:
    text = compiler.compile(one("Softmax", [(512, 512)], axis=-1), dtype).text
    assert "dims=c" in text and ".int8" not in text
    moves = re.findall(r"td.gatherscatter.* n=(\d+),", text)
    assert all(int(size) % 128 == 0 for size in moves), "rows are moved plane by plane, no elements"


def test_other_axes_still_go_by_lanes() -> None:
    program = assert_right(one("Softmax", [(3, 100, 64)], axis=1), "fp32", 4)
    assert "dims=w" in program.text


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_other_axes_give_numbers_of_the_format(dtype: str) -> None:
    """The same holds if the result is stored in FP32 directly."""
    made = one("Softmax", [(3, 100, 64)], axis=1)
    found = execute(compiler.compile(made, dtype, 4), random_inputs(made, {}, 3))[0]["y"]
    short = np.float16 if dtype == "fp16" else ml_dtypes.bfloat16
    assert found.dtype == np.float32 and np.array_equal(found.astype(short).astype(np.float32), found)


def test_rows_far_from_zero() -> None:
    """Only differences count, even if numbers have few bits after the point."""
    data = np.round(draw(6, 128) * 4) + np.array([[0], [1e3], [-1e5], [3e5], [-1e-3], [1e6]])
    assert_right(one("Softmax", [(6, 128)], axis=-1), "fp32", 2, inputs={"a": data.astype(np.float32)})


def test_masked_elements_and_masked_rows() -> None:
    """Minus infinity has no weight; a row of the lowest numbers has equal weights."""
    data = draw(4, 64)
    data[0, 10:] = -np.inf
    data[1, :] = np.finfo(np.float32).min
    data[2, 5] = np.finfo(np.float32).min
    graph = one("Softmax", [(4, 64)], axis=-1)
    found = execute(compiler.compile(graph, "fp32", 2), {"a": data})[0]["y"]
    wanted = np.exp(data.astype(np.float64) - data.max(-1, keepdims=True))
    np.testing.assert_allclose(found, wanted / wanted.sum(-1, keepdims=True), rtol=2e-6, atol=1e-30)
    assert np.all(found[1] == np.float32(1 / 64))


@pytest.mark.parametrize("dtype", ["fp32", "tf32", "fp16", "bf16"])
@pytest.mark.parametrize("shape", [(1, 1000), (1, 10), (3, 7), (2, 5, 130), (1, 4099)], ids=str)
def test_a_few_rows_one_by_one(shape: tuple[int, ...], dtype: str) -> None:
    """Odd lengths: nothing after a row is read; --strict would report it."""
    made = one("Softmax", [shape], axis=-1)
    program = assert_right(made, dtype, scale=3.0)
    loaded = emulator.Program(read_image(write_image(program.image), "prog.bin"), program.machine)
    loaded.run(random_inputs(made, {}, 3), strict=True)
    assert loaded.hazards == ()


def test_the_probabilities_of_one_row_take_few_instructions() -> None:
    """Two loads, largest, difference, power, sum, quotient, rounding, widening, store; a cast before."""
    text = compiler.compile(one("Softmax", [(1, 1000)], axis=-1), "fp16").text
    issued = re.findall(r"^ +((?:ct|rdma|wdma|td|ne|dte)\.\S+)", text, re.MULTILINE)
    assert len(issued) <= 3 + 11, issued


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
@pytest.mark.parametrize("shape", [(1, 1000), (3, 500)], ids=str)
def test_products_subtract_like_the_vector_engine(shape: tuple[int, ...], dtype: str) -> None:
    """Bit for bit, also infinities and NaN. Where first uses are free, the vector engine subtracts."""
    made, data = one("Softmax", [shape], axis=-1), 7 * draw(*shape)
    rows = data.reshape(-1, shape[-1])
    rows[0, [3, 40]], rows[-1, 9] = -np.inf, 60000
    if len(rows) > 2:
        rows[1, 5], rows[2, 7] = np.inf, np.nan
    free = changed(load_machine(None), "issue", "kind", 0.0)
    by_product, by_vector = (compiler.compile(made, dtype, 4, machine) for machine in (None, free))
    assert ".sub." not in by_product.text and ".sub." in by_vector.text
    found, wanted = (execute(each, {"a": data})[0]["y"] for each in (by_product, by_vector))
    np.testing.assert_array_equal(found, wanted)
    assert np.isnan(found).any() == (len(rows) > 2)


def test_many_rows_stay_in_planes() -> None:
    """There the matrix engine repeats the numbers of all rows at once."""
    assert "ne.gemm" in compiler.compile(one("Softmax", [(512, 100)], axis=-1), "fp16").text


def test_a_plan_with_parts_of_rows_that_do_not_exist(tmp_path: Path) -> None:
    made = one("Softmax", [(1, 1000)], axis=-1)
    cut = {"tiles": {"outer": 1, "axis": 3}, "choices": {"way": "long", "exchange": "ddr"}}
    plan = plan_with_cut(made, "fp32", 16, "single", cut, tmp_path)
    with pytest.raises(
        GraphError, match=r"node 'n0' \(Softmax\) cannot be used: .*does not divide these rows"
    ):
        compile_graph(made, "fp32", plan=plan)


@pytest.mark.parametrize("search", ["off", "fast"])
@pytest.mark.parametrize("shape", [(39, 72), (300, 70), (1, 1000), (4, 8), (3, 5000)], ids=str)
def test_a_nan_reaches_its_row_and_no_other(shape: tuple[int, ...], search: str) -> None:
    data = draw(*shape)
    data[shape[0] // 3, 5] = np.nan
    found = execute(compiler.compile(one("Softmax", [shape], axis=-1), "fp16", 3, search=search), {"a": data})
    wanted = np.broadcast_to(np.isnan(data).any(-1, keepdims=True), shape)
    np.testing.assert_array_equal(np.isnan(found[0]["y"]), wanted)


@pytest.mark.parametrize("number", [-1e10, 1.23456789e12, 3.4e38, np.finfo(np.float32).min])
def test_rows_of_equal_numbers_of_any_size(number: float) -> None:
    """All 24 bits of the largest element are subtracted: no remainder overflows."""
    data = np.full((4, 128), number, np.float32)
    data[1, ::2] = 0.0
    found = execute(compiler.compile(one("Softmax", [(4, 128)], axis=-1), "fp32", 2), {"a": data})[0]["y"]
    wanted = np.exp(data.astype(np.float64) - data.max(-1, keepdims=True))
    np.testing.assert_allclose(found, wanted / wanted.sum(-1, keepdims=True), rtol=2e-6, atol=1e-30)


@pytest.mark.parametrize(("shape", "divided"), [((4, 1000), True), ((512, 1024), False)])
def test_few_elements_are_divided(shape: tuple[int, int], divided: bool) -> None:
    """A division takes longer for an element, but reciprocals and products are another kind of command."""
    program = assert_right(one("Softmax", [shape], axis=-1), "fp16", 4, scale=3.0)
    assert ("ct.div." in program.text) == divided
    assert ("ct.recip." in program.text) != divided
