"""KnownFloats as bytes in exact arithmetic, the mean error that they leave, and factors per channel."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from compiler.evaluation.host_run import HostRun
from compiler.graph import Array, Graph
from compiler.quantise.places import KnownFloats
from compiler.quantise.scaling import Scaling
from compiler.quantise.weights import byte_weights, mean_error
from float_nets import float_graph, mlp, samples, small_cnn


def drawn(*shape: int, seed: int = 3) -> Array:
    return np.asarray(np.random.default_rng(seed).standard_normal(shape), np.float32)


@pytest.mark.parametrize(("shape", "axis"), [((6, 4, 3, 3), 0), ((5, 7), 1), ((5, 7), 0), ((3, 2, 5), 0)])
def test_each_channel_reaches_to_127(shape: tuple[int, ...], axis: int) -> None:
    values = drawn(*shape)
    made = byte_weights(KnownFloats(values, axis))
    assert made.values.dtype == np.int8
    rows, bytes_ = (np.moveaxis(array, axis, 0).reshape(shape[axis], -1) for array in (values, made.values))
    for row, whole, scale in zip(rows, bytes_, made.scale, strict=True):
        largest = max(abs(Fraction(float(value))) for value in row)
        assert scale == np.float32(float(largest / 127))
        for value, byte in zip(row, whole, strict=True):
            exact = Fraction(float(value)) / Fraction(float(scale))
            assert abs(exact - int(byte)) <= Fraction(1, 2)
        assert np.abs(whole).max() == 127


def test_a_channel_of_zeros_is_zero() -> None:
    values = drawn(3, 4)
    values[:, 1] = 0
    made = byte_weights(KnownFloats(values, 1))
    assert (made.scale[1], made.values[:, 1].any()) == (1.0, False)


@pytest.mark.parametrize("groups", [1, 2, 6])
def test_the_mean_error_of_a_convolution_is_that_of_its_results(groups: int) -> None:
    """Without padding the mean over an image of equal positions is the product with the means."""
    values, mean = drawn(12, 6 // groups, 3, 3), drawn(6, seed=5).astype(np.float64)
    made = byte_weights(KnownFloats(values, 0))
    image = np.broadcast_to(mean[:, None, None], (6, 3, 3)).astype(np.float64)
    per_group, maps = 6 // groups, 12 // groups
    for out, found in enumerate(mean_error(KnownFloats(values, 0), made, mean, groups)):
        first = out // maps * per_group
        part = image[first : first + per_group]
        want = (values[out] * part).sum() - (made.restored()[out] * part).sum()
        assert found == pytest.approx(want, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("axis", [0, 1])
def test_the_mean_error_of_a_matrix(axis: int) -> None:
    values = drawn(5, 5)
    made, mean = byte_weights(KnownFloats(values, axis)), drawn(5, seed=6).astype(np.float64)
    missing = values - made.restored()
    want = mean @ missing if axis else missing @ mean
    np.testing.assert_allclose(mean_error(KnownFloats(values, axis), made, mean), want, rtol=1e-9)


# --- factors per channel --------------------------------------------------------------------------------


def wide(scale: Array) -> Graph:
    """Two convolutions, a depthwise one between them, whose channels have very different ranges."""
    w0 = drawn(8, 3, 3, 3) * scale[:, None, None, None]
    constants = {
        "w0": w0,
        "b0": drawn(8) * scale,
        "w1": drawn(8, 1, 3, 3),
        "b1": drawn(8),
        "w2": drawn(4, 8, 1, 1),
    }
    nodes: list[tuple[str, str, list[str], str, dict[str, Any]]] = [
        ("Conv", "first", ["x", "w0", "b0"], "c0", {"pads": (1, 1, 1, 1)}),
        ("Relu", "r0", ["c0"], "r0", {}),
        ("Conv", "depthwise", ["r0", "w1", "b1"], "c1", {"group": 8, "pads": (1, 1, 1, 1)}),
        ("LeakyRelu", "r1", ["c1"], "r1", {"alpha": 0.1}),
        ("Conv", "last", ["r1", "w2"], "y", {}),
    ]
    return float_graph(nodes, {"x": (1, 3, 8, 8)}, {k: v.astype(np.float32) for k, v in constants.items()})


def outputs(graph: Graph) -> Array:
    return np.stack([HostRun(graph).run({"x": x})["y"] for x in samples(graph, 4)["x"]])


def test_equalised_weights_have_equal_ranges_and_the_same_results() -> None:
    graph = wide(np.geomspace(0.01, 10, 8))
    scaling = Scaling(graph)
    assert [site.value for site in scaling.sites] == ["r0", "r1"]
    scaling.equalise()
    made = scaling.scaled()
    np.testing.assert_allclose(outputs(made), outputs(graph), rtol=1e-4, atol=1e-3)
    nodes = {node.name: made.constants[node.inputs[1]] for node in made.nodes if node.op == "Conv"}
    before = np.abs(nodes["first"]).max(axis=(1, 2, 3))
    np.testing.assert_allclose(before, np.abs(nodes["depthwise"]).max(axis=(1, 2, 3)), rtol=0.3)
    assert before.max() / before.min() < 30 < 1000


def test_smoothing_moves_the_spread_of_a_normalization_into_weights() -> None:
    graph = mlp()
    scaling = Scaling(graph)
    assert [(site.value, site.axis) for site in scaling.sites] == [("n", 2), ("r", 2)]
    seen = {"n": np.geomspace(0.1, 100, 24), "r": np.ones(40)}
    scaling.smooth(1.0, lambda value, axis: seen[value])
    made = scaling.scaled()
    np.testing.assert_allclose(outputs(made), outputs(graph), rtol=1e-4, atol=1e-4)
    norm = next(node for node in made.nodes if node.op == "LayerNormalization")
    np.testing.assert_allclose(
        made.constants[norm.inputs[1]] * seen["n"], graph.constants["scale"], rtol=1e-5
    )


def test_values_that_others_read_are_left_alone() -> None:
    """A sum and a joined value need their channels unchanged; a reshape could move them."""
    assert [site.value for site in Scaling(small_cnn()).sites] == []
