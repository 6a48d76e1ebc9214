"""Exchanges between chips against NumPy: moves exactly, sums in the order that is documented."""

from __future__ import annotations

import numpy as np
import pytest

from chip_nets import exchange, exchanged, ring_sum, small_chips
from compiler.graph import Array, GraphError
from compiler.operators.domains.chips.collectives import ALL_GATHER, ALL_REDUCE, BROADCAST, REDUCE_SCATTER
from compiler.passes.compilation import context_of
from tx8isa.machine.description import load_machine


def drawn(count: int, shape: tuple[int, ...], dtype: str = "float32") -> list[Array]:
    rng = np.random.default_rng(7)
    return [rng.standard_normal(shape).astype(dtype) for _ in range(count)]


LONG = pytest.mark.long


@pytest.mark.parametrize(
    ("mesh", "ring", "shape", "dtype"),
    [
        ((2, 1), (0, 1), (100, 70), "float32"),
        ((3, 1), (2, 0, 1), (3, 17, 65), "float16"),
        pytest.param((2, 2), (0, 2, 3, 1), (100, 70), "float32", marks=LONG),
        pytest.param((3, 1), (0, 1, 2), (5,), "float32", marks=LONG),
    ],
)
def test_all_reduce(mesh: tuple[int, int], ring: tuple[int, ...], shape: tuple[int, ...], dtype: str) -> None:
    graph = exchange(ALL_REDUCE, shape, dtype, chips=ring, members=len(ring))
    parts = drawn(len(ring), shape, dtype)
    token = {"float32": "fp32", "float16": "fp16"}[dtype]
    found = exchanged(graph, load_machine(None).of_chips(*mesh), parts, token)
    wanted = ring_sum(parts, ring)
    assert all(np.array_equal(each, wanted) for each in found)


@LONG
def test_all_reduce_in_several_blocks() -> None:
    ring, shape = (0, 1), (16 * 9000 + 77,)
    parts = drawn(2, shape)
    found = exchanged(exchange(ALL_REDUCE, shape, chips=ring, members=2), small_chips(2, 1), parts)
    assert all(np.array_equal(each, ring_sum(parts, ring)) for each in found)


@LONG
def test_groups_side_by_side() -> None:
    parts = drawn(4, (33, 40))
    graph = exchange(ALL_REDUCE, (33, 40), chips=(0, 2, 3, 1), members=2)
    found = exchanged(graph, load_machine(None).of_chips(2, 2), parts)
    for group in ((0, 2), (3, 1)):
        assert all(np.array_equal(found[chip], ring_sum(parts, group)) for chip in group)


@pytest.mark.parametrize(
    ("shape", "axis", "small"), [((3, 5, 7), 1, False), ((70, 900), -1, True), ((9,), 0, False)]
)
def test_all_gather(shape: tuple[int, ...], axis: int, small: bool) -> None:
    ring = (0, 2, 1)
    graph = exchange(ALL_GATHER, shape, chips=ring, members=3, axis=axis)
    machine = small_chips(3, 1) if small else load_machine(None).of_chips(3, 1)
    parts = drawn(3, shape)
    wanted = np.concatenate([parts[chip] for chip in ring], axis)
    assert all(np.array_equal(each, wanted) for each in exchanged(graph, machine, parts))


@pytest.mark.parametrize(("shape", "axis"), [((3, 6, 7), 1), pytest.param((30, 99), -1, marks=LONG)])
def test_reduce_scatter(shape: tuple[int, ...], axis: int) -> None:
    ring = (0, 1, 2)
    graph = exchange(REDUCE_SCATTER, shape, chips=ring, members=3, axis=axis)
    parts = drawn(3, shape)
    found = exchanged(graph, load_machine(None).of_chips(3, 1), parts)
    cut = [np.split(parts[chip], 3, axis) for chip in ring]
    for place, chip in enumerate(ring):
        total = cut[(place + 1) % 3][place]
        for after in (2, 3):
            total = total + cut[(place + after) % 3][place]
        assert np.array_equal(found[chip], total)


@pytest.mark.parametrize("shape", [(100, 70), pytest.param((5,), marks=LONG)])
def test_broadcast(shape: tuple[int, ...]) -> None:
    ring = (2, 1, 0)
    graph = exchange(BROADCAST, shape, chips=ring, members=3)
    parts = drawn(3, shape)
    found = exchanged(graph, load_machine(None).of_chips(3, 1), parts)
    assert all(np.array_equal(each, parts[2]) for each in found)


def test_a_program_for_several_chips_needs_to_know_how_they_share() -> None:
    graph = exchange(ALL_REDUCE, (8,), chips=(0, 1), members=2)
    with pytest.raises(GraphError, match="has 2 chips: --parallel says how they share the work"):
        context_of(graph, "fp32", None, load_machine(None).of_chips(2, 1))
