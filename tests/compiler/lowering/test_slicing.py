"""Results do not depend on the cut of the work."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import compiler
from compiler.codegen.slices.tensors import DdrTensor, View, collapse, plan_slabs, stretches, whole
from compiler.operators.expansion.expander import expand_graph
from compiler.tools import run
from compiler_harness import assert_right, draw, graph, ints, one, small_machine
from tx8isa.numbers.formats import Format

#: Size of an axis, and an operand that has 1 instead: the left one, the right one, or neither.
AXES = st.tuples(st.integers(1, 6), st.booleans(), st.booleans())
PAIR = st.tuples(st.integers(1, 3), st.integers(1, 3))

CASES = {
    "Conv": one("Conv", [(2, 20, 17, 13)], {"w": draw(70, 20, 3, 3), "b": draw(70)}, pads=(1, 1, 1, 1)),
    "MatMul": one("MatMul", [(3, 37, 200), (200, 90)]),
    "Softmax": one("Softmax", [(37, 50)]),
    "Add": one("Add", [(37, 1, 29), (11, 1)]),
    "MaxPool": one("MaxPool", [(2, 70, 12, 9)], kernel_shape=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1)),
    "BatchNormalization": one("BatchNormalization", [(2, 70, 9, 5)], {n: draw(70) ** 2 + 1 for n in "pqrs"}),
    "ReduceMax": one("ReduceMax", [(9, 40, 7)], {"axes": ints(0, 2)}),
}


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_bits_do_not_depend_on_tiles_and_scratchpad(name: str) -> None:
    made = CASES[name]
    inputs = run.random_inputs(made, {}, 1)
    expected = run.execute(compiler.compile(made, "fp16", 16), inputs)[0]["y"]
    # In less than this the input channels of the Conv are added up in blocks: in another order.
    smallest = small_machine(0x10000) if name == "Conv" else small_machine()
    for tiles, machine in ((1, None), (3, None), (16, small_machine(0x10000)), (5, smallest)):
        got = run.execute(compiler.compile(made, "fp16", tiles, machine), inputs)[0]["y"]
        assert np.array_equal(got.view(np.uint32), expected.view(np.uint32)), f"{tiles} tiles"


@pytest.mark.parametrize("name", CASES)
def test_bits_do_not_depend_on_the_order_of_the_queues(name: str) -> None:
    """Parallel queues and one queue in program order agree, as they must for a program without races."""
    import emulator
    from asm.image import read_image, write_image

    program = compiler.compile(CASES[name], "fp16", 4, small_machine())
    inputs = run.random_inputs(program.graph, {}, 1)
    loaded = emulator.Program(read_image(write_image(program.image), "prog.bin"), program.machine)
    parallel, serial = loaded.run(inputs, threads=2)["y"], loaded.run(inputs, serial=True)["y"]
    assert np.array_equal(parallel, serial)


@settings(max_examples=12)
@given(
    st.integers(1, 2),
    st.integers(1, 70),
    st.integers(1, 70),
    st.tuples(st.integers(1, 9), st.integers(1, 9)),
    PAIR,
    PAIR,
    st.tuples(*[st.integers(0, 2)] * 4),
    st.integers(1, 16),
)
def test_any_convolution(
    batch: int,
    channels: int,
    maps: int,
    image: tuple[int, int],
    kernel: tuple[int, int],
    strides: tuple[int, int],
    pads: tuple[int, int, int, int],
    tiles: int,
) -> None:
    kernel = (min(kernel[0], image[0]), min(kernel[1], image[1]))
    fitting = tuple(min(pad, kernel[i % 2] - 1) for i, pad in enumerate(pads))
    weights = {"w": draw(maps, channels, *kernel), "b": draw(maps)}
    made = one("Conv", [(batch, channels, *image)], weights, strides=strides, pads=fitting)
    assert_right(made, "fp16", tiles, small_machine(0x20000))


@pytest.mark.long
@settings(max_examples=12)
@given(st.integers(1, 3), st.integers(1, 150), st.integers(1, 150), st.integers(1, 150), st.integers(1, 16))
def test_any_matrix_product(batch: int, m: int, k: int, n: int, tiles: int) -> None:
    assert_right(one("MatMul", [(batch, m, k), (k, n)]), "fp32", tiles, small_machine(0x10000))


@settings(max_examples=12)
@given(
    st.lists(st.tuples(st.integers(1, 6), st.booleans(), st.booleans()), min_size=1, max_size=5),
    st.integers(1, 16),
)
def test_any_broadcast(axes: list[tuple[int, bool, bool]], tiles: int) -> None:
    a = tuple(1 if left else size for size, left, _ in axes)
    b = tuple(1 if right else size for size, _, right in axes)
    assert_right(one("Sub", [a, b]), "fp32", tiles)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=5), st.integers(1, 3000), st.integers(1, 16))
def test_slabs_cover_the_space_and_respect_the_capacity(sizes: list[int], capacity: int, tiles: int) -> None:
    plan = plan_slabs(tuple(sizes), capacity, tiles)
    assert plan.elements <= capacity
    assert plan.depth <= 3
    covered = plan.outer * min(plan.blocks * plan.rows, sizes[-plan.depth]) * plan.inner
    assert covered == np.prod(sizes)
    assert (plan.blocks - 1) * plan.rows < sizes[-plan.depth]
    missing = plan.blocks * plan.rows - sizes[-plan.depth]
    assert missing < plan.blocks * (64 if plan.inner == 1 else 1), "the last slab is as long as the others"


@given(st.lists(st.integers(1, 4), min_size=1, max_size=5), st.randoms())
def test_merged_axes_walk_the_same_elements(sizes: list[int], random: object) -> None:
    shape = tuple(sizes)
    order = list(range(len(shape)))
    random.shuffle(order)  # type: ignore[attr-defined]
    tensor = DdrTensor("x", Format.FP32, tuple(shape[axis] for axis in order))
    view = View(tensor, tuple(tensor.strides[order.index(axis)] for axis in range(len(shape))))
    target = DdrTensor("y", Format.FP32, shape)
    space = collapse(shape, (view, whole(target)))
    for before, after in zip((view, whole(target)), space.views, strict=True):
        walked = [np.dot(index, before.strides) for index in np.ndindex(*shape)]
        assert walked == [np.dot(index, after.strides) for index in np.ndindex(*space.sizes)]


@given(st.integers(1, 1000), st.integers(1, 300))
def test_stretches_cover_a_dimension_once(extent: int, size: int) -> None:
    covered = [
        i
        for s in stretches(extent, size)
        for b in range(s.count)
        for i in range(s.start + b * s.size, s.start + (b + 1) * s.size)
    ]
    assert covered == list(range(extent))


def weights_before_loop(batch: int, tiles: int) -> bool:
    """Return True if the code of a convolution loads its weights before its loop over slices."""
    made = graph([("Conv", ["x", "w"], ["y"], {})], {"x": (batch, 3, 9, 9)}, {"w": draw(8, 3, 3, 3)})
    lines = compiler.compile(made, "fp32", tiles).text.splitlines()
    (load,) = (i for i, line in enumerate(lines) if re.search(r"rdma.*src=p\d\.weights,", line))
    (loop,) = (i for i, line in enumerate(lines) if line == f"{re.findall(r'p[0-9]', lines[load])[0]}.loop0:")
    return load < loop


def test_weights_are_loaded_once_per_tile_when_every_tile_has_work() -> None:
    assert weights_before_loop(batch=4, tiles=2)


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
def test_a_long_row_is_padded_without_moving_it_element_by_element(mode: str) -> None:
    """Only the padding is gathered; the row itself is copied."""
    made = graph([("Pad", ["x", "p"], ["y"], {"mode": mode})], {"x": (2, 400)}, {"p": ints(0, 60, 0, 50)})
    expanded = expand_graph(made)
    assert "Slice" in [node.op for node in expanded.nodes]
    gathered = [expanded.constants[node.inputs[1]].size for node in expanded.nodes if node.op == "Gather"]
    assert sum(gathered) <= 110
    assert_right(made, "fp16")


def test_many_short_runs_are_gathered_at_once() -> None:
    """A mirrored row that is shorter than its padding."""
    made = graph([("Pad", ["x", "p"], ["y"], {"mode": "reflect"})], {"x": (2, 9)}, {"p": ints(0, 8, 0, 8)})
    assert [node.op for node in expand_graph(made).nodes].count("Gather") == 1
    assert_right(made, "fp16")
