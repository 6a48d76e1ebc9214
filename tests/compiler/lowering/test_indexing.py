"""Rows gathered and scattered by computed indices, the largest elements of rows: against NumPy and Python.

Indices that are out of range stop the program.
"""

from __future__ import annotations

import numpy as np
import pytest

import compiler
from compiler.evaluation.infer import build_graph
from compiler.graph import Array, Description, Graph, Node, Tensor
from compiler.tools.run import RunFault, execute
from compiler_harness import assert_right, one, small_machine
from tx8isa.machine.description import Machine

Shape = tuple[int, ...]


def indexed(op: str, data: Shape, indices: Array, updates: Shape | None, dtype: str, **attrs: int) -> Graph:
    """x [, u] and the computed indices i."""
    tensors = [Tensor("x", dtype, data), Tensor("i", "int64", indices.shape)]
    names = ["x", "i"]
    if updates is not None:
        tensors.append(Tensor("u", dtype, updates))
        names.append("u")
    node = Node(op, "embed", tuple(names), ("y",), dict(attrs))
    return build_graph(Description("test", "test", 20, tuple(tensors), ("y",), {}, (node,)))


def check(
    op: str,
    data: Shape,
    indices: Array,
    updates: Shape | None = None,
    dtype: str = "float32",
    compute: str = "fp32",
    tiles: int = 4,
    machine: Machine | None = None,
    **attrs: int,
) -> str:
    """Compile, run and compare; returns the text of the program."""
    made, generator = indexed(op, data, indices, updates, dtype, **attrs), np.random.default_rng(1)
    given = {"i": indices}
    for tensor in made.inputs:
        if tensor.name != "i":
            values = generator.integers(0, 100, tensor.shape) - 50 * (dtype != "uint8")
            given[tensor.name] = values.astype(dtype)
    return assert_right(made, compute, tiles, machine, given).text


def drawn(size: int, *shape: int) -> Array:
    """Indices into an axis, from its end as well."""
    return np.random.default_rng(2).integers(-size, size, shape)


@pytest.mark.parametrize(
    ("data", "axis", "shape"),
    [
        ((50, 33), 0, (2, 7)),
        ((50, 33), 0, ()),
        ((40, 5, 9), 1, (3,)),
        ((6, 50, 1), 1, (30,)),
        ((30, 50), -1, (11,)),
        ((3, 7, 2, 20), 1, (2, 2)),
    ],
)
@pytest.mark.parametrize("compute", ["fp32", "bf16"])
def test_rows_are_gathered_along_every_axis(data: Shape, axis: int, shape: Shape, compute: str) -> None:
    check("Gather", data, drawn(data[axis], *shape), compute=compute, axis=axis)


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "int8"])
def test_rows_of_integers(dtype: str) -> None:
    check("Gather", (20, 70), drawn(20, 9), dtype=dtype)
    check("ScatterND", (20, 70), drawn(20, 9, 1), (9, 70), dtype=dtype)


@pytest.mark.parametrize("tiles", [1, 3, 16])
def test_rows_that_do_not_fit_together(tiles: int) -> None:
    """More rows, more pieces, longer rows than the scratchpad holds."""
    machine = small_machine()
    check("Gather", (9, 40), drawn(9, 700), tiles=tiles, machine=machine)
    check("Gather", (900, 6, 12), drawn(6, 5), tiles=tiles, machine=machine, axis=1)
    check("Gather", (5, 9001), drawn(5, 3), tiles=tiles, machine=machine)
    check("ScatterND", (9, 3001), drawn(9, 12, 1), (12, 3001), tiles=tiles, machine=machine)


def pairs(a: int, b: int, *shape: int) -> Array:
    return np.stack([drawn(a, *shape), drawn(b, *shape)[::-1]], -1)


@pytest.mark.parametrize("inner", [40, 3], ids=["rows", "elements"])
def test_slices_that_several_indices_name(inner: int) -> None:
    check("GatherND", (5, 6, inner), pairs(5, 6, 7))
    check("GatherND", (3, 5, 6, inner), pairs(5, 6, 3, 4), batch_dims=1)
    check("ScatterND", (5, 6, inner), pairs(5, 6, 7), (7, inner))


def test_of_two_rows_for_one_place_the_last_stays() -> None:
    indices = np.array([[3], [1], [3], [-2], [3]])
    text = check("ScatterND", (5, 300), indices, (5, 300), tiles=16)
    assert "wdma" in text.partition("ncc.barrier")[2]


def test_the_core_moves_no_element_of_a_long_row() -> None:
    assert " sw " not in check("Gather", (50, 64), drawn(50, 7))
    assert " sw " in check("Gather", (50, 2), drawn(50, 7)), "two elements are not worth an instruction"


@pytest.mark.parametrize(
    ("op", "indices", "updates"),
    [
        ("Gather", [2, 5], None),
        ("Gather", [-6, 0], None),
        ("GatherND", [[4, 3]], None),
        ("GatherND", [[-6, 0]], None),
        ("ScatterND", [[0], [5]], (2, 3, 32)),
    ],
)
def test_an_index_out_of_range_stops_the_program(
    op: str, indices: list[object], updates: Shape | None
) -> None:
    """It says where."""
    wrong = np.array(indices, np.int64)
    made = indexed(op, (5, 3, 32), wrong, updates, "float32")
    inputs = {tensor.name: np.zeros(tensor.shape, np.float32) for tensor in made.inputs}
    with pytest.raises(RunFault, match=r"node 'embed'\): ebreak"):
        execute(compiler.compile(made, "fp32", 4), {**inputs, "i": wrong})


def test_the_first_and_the_last_index_are_in_range() -> None:
    check("Gather", (5, 32), np.array([-5, 4, -1, 0]))


SPECIAL = [-0.0, 0.0, 1.0, -1.0, 2**-24, -(2**-24), np.inf, -np.inf, np.nan]
"""Numbers that a row of few others has often: equal ones, zeros of both signs, subnormal ones."""


def special(*shape: int) -> Array:
    """Rows of special numbers; one row has nothing but NaN and -inf, another one nothing but zeros."""
    rng = np.random.default_rng(7)
    x = rng.choice(np.array(SPECIAL), shape).astype(np.float32)
    x[0], x[-1] = rng.choice([np.nan, -np.inf], x[0].shape), rng.choice([-0.0, 0.0], x[-1].shape)
    return x


def ranked(x: Array, count: int, largest: int, last: int = 0) -> Array:
    """Indices along the last axis; a NaN counts as the infinity that comes last."""
    rows = []
    for row in x.reshape(-1, x.shape[-1]).tolist():
        sign = -1 if largest else 1
        keys = [np.inf if value != value else sign * value for value in row]
        order = sorted(range(len(row)), key=lambda at: (keys[at], -at if last else at))
        rows.append(order[:count])
    return np.array(rows).reshape(*x.shape[:-1], count)


def top(shape: Shape, count: int, dtype: str = "float32", **attrs: int) -> Graph:
    """Both results of a TopK."""
    node = Node("TopK", "top", ("x", "k"), ("v", "i"), attrs)
    known = {"k": np.array([count], np.int64)}
    return build_graph(
        Description("test", "test", 20, (Tensor("x", dtype, shape),), ("v", "i"), known, (node,))
    )


@pytest.mark.parametrize(
    ("compute", "shape", "count", "axis", "tiles", "engine"),
    [
        ("fp16", (5, 60), 7, -1, 2, True),
        ("bf16", (2, 3, 32), 32, 2, 3, True),
        ("fp32", (1, 1023), 3, 1, 16, True),
        ("tf32", (40, 60), 2, 1, 16, True),
        ("fp16", (9, 30), 3, 1, 2, False),
        ("fp32", (17, 3), 4, 0, 2, False),
    ],
)
@pytest.mark.parametrize("largest", [1, 0])
def test_both_results_of_topk(
    compute: str, shape: Shape, count: int, axis: int, tiles: int, engine: bool, largest: int
) -> None:
    """NaN, infinities, equal elements, zeros of both signs, subnormal numbers; k is the whole length."""
    x = special(*shape)
    program = compiler.compile(top(shape, count, axis=axis, largest=largest), compute, tiles)
    assert ("ct.arg" in program.text) == engine
    found = execute(program, {"x": x})[0]
    places = np.moveaxis(ranked(np.moveaxis(x, axis, -1), count, largest), -1, axis)
    np.testing.assert_array_equal(found["i"], places)
    np.testing.assert_array_equal(found["v"], np.take_along_axis(x, places, axis))


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize(
    "attrs", [{"axis": 1}, {"axis": -1, "keepdims": 0}, {"axis": 1, "select_last_index": 1}]
)
def test_the_first_or_the_last_extreme_of_each_row(op: str, attrs: dict[str, int]) -> None:
    x = special(50, 100)
    program = compiler.compile(one(op, [x.shape], **attrs), "fp16", 3)
    last = attrs.get("select_last_index", 0)
    assert ("ct.arg" in program.text) == (not last), "the engine finds the first one"
    found = execute(program, {"a": x})[0]["y"]
    wanted = ranked(x, 1, op == "ArgMax", last)
    np.testing.assert_array_equal(found, wanted if attrs.get("keepdims", 1) else wanted[:, 0])


@pytest.mark.parametrize("tiles", [1, 5])
def test_rows_for_the_scratchpad(tiles: int) -> None:
    """Slices that are loaded while others are searched, in 32 KiB; and a row that is too long."""
    machine = small_machine()
    program = assert_right(top((11, 3000), 2), "fp16", tiles, machine)
    assert "worker=1" in program.text and "ct.argmax" in program.text
    program = assert_right(one("ArgMax", [(2, 9000)], axis=1), "fp16", tiles, machine)
    assert "ct.argmax" not in program.text


@pytest.mark.parametrize("dtype", ["int32", "uint8"])
def test_integers_are_ranked_by_the_core(dtype: str) -> None:
    assert "ct.arg" not in assert_right(top((3, 40), 2, dtype), "fp16", 2).text
