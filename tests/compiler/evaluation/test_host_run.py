"""Runs on the host: products that are exact in any order, and values that are already known."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from compiler.evaluation.host_run import HostRun, dependents, on_grid
from compiler.evaluation.reference import run_reference
from compiler.graph import Array, Graph
from float_nets import float_graph, mlp, samples, small_cnn


@pytest.mark.parametrize("bits", [1, 8, 20])
@pytest.mark.parametrize("scale", [1e-30, 1.0, 3e8])
def test_a_grid_is_of_whole_multiples_of_a_power_of_two(bits: int, scale: float) -> None:
    values = np.random.default_rng(bits).standard_normal(200) * scale
    made = on_grid(values, bits)
    power = next(e for e in range(-200, 200) if Fraction(2) ** e > Fraction(float(np.abs(values).max())))
    unit = Fraction(2) ** (power - bits)
    for before, after in zip(values.tolist(), made.tolist(), strict=True):
        whole = Fraction(after) / unit
        assert whole.denominator == 1 and abs(whole) <= 2**bits
        assert abs(Fraction(before) - Fraction(after)) <= unit / 2


def test_what_is_not_finite_stays() -> None:
    values = np.array([1.0, np.nan, np.inf])
    np.testing.assert_array_equal(on_grid(values, 8), values)
    np.testing.assert_array_equal(on_grid(np.zeros(3), 8), np.zeros(3))


@pytest.mark.parametrize("terms", [1, 7, 1000, 4608])
def test_sums_of_products_are_exact(terms: int) -> None:
    """The run equals the product of the operands on their grids, computed in fractions and rounded once."""
    rng = np.random.default_rng(terms)
    a, w = (rng.standard_normal(shape).astype(np.float32) for shape in ((3, terms), (terms, 2)))
    made = HostRun(float_graph([("MatMul", "n", ["a", "w"], "y", {})], {"a": (3, terms)}, {"w": w}))
    found = made.run({"a": a})["y"]
    bits = (53 - (terms - 1).bit_length()) // 2
    left, right = on_grid(a.astype(np.float64), bits), on_grid(w.astype(np.float64), bits)
    for row in range(3):
        for column in range(2):
            exact = sum(
                (
                    Fraction(x) * Fraction(y)
                    for x, y in zip(left[row].tolist(), right[:, column].tolist(), strict=True)
                ),
                Fraction(0),
            )
            assert Fraction(float(exact)) == exact
            assert found[row, column] == np.float32(float(exact))


def test_the_order_of_channels_does_not_change_a_bit() -> None:
    """Inexact sums in another order would have other bits."""
    rng = np.random.default_rng(4)
    w, x = rng.standard_normal((8, 40, 3, 3)).astype(np.float32), rng.standard_normal((1, 40, 9, 9))
    order = rng.permutation(40)

    def result(weights: Array, image: Array) -> Array:
        graph = float_graph([("Conv", "c", ["x", "w"], "y", {})], {"x": (1, 40, 9, 9)}, {"w": weights})
        return HostRun(graph).run({"x": image.astype(np.float32)})["y"]

    np.testing.assert_array_equal(result(w, x), result(w[:, order], x[:, order]))


@pytest.mark.parametrize("graph", [small_cnn(), mlp()], ids=["cnn", "mlp"])
def test_runs_are_near_the_reference(graph: Graph) -> None:
    inputs = {name: array[0] for name, array in samples(graph, 1).items()}
    want = run_reference(graph, inputs)["y"]
    found = HostRun(graph).run(inputs)["y"]
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)


def test_known_values_are_taken_as_they_are() -> None:
    graph = small_cnn()
    inputs = {name: array[0] for name, array in samples(graph, 1).items()}
    run, seen, values = HostRun(graph), list[str](), dict[str, Array]()
    want = run.run(inputs, seen=values.__setitem__)["y"]
    known = {name: values[name] for name in ("p", "r1")}
    found = run.run({}, known=known, seen=lambda name, array: seen.append(name))["y"]
    np.testing.assert_array_equal(found, want)
    assert seen == ["c2", "c3", "j", "r2", "m", "f", "g", "y"]
    known["r1"] = known["r1"] * 2
    assert (run.run({}, known=known)["y"] != want).any()


def test_what_is_behind_a_value() -> None:
    assert dependents(small_cnn(), ["j"]) == {"j", "r2", "m", "f", "g", "y"}
