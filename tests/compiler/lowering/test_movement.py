"""Operators that only move values: in fp32 they must be exact."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

from compiler.driver import compile_graph
from compiler.tools.run import execute
from compiler_harness import NodeSpec, assert_right, draw, graph, ints, one, small_machine

Shape = tuple[int, ...]


@pytest.mark.parametrize("perm", list(itertools.permutations(range(3))))
def test_permutations_of_three_axes(perm: Shape) -> None:
    assert_right(one("Transpose", [(5, 6, 7)], perm=perm), "fp32")


@pytest.mark.parametrize(
    ("shape", "perm"),
    [
        ((2, 5, 6, 7), (0, 2, 3, 1)),
        ((2, 3, 4, 5, 6), (4, 2, 0, 3, 1)),
        ((2, 3, 2, 3, 2), (4, 3, 1, 2, 0)),
        ((70, 130), (1, 0)),
        ((9,), (0,)),
    ],
)
@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
def test_transpose(shape: Shape, perm: Shape, dtype: str) -> None:
    assert_right(one("Transpose", [shape], perm=perm), dtype)


@pytest.mark.parametrize(("columns", "reordered"), [(2048, True), (64, False)])
def test_a_transpose_reads_long_lines(columns: int, reordered: bool) -> None:
    """Lines of several planes of the engine are one run each."""
    text = assert_right(one("Transpose", [(512, columns)], perm=(1, 0)), "fp16", 16).text
    assert ("td.gatherscatter" in text) == reordered


@pytest.mark.parametrize("dtype", ["fp16", "fp32", "bf16"])
@pytest.mark.parametrize("shape", [(512, 1024), (512, 1000), (576, 1030), (2, 640, 1024)])
def test_a_transpose_writes_long_lines(shape: Shape, dtype: str) -> None:
    """Several pieces of 128 bytes that the engine transposes become one part of a line."""
    perm = (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)
    text = assert_right(one("Transpose", [shape], perm=perm), dtype, 16, search="off").text
    stores = re.findall(r"wdma.*src=p\d+.(lines|converted)\w*, n=(\d+)", text)
    assert stores and all(int(n) >= 128 for _, n in stores)


def test_a_transpose_of_few_lines_writes_each_piece() -> None:
    assert "p0.planes" not in assert_right(one("Transpose", [(64, 1024)], perm=(1, 0)), "fp16", 16).text


def test_a_transpose_of_more_than_the_scratchpad_holds() -> None:
    assert_right(one("Transpose", [(301, 203)], perm=(1, 0)), "fp32", 3, small_machine())


def test_slices_with_steps() -> None:
    constants = {"s": ints(1, 2), "e": ints(8, 11), "axes": ints(0, 2), "steps": ints(2, 3)}
    assert_right(one("Slice", [(9, 10, 11)], constants), "fp32")


def test_slices_with_negative_bounds() -> None:
    constants = {"s": ints(-5, -100), "e": ints(-1, 100), "axes": ints(-1, 0)}
    assert_right(one("Slice", [(9, 10, 11)], constants), "fp16")


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_concat(axis: int) -> None:
    shapes = [(3, 4, 5)] * 3
    shapes[1] = tuple(2 if i == axis % 3 else size for i, size in enumerate(shapes[1]))
    assert_right(one("Concat", shapes, axis=axis), "fp32")


def test_concat_of_one_operand_twice_and_a_constant() -> None:
    node = ("Concat", ["x", "k", "x"], ["y"], {"axis": 1})
    assert_right(graph([node], {"x": (3, 4)}, {"k": draw(3, 2)}), "fp32")


@pytest.mark.parametrize(
    "pads", [(1, 0, 2, 1, 1, 3), (0, 0, 0, 0, 0, 0), (1, 0, 2, -1, 1, 3), (-1, -2, 0, 0, 1, -1)]
)
def test_pad(pads: Shape) -> None:
    assert_right(one("Pad", [(3, 4, 5)], {"p": ints(*pads), "v": np.array(1.5, np.float32)}), "fp32")


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_pad_with_what_a_format_does_not_reach(dtype: str) -> None:
    """The lowest FP32 number becomes the lowest of the format, minus infinity stays."""
    for value in (np.finfo(np.float32).min, -np.inf):
        constants = {"p": ints(1, 0, 0, 1), "v": np.array(value, np.float32)}
        assert_right(one("Pad", [(3, 4)], constants), dtype)


def test_pad_with_zero_and_chosen_axes() -> None:
    node = ("Pad", ["x", "p", "", "axes"], ["y"], {})
    assert_right(graph([node], {"x": (3, 4, 5)}, {"p": ints(2, 1), "axes": ints(-1)}), "fp16")


@pytest.mark.parametrize(
    ("op", "constants", "attrs"),
    [("Reshape", {"s": ints(5, -1)}, {}), ("Flatten", {}, {"axis": 2}), ("Identity", {}, {})],
)
def test_other_shapes_of_the_same_bytes(
    op: str, constants: dict[str, np.ndarray], attrs: dict[str, int]
) -> None:
    """As a graph output it is a copy, between operators it costs nothing."""
    assert_right(one(op, [(3, 4, 5)], constants, **attrs), "fp32")
    nodes = [("Exp", ["x"], ["e"], {}), (op, ["e", *constants], ["f"], attrs), ("Relu", ["f"], ["y"], {})]
    program = assert_right(graph(nodes, {"x": (3, 4, 5)}, constants), "fp32")
    assert program.text.count(".node") == (1 if op == "Identity" else 2), "an Identity is not even there"


def test_scalars() -> None:
    assert_right(graph([("Identity", ["x"], ["y"], {})], {"x": ()}), "fp32")


def test_a_border_of_int64_is_exact() -> None:
    """binary64 does not hold 2^53 + 1."""
    number = 2**53 + 1
    constants = {"p": ints(1, 0, 0, 2), "v": np.array(number, np.int64)}
    made = graph([("Pad", ["x", "p", "v"], ["y"], {})], {"x": (2, 3)}, constants, dtype="int64")
    x = np.arange(6, dtype=np.int64).reshape(2, 3) - number
    got = execute(compile_graph(made, "fp32"), {"x": x})[0]["y"]
    np.testing.assert_array_equal(got, np.pad(x, ((1, 0), (0, 2)), constant_values=number))


def test_a_range_of_int64_is_exact() -> None:
    number = 2**53 + 1
    constants = {"s": np.array(number), "e": np.array(number + 9), "d": np.array(4)}
    nodes: list[NodeSpec] = [("Range", ["s", "e", "d"], ["r"], {}), ("Add", ["r", "x"], ["y"], {})]
    made = graph(nodes, {"x": (3,)}, constants, dtype="int64")
    got = execute(compile_graph(made, "fp32"), {"x": np.array([0, 1, -1])})[0]["y"]
    assert got.tolist() == [number, number + 5, number + 7]
