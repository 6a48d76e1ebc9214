"""Softmax of rows that stay rows in the scratchpad."""

from __future__ import annotations

import re
from pathlib import Path

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


def test_rows_far_from_zero() -> None:
    """Only differences count, also where numbers have few bits left behind the point."""
    data = np.round(draw(6, 128) * 4) + np.array([[0], [1e3], [-1e5], [3e5], [-1e-3], [1e6]])
    assert_right(one("Softmax", [(6, 128)], axis=-1), "fp32", 2, inputs={"a": data.astype(np.float32)})


def test_masked_elements_and_masked_rows() -> None:
    """What is minus infinity has no weight; a row of the lowest numbers has equal weights."""
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
    """Odd lengths: nothing behind a row is read, which --strict would tell."""
    made = one("Softmax", [shape], axis=-1)
    program = assert_right(made, dtype, scale=3.0)
    loaded = emulator.Program(read_image(write_image(program.image), "prog.bin"), program.machine)
    loaded.run(random_inputs(made, {}, 3), strict=True)
    assert loaded.hazards == ()


def test_the_probabilities_of_one_row_take_few_instructions() -> None:
    """Load, widen, largest, difference, power, sum, reciprocal, product, rounding, store; a cast before."""
    text = compiler.compile(one("Softmax", [(1, 1000)], axis=-1), "fp16").text
    issued = re.findall(r"^ +((?:ct|rdma|wdma|td|ne|dte)\.\S+)", text, re.MULTILINE)
    assert len(issued) <= 3 + 11, issued


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
