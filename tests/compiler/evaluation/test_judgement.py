"""What is said of a run: against the model's own numbers, and what rounding them alone costs."""

from __future__ import annotations

import numpy as np
import pytest

import compiler
from compiler.evaluation.judgement import Judgement, judged
from compiler.graph import Array, Graph
from compiler.tools import run
from compiler_harness import NodeSpec, draw, graph

FOLDED: list[NodeSpec] = [
    ("Mul", ["x", "large"], ["a"], {}),
    ("Mul", ["a", "small"], ["b"], {}),
    ("Relu", ["b"], ["c"], {}),
    ("Add", ["c", "b"], ["y"], {}),
]
"""Products with numbers of which FP16 has neither, though it has their product."""


def of(made: Graph, dtype: str, got: Array, x: Array) -> Judgement:
    return judged(made, dtype, {"y": got}, {"x": x})["y"]


def test_the_reference_is_what_the_model_says() -> None:
    """Nothing is rounded: 1e6 and 2e-6 are 1000000 and what binary32 has of 2e-6."""
    constants = {"large": np.array(1e6, np.float32), "small": np.array(2e-6, np.float32)}
    made, x = graph(FOLDED, {"x": (64,)}, constants), draw(64)
    b = x.astype(np.float64) * 1e6 * float(np.float32(2e-6))
    found = of(made, "fp16", np.maximum(b, 0) + b, x)
    assert found.verdict.ok and found.verdict.max_abs_error < 1e-12
    assert not found.rounding.ok  # 65504 * 2e-6: what FP16 has of both numbers
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
    """A batch normalization is folded into the weights before it: its parameters are never rounded alone."""
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
