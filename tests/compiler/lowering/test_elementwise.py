"""Element-wise operators on the emulated chip: shapes with tails, broadcasting, formats, special values."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.driver import compile_graph
from compiler.tools.run import execute
from compiler_harness import assert_right, graph, one, small_machine

DTYPES = ("fp32", "tf32", "fp16", "bf16")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", ["Relu", "LeakyRelu", "Sigmoid", "Tanh", "Exp", "Erf", "Gelu"])
def test_activations(op: str, dtype: str) -> None:
    assert_right(one(op, [(7, 131)]), dtype, scale=2.0)


def test_gelu_with_tanh() -> None:
    assert_right(one("Gelu", [(7, 131)], approximate="tanh"), "fp32", scale=3.0)


def test_leaky_relu_with_a_slope() -> None:
    assert_right(one("LeakyRelu", [(65,)], alpha=0.3), "fp32")


@pytest.mark.parametrize("slope", [(), (40,), (7, 1), (3, 7, 40), (1, 7, 40)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_prelu(slope: tuple[int, ...], dtype: str) -> None:
    assert_right(one("PRelu", [(3, 7, 40), slope]), dtype)


def test_prelu_of_integers() -> None:
    made = graph([("PRelu", ["x", "s"], ["y"], {})], {"x": (3, 7), "s": (7,)}, dtype="int32")
    given = {"x": np.arange(-10, 11, dtype=np.int32).reshape(3, 7), "s": np.arange(7, dtype=np.int32)}
    assert_right(made, "fp32", inputs=given)


def test_sqrt_of_negative_numbers_is_nan() -> None:
    x = np.array([4.0, 2.0, 0.0, -1.0, np.inf], np.float32)
    assert_right(one("Sqrt", [(5,)]), "fp32", inputs={"a": x})


@pytest.mark.parametrize("op", ["Erf", "Gelu"])
def test_limits_of_the_error_function(op: str) -> None:
    x = np.array([0.0, -0.0, 1e-30, -1e-30, 9.0, -9.0, 1e4, np.nan], np.float32)
    assert_right(one(op, [(8,)]), "fp32", inputs={"a": x})


def test_erf_is_as_accurate_as_its_approximation() -> None:
    x = np.linspace(-5, 5, 4001, dtype=np.float32)
    assert_right(one("Erf", [(4001,)]), "fp32", inputs={"a": x})


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3, 5), (3, 5)),
        ((5,), ()),
        ((1,), (4, 5)),
        ((2, 3, 65), (65,)),
        ((2, 3, 64), (64,)),
        ((65,), (2, 3, 65)),
        ((4, 33, 7), (33, 1)),
        ((4, 1, 7), (33, 1)),
        ((2, 1, 3, 1, 5), (1, 4, 1, 6, 1)),
        ((2, 3, 4, 5), (3, 1, 1)),
        ((129,), (3, 1)),
        ((2, 1, 2, 1, 2, 1), (1, 3, 1, 3, 1, 3)),
    ],
)
@pytest.mark.parametrize("op", ["Sub", "Mul"])
def test_broadcasting(op: str, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    assert_right(one(op, [a, b]), "fp16")


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div", "Max", "Min"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_arithmetic(op: str, dtype: str) -> None:
    assert_right(one(op, [(3, 70), (70,)]), dtype, scale=3.0)


@pytest.mark.parametrize("op", ["Sub", "Div", "Min"])
def test_scalar_constants_on_either_side(op: str) -> None:
    scalar = {"k": np.array(2.5, np.float32)}
    assert_right(graph([(op, ["k", "x"], ["y"], {})], {"x": (3, 70)}, scalar), "fp32")
    program = assert_right(graph([(op, ["x", "k"], ["y"], {})], {"x": (3, 70)}, scalar), "fp32")
    assert f"ct.{op.lower()}.vs.fp32" in program.text
    assert "src1=2.5" in program.text


def test_a_short_period_is_the_unit_of_a_vuv_instruction() -> None:
    assert "ct.add.vuv.fp16" in assert_right(one("Add", [(40, 30), (30,)])).text


def test_any_number_of_operands() -> None:
    assert_right(one("Max", [(3, 70), (70,), (3, 1), ()]), "fp32")
    assert_right(one("Min", [(3, 70)]), "fp32")


def test_the_same_operand_twice() -> None:
    assert_right(graph([("Mul", ["x", "x"], ["y"], {})], {"x": (5, 13)}), "fp32")


@pytest.mark.parametrize("tiles", [1, 2, 3, 7, 16])
def test_any_number_of_tiles(tiles: int) -> None:
    assert_right(one("Add", [(37, 29), (37, 1)]), "fp16", tiles)


@pytest.mark.parametrize("op", ["Tanh", "Gelu"])
def test_more_than_the_scratchpad_holds(op: str) -> None:
    assert_right(one(op, [(3, 20011)]), "fp16", 3, small_machine())


def test_broadcasting_of_more_than_the_scratchpad_holds() -> None:
    assert_right(one("Sub", [(9, 1, 501), (43, 1)]), "fp32", 3, small_machine())


def test_a_chain_of_operators_needs_barriers_between_them() -> None:
    nodes = [("Exp", ["x"], ["e"], {}), ("Softmax", ["e"], ["s"], {}), ("Div", ["e", "s"], ["y"], {})]
    program = assert_right(graph(nodes, {"x": (3, 5)}), "fp32")
    assert program.text.count("ncc.barrier") == 2


def test_independent_operators_need_no_barrier() -> None:
    nodes = [("Exp", ["x"], ["y"], {}), ("Tanh", ["x"], ["z"], {})]
    program = assert_right(graph(nodes, {"x": (3, 5)}, outputs=("y", "z")), "fp32")
    assert "ncc.barrier" not in program.text


@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
@pytest.mark.parametrize("op", ["Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"])
def test_integers_against_known_ones_are_compared_on_the_vector_engine(op: str, dtype: str) -> None:
    """They are exact up to the last integers of 24 bits, also where FP32 rounds computed integers."""
    edge = (1 << 24) - 1
    known = {"k": np.array([0, -1, 255, 2049, edge, -edge], np.int32)}
    near = [
        0,
        1,
        -1,
        255,
        256,
        2048,
        2049,
        edge,
        edge + 1,
        edge + 2,
        edge + 3,
        -edge,
        -edge - 2,
        2**31 - 1,
        -(2**31),
    ]
    made = graph(
        [(op, ["x", "k"], ["c"], {}), ("Cast", ["c"], ["y"], {"to": 1})],
        {"x": (len(near), 1)},
        known,
        dtype="int32",
    )
    program = assert_right(made, dtype, inputs={"x": np.array(near, np.int32)[:, None]})
    assert program.core_work is None
    assert len([line for line in program.text.splitlines() if line.lstrip().startswith("ct.")]) > 0


def test_a_mean_whose_sum_fp16_cannot_hold() -> None:
    a, b = np.full(70, 60000, np.float32), np.linspace(0, 60000, 70).astype(np.float32)
    found = execute(compile_graph(one("Mean", [(70,), (70,)]), "fp16", 2), {"a": a, "b": b})[0]["y"]
    np.testing.assert_allclose(found, (a + b) / 2, rtol=2e-3)
