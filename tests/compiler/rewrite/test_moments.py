"""Normalizations from moments, over any axes; sums of squares beyond FP16; operators without effect."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from compiler.passes.compilation import context_of, run_passes
from compiler.rewrite.norms import statistics
from compiler_harness import NodeSpec, assert_right, draw, graph, ints
from rewrite_harness import Shapes, becomes, number, stays

LARGE = 40.0
"""A deviation at which the squares of some fifty values leave FP16 together."""

Constants = Mapping[str, np.ndarray]


def flax(axes: tuple[int, ...], shape: tuple[int, ...]) -> tuple[list[NodeSpec], dict[str, np.ndarray]]:
    """The normalization as JAX writes it: E[x²] - E[x]², the scale times the root, everything reshaped."""
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    count = float(np.prod([shape[axis] for axis in axes]))
    parameters = tuple(size if axis in axes else 1 for axis, size in enumerate(shape))
    nodes: list[NodeSpec] = [
        ("ReduceSum", ["x", "axes"], ["s"], {"keepdims": 0}),
        ("Mul", ["x", "x"], ["q"], {}),
        ("ReduceSum", ["q", "axes"], ["t"], {"keepdims": 0}),
        ("Mul", ["t", "part"], ["second"], {}),
        ("Mul", ["s", "part"], ["mean"], {}),
        ("Mul", ["mean", "mean"], ["first"], {}),
        ("Sub", ["second", "first"], ["difference"], {}),
        ("Max", ["zero", "difference"], ["variance"], {}),
        ("Reshape", ["variance", "kept"], ["kept_variance"], {}),
        ("Add", ["kept_variance", "epsilon"], ["sum"], {}),
        ("Sqrt", ["sum"], ["root"], {}),
        ("Reciprocal", ["root"], ["inverse"], {}),
        ("Mul", ["inverse", "scale"], ["factor"], {}),
        ("Reshape", ["mean", "kept"], ["kept_mean"], {}),
        ("Expand", ["kept_mean", "shape"], ["wide_mean"], {}),
        ("Sub", ["x", "wide_mean"], ["centred"], {}),
        ("Mul", ["centred", "factor"], ["product"], {}),
        ("Add", ["product", "shift"], ["y"], {}),
    ]
    constants = {
        "axes": ints(*axes),
        "kept": ints(*kept),
        "shape": ints(*shape),
        "part": number(1 / count),
        "zero": number(0),
        "epsilon": number(1e-6),
        "scale": draw(*parameters, seed=1),
        "shift": draw(*parameters, seed=2),
    }
    return nodes, constants


def tensorflow(shape: tuple[int, ...]) -> tuple[list[NodeSpec], dict[str, np.ndarray]]:
    """x * s + (shift - mean * s) over the last axis, with s = scale / sqrt(variance + epsilon)."""
    nodes: list[NodeSpec] = [
        ("ReduceMean", ["x", "axes"], ["mean"], {}),
        ("Sub", ["x", "mean"], ["centred"], {}),
        ("Mul", ["centred", "centred"], ["q"], {}),
        ("ReduceMean", ["q", "axes"], ["variance"], {}),
        ("Add", ["variance", "epsilon"], ["sum"], {}),
        ("Sqrt", ["sum"], ["root"], {}),
        ("Reciprocal", ["root"], ["inverse"], {}),
        ("Mul", ["inverse", "scale"], ["s"], {}),
        ("Mul", ["x", "s"], ["product"], {}),
        ("Mul", ["mean", "s"], ["moved"], {}),
        ("Sub", ["shift", "moved"], ["rest"], {}),
        ("Add", ["product", "rest"], ["y"], {}),
    ]
    constants = {"axes": ints(-1), "epsilon": number(1e-3)}
    return nodes, {**constants, "scale": draw(shape[-1], seed=1), "shift": draw(shape[-1], seed=2)}


@pytest.mark.parametrize(
    ("axes", "shape", "wanted"),
    [
        ((2,), (2, 5, 8), ["LayerNormalization"]),
        ((1,), (2, 8, 5), ["Transpose", "LayerNormalization", "Transpose"]),
        ((1, 2), (2, 5, 8), ["LayerNormalization"]),
        ((0, 2), (4, 5, 8), ["Transpose", "LayerNormalization", "Transpose"]),
        ((1,), (1, 8), ["LayerNormalization"]),
    ],
)
def test_what_jax_writes(axes: tuple[int, ...], shape: tuple[int, ...], wanted: list[str]) -> None:
    nodes, constants = flax(axes, shape)
    becomes(nodes, {"x": shape}, constants, wanted)


def test_what_tensorflow_writes() -> None:
    nodes, constants = tensorflow((3, 8))
    becomes(nodes, {"x": (3, 8)}, constants, ["LayerNormalization"])
    without = [node for node in nodes if node[1] != ["inverse", "scale"]]
    without = [(op, ["inverse" if name == "s" else name for name in a], b, {}) for op, a, b, _ in without]
    becomes(without, {"x": (3, 8)}, constants, ["LayerNormalization"])


def test_channels_of_an_image() -> None:
    nodes: list[NodeSpec] = [
        ("ReduceMean", ["x", "axes"], ["m"], {}),
        ("Sub", ["x", "m"], ["d"], {}),
        ("Pow", ["d", "two"], ["q"], {}),
        ("ReduceMean", ["q", "axes"], ["v"], {}),
        ("Add", ["v", "epsilon"], ["w"], {}),
        ("Sqrt", ["w"], ["r"], {}),
        ("Div", ["d", "r"], ["y"], {}),
    ]
    constants = {"axes": ints(1), "two": number(2), "epsilon": number(1e-5)}
    becomes(nodes, {"x": (2, 6, 4, 4)}, constants, ["Transpose", "LayerNormalization", "Transpose"])


@pytest.mark.parametrize(
    "changes",
    [
        {"part": number(1 / 9)},  # no mean
        {"zero": number(0.5)},  # a variance that is limited
        {"kept": ints(2, 8, 1), "scale": draw(1, 8, 1), "shift": draw(1, 8, 1)},  # along another axis
        {"scale": draw(8, 1), "shift": draw(8, 1), "axes": ints(-1)},  # a scale for each row
    ],
)
def test_what_is_no_such_normalization(changes: Constants) -> None:
    """Whatever it becomes, it computes the same, and has no normalization that is scaled."""
    nodes, constants = flax((2,), (2, 8, 8))
    before = graph(nodes, {"x": (2, 8, 8)}, {**constants, **changes})
    from compiler.rewrite import rewrite_graph
    from rewrite_harness import assert_same

    after = rewrite_graph(before)
    assert_same(before, after)
    assert "LayerNormalization" not in [node.op for node in after.nodes]


@pytest.mark.parametrize("axes", [(1,), (2,)])
def test_squares_that_leave_fp16(axes: tuple[int, ...]) -> None:
    nodes, constants = flax(axes, (1, 64, 96))
    made = graph(nodes, {"x": (1, 64, 96)}, constants)
    assert_right(made, "fp16", inputs={"x": draw(1, 64, 96, scale=LARGE)})


LENGTHS: list[NodeSpec] = [
    ("Mul", ["x", "x"], ["q"], {}),
    ("ReduceSum", ["q", "axes"], ["t"], {"keepdims": 1}),
    ("Add", ["t", "epsilon"], ["w"], {}),
    ("Sqrt", ["w"], ["r"], {}),
    ("Div", ["x", "r"], ["y"], {}),
]
"""Vectors divided by their lengths, which no rewrite knows."""


def test_sums_of_squares_that_no_operator_hides_compute_in_fp32() -> None:
    constants = {"axes": ints(1), "epsilon": number(1e-3)}
    made = graph(LENGTHS, {"x": (8, 256)}, constants)
    assert statistics(made) == {"n0", "n1", "n2", "n3"}
    assert_right(made, "fp16", inputs={"x": draw(8, 256, scale=LARGE)})
    length = graph([("ReduceL2", ["x", "axes"], ["y"], {})], {"x": (8, 256)}, {"axes": ints(1)})
    assert_right(length, "fp16", inputs={"x": draw(8, 256, scale=LARGE)})


def test_the_mean_beside_the_squares_computes_in_fp32_too() -> None:
    nodes, constants = flax((2,), (2, 8, 8))
    exact = statistics(graph(nodes, {"x": (2, 8, 8)}, constants))
    assert exact == {f"n{at}" for at in range(12)}  # not a broadcast back to all elements


def test_sums_without_squares_compute_in_the_given_format() -> None:
    nodes: list[NodeSpec] = [
        ("ReduceMean", ["x", "axes"], ["m"], {}),
        ("Sigmoid", ["m"], ["g"], {}),
        ("Mul", ["x", "g"], ["y"], {}),
    ]
    made = graph(nodes, {"x": (2, 8, 8)}, {"axes": ints(2)})
    assert statistics(made) == frozenset()
    context = context_of(made, "fp16", None, None, "default", "off", None, "on")
    run_passes(context, {}, None)
    assert context.graph.precise == frozenset()


# --- what has no effect ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("node", "constants"),
    [
        (("Expand", ["r", "s"], ["y"], {}), {"s": ints(3, 8)}),
        (("Expand", ["r", "s"], ["y"], {}), {"s": ints(1, 8)}),
        (("Slice", ["r", "s", "e"], ["y"], {}), {"s": ints(0, 0), "e": ints(99, 99)}),
        (
            ("Slice", ["r", "s", "e", "a", "t"], ["y"], {}),
            {"s": ints(0), "e": ints(8), "a": ints(1), "t": ints(1)},
        ),
        (("Max", ["low", "r"], ["y"], {}), {"low": number(-np.inf)}),
        (("Min", ["r", "high"], ["y"], {}), {"high": number(np.inf)}),
    ],
)
def test_what_changes_nothing_is_dropped(node: NodeSpec, constants: Constants) -> None:
    becomes([("Relu", ["x"], ["r"], {}), node], {"x": (3, 8)}, constants, ["Relu", "Identity"])


@pytest.mark.parametrize(
    ("node", "constants"),
    [
        (("Expand", ["r", "s"], ["y"], {}), {"s": ints(2, 3, 8)}),
        (
            ("Slice", ["r", "s", "e", "a", "t"], ["y"], {}),
            {"s": ints(-1), "e": ints(-9), "a": ints(1), "t": ints(-1)},
        ),
        (("Max", ["low", "r"], ["y"], {}), {"low": number(np.inf)}),
        (("Min", ["r", "high"], ["y"], {}), {"high": number(3)}),
    ],
)
def test_what_changes_something_stays(node: NodeSpec, constants: Constants) -> None:
    stays([("Relu", ["x"], ["r"], {}), node], {"x": (3, 8)}, constants)


@pytest.mark.parametrize(
    ("shape", "first", "between", "second", "wanted"),
    [
        ((1, 4, 6), (0, 2, 1), (1, 6, 4, 1), (0, 2, 1, 3), ["Reshape"]),
        ((2, 4, 6), (0, 2, 1), (2, 1, 6, 4), (3, 1, 2, 0), ["Transpose", "Reshape"]),
        ((2, 4, 6), (1, 0, 2), (4, 2, 1, 6), (1, 2, 0, 3), ["Reshape"]),
        ((2, 4, 6), (1, 0, 2), (4, 12), (1, 0), ["Transpose", "Reshape", "Transpose"]),
    ],
)
def test_transposes_around_axes_of_one(
    shape: tuple[int, ...],
    first: tuple[int, ...],
    between: tuple[int, ...],
    second: tuple[int, ...],
    wanted: list[str],
) -> None:
    nodes: list[NodeSpec] = [
        ("Transpose", ["x"], ["a"], {"perm": first}),
        ("Reshape", ["a", "s"], ["b"], {}),
        ("Transpose", ["b"], ["y"], {"perm": second}),
    ]
    becomes(nodes, {"x": shape}, {"s": ints(*between)}, wanted)


def softmax(axis: int, shape: tuple[int, ...], limited: bool) -> tuple[list[NodeSpec], Shapes, Constants]:
    """A softmax with dropped axes, reshaped and repeated."""
    kept = tuple(1 if at == axis else size for at, size in enumerate(shape))
    nodes: list[NodeSpec] = [
        ("ReduceMax", ["x", "axis"], ["m"], {"keepdims": 0}),
        *([("Max", ["low", "m"], ["n"], {})] if limited else []),
        ("Reshape", ["n" if limited else "m", "kept"], ["k"], {}),
        ("Sub", ["x", "k"], ["d"], {}),
        ("Exp", ["d"], ["e"], {}),
        ("ReduceSum", ["e", "axis"], ["s"], {"keepdims": 0}),
        ("Reshape", ["s", "kept"], ["t"], {}),
        ("Expand", ["t", "kept"], ["u"], {}),
        ("Div", ["e", "u"], ["y"], {}),
    ]
    constants = {"axis": ints(axis), "kept": ints(*kept), "low": number(-np.inf)}
    return nodes, {"x": shape}, constants if limited else {k: v for k, v in constants.items() if k != "low"}


@pytest.mark.parametrize("limited", [False, True])
@pytest.mark.parametrize(("axis", "shape"), [(1, (3, 8)), (2, (2, 3, 8)), (1, (2, 8, 3))])
def test_a_softmax_with_dropped_axes(axis: int, shape: tuple[int, ...], limited: bool) -> None:
    becomes(*softmax(axis, shape, limited), ["Softmax"])


def test_sums_along_another_axis_are_no_softmax() -> None:
    nodes, shapes, constants = softmax(1, (8, 8), False)
    made = {**constants, "kept": ints(1, 8)}
    after = becomes(
        nodes, shapes, made, ["ReduceMax", "Reshape", "Sub", "Exp", "ReduceSum", "Reshape", "Div"]
    )
    assert len(after.nodes) == 7
