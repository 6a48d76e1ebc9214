"""Normalized groups, repeated positions and inserted zeros on the emulated chip, in different cuts.

The reference of the operators is held against NumPy here.
"""

from __future__ import annotations

import numpy as np
import pytest

import compiler
from compiler.evaluation.reference import run_reference
from compiler.evaluation.storage import STORAGE
from compiler.graph import Array, Graph, GraphError
from compiler.operators.expansion.expander import expand_graph
from compiler.rewrite import rewrite_graph
from compiler.tools import run
from compiler_harness import Attrs, NodeSpec, assert_right, draw, graph, one, small_machine
from tx8isa.numbers.rounding import rounded

SHAPES = [
    ((1, 64, 8, 8), 8),
    ((1, 12, 40), 12),  # each channel by itself
    ((1, 64, 5, 7), 1),  # all of them together
    ((2, 20, 3, 7), 5),  # a narrow plane
    ((1, 260, 3, 5), 130),  # more groups than a plane has lanes
    ((20, 8, 3, 3), 4),  # more images than tiles
    ((1, 100, 2, 3, 4), 50),
]


def normalized(shape: tuple[int, ...], groups: int, steps: bool = False) -> Graph:
    """GroupNormalization, with or without an epilogue."""
    channels = shape[1]
    constants = {"s": draw(channels, seed=1), "b": draw(channels, seed=2)}
    nodes: list[NodeSpec] = [
        ("GroupNormalization", ["x", "s", "b"], ["n" if steps else "y"], {"num_groups": groups})
    ]
    if steps:
        nodes += [
            ("Sigmoid", ["n"], ["g"], {}),
            ("Mul", ["n", "g"], ["h"], {}),
            ("Add", ["h", "r"], ["y"], {}),
        ]
    inputs = {"x": shape, "r": shape} if steps else {"x": shape}
    return graph(nodes, inputs, constants, opset=21)


def expected(x: Array, groups: int, scale: Array, shift: Array) -> Array:
    """By the formula of the specification, channel by channel."""
    result = np.empty(x.shape)
    size = x.shape[1] // groups
    for image in range(x.shape[0]):
        for channel in range(x.shape[1]):
            first = channel // size * size
            group = x[image, first : first + size].astype(np.float64)
            even = (x[image, channel] - group.mean()) / np.sqrt(group.var() + 1e-5)
            result[image, channel] = even * scale[channel] + shift[channel]
    return result


@pytest.mark.long
@pytest.mark.parametrize(("shape", "groups"), SHAPES)
def test_groups_of_channels(shape: tuple[int, ...], groups: int) -> None:
    made = normalized(shape, groups)
    x = draw(*shape, seed=3) * 2 + 3
    wanted = expected(x, groups, made.constants["s"], made.constants["b"])
    np.testing.assert_allclose(run_reference(made, {"x": x})["y"], wanted, rtol=1e-9, atol=1e-9)
    for dtype, tiles in (("fp32", 16), ("fp16", 16), ("bf16", 3), ("fp32", 1)):
        program = assert_right(made, dtype, tiles, inputs={"x": x})
    outputs, _ = run.execute(program, {"x": x})
    np.testing.assert_allclose(outputs["y"], wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["fp16", "fp32"])
@pytest.mark.parametrize("tiles", [1, 16])
@pytest.mark.parametrize(("shape", "groups"), [((1, 64, 24, 24), 8), ((3, 20, 17, 19), 20)])
def test_slices_and_steps(shape: tuple[int, ...], groups: int, tiles: int, dtype: str) -> None:
    """A small scratchpad: a tile's shard is loaded for each iteration, in slices with a tail."""
    made = normalized(shape, groups, steps=True)
    assert_right(made, dtype, tiles, small_machine(), scale=3.0)


def test_a_large_mean_is_taken_away_first() -> None:
    """In FP32, a variance from sums of squares would lose all digits here."""
    made = normalized((1, 8, 8, 8), 4)
    x = draw(1, 8, 8, 8) + 3000
    outputs, _ = run.execute(compiler.compile(made, "fp32"), {"x": x})
    wanted = expected(x, 4, made.constants["s"], made.constants["b"])
    np.testing.assert_allclose(outputs["y"], wanted, rtol=2e-3, atol=2e-3)


def test_parameters_that_are_computed() -> None:
    made = one("InstanceNormalization", [(2, 6, 5, 5), (6,), (6,)], epsilon=0.25)
    for dtype in ("fp32", "fp16"):
        assert_right(made, dtype)


def test_the_result_is_the_same_every_time() -> None:
    made, x = normalized((1, 64, 8, 8), 8), {"x": draw(1, 64, 8, 8)}
    program = compiler.compile(made, "fp16")
    first, second = (run.execute(program, x, threads)[0]["y"] for threads in (1, 2))
    assert first.tobytes() == second.tobytes()


def test_more_channels_than_a_row_of_sums() -> None:
    made = normalized((1, 4098, 2, 2), 2)
    assert_right(made, "fp32")


# --- repeated positions ----------------------------------------------------------------------------------


def upsampled(shape: tuple[int, ...], factors: tuple[float, ...], **attrs: str) -> Graph:
    scales = np.array([1, 1, *factors], np.float32)
    nodes: list[NodeSpec] = [("Resize", ["x", "", "scales"], ["y"], {"mode": "nearest", **attrs})]
    return graph(nodes, {"x": shape}, {"scales": scales})


REPEATED = [((1, 64, 5, 7), (2, 2)), ((2, 20, 3, 5), (2, 3)), ((1, 130, 4, 9), (3, 1)), ((2, 3, 10), (4,))]


def parts(made: Graph) -> list[str]:
    """The operators of a graph after all expansions."""
    return [node.op for node in expand_graph(rewrite_graph(made)).nodes]


@pytest.mark.parametrize("mode", ["half_pixel", "asymmetric"])
@pytest.mark.parametrize(("shape", "factors"), REPEATED)
def test_positions_several_times(shape: tuple[int, ...], factors: tuple[int, ...], mode: str) -> None:
    rounding = "floor" if mode == "asymmetric" else "round_prefer_floor"
    made = upsampled(shape, factors, coordinate_transformation_mode=mode, nearest_mode=rounding)
    assert "Repeat" in parts(made)
    x = draw(*shape)
    wanted: Array = x
    for axis, factor in enumerate(factors, 2):
        wanted = np.repeat(wanted, factor, axis)
    for machine, dtype, tiles in ((None, "fp32", 16), (small_machine(), "fp32", 2), (None, "bf16", 1)):
        program = compiler.compile(made, dtype, tiles, machine)
        found = run.execute(program, {"x": x})[0]["y"]
        np.testing.assert_array_equal(found, rounded(wanted, STORAGE[dtype]).astype(np.float64))


@pytest.mark.parametrize(
    ("shape", "factors", "attrs"),
    [
        ((1, 3, 4, 6), (1.5, 2), {}),
        ((1, 3, 4, 6), (2, 0.5), {}),
        ((1, 3, 4), (65,), {}),  # more than one instruction writes
        ((1, 3, 4, 6), (3, 3), {"nearest_mode": "ceil"}),
        ((1, 3, 2, 2, 2), (2, 2, 2), {}),
    ],
)
def test_other_choices_of_positions(
    shape: tuple[int, ...], factors: tuple[float, ...], attrs: dict[str, str]
) -> None:
    made = upsampled(shape, factors, **attrs)
    assert "Repeat" not in parts(made)
    assert_right(made, "fp32")


@pytest.mark.parametrize(
    ("shape", "kernel", "attrs"),
    [
        ((1, 64, 5, 7), (2, 2), {"strides": (2, 2)}),
        ((2, 20, 3, 5), (3, 2), {"strides": (2, 3), "pads": (1, 0, 2, 1), "output_padding": (1, 0)}),
        ((1, 130, 4, 5), (1, 1), {"strides": (3, 2)}),
        ((2, 3, 10), (4,), {"strides": (4,), "pads": (1, 2)}),
    ],
)
def test_zeros_between_positions(shape: tuple[int, ...], kernel: tuple[int, ...], attrs: Attrs) -> None:
    """A transposed convolution is one of an image with zeros between its positions."""
    weights = {"w": draw(shape[1], 9, *kernel, scale=0.25)}
    made = graph([("ConvTranspose", ["x", "w"], ["y"], attrs)], {"x": shape}, weights)
    assert "InsertZeros" in parts(made)
    for machine, dtype, tiles in ((None, "fp32", 16), (small_machine(), "fp32", 2), (None, "bf16", 1)):
        assert_right(made, dtype, tiles, machine)


def test_zeros_are_inserted_without_a_phase_in_the_order_of_the_specification() -> None:
    weights = {"w": draw(16, 16, 2, 2), "v": draw(16, 16, 3, 3)}
    nodes: list[NodeSpec] = [
        ("Conv", ["x", "v"], ["a"], {"pads": (1, 1, 1, 1)}),
        ("ConvTranspose", ["a", "w"], ["y"], {"strides": (2, 2)}),
    ]
    program = compiler.compile(graph(nodes, {"x": (1, 16, 8, 8)}, weights), "fp16")
    assert program.report is not None
    found = [member.operator for phase in program.report.phases for member in phase.members]
    norm = "tx8be.channel_norm"
    assert found == [norm, "Conv", "InsertZeros", "Conv", norm]


def test_more_zeros_than_one_instruction_writes() -> None:
    weights = {"w": draw(2, 2, 3, scale=0.5)}
    made = graph([("ConvTranspose", ["x", "w"], ["y"], {"strides": (65,)})], {"x": (1, 2, 3)}, weights)
    assert "InsertZeros" not in parts(made)
    assert_right(made, "fp32")


def test_integers_are_not_repeated_by_the_engines() -> None:
    nodes: list[NodeSpec] = [("Resize", ["x", "", "scales"], ["y"], {"mode": "nearest"})]
    made = graph(nodes, {"x": (1, 2, 3, 3)}, {"scales": np.array([1, 1, 2, 2], np.float32)}, dtype="int32")
    assert "Repeat" not in parts(made)
    assert_right(made, "fp32")


def test_groups_must_divide_the_channels() -> None:
    with pytest.raises(GraphError, match="7 channels, 2 groups"):
        normalized((1, 7, 3, 3), 2)
