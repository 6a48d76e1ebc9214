"""Stacks along a new last axis, transposes of parts, slices between transposes; numbers that FP16 makes 0."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.rewrite import rewrite_graph
from compiler.rewrite.norms import small_numbers
from compiler_harness import NodeSpec, assert_right, draw, graph, ints
from rewrite_harness import becomes, number, ops, stays
from tx8isa.numbers.formats import Format

PAIR = {"x": (3, 5, 1), "z": (3, 5, 1)}
STACK: NodeSpec = ("Concat", ["x", "z"], ["c"], {"axis": -1})


def test_a_stack_along_the_last_axis() -> None:
    wanted = ["Reshape", "Reshape", "Concat", "Transpose"]
    becomes([STACK], PAIR, {}, wanted, outputs=("c",))
    three: NodeSpec = ("Concat", ["x", "z", "x"], ["c"], {"axis": 2})
    becomes([three], PAIR, {}, ["Reshape", *wanted], outputs=("c",))


def test_the_new_axis_is_put_first() -> None:
    nodes: list[NodeSpec] = [STACK, ("Transpose", ["c"], ["y"], {"perm": (2, 0, 1)})]
    becomes(nodes, PAIR, {}, ["Reshape", "Reshape", "Concat", "Identity"])


@pytest.mark.parametrize("keywords", [{}, {"axes": ints(1, 2), "steps": ints(2, 1)}, {"axes": ints(-2, -1)}])
def test_a_slice_between_is_taken_before(keywords: dict[str, np.ndarray]) -> None:
    at = ints(1, 0) if keywords else ints(0, 1, 0)
    until = ints(5, 2) if keywords else ints(3, 4, 2)
    nodes: list[NodeSpec] = [
        STACK,
        ("Slice", ["c", "at", "until", *keywords], ["s"], {}),
        ("Transpose", ["s"], ["y"], {"perm": (2, 0, 1)}),
    ]
    constants = {"at": at, "until": until, **keywords}
    becomes(nodes, PAIR, constants, ["Reshape", "Reshape", "Concat", "Slice", "Identity"])


def test_a_concat_of_transposes() -> None:
    nodes: list[NodeSpec] = [
        ("Transpose", ["x"], ["a"], {"perm": (1, 0, 2)}),
        ("Transpose", ["z"], ["b"], {"perm": (1, 0, 2)}),
        ("Concat", ["a", "b"], ["y"], {"axis": 1}),
    ]
    after = becomes(nodes, {"x": (3, 5, 4), "z": (2, 5, 4)}, {}, ["Concat", "Transpose"])
    assert after.nodes[0].attrs["axis"] == 0


@pytest.mark.parametrize(
    ("nodes", "shapes", "outputs"),
    [
        ([("Concat", ["x", "z"], ["y"], {"axis": 1})], PAIR, ("y",)),  # not the last axis
        ([("Concat", ["x", "z"], ["y"], {"axis": 1})], {"x": (3, 1), "z": (3, 2)}, ("y",)),
        ([("Concat", ["x", "z"], ["y"], {"axis": 1})], {"x": (1, 1), "z": (1, 1)}, ("y",)),
        (
            [
                ("Transpose", ["x"], ["a"], {"perm": (1, 0, 2)}),
                ("Transpose", ["z"], ["b"], {"perm": (2, 0, 1)}),  # others move
                ("Concat", ["a", "b"], ["y"], {"axis": 0}),
            ],
            {"x": (3, 5, 4), "z": (3, 4, 2)},
            ("y",),
        ),
        (
            [
                ("Transpose", ["x"], ["a"], {"perm": (1, 0, 2)}),
                ("Transpose", ["z"], ["b"], {"perm": (1, 0, 2)}),
                ("Concat", ["a", "b"], ["y"], {"axis": 1}),
            ],
            {"x": (3, 5, 4), "z": (2, 5, 4)},
            ("y", "a"),  # one is used
        ),
    ],
)
def test_what_stays(
    nodes: list[NodeSpec], shapes: dict[str, tuple[int, ...]], outputs: tuple[str, ...]
) -> None:
    stays(nodes, shapes, {}, outputs=outputs)


def test_a_stack_of_planes_on_the_chip() -> None:
    """TensorFlow writes them so: channels last, followed by a convolution."""
    nodes: list[NodeSpec] = [
        ("Concat", ["a", "b", "c"], ["s"], {"axis": 3}),
        ("Slice", ["s", "at", "until", "axes"], ["t"], {}),
        ("Transpose", ["t"], ["i"], {"perm": (0, 3, 1, 2)}),
        ("Conv", ["i", "w"], ["y"], {}),
    ]
    constants = {"at": ints(1), "until": ints(7), "axes": ints(2), "w": draw(4, 3, 1, 1)}
    made = graph(nodes, dict.fromkeys("abc", (1, 6, 9, 1)), constants)
    assert "Transpose" not in ops(rewrite_graph(made))
    assert_right(made, "fp16")


LOUDNESS: list[NodeSpec] = [
    ("Mul", ["x", "x"], ["q"], {}),
    ("Add", ["q", "least"], ["s"], {}),
    ("Log", ["s"], ["l"], {}),
    ("Mul", ["l", "ten"], ["y"], {}),
]


def test_a_logarithm_whose_least_operand_fp16_does_not_have() -> None:
    """FP16 would make 6e-8 of 1e-10, and 0 of the squares, so silence would be 28 dB louder."""
    made = graph(LOUDNESS, {"x": (64,)}, {"least": number(1e-10), "ten": number(10 / np.log(10))})
    assert small_numbers(made, Format.FP16) == {"n0", "n1", "n2"}
    assert small_numbers(made, Format.BF16) == small_numbers(made, Format.FP32) == frozenset()
    x = np.geomspace(1e-3, 1, 64).astype(np.float32)
    x[::4] = 0
    import compiler
    from compiler.tools.run import check

    outcome = check(compiler.compile(made, "fp16"), {"x": x})
    assert outcome.ok, outcome.verdicts
    assert not outcome.judgements["y"].rounding.ok  # the error that FP16 alone would cause


def test_what_else_uses_the_data_computes_in_the_given_format() -> None:
    nodes: list[NodeSpec] = [*LOUDNESS[:3], ("Add", ["l", "q"], ["y"], {})]
    made = graph(nodes, {"x": (64,)}, {"least": number(1e-10)})
    assert small_numbers(made, Format.FP16) == {"n1", "n2"}
    larger = graph(nodes, {"x": (64,)}, {"least": number(1e-5)})
    zero = graph(nodes, {"x": (64,)}, {"least": number(0)})
    factor = graph([("Mul", ["x", "least"], ["y"], {})], {"x": (64,)}, {"least": number(1e-10)})
    assert [small_numbers(other, Format.FP16) for other in (larger, zero, factor)] == [frozenset()] * 3
