"""Products and rows that read and store FP32 themselves, whatever their format of computation."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from compiler.driver import compile_graph
from compiler.graph import Array, Graph
from compiler.passes.base import operations
from compiler.tools.run import execute
from compiler_harness import NodeSpec, assert_right, draw, graph, ints
from tx8isa.numbers.formats import Format
from tx8isa.numbers.rounding import rounded

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
    made = graph([("LRN", ["a"], ["y"], {"size": 3})], {"a": (1, 4, 5, 6)})
    assert casts(made, "fp16") == ["a", "y"]


ROWS: dict[str, tuple[NodeSpec, dict[str, Array]]] = {
    "Softmax": (("Softmax", ["a"], ["y"], {"axis": -1}), {}),
    "lanes": (("Softmax", ["a"], ["y"], {"axis": 0}), {}),
    "LayerNormalization": (("LayerNormalization", ["a", "s"], ["y"], {}), {"s": draw(72)}),
}


@pytest.mark.parametrize("dtype", ["fp16", "bf16", "tf32"])
@pytest.mark.parametrize("rows", [1, 21, 300])
@pytest.mark.parametrize("name", ROWS)
def test_rows_are_stored_in_fp32(name: str, rows: int, dtype: str) -> None:
    """A normalization reads them in FP32 too; for other operators a cast rounds the operand."""
    node, constants = ROWS[name]
    made = graph([node], {"a": (rows, 72)}, constants)
    assert casts(made, dtype) == ([] if name == "LayerNormalization" else ["a"])
    assert_right(made, dtype)


@pytest.mark.parametrize("dtype", ["fp16", "bf16", "tf32"])
@pytest.mark.parametrize("shape", [(1, 10), (3, 300), (300, 20), (300, 72), (2, 9000)])
def test_probabilities_are_numbers_of_the_format(shape: tuple[int, int], dtype: str) -> None:
    """However rows are computed, FP32 in DDR has the result of the cast."""
    made = graph([("Softmax", ["a"], ["y"], {"axis": -1})], {"a": shape})
    assert casts(made, dtype) == ["a"]
    for search in ("fast", "off"):
        found = execute(compile_graph(made, dtype, search=search), {"a": draw(*shape, scale=3.0)})[0]["y"]
        assert found.dtype == np.float32
        if dtype == "tf32":
            assert not np.any(found.view(np.uint32) & 0x1FFF), "ten fraction bits"
        else:
            np.testing.assert_array_equal(found.astype(SHORT[dtype]).astype(np.float32), found)


SHORT = {"fp16": np.float16, "bf16": ml_dtypes.bfloat16}


SHAPED: list[NodeSpec] = [
    ("Reshape", ["a", "rows"], ["r"], {}),
    ("Unsqueeze", ["r", "first"], ["u"], {}),
    ("Softmax", ["u"], ["s"], {"axis": -1}),
    ("Squeeze", ["s", "first"], ["q"], {}),
    ("Reshape", ["q", "image"], ["y"], {}),
]
SHAPES_BETWEEN = {"rows": ints(6, 40), "first": ints(0), "image": ints(2, 3, 5, 8)}


def test_another_shape_between_is_no_obstacle() -> None:
    made = graph(SHAPED, {"a": (6, 5, 8)}, SHAPES_BETWEEN)
    assert casts(made, "fp16") == ["a"]
    program = assert_right(made, "fp16")
    assert program.report is not None
    assert len(program.report.phases) == 2


def test_another_shape_before_a_product_is_no_obstacle() -> None:
    shaped: NodeSpec = ("Reshape", ["a", "rows"], ["r"], {})
    made = graph(
        [shaped, ("MatMul", ["r", "b"], ["y"], {})], {"a": (5, 8, 64), "b": (64, 72)}, {"rows": ints(40, 64)}
    )
    assert casts(made, "fp16") == []
    program = assert_right(made, "fp16")
    assert program.report is not None
    assert len(program.report.phases) == 1


def test_what_has_another_user_in_another_shape_is_rounded() -> None:
    """Before the Softmax and after it."""
    more: list[NodeSpec] = [("Exp", ["r"], ["e"], {}), ("Exp", ["q"], ["f"], {})]
    made = graph([*SHAPED, *more], {"a": (6, 5, 8)}, SHAPES_BETWEEN, outputs=("y", "e", "f"))
    assert set(casts(made, "fp16")) >= {"a", "y"}
    assert_right(made, "fp16")


def test_a_precise_product_is_computed_in_parts() -> None:
    """Its operands and its result are also FP32 in DDR, but nothing is rounded."""
    made = replace(graph([MATMUL], SHAPES), precise=frozenset({"n0"}))
    program = assert_right(made, "bf16")
    assert "ne.gemm.tf32" in program.text
    assert "ne.gemm.bf16" not in program.text


@pytest.mark.parametrize("residency", ["on", "off"])
@pytest.mark.parametrize("dtype", ["fp32", "tf32", "bf16", "fp16"])
@pytest.mark.parametrize("short", [np.float16, ml_dtypes.bfloat16], ids=["float16", "bfloat16"])
def test_the_roundings_of_the_model_are_kept(short: type, dtype: str, residency: str) -> None:
    """A cast to a shorter format and back rounds, and makes numbers out of range infinite."""
    held = {"fp32": np.float32, "tf32": np.float32, "bf16": ml_dtypes.bfloat16, "fp16": np.float16}[dtype]
    x = np.array([70000, -70000, 65504, 65504.1, 1 / 3, -1 / 3, 3e-8, 1e-9, 3e38, np.inf, np.nan], np.float32)
    if dtype == "tf32":
        x = rounded(x, Format.TF32)
    number = {np.float16: 10, ml_dtypes.bfloat16: 16}[short]
    nodes: list[NodeSpec] = [
        ("Cast", ["x"], ["h"], {"to": number}),
        ("Cast", ["h"], ["s"], {"to": 1}),
        ("Abs", ["s"], ["y"], {}),
    ]
    with np.errstate(over="ignore"):
        wanted = np.abs(x.astype(held).astype(np.float32).astype(short).astype(held).astype(np.float32))
    program = compile_graph(graph(nodes, {"x": x.shape}), dtype, residency=residency)
    np.testing.assert_array_equal(execute(program, {"x": x})[0]["y"], wanted)


@pytest.mark.parametrize("to", [10, 16])
def test_integers_are_rounded_to_a_short_type(to: int) -> None:
    x = np.array([70000, 4097, -65519, 257, 3], np.int32)
    nodes: list[NodeSpec] = [("Cast", ["x"], ["h"], {"to": to}), ("Cast", ["h"], ["y"], {"to": 1})]
    program = compile_graph(graph(nodes, {"x": x.shape}, dtype="int32"), "fp32")
    with np.errstate(over="ignore"):
        wanted = x.astype({10: np.float16, 16: ml_dtypes.bfloat16}[to]).astype(np.float32)
    np.testing.assert_array_equal(execute(program, {"x": x})[0]["y"], wanted)


def test_casts_that_lose_nothing_are_no_roundings() -> None:
    nodes: list[NodeSpec] = [("Cast", ["x"], ["h"], {"to": 10}), ("Cast", ["h"], ["y"], {"to": 1})]
    assert "fp16.bf16" not in compile_graph(graph(nodes, {"x": (64,)}), "fp16").text
    assert "bf16" not in compile_graph(graph(nodes, {"x": (64,)}), "fp16").text
