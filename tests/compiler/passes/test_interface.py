"""Inputs and outputs have the model's order in the text, in the image and in results of runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import permutations

import numpy as np
import pytest

import asm
import compiler
from compiler.codegen import CONSTANTS_FILE
from compiler.driver import Program
from compiler.graph import Array
from compiler.tools import run
from compiler_harness import NodeSpec, assert_in_order, draw, graph

X, W = draw(4, 8), draw(8, 8, seed=6)
A = X.astype(np.float64) @ W
VALUES = {
    "a": A,
    "b": np.maximum(A, 0),
    "/n": -A,
    "io.0": A + 1,
    "x": X,
    "w": W,
    "none": np.zeros((0, 8)),
    "no/ne": np.zeros((0, 8)),
}
"""The value of each output, by NumPy. Assembly cannot spell two of the names, and reserves ``io.0``."""

NODES: list[NodeSpec] = [
    ("MatMul", ["x", "w"], ["a"], {}),
    ("Relu", ["a"], ["b"], {}),
    ("Neg", ["a"], ["/n"], {}),
    ("Add", ["a", "one"], ["io.0"], {}),
    ("Slice", ["x", "zero", "zero", "zero"], ["none"], {}),
    ("Slice", ["x", "zero", "zero", "zero"], ["no/ne"], {}),
]


def compiled(outputs: Sequence[str], inputs: Sequence[str] = ("x",)) -> Program:
    constants: dict[str, Array] = {"w": W, "one": np.array(1, np.float32), "zero": np.array([0])}
    shapes = dict.fromkeys(inputs, (4, 8))
    return compiler.compile(graph(NODES, shapes, constants, outputs), "fp32", 4)


def lines_of(text: str, kind: str) -> list[str]:
    """The names that directives of a kind declare, in the order of the text."""
    found = re.findall(rf'^ +(?:\.{kind} ([^,]+)|\.buffer {kind}, "([^"]+)"),', text, re.MULTILINE)
    return [own or recorded for own, recorded in found]


@pytest.mark.parametrize(
    "names",
    [
        *permutations(["a", "b"]),
        *permutations(["a", "/n", "b"]),
        ("io.0", "b", "/n", "a"),
        ("b", "x", "a"),
        ("x", "w", "b", "a"),
        ("b", "none", "a", "no/ne"),
        ("no/ne", "b", "none", "/n", "a"),
    ],
    ids=",".join,
)
def test_outputs_have_the_order_of_the_model(names: tuple[str, ...]) -> None:
    program = compiled(names)
    found, _ = run.execute(program, {"x": X})
    assert_in_order(program, found)
    assert lines_of(program.text, "output") == [*names]
    for array, name in zip(found.values(), names, strict=True):
        assert array.shape == VALUES[name].shape
        np.testing.assert_allclose(array, VALUES[name], rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("names", [*permutations(["x", "/u", "z"])], ids=",".join)
def test_inputs_have_the_order_of_the_model(names: tuple[str, ...]) -> None:
    """So does an input that nothing reads, and one whose name assembly cannot spell."""
    program = compiled(["b"], names)
    assert lines_of(program.text, "input") == [*names]
    assert_in_order(program, ["b"])


@pytest.mark.parametrize("names", [("b", "a"), ("/n", "b", "x"), ("no/ne", "a", "none")], ids=",".join)
def test_the_text_assembles_to_the_image_of_the_compiler(names: tuple[str, ...]) -> None:
    program = compiled(names)
    again = asm.assemble(program.text, "prog.s", given={CONSTANTS_FILE: program.constants})
    assert (again.buffers, again.segments, again.symbols) == (
        program.image.buffers,
        program.image.segments,
        program.image.symbols,
    )


def test_the_order_of_outputs_moves_no_code() -> None:
    """Only outputs with memory of their own change places."""
    one, other = compiled(["a", "b"]), compiled(["b", "a"])
    memory = {b.name: b.address for b in one.image.buffers}
    swapped = {b.name: b.address for b in other.image.buffers}
    assert (swapped["b"], swapped["a"], swapped["x"]) == (memory["a"], memory["b"], memory["x"])
    assert [s.size for s in one.image.segments] == [s.size for s in other.image.segments]
    recorded, also = compiled(["a", "x"]), compiled(["x", "a"])
    assert recorded.image.segments == also.image.segments
