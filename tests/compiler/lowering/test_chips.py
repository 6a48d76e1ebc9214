"""Exchanges between chips against NumPy: moves exactly, sums in the order that is documented."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from chip_nets import exchange, exchanged, pair_sum, ring_sum, small_chips
from compiler.graph import Array, Graph, GraphError, Node, Tensor
from compiler.lowering.movement.chips.routes import LinkPrice
from compiler.operators.domains.chips.collectives import (
    ALL_GATHER,
    ALL_REDUCE,
    BROADCAST,
    PART,
    REDUCE_SCATTER,
    SEND,
    WAYS,
    doubles,
)
from compiler.operators.record import resolve
from compiler.passes.compilation import context_of, run_passes, written
from emulator.program import Program
from time_bench import warm
from tx8isa.machine.description import load_machine
from tx8isa.numbers.division import ceil_div, round_up


def drawn(count: int, shape: tuple[int, ...], dtype: str = "float32") -> list[Array]:
    rng = np.random.default_rng(7)
    return [rng.standard_normal(shape).astype(dtype) for _ in range(count)]


LONG = pytest.mark.long


@pytest.mark.parametrize(
    ("mesh", "ring", "shape", "dtype", "way"),
    [
        ((2, 1), (0, 1), (100, 70), "float32", "ring"),
        ((3, 1), (2, 0, 1), (3, 17, 65), "float16", "dual"),
        ((3, 1), (2, 0, 1), (3, 17, 65), "float16", "direct"),
        pytest.param((2, 1), (0, 1), (100, 70), "float32", "dual", marks=LONG),
        pytest.param((2, 1), (0, 1), (100, 70), "float32", "direct", marks=LONG),
        pytest.param((2, 2), (0, 2, 3, 1), (100, 70), "float32", "ring", marks=LONG),
        pytest.param((2, 2), (0, 2, 3, 1), (100, 70), "float32", "dual", marks=LONG),
        pytest.param((2, 2), (0, 2, 3, 1), (100, 70), "float32", "direct", marks=LONG),
        pytest.param((3, 1), (0, 1, 2), (5,), "float32", "ring", marks=LONG),
        pytest.param((4, 2), (0, 2, 4, 6, 7, 5, 3, 1), (99, 31), "float32", "dual", marks=LONG),
        pytest.param((4, 2), (0, 2, 4, 6, 7, 5, 3, 1), (99, 31), "float32", "direct", marks=LONG),
        ((2, 1), (0, 1), (5, 70), "float16", "doubling"),
        ((2, 2), (0, 2, 3, 1), (3, 17, 65), "float16", "tree"),
        pytest.param((2, 2), (0, 2, 3, 1), (100, 70), "float32", "doubling", marks=LONG),
        pytest.param((4, 2), (0, 2, 4, 6, 7, 5, 3, 1), (99, 31), "float32", "tree", marks=LONG),
        pytest.param((4, 2), (0, 2, 4, 6, 7, 5, 3, 1), (5,), "float32", "doubling", marks=LONG),
    ],
)
def test_all_reduce(
    mesh: tuple[int, int], ring: tuple[int, ...], shape: tuple[int, ...], dtype: str, way: str
) -> None:
    graph = exchange(ALL_REDUCE, shape, dtype, chips=ring, members=len(ring), way=way)
    parts = drawn(len(ring), shape, dtype)
    token = {"float32": "fp32", "float16": "fp16"}[dtype]
    found = exchanged(graph, load_machine(None).of_chips(*mesh), parts, token)
    wanted = summed(parts, ring, way)
    assert all(np.array_equal(each, wanted) for each in found)


def summed(parts: list[Array], ring: tuple[int, ...], way: str) -> Array:
    """The sum in the order of docs/exchanges.md; pairs are neighbours by number, as on two rows."""
    return pair_sum(parts) if way in ("tree", "doubling") else ring_sum(parts, ring, dual=way == "dual")


@LONG
@pytest.mark.parametrize("way", WAYS)
def test_all_reduce_in_several_blocks(way: str) -> None:
    chips, shape = 4 if way in ("tree", "doubling") else 3, (16 * 9000 + 77,)
    ring, parts = tuple(range(chips)), drawn(chips, shape)
    graph = exchange(ALL_REDUCE, shape, chips=ring, members=chips, way=way)
    found = exchanged(graph, small_chips(chips, 1), parts)
    assert all(np.array_equal(each, summed(parts, ring, way)) for each in found)


def columns_summed(parts: list[Array], column: int) -> Array:
    """On a tree of 3 x 2 chips: sums of columns, beginning with the member's own sum, then those before
    it."""
    sums = [parts[2 * each] + parts[2 * each + 1] for each in range(3)]
    return sums[column] + sums[column - 1] + sums[column - 2]


@LONG
def test_a_tree_of_columns_of_two() -> None:
    ring, shape = (0, 2, 4, 5, 3, 1), (6 * 64 + 5,)
    parts = drawn(6, shape)
    graph = exchange(ALL_REDUCE, shape, chips=ring, members=6, way="tree")
    found = exchanged(graph, load_machine(None).of_chips(3, 2), parts)
    for place, chip in enumerate(ring):
        chunk = slice(128 * place, 128 * (place + 1))
        wanted = columns_summed(parts, chip // 2)[chunk]
        assert all(np.array_equal(each[chunk], wanted) for each in found)


def test_reduce_scatter_on_a_tree_of_columns_of_two() -> None:
    ring, shape = (0, 2, 4, 5, 3, 1), (5, 12, 7)
    parts = drawn(6, shape)
    graph = exchange(REDUCE_SCATTER, shape, chips=ring, members=6, axis=1, way="tree")
    found = exchanged(graph, load_machine(None).of_chips(3, 2), parts)
    for place, chip in enumerate(ring):
        assert np.array_equal(found[chip], np.split(columns_summed(parts, chip // 2), 6, 1)[place])


def test_trees_side_by_side() -> None:
    """Both groups have the members of a column; the second one numbers its ring in the opposite direction."""
    parts = drawn(4, (33, 40))
    graph = exchange(ALL_REDUCE, (33, 40), chips=(0, 1, 3, 2), members=2, way="doubling")
    found = exchanged(graph, load_machine(None).of_chips(2, 2), parts)
    for group in ((0, 1), (2, 3)):
        assert all(np.array_equal(found[chip], parts[group[0]] + parts[group[1]]) for chip in group)


@pytest.mark.parametrize(("members", "found"), [(2, None), (3, "3 members"), (4, None), (6, "6 members")])
def test_pairs_are_for_powers_of_two(members: int, found: str | None) -> None:
    attrs = {"chips": tuple(range(members)), "members": members, "way": "doubling"}
    node, x = Node(ALL_REDUCE, "n", ("x",), ("y",), attrs), Tensor("x", "float32", (8,))
    assert doubles.check(resolve(node, 20, {"x": x}, {}, 1)) == found


@pytest.mark.parametrize(
    ("shape", "axis", "small", "way"),
    [
        ((3, 5, 7), 1, False, "direct"),
        ((70, 900), -1, True, "dual"),
        ((9,), 0, False, "ring"),
        ((3, 5, 7), 1, False, "tree"),
        pytest.param((70, 900), 1, True, "tree", marks=LONG),
        pytest.param((2, 2, 700), 1, False, "dual", marks=LONG),
        pytest.param((70, 900), -1, True, "ring", marks=LONG),
        pytest.param((70, 900), -1, True, "direct", marks=LONG),
        pytest.param((9,), 0, False, "dual", marks=LONG),
    ],
)
def test_all_gather(shape: tuple[int, ...], axis: int, small: bool, way: str) -> None:
    ring = (0, 2, 1, 3) if way == "tree" else (0, 2, 1)
    graph = exchange(ALL_GATHER, shape, chips=ring, members=len(ring), axis=axis, way=way)
    machine = small_chips(len(ring), 1) if small else load_machine(None).of_chips(len(ring), 1)
    parts = drawn(len(ring), shape)
    wanted = np.concatenate([parts[chip] for chip in ring], axis)
    assert all(np.array_equal(each, wanted) for each in exchanged(graph, machine, parts))


@pytest.mark.long
def test_an_all_gather_gives_fp32_of_shorter_operands() -> None:
    ring, shape = (0, 2, 1), (1, 2, 700)
    parts = drawn(3, shape)
    graph = exchange(ALL_GATHER, shape, chips=ring, members=3, axis=1, way="dual")
    found = exchanged(graph, load_machine(None).of_chips(3, 1), parts, "fp16")
    wanted = np.concatenate([parts[chip].astype(np.float16) for chip in ring], 1).astype(np.float32)
    assert all(np.array_equal(each, wanted) for each in found)


@pytest.mark.long
@pytest.mark.parametrize(
    ("shape", "axis", "way"),
    [
        ((3, 6, 7), 1, "dual"),
        ((1, 6, 700), 1, "dual"),  # a row, which tiles divide into parts
        pytest.param((3, 6, 7), 1, "direct", marks=LONG),
        pytest.param((30, 99), -1, "ring", marks=LONG),
        pytest.param((31, 99), -1, "dual", marks=LONG),
        pytest.param((1, 99), -1, "dual", marks=LONG),
    ],
)
def test_reduce_scatter(shape: tuple[int, ...], axis: int, way: str) -> None:
    ring = (0, 1, 2)
    graph = exchange(REDUCE_SCATTER, shape, chips=ring, members=3, axis=axis, way=way)
    parts = drawn(3, shape)
    found = exchanged(graph, load_machine(None).of_chips(3, 1), parts)
    cut = [np.split(parts[chip], 3, axis) for chip in ring]
    outer = int(np.prod(shape[: axis % len(shape)]))
    width = int(np.prod(shape)) // outer // 3
    for place, chip in enumerate(ring):
        sums = []
        for step in (1, -1):
            total = cut[(place + step) % 3][place]
            for after in (2, 3):
                total = total + cut[(place + step * after) % 3][place]
            sums.append(total.reshape(outer, -1))
        up = np.ones((outer, width), bool)
        if way == "dual" and outer < 16:
            up[:, min(round_up(ceil_div(width, 2), 64), width) :] = False
        elif way == "dual":
            up[ceil_div(outer, 2) :] = False
        wanted = np.where(up, *sums)
        assert np.array_equal(found[chip].reshape(outer, -1), wanted)


def test_parts_of_what_all_have() -> None:
    ring, shape = (0, 2, 1), (2, 6, 70)
    parts = drawn(3, shape)
    found = exchanged(
        exchange(PART, shape, chips=ring, members=3, axis=1), load_machine(None).of_chips(3, 1), parts
    )
    for place, chip in enumerate(ring):
        assert np.array_equal(found[chip], np.split(parts[chip], 3, 1)[place])


@pytest.mark.parametrize(
    "dtype", ["int64", pytest.param("bool", marks=LONG), pytest.param("uint8", marks=LONG)]
)
def test_parts_of_what_is_no_float(dtype: str) -> None:
    numbers = np.arange(3 * 4 * 5).reshape(3, 4, 5)
    parts = [(numbers % (5 + chip)).astype(dtype) for chip in range(2)]
    graph = exchange(PART, (3, 4, 5), dtype, chips=(1, 0), members=2, axis=1)
    found = exchanged(graph, load_machine(None).of_chips(2, 1), parts)
    for place, chip in enumerate((1, 0)):
        assert np.array_equal(found[chip], np.split(parts[chip], 2, 1)[place])


def test_every_chip_has_its_part_of_a_constant() -> None:
    """The constant is the same on all chips, so folding would give all the same part."""
    whole, shape = drawn(1, (2, 6, 5))[0], (2, 3, 5)
    tensors = {"c": Tensor("c", "float32", whole.shape), "x": Tensor("x", "float32", shape)}
    tensors |= {name: Tensor(name, "float32", shape) for name in ("part", "y")}
    nodes = (
        Node(PART, "part", ("c",), ("part",), {"chips": (0, 1), "members": 2, "axis": 1}),
        Node("Add", "sum", ("x", "part"), ("y",), {}),
    )
    made = Graph("test", 20, (tensors["x"],), (tensors["y"],), {"c": whole}, nodes, tensors)
    inputs = drawn(2, shape)
    found = exchanged(made, load_machine(None).of_chips(2, 1), inputs)
    for chip, half in enumerate(np.split(whole, 2, 1)):
        assert np.array_equal(found[chip], inputs[chip] + half)


@pytest.mark.long
@pytest.mark.parametrize("shape", [(100, 70), pytest.param((5,), marks=LONG)])
def test_broadcast(shape: tuple[int, ...]) -> None:
    ring = (2, 1, 0)
    graph = exchange(BROADCAST, shape, chips=ring, members=3)
    parts = drawn(3, shape)
    found = exchanged(graph, load_machine(None).of_chips(3, 1), parts)
    assert all(np.array_equal(each, parts[2]) for each in found)


@LONG
@pytest.mark.parametrize("way", WAYS)
def test_prices_are_near_simulated_time(way: str) -> None:
    """The time of a second all-reduce, without cold lines of code; the first one includes the start."""
    machine, ring, size = warm(load_machine(None).of_chips(2, 2)), (0, 2, 3, 1), 1 << 16
    cycles = []
    for count in (1, 2):
        names = ["x", "sum", "y"] if count == 2 else ["x", "y"]
        tensors = {name: Tensor(name, "float32", (size // 4,)) for name in names}
        attrs = {"chips": ring, "members": 4, "way": way}
        nodes = tuple(Node(ALL_REDUCE, f"to_{to}", (of,), (to,), attrs) for of, to in pairwise(names))
        made = Graph("sums", 20, (tensors["x"],), (tensors["y"],), {}, nodes, tensors)
        context = context_of(made, "fp32", None, machine, search="off", spread=True)
        mesh = Program(written(context, run_passes(context, {}, None))[2], machine).start_chips(
            {"x": np.ones(size // 4, np.float32)}
        )
        mesh.run()
        cycles.append(mesh.cycles)
    price = LinkPrice(machine, ALL_REDUCE, (ring,), size, 16).cycles(way)
    assert abs(price / (cycles[1] - cycles[0]) - 1) < 0.12


def test_a_program_for_several_chips_needs_to_know_how_they_share() -> None:
    graph = exchange(ALL_REDUCE, (8,), chips=(0, 1), members=2)
    with pytest.raises(GraphError, match="has 2 chips: --parallel says how they share the work"):
        context_of(graph, "fp32", None, load_machine(None).of_chips(2, 1))


@pytest.mark.parametrize(
    ("shape", "inbox", "message"),
    [
        ((64,), 512, "node 'n': inbox 512 of a stage: expected at most 256 values between two stages"),
        ((1 << 19, 65), 0, "node 'n' sends 136,314,880 bytes, expected at most 134,217,728: use more parts"),
    ],
)
def test_what_has_no_room_in_an_inbox_is_refused(shape: tuple[int, ...], inbox: int, message: str) -> None:
    attrs = {"channel": 0, "full": 0, "background": 0}
    made = exchange(SEND, shape, chips=(0, 1), members=2, inbox=inbox, **attrs)
    with pytest.raises(GraphError, match=message):
        run_passes(context_of(made, "fp32", None, load_machine(None).of_chips(2, 1), spread=True), {}, None)
