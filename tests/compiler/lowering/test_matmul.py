"""MatMul and Gemm on the emulated chip."""

from __future__ import annotations

import numpy as np
import pytest

from compiler_harness import assert_right, draw, graph, one, small_machine

DTYPES = ("fp32", "tf32", "fp16", "bf16")
Shape = tuple[int, ...]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("a", "b"),
    [((5, 7), (7, 9)), ((33, 65), (65, 129)), ((1, 1), (1, 1)), ((2, 64), (64, 64)), ((9, 30), (30, 33))],
)
def test_matrices(a: Shape, b: Shape, dtype: str) -> None:
    assert_right(one("MatMul", [a, b]), dtype)
    assert_right(one("MatMul", [a], {"k": draw(*b)}), dtype)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((2, 3, 19, 16), (2, 3, 16, 19)),
        ((2, 19, 48), (48, 30)),
        ((7,), (7, 5)),
        ((3, 7), (7,)),
        ((7,), (7,)),
        ((4, 1, 5, 6), (3, 6, 2)),
        ((2, 5, 7), (7,)),
        ((7,), (3, 7, 4)),
        ((3, 4), (2, 4, 5)),
    ],
)
def test_batches_and_vectors(a: Shape, b: Shape) -> None:
    assert_right(one("MatMul", [a, b]), "fp32")


def test_a_constant_right_operand_with_batches() -> None:
    assert_right(one("MatMul", [(2, 3, 5, 6)], {"k": draw(3, 6, 7)}), "fp32")


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("trans_b", [0, 1])
@pytest.mark.parametrize("trans_a", [0, 1])
def test_transposed_operands(trans_a: int, trans_b: int, constant: bool) -> None:
    a = (70, 33) if trans_a else (33, 70)
    b = (130, 70) if trans_b else (70, 130)
    constants = {"b": draw(*b), "c": draw(130)} if constant else {}
    shapes = {"a": a} if constant else {"a": a, "b": b, "c": (130,)}
    node = ("Gemm", ["a", "b", "c"], ["y"], {"transA": trans_a, "transB": trans_b})
    assert_right(graph([node], shapes, constants), "fp16")


@pytest.mark.parametrize("shape", [(), (1,), (40,), (1, 40), (9, 1), (9, 40), (1, 1)])
@pytest.mark.parametrize("constant", [False, True])
def test_addends(shape: Shape, constant: bool) -> None:
    node = ("Gemm", ["a", "b", "c"], ["y"], {"alpha": 0.5, "beta": -2.0})
    inputs: dict[str, Shape] = {"a": (9, 12)}
    constants = {"b": draw(12, 40)}
    if constant:
        constants["c"] = np.asarray(draw(*shape), np.float32)
    else:
        inputs["c"] = shape
    assert_right(graph([node], inputs, constants), "fp32")


def test_alpha_without_an_addend() -> None:
    assert_right(graph([("Gemm", ["a", "b"], ["y"], {"alpha": 3.0})], {"a": (9, 12), "b": (12, 5)}), "fp16")


def test_beta_of_zero_ignores_the_addend() -> None:
    node = ("Gemm", ["a", "b", "c"], ["y"], {"beta": 0.0})
    assert_right(graph([node], {"a": (9, 12), "b": (12, 5), "c": (5,)}), "fp16")


@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
@pytest.mark.parametrize("constant", [False, True])
def test_a_long_inner_dimension_is_accumulated_in_pieces(dtype: str, constant: bool) -> None:
    shapes: list[Shape] = [(9, 1000)] if constant else [(9, 1000), (1000, 70)]
    made = one("MatMul", shapes, {"k": draw(1000, 70)} if constant else None)
    assert "psum=" in assert_right(made, dtype, 3, small_machine()).text


def test_fp32_is_three_products_of_parts() -> None:
    """The result is close to binary64, where one TF32 product would have an error of about 1e-3."""
    a, b = draw(40, 300), draw(300, 50, seed=6)
    program = assert_right(one("MatMul", [(40, 300), (300, 50)]), "fp32", inputs={"a": a, "b": b})
    assert program.text.count("ne.gemm.tf32") == 3
    from compiler.tools import run

    got = run.execute(program, {"a": a, "b": b})[0]["y"]
    assert np.abs(got - a.astype(np.float64) @ b.astype(np.float64)).max() < 1e-4


def test_large_values_keep_their_place() -> None:
    a = np.arange(12, dtype=np.float32).reshape(3, 4) * 1000
    assert_right(one("MatMul", [(3, 4), (4, 2)]), "fp32", inputs={"a": a, "b": np.ones((4, 2), np.float32)})
