"""Constants that move with a state: the tables that contain them, also at points without a graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from compiler.evaluation.sizes.growth import GrowingState
from compiler.evaluation.sizes.windows import with_windows, with_windows_of_tables
from compiler.graph import Graph, Node, Tensor

STATE = GrowingState("past", "present", 1, "past", "new", 30)
POINTS = [(3, 9), (4, 5), (2, 17), (6, 20)]
"""Sizes of ``new`` and ``past``; the last are the largest."""


def graph(array: Any) -> Graph:
    """A graph of one node with a constant."""
    tensors = {
        "c": Tensor("c", array.dtype.name, array.shape),
        "y": Tensor("y", array.dtype.name, array.shape),
    }
    return Graph("g", 20, (), (tensors["y"],), {"c": array}, (Node("Neg", "n", ("c",), ("y",), {}),), tensors)


def windows(make: Any) -> list[Graph]:
    points = [{"new": new, "past": past} for new, past in POINTS]
    return with_windows([graph(make(new, past)) for new, past in POINTS], points, [STATE])


def causal(new: int, past: int) -> Any:
    return np.where(np.arange(past + new) <= past + np.arange(new)[:, None], 0, -1e9).astype(np.float32)


def near(new: int, past: int) -> Any:
    """The last five rows before each row, and the row itself."""
    apart = past + np.arange(new)[:, None] - np.arange(past + new)
    return ((apart >= 0) & (apart < 5))[None]


MAKERS = {
    "causal": causal,
    "near": near,
    "keys first": lambda new, past: causal(new, past).T.copy(),
    "places": lambda new, past: np.arange(past, past + new)[None],
    "halves": lambda new, past: np.arange(past, past + new, dtype=np.float32)[:, None] / 2,
}


@pytest.mark.parametrize("name", MAKERS)
def test_a_slice_takes_the_rows_of_any_step(name: str) -> None:
    make = MAKERS[name]
    found = windows(make)
    for each, (new, past) in zip(found, POINTS, strict=True):
        slice_, neg = each.nodes
        assert (slice_.op, neg.op) == ("Slice", "Neg")
        starts, ends = (each.constants[n] for n in slice_.inputs[1:3])
        taken = tuple(map(slice, starts, ends))
        whole = each.constants[slice_.inputs[0]]
        assert whole[taken].tobytes() == make(new, past).tobytes()
    for new, past in ((2, 1), (5, 3), (6, 11)):  # the whole is right for steps that were not looked at
        begin = np.array([past if size == new else 0 for size in make(new, past).shape])
        taken = tuple(map(slice, begin, begin + make(new, past).shape))
        assert whole[taken].tobytes() == make(new, past).tobytes()


def test_other_constants_are_left_alone() -> None:
    numbers = np.random.default_rng(1).standard_normal((40, 40))
    for make in (
        lambda new, past: numbers[:new, : past + new].copy() + past,
        lambda new, past: np.arange(past, past + new) ** 2,
        lambda new, past: np.arange(past + new),
    ):
        assert all(len(each.nodes) == 1 for each in windows(make))


def test_numbers_that_are_as_far_from_a_length_everywhere() -> None:
    for make in (
        lambda new, past: np.array([past + new - 1]),
        lambda new, past: np.array([past], np.int32),
        lambda new, past: np.array([past + 7]),
    ):
        for each, (new, past) in zip(windows(make), POINTS, strict=True):
            taken = each.nodes[0]
            start, end = (each.constants[name].item() for name in taken.inputs[1:3])
            assert each.constants[taken.inputs[0]][start:end].tobytes() == make(new, past).tobytes()
    for make in (
        lambda new, past: np.array([past - 1]),  # -1 where there is no value yet
        lambda new, past: np.array([2 * past]),
        lambda new, past: np.array([past], np.float32),
    ):
        assert all(len(each.nodes) == 1 for each in windows(make))


# --- tables ----------------------------------------------------------------------------------------------

TABLE = np.random.default_rng(2).standard_normal((30, 2, 3)).astype(np.float32)


def of_table(make: Any, all_rows: Any) -> list[Graph]:
    points = [{"new": new, "past": past} for new, past in POINTS]
    graphs = [graph(make(new, past)) for new, past in POINTS]
    return with_windows_of_tables(graphs, points, [STATE], lambda state: all_rows)


@pytest.mark.parametrize("axis", [0, 1])
def test_rows_of_what_a_step_of_all_rows_has(axis: int) -> None:
    def make(new: int, past: int) -> Any:
        return np.ascontiguousarray(np.moveaxis(TABLE[past : past + new], 0, axis))

    largest = POINTS[-1][0] + POINTS[-1][1]
    found = of_table(make, graph(make(largest, 0)))
    for each, (new, past) in zip(found, POINTS, strict=True):
        taken = each.nodes[0]
        starts, ends = (each.constants[name] for name in taken.inputs[1:3])
        part = each.constants[taken.inputs[0]][tuple(map(slice, starts, ends))]
        assert part.tobytes() == make(new, past).tobytes()


def test_other_tables_are_left_alone() -> None:
    def make(new: int, past: int) -> Any:
        return TABLE[past : past + new]

    assert all(len(each.nodes) == 1 for each in of_table(make, None))
    assert all(len(each.nodes) == 1 for each in of_table(make, graph(TABLE[:20])))
    assert all(len(each.nodes) == 1 for each in of_table(make, graph(TABLE + 1)))
    assert all(len(each.nodes) == 1 for each in of_table(make, graph(TABLE.astype(np.float64))))
