"""Values that constants make too large for FP16: found before the run, kept in FP32, with a note."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

import compiler
from compiler.evaluation.reference import run_reference
from compiler.graph import Graph
from compiler.rewrite.norms import large_numbers
from compiler.tools import run
from compiler_harness import NodeSpec, draw, graph
from tx8isa.numbers.formats import Format

ROWS = {"x": (16, 64)}

Constants = Mapping[str, np.ndarray]


def number(value: float) -> np.ndarray:
    return np.array(value, np.float32)


def scaled_there_and_back() -> Graph:
    """Times a million, limited to numbers above zero, added to itself, divided by a million."""
    nodes: list[NodeSpec] = [
        ("Mul", ["x", "million"], ["a"], {}),
        ("Relu", ["a"], ["b"], {}),
        ("Add", ["b", "a"], ["c"], {}),
        ("Div", ["c", "million"], ["y"], {}),
    ]
    return graph(nodes, ROWS, {"million": number(1e6)})


def product_of_large_weights() -> Graph:
    """A product whose weights exceed most numbers of FP16, and one that makes ordinary numbers of its
    result."""
    nodes: list[NodeSpec] = [
        ("MatMul", ["x", "w"], ["a"], {}),
        ("Transpose", ["a"], ["t"], {"perm": (1, 0)}),
        ("MatMul", ["t", "v"], ["y"], {}),
    ]
    constants = {"w": draw(64, 64, scale=2e4), "v": draw(16, 64, scale=1e-4, seed=6)}
    return graph(nodes, ROWS, constants)


def convolution_of_large_weights() -> Graph:
    nodes: list[NodeSpec] = [
        ("Conv", ["x", "w"], ["a"], {}),
        ("Relu", ["a"], ["b"], {}),
        ("Mul", ["b", "small"], ["y"], {}),
    ]
    constants = {"w": draw(8, 4, 3, 3, scale=3e4), "small": number(1e-5)}
    return graph(nodes, {"x": (1, 4, 9, 9)}, constants)


CASES = {
    "elementwise": (scaled_there_and_back, {"a", "b", "c"}),
    "product": (product_of_large_weights, {"a"}),
    "convolution": (convolution_of_large_weights, {"a", "b"}),
}


@pytest.mark.parametrize("case", CASES)
def test_what_fp16_cannot_hold_stays_in_fp32(case: str) -> None:
    make, large = CASES[case]
    made = make()
    program = compiler.compile(made, "fp16")
    assert program.wide is not None
    assert set(program.wide.values) == large
    assert str(program.wide).startswith("FP16 ends at 65504, so these stay in FP32: 'a' (up to ")
    inputs = {tensor.name: draw(*tensor.shape, seed=7) for tensor in made.inputs}
    exact = run_reference(made, inputs)["y"]
    found = run.execute(program, inputs)[0]["y"]
    assert np.isfinite(found).all()
    assert np.abs(found - exact).max() < 2e-2 * np.abs(exact).max()
    assert np.abs(run_reference(made, inputs)["y"]).max() < 1000


@pytest.mark.parametrize("dtype", ["bf16", "tf32", "fp32"])
def test_other_formats_reach_as_far_as_fp32(dtype: str) -> None:
    assert compiler.compile(scaled_there_and_back(), dtype).wide is None


def found(nodes: list[NodeSpec], constants: Constants, shape: tuple[int, ...] = (4, 8)) -> set[str]:
    return set(large_numbers(graph(nodes, {"x": shape}, constants), Format.FP16).values)


ORDINARY: dict[str, tuple[list[NodeSpec], Constants]] = {
    "a mask": (
        [
            ("Sub", ["one", "x"], ["m"], {}),
            ("Mul", ["m", "lowest"], ["n"], {}),
            ("Add", ["x", "n"], ["s"], {}),
            ("Softmax", ["s"], ["y"], {}),
        ],
        {"one": number(1), "lowest": number(-3.4e38)},
    ),
    "a smaller mask": (
        [("Add", ["x", "mask"], ["y"], {})],
        {"mask": np.array([[0.0] * 7 + [-1e9]], np.float32)},
    ),
    "limits that are none": (
        [("Clip", ["x", "low", "high"], ["y"], {})],
        {"low": number(-3e38), "high": number(3e38)},
    ),
    "ordinary weights": ([("MatMul", ["x", "w"], ["y"], {})], {"w": draw(8, 8)}),
    "infinities": (
        [("Add", ["x", "mask"], ["y"], {})],
        {"mask": np.array([[-np.inf, np.inf] * 4], np.float32)},
    ),
}


@pytest.mark.parametrize("case", ORDINARY)
def test_what_is_ordinary_stays_in_the_format(case: str) -> None:
    assert not found(*ORDINARY[case])


def test_many_layers_do_not_add_up() -> None:
    """Otherwise bounds would grow from layer to layer, although the computed values do not."""
    nodes: list[NodeSpec] = [
        ("MatMul", ["x" if not at else f"v{at}", "w"], ["y" if at == 39 else f"v{at + 1}"], {})
        for at in range(40)
    ]
    assert not found(nodes, {"w": draw(8, 8)})


def test_bytes_are_what_bytes_can_be() -> None:
    """The third power of an image of bytes leaves FP16, its square does not."""
    nodes: list[NodeSpec] = [
        ("Cast", ["x"], ["f"], {"to": 1}),
        ("Mul", ["f", "f"], ["a"], {}),
        ("Mul", ["a", "f"], ["b"], {}),
        ("Div", ["b", "much"], ["y"], {}),
    ]
    made = graph(nodes, {"x": (4, 8)}, {"much": number(1e7)}, dtype="uint8")
    assert large_numbers(made, Format.FP16).values == {"b": 255.0**3}
    inputs = {"x": np.arange(32, dtype=np.uint8).reshape(4, 8) * 8}
    program = compiler.compile(made, "fp16")
    assert run.check(program, inputs).ok


@pytest.mark.parametrize("op", ["Div", "Mul", "Sub"])
def test_integers_have_no_format_that_could_be_too_short(op: str) -> None:
    made = graph([(op, ["x", "x"], ["y"], {})], {"x": (4, 8)}, dtype="int32")
    assert not large_numbers(made, Format.FP16).values
