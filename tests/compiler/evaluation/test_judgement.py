"""The judgement of a run: against the model's own numbers, and the error of rounding them alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import compiler
from compiler.evaluation.judgement import FloatModel, Judgement, judged
from compiler.graph import Array, Graph
from compiler.tools import run
from compiler_harness import NodeSpec, draw, graph

FOLDED: list[NodeSpec] = [
    ("Mul", ["x", "large"], ["a"], {}),
    ("Mul", ["a", "small"], ["b"], {}),
    ("Relu", ["b"], ["c"], {}),
    ("Add", ["c", "b"], ["y"], {}),
]
"""Products of two numbers that FP16 cannot hold, although it holds their product."""


def of(made: Graph, dtype: str, got: Array, x: Array) -> Judgement:
    return judged(made, dtype, {"y": got}, {"x": x})["y"]


def test_the_reference_is_what_the_model_says() -> None:
    """Nothing is rounded: 1e6 is 1000000, and 2e-6 is its binary32 value."""
    constants = {"large": np.array(1e6, np.float32), "small": np.array(2e-6, np.float32)}
    made, x = graph(FOLDED, {"x": (64,)}, constants), draw(64)
    b = x.astype(np.float64) * 1e6 * float(np.float32(2e-6))
    found = of(made, "fp16", np.maximum(b, 0) + b, x)
    assert found.verdict.ok and found.verdict.max_abs_error < 1e-12
    assert not found.rounding.ok  # 65504 * 2e-6: both numbers in FP16
    assert found.blame is None and found.as_the_format_allows


def test_a_format_that_cannot_hold_the_weights() -> None:
    made = graph(
        [("Sub", ["x", "w"], ["d"], {}), ("Mul", ["d", "d"], ["y"], {})],
        {"x": (4,)},
        {"w": np.array([2049, 2051, 4097, 2050], np.float32)},
    )
    x = np.array([2048, 2048, 4096, 2048], np.float32)
    as_rounded = (x - np.float16([2049, 2051, 4097, 2050]).astype(np.float64)) ** 2
    found = of(made, "fp16", as_rounded, x)
    assert not found.verdict.ok
    assert found.blame == "format" and found.as_the_format_allows
    assert (
        "the format is at fault: inputs and weights rounded to fp16 alone cost max error"
        in found.verdict.text
    )
    wrong = of(made, "fp16", as_rounded + 100, x)
    assert wrong.blame == "both" and not wrong.as_the_format_allows
    assert "the program is at fault, and the format too: " in wrong.verdict.text


def test_a_wrong_program() -> None:
    made, x = graph([("Exp", ["x"], ["e"], {}), ("Relu", ["e"], ["y"], {})], {"x": (9,)}), draw(9)
    for dtype, text in (
        ("bf16", "the program is at fault: inputs and weights rounded to bf16 alone cost max error"),
        ("fp32", "the program is at fault: nothing is rounded before it"),
    ):
        found = of(made, dtype, np.exp(x) + 1, x)
        assert found.blame == "program" and not found.as_the_format_allows
        assert text in found.verdict.text
    assert of(made, "fp32", np.exp(x), x).rounding.max_abs_error == 0


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
def test_a_program_that_folds_constants_before_it_rounds_them_is_right(dtype: str) -> None:
    """A batch normalization becomes part of the weights before it, so its parameters are never rounded
    separately."""
    nodes: list[NodeSpec] = [
        ("Conv", ["x", "w"], ["c"], {}),
        ("BatchNormalization", ["c", "s", "b", "m", "v"], ["n"], {"epsilon": 1e-5}),
        ("Relu", ["n"], ["y"], {}),
    ]
    constants = {
        "w": draw(8, 4, 1, 1, scale=1e-4),
        "s": np.ones(8, np.float32),
        "b": np.zeros(8, np.float32),
        "m": np.zeros(8, np.float32),
        "v": np.full(8, 1e-8, np.float32),
    }
    made = graph(nodes, {"x": (1, 4, 6, 6)}, constants, opset=15)
    outcome = run.check(compiler.compile(made, dtype), {"x": draw(1, 4, 6, 6)})
    assert outcome.ok, outcome.verdicts


def in_steps(step: float) -> tuple[Graph, Graph]:
    """A network of floats, and its quantised form with an input of bytes of some step."""
    relu: NodeSpec = ("Relu", ["d"], ["y"], {})
    floats = graph([("Identity", ["x"], ["d"], {}), relu], {"x": (64,)})
    steps = {"s": np.array(step, np.float32), "z": np.array(0, np.int8)}
    nodes: list[NodeSpec] = [
        ("QuantizeLinear", ["x", "s", "z"], ["q"], {}),
        ("DequantizeLinear", ["q", "s", "z"], ["d"], {}),
        relu,
    ]
    return floats, graph(nodes, {"x": (64,)}, steps)


def with_floats(step: float, off: float = 0.0, **said: Any) -> tuple[Judgement, Array]:
    """The judgement of a program that is ``off``, and the error of quantising, by NumPy."""
    floats, made = in_steps(step)
    x = np.linspace(-2, 2, 64).astype(np.float32)
    expected = np.maximum(np.rint(x / np.float32(step)) * step, 0)
    found = judged(made, "fp32", {"y": expected + off}, {"x": x}, FloatModel(floats, **said))["y"]
    return found, np.abs(expected - np.maximum(x, 0))


def test_quantising_and_the_program_are_compared_apart_from_each_other() -> None:
    found, cost = with_floats(0.02)
    assert found.verdict.ok and found.blame is None
    assert found.quantised is not None
    assert found.quantised.alone.max_abs_error == pytest.approx(cost.max())
    assert found.verdict.max_abs_error == pytest.approx(cost.max())
    assert found.quantised.chip.max_abs_error < 1e-6


def test_quantising_that_costs_too_much_fails_a_right_program() -> None:
    """Steps of 0.8: 0.4 is a fifth of the largest value."""
    found, cost = with_floats(0.8)
    assert not found.verdict.ok and found.blame == "quantising" and found.as_the_format_allows
    assert found.quantised is not None and found.quantised.chip.ok
    assert "max error above 0.3, 0.15 of the largest value" in found.verdict.text
    assert (
        f"quantising is at fault: it alone costs max error {cost.max():.3g}, cosine 0.9" in found.verdict.text
    )
    assert found.verdict.text.endswith("try other samples, another --calibration, --max-loss or --dtype auto")


def test_inputs_that_the_samples_do_not_reach_are_named() -> None:
    found, _ = with_floats(0.8, ranges={"x": (-1.0, 5.0)})
    assert found.verdict.text.endswith(
        "; input 'x' has -2 to 2, the samples -1 to 5: try samples like the inputs"
    )


@pytest.mark.parametrize(("loss", "right"), [(0.001, False), (0.009, False), (0.1, True)])
def test_who_allows_more_gets_more(loss: float, right: bool) -> None:
    found, _ = with_floats(0.8, loss=loss)
    assert found.verdict.ok == right


def test_a_wrong_program_of_bytes_is_at_fault_itself() -> None:
    """Its error is within the limit of quantising, but differs from the quantised graph."""
    found, _ = with_floats(0.02, off=0.05)
    assert not found.verdict.ok and found.blame == "program" and not found.as_the_format_allows
    assert found.verdict.text.startswith("compared with the quantised graph: max error 0.05, cosine 0.99")
    assert "the program is at fault: nothing is rounded before it" in found.verdict.text


@pytest.mark.parametrize(("wrong", "right"), [(0, True), (1, True), (3, False)])
def test_classes_may_differ_in_one_of_a_hundred(wrong: int, right: bool) -> None:
    choice: NodeSpec = ("ArgMax", ["r"], ["y"], {"axis": 1, "keepdims": 0})
    x = draw(200, 4)
    classes = np.maximum(x, 0).argmax(1)
    changed = np.where(np.arange(200) < wrong, (classes + 1) % 4, classes)
    bias = 9 * (changed[:, None] == np.arange(4)).astype(np.float32)
    floats = graph([("Relu", ["x"], ["r"], {}), choice], {"x": (200, 4)})
    made = graph([("Add", ["x", "b"], ["r"], {}), choice], {"x": (200, 4)}, {"b": bias})
    found = judged(made, "fp16", {"y": changed}, {"x": x}, FloatModel(floats))["y"]
    assert found.verdict.ok == right
    assert found.blame == (None if right else "quantising")
