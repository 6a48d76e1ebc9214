"""Products that read and store FP32 themselves, in whatever format they compute."""

from __future__ import annotations

from dataclasses import replace

import pytest
from xdsl.dialects.builtin import ModuleOp

from compiler.driver import compile_graph
from compiler.graph import Graph
from compiler.passes.base import operations
from compiler_harness import NodeSpec, assert_right, graph

MATMUL: NodeSpec = ("MatMul", ["a", "b"], ["y"], {})
SHAPES = {"a": (40, 64), "b": (64, 72)}


def casts(made: Graph, dtype: str) -> list[str]:
    """The nodes of the remaining casts."""
    left: list[str] = []

    def look(name: str, module: ModuleOp) -> None:
        if name == "cast_fusion":
            left.extend(op.node.data for op in operations(module) if op.name == "tx8be.cast")

    compile_graph(made, dtype, after_pass=look)
    return left


@pytest.mark.parametrize("dtype", ["fp16", "bf16", "tf32"])
def test_no_cast_is_left_around_a_product(dtype: str) -> None:
    made = graph([MATMUL], SHAPES)
    assert casts(made, dtype) == []
    program = assert_right(made, dtype)
    assert program.text.count(f"ne.gemm.{dtype}") > 0
    assert "ne.gemm.fp32" not in program.text


def test_a_gemm_with_a_computed_vector() -> None:
    made = graph([("Gemm", ["a", "b", "c"], ["y"], {"beta": 1.0})], {**SHAPES, "c": (72,)})
    assert casts(made, "bf16") == []
    assert_right(made, "bf16")


def test_the_same_matrix_on_both_sides_is_rounded_by_the_product() -> None:
    made = graph([("MatMul", ["a", "a"], ["y"], {})], {"a": (64, 64)})
    assert casts(made, "fp16") == []
    assert_right(made, "fp16")


def test_what_others_use_is_rounded_once_for_all() -> None:
    made = graph([MATMUL, ("Relu", ["a"], ["z"], {})], SHAPES, outputs=("y", "z"))
    assert casts(made, "fp16") == ["a", "z"]
    assert_right(made, "fp16")


def test_a_result_that_others_use_is_rounded_first() -> None:
    """The reference rounds the result too."""
    made = graph([MATMUL, ("Relu", ["y"], ["z"], {})], SHAPES, outputs=("y", "z"))
    assert casts(made, "bf16") == ["y", "z"]
    assert_right(made, "bf16")


def test_casts_of_other_formats_stay() -> None:
    made = graph([MATMUL], SHAPES, dtype="float16")
    assert casts(made, "bf16") == ["a", "b", "y"]
    assert_right(made, "bf16")


def test_other_operators_keep_their_casts() -> None:
    made = graph([("Softmax", ["a"], ["y"], {"axis": -1})], {"a": (4, 40)})
    assert casts(made, "fp16") == ["a", "y"]


def test_a_precise_product_is_computed_in_parts() -> None:
    """Its operands and its result are FP32 in DDR as well, but nothing is rounded."""
    made = replace(graph([MATMUL], SHAPES), precise=frozenset({"n0"}))
    program = assert_right(made, "bf16")
    assert "ne.gemm.tf32" in program.text
    assert "ne.gemm.bf16" not in program.text
