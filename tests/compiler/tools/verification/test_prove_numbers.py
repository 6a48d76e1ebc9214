"""Single numbers, masks and recurrent layers in prime fields: right programs are proved, wrong ones found."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import tx8
from compiler.driver import Program, compile_graph
from compiler.graph import Graph
from compiler.tools.verification.findings import lines
from compiler.tools.verification.prove import Prover, prove
from compiler_harness import draw, graph, one
from program_mutants import Mutant, left_out
from range_models import ModelWriter, decoder_step, masked_attention

FLOAT, INTEGER = TensorProto.FLOAT, TensorProto.INT64


def compiled(model: onnx.ModelProto, dims: dict[str, Any], **options: Any) -> Program:
    found = tx8.compile(model, dtype="fp16", dims=dims, **options).compiled
    assert found is not None
    return found


def changed(program: Program, pattern: str, change: Any) -> Program:
    """The program with another first line of those that a pattern matches."""
    number = next(at for at, line in enumerate(program.text.splitlines(), 1) if re.search(pattern, line))
    return Mutant("", number, change).of(program)


# --- single numbers ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def step() -> Program:
    """A step whose scale, the root of 1/32, is held in FP32; the node's format has 16 bits."""
    states = {"keys": "new_keys", "values": "new_values"}
    return compiled(decoder_step(), {"new": 2}, state=states)


AT = [{"at": np.array([7])}]


def test_a_number_that_is_held_in_more_bits_than_its_node_has(step: Program) -> None:
    found = prove(step, steps=AT)
    assert found.holds, lines(found)


@pytest.mark.parametrize("other", [0.17677669 * (1 + 2**-10), 0.1768, 0.17677])
def test_a_number_beside_the_roundings_of_the_right_one_is_found(other: float, step: Program) -> None:
    """Neither FP16 nor FP32 rounds the scale to it."""
    wrong = changed(step, "src1=0.17677669", partial(re.sub, "src1=0.17677669", f"src1={other:.9g}"))
    assert prove(wrong, steps=AT, explain=False).differences


def test_a_single_number_in_memory_has_any_format() -> None:
    """The bias of one map is stored in FP32, whatever format the convolution has."""
    nodes = [("Conv", ["x", "w", "b"], ["y"], {})]
    made = graph(nodes, {"x": (1, 32, 5)}, {"w": draw(1, 32, 1), "b": np.array([-0.6245977], np.float32)})
    program = compile_graph(made, "fp16")
    assert prove(program).holds, lines(prove(program))
    assert prove(changed(program, r"rdma.*bias", left_out), explain=False).differences


# --- masks ------------------------------------------------------------------------------------------------


def masked(first: str = "one", second: str = "seen") -> Program:
    """Attention of seven words whose mask a product makes, as BERT does."""
    w = ModelWriter(3)
    names = {"one": w.constant(np.float32(1)), "seen": w.add("Cast", "seen", to=FLOAT)}
    mask = w.add("Mul", w.add("Sub", names[first], names[second]), w.constant(np.float32(-1e9)))
    scores = w.add("Add", w.add("MatMul", "x", w.add("Transpose", "x")), mask)
    last = w.add("MatMul", w.add("Softmax", scores, axis=-1), "x")
    model = w.model({"x": (FLOAT, [7, 32]), "seen": (INTEGER, [7])}, {last: (FLOAT, [7, 32])})
    return compiled(model, {})


SEEN = [{"seen": np.array([1, 1, 0, 1, 0, 0, 1])}]


def test_masks_that_a_product_makes_hide_keys() -> None:
    """What is not hidden gets 0 times the number that hides."""
    found = prove(masked(), steps=SEEN)
    assert found.holds, lines(found)


def test_a_mask_that_hides_the_other_keys_is_found() -> None:
    other = masked("seen", "one").image
    assert not prove(masked(), image=other, steps=SEEN, explain=False).holds


def placed(first: int) -> Program:
    """Rows with their positions from ``first`` on, a part of a table whose largest number is the last one."""
    w = ModelWriter(3)
    rows = w.add("Slice", w.add("Shape", "x"), w.integers(0), w.integers(1), w.integers(0))
    table = np.linspace(0.01, 1, 41 * 32).reshape(41, 32)[first:][:40]
    x = w.add("Add", "x", w.add("Slice", w.constant(np.float32(table)), w.integers(0), rows, w.integers(0)))
    last = w.add("MatMul", x, w.weights(32, 8))
    model = w.model({"x": (FLOAT, ["rows", 32])}, {last: (FLOAT, ["rows", 8])})
    return compiled(model, {"rows": (1, 20, 40)})


@pytest.mark.parametrize("rows", [1, 7, 40])
def test_parts_of_constants_are_those_of_the_longest(rows: int) -> None:
    """The twin of a part would be rounded to other numbers than the twin of the whole."""
    found = Prover(placed(0)).at({"rows": rows})
    assert found.holds, lines(found)


def test_rows_without_their_positions_are_found() -> None:
    wrong = changed(placed(0), r"rdma.*p0\.x2", left_out)
    assert Prover(wrong, explain=False).at({"rows": 7}).differences


@pytest.mark.parametrize("mask", ["truth values", "causal and of the text"])
def test_a_lone_key_that_a_mask_hides_is_open(mask: str) -> None:
    """Its number is that of the mask, in graph and program."""
    program = compiled(masked_attention(mask), {"batch": 1, "seq": (1, 20, 90)})
    hidden = {each.name: np.zeros(each.shape, each.dtype) for each in program.graph.inputs}
    numbers = {"mask": np.zeros((1, 1, 1, 1), np.bool_), "seen": np.zeros((1, 1), np.int64)}
    given = {name: array for name, array in numbers.items() if name in hidden}
    found = Prover(program).at({"seq": 1}, [given])
    assert not found.differences and found.unknown, lines(found)


# --- functions and layers ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("op", "other"), [("Floor", "Ceil"), ("Ceil", "Floor"), ("Round", "Floor")])
def test_a_floor_is_no_ceiling(op: str, other: str) -> None:
    program, wrong = (compile_graph(one(each, [(3, 70)]), "fp16") for each in (op, other))
    assert prove(program).holds
    assert prove(program, image=wrong.image, explain=False).differences


def layer(kind: str, **attributes: Any) -> Graph:
    """A recurrent layer of 32 units over five steps."""
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind]
    constants = {"w": draw(1, 32 * gates, 24), "r": draw(1, 32 * gates, 32), "b": draw(1, 64 * gates)}
    nodes = [(kind, ["x", "w", "r", "b"], ["y"], {"hidden_size": 32, **attributes})]
    return graph(nodes, {"x": (5, 3, 24)}, constants)


@pytest.mark.parametrize(
    ("kind", "attributes"),
    [
        ("RNN", {}),
        ("LSTM", {"direction": "reverse"}),
        ("GRU", {"linear_before_reset": 1}),
        ("GRU", {"linear_before_reset": 0}),
    ],
)
def test_recurrent_layers_are_proved(kind: str, attributes: dict[str, Any]) -> None:
    program = compile_graph(layer(kind, **attributes), "fp16")
    found = prove(program)
    assert found.holds, lines(found)
    assert not found.not_followed


@pytest.mark.parametrize("left", ["ct.tanh", "ct.sigmoid", "ct.mul.vv"])
def test_a_recurrent_layer_without_a_function_is_found(left: str) -> None:
    program = compile_graph(layer("LSTM"), "fp16")
    assert prove(changed(program, re.escape(left), left_out), explain=False).differences


def test_a_factor_without_its_lower_part_is_found() -> None:
    """A ninth is the sum of two numbers of TF32; the program with the sum is proved in test_prove.py."""
    program = compile_graph(
        one("AveragePool", [(1, 3, 9, 11)], kernel_shape=(5, 3), pads=(2, 1, 2, 1)), "fp16"
    )
    wrong = changed(program, r"ne\.gemm\.tf32.*k=2,", partial(re.sub, "k=2,", "k=1,"))
    assert prove(wrong, explain=False).differences
