"""Softmax of rows that stay rows in the scratchpad."""

from __future__ import annotations

import re

import numpy as np
import pytest

import compiler
from compiler.tools.run import execute
from compiler_harness import assert_right, draw, one, small_machine


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
