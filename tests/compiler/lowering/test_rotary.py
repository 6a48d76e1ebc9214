"""Rotary position embedding in one phase, against the binary64 reference."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.evaluation.infer import infer_node
from compiler.graph import Description, Graph, GraphError, Node, Tensor
from compiler.operators.linear.rotary import halves, neighbours
from compiler_harness import assert_right, draw, small_machine

Shape = tuple[int, ...]


def rotary(x: Shape, table: Shape, turn: tuple[int, ...], view: Shape = (), computed: bool = False) -> Graph:
    """``computed``: the tables are inputs."""
    angles = draw(*table, seed=3, scale=2.0)
    tables = {"c": np.cos(angles), "s": np.sin(angles)}
    constants = {} if computed else tables
    given = {"x": x, **(dict.fromkeys(tables, table) if computed else {})}
    inputs = tuple(Tensor(name, "float32", shape) for name, shape in given.items())
    tensors = {tensor.name: tensor for tensor in inputs}
    tensors |= {name: Tensor(name, "float32", table) for name in constants}
    node = Node("Rotary", "n0", ("x", "c", "s"), ("y",), {"turn": turn, "view": view})
    finished = infer_node(Description("test", "test", 20, inputs, (), constants, (node,)), node, tensors)
    return Graph("test", 20, inputs, (tensors["y"],), constants, (finished,), tensors)


@pytest.mark.parametrize("dtype", ["fp32", "tf32", "fp16", "bf16"])
@pytest.mark.parametrize(
    ("x", "table"),
    [
        ((2, 3, 17, 64), (1, 1, 17, 64)),
        ((2, 5, 7, 32), (2, 1, 7, 32)),  # positions of their own for each batch
        ((2, 7, 5, 128), (7, 1, 128)),  # heads behind the positions
        ((40, 80), (40, 80)),
        ((3, 9, 20), (9, 20)),  # neither a plane nor a tail that is stored unchanged
        ((1, 1, 1, 2), (2,)),
    ],
    ids=str,
)
def test_rotary(x: Shape, table: Shape, dtype: str) -> None:
    assert_right(rotary(x, table, halves(x[-1])), dtype, 4)


@pytest.mark.parametrize("tiles", [1, 3, 16])
def test_positions_and_heads_are_dealt(tiles: int) -> None:
    assert_right(rotary((1, 6, 2, 64), (2, 64), neighbours(64)), "fp16", tiles)
    assert_right(rotary((1, 6, 50, 64), (50, 64), neighbours(64)), "fp16", tiles)


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_rows_that_do_not_fit_together(dtype: str) -> None:
    machine = small_machine(0x14000)
    assert_right(rotary((2, 12, 70, 96), (70, 96), halves(96), computed=True), dtype, 3, machine)


def test_rows_of_two_planes_come_and_go_whole() -> None:
    """One run of DDR for each row, not one for each plane of 64 features."""
    text = assert_right(rotary((1, 4, 256, 128), (256, 128), halves(128)), "fp16", 16).text
    runs = [line for line in text.splitlines() if "dma." in line]
    moves = [line for line in text.splitlines() if "td.gatherscatter" in line]
    assert len(runs) == 5 and not any("n=64," in line for line in runs)  # turn, two tables, x and y
    for move in ("dst=p0.cos, src0=p0.cos_rows", "dst=p0.sin, src0=p0.sin_rows", "dst=p0.x, src0=p0.x_rows"):
        assert any(move in line for line in moves)
    assert any("dst=p0.rows, src0=p0.total" in line for line in moves)


def test_heads_in_the_columns_of_one_matrix() -> None:
    """[B, S, H, D] seen as [B, H, S, D], from column 20 on."""
    view = (20, 2, 3, 9, 24, 9 * 100, 24, 100, 1)
    assert_right(rotary((2, 9, 100), (9, 24), halves(24), view), "fp16", 4)


def test_partners() -> None:
    assert halves(6) == (-4, -5, -6, 1, 2, 3)
    assert neighbours(6) == (-2, 1, -4, 3, -6, 5)


@pytest.mark.parametrize(
    ("x", "table", "turn", "view", "text"),
    [
        ((4, 8), (4, 8), (1, 2, 3), (), r"found \[1, 2, 3\] with 8 features"),
        ((4, 8), (4, 8), (*range(1, 8), 9), (), "turn must have"),
        ((4, 8), (4, 8), (*range(0, 8),), (), "turn must have"),
        ((4, 8), (4, 4), halves(8), (), r"\[4, 4\] with \[4, 8\]"),
        ((4, 8), (3, 8), halves(8), (), r"\[3, 8\] with \[4, 8\]"),
        ((4, 8), (4, 8), halves(8), (1, 4, 8, 8, 1), "view"),  # beyond the end
        ((4, 8), (4, 4), halves(4), (0, 4, 4, 8, 2), "view"),  # features apart
    ],
)
def test_what_is_refused(x: Shape, table: Shape, turn: tuple[int, ...], view: Shape, text: str) -> None:
    with pytest.raises(GraphError, match=text):
        rotary(x, table, turn, view)
