"""Graphs of bytes in prime fields: bytes are elements, and what rounds to them follows them."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import pytest

import tx8
from compiler.driver import Program, compile_graph
from compiler.evaluation.field.byte_rules import byte_inputs
from compiler.graph import Graph
from compiler.tools.verification.findings import Proof, lines
from compiler.tools.verification.prove import prove
from compiler_harness import graph
from float_nets import small_cnn
from program_mutants import Mutant, left_out
from quantised_nets import (
    bottlenecks,
    byte_encoder,
    byte_mlp,
    fires,
    matrices,
    pooled_bytes,
    products,
    residual,
)

RNG = np.random.default_rng(1)
ZERO, ZEROS = np.array(0, np.int8), np.zeros(16, np.int8)
NUMBERS: dict[str, Any] = {
    "s": np.array(0.05, np.float32),
    "z": np.array(3, np.int8),
    "w": RNG.integers(-127, 128, (24, 16)).astype(np.int8),
    "k": RNG.integers(-127, 128, (5, 3, 3, 3)).astype(np.int8),
    "ws": np.array(0.02, np.float32),
    "wss": np.linspace(0.01, 0.05, 16, dtype=np.float32),
    "wz": ZERO,
    "wzs": ZEROS,
    "ys": np.array(0.5, np.float32),
    "yz": np.array(-4, np.int8),
}
"""Constants: bytes, scales and zero points."""
TO_BYTES = ["q", "s", "z", "w", "ws", "wz", "ys", "yz"]


def of_bytes(nodes: Any, shape: tuple[int, ...] = (8, 24)) -> Graph:
    """A graph whose input is bytes."""
    read = {name for _, operands, _, _ in nodes for name in operands}
    constants = {name: array for name, array in NUMBERS.items() if name in read}
    return graph(nodes, {"q": shape}, constants, dtype="int8")


@pytest.mark.parametrize(
    ("nodes", "shape"),
    [
        ([("MatMulInteger", ["q", "w", "z"], ["y"], {})], (8, 24)),
        ([("ConvInteger", ["q", "k", "z"], ["y"], {"pads": (1, 1, 1, 1)})], (1, 3, 6, 7)),
        ([("QLinearMatMul", TO_BYTES, ["y"], {})], (8, 24)),
        ([("DequantizeLinear", ["q", "s", "z"], ["y"], {})], (8, 24)),
        (
            [
                ("DequantizeLinear", ["q", "s", "z"], ["d"], {}),
                ("DequantizeLinear", ["w", "wss", "wzs"], ["e"], {"axis": 1}),
                ("MatMul", ["d", "e"], ["y"], {}),
            ],
            (8, 24),
        ),
    ],
    ids=["matmul", "conv", "rounded", "floats", "scaled columns"],
)
def test_what_follows_from_bytes_is_proved(nodes: Any, shape: tuple[int, ...]) -> None:
    found = prove(compile_graph(of_bytes(nodes, shape), "fp16"))
    assert found.holds, lines(found)
    assert list(found.proved) == ["y"]


def test_a_product_of_bytes_that_lacks_a_term_is_wrong() -> None:
    program = compile_graph(of_bytes([("MatMulInteger", ["q", "w", "z"], ["y"], {})]), "fp16")
    numbered = enumerate(program.text.splitlines(), 1)
    number = next(at for at, line in numbered if "ne.gemm" in line)
    found = prove(Mutant("", number, lambda line: line.replace("k=24", "k=23")).of(program))
    assert [each.output for each in found.differences] == ["y"], lines(found)


def test_bytes_that_are_rounded_are_read_by_others() -> None:
    nodes = [("QLinearMatMul", TO_BYTES, ["r"], {}), ("DequantizeLinear", ["r", "ys", "yz"], ["y"], {})]
    found = prove(compile_graph(of_bytes(nodes), "fp16"))
    assert found.holds, lines(found)


def test_bytes_that_an_operator_without_a_meaning_reads_are_numbers() -> None:
    """Where Gather takes rows by numbers that are bytes, the input is no element, but an integer."""
    nodes = [
        ("Cast", ["q"], ["i"], {"to": 7}),
        ("Abs", ["i"], ["p"], {}),
        ("MatMulInteger", ["q", "w", "z"], ["y"], {}),
    ]
    made = graph(nodes, {"q": (8, 24)}, {"w": NUMBERS["w"], "z": NUMBERS["z"]}, ("y", "p"), dtype="int8")
    assert byte_inputs(made) == set()
    found = prove(compile_graph(made, "fp16"))
    assert found.holds, lines(found)


def test_a_cast_of_floats_to_bytes_is_open() -> None:
    """It cuts digits off, which the field does not have."""
    nodes = [("Cast", ["x"], ["c"], {"to": 3}), ("DequantizeLinear", ["c", "s", "z"], ["y"], {})]
    made = graph(nodes, {"x": (8, 24)}, {"s": NUMBERS["s"], "z": NUMBERS["z"]})
    found = prove(compile_graph(made, "fp16"))
    assert not found.differences, lines(found)
    assert not found.holds


NETWORKS: dict[str, Callable[[], Any]] = {
    "convolutions": lambda: products(1, "int8"),
    "unsigned convolutions": lambda: products(2, "uint8"),
    "matrices": lambda: matrices(0, "uint8"),
    "residual": lambda: residual(3),
    "fires": lambda: fires(2, 16, 12, 12, True),
    "sharded": lambda: byte_mlp(1, "uint8", 64, 128),
    "pooled": lambda: pooled_bytes(1, "uint8", 64, 128, 8),
    "stack": lambda: bottlenecks(2, 64, 32, 6, 6, 2),
    "encoder": lambda: byte_encoder(1, "int8"),
}
"""Networks of floats with bytes inside, which one or the other way to bytes computes."""
LONG = ("unsigned convolutions", "residual", "stack", "pooled", "encoder")


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=pytest.mark.long if each in LONG else ()) for each in NETWORKS]
)
@pytest.mark.parametrize("integers", ["exact", "near"])
def test_networks_of_bytes_are_proved(name: str, integers: str) -> None:
    """With ``near`` the matrix engine makes bytes of sums by its own steps, and adds up bytes."""
    model, _ = NETWORKS[name]()
    program = tx8.compile(model, dtype="fp16", integers=integers).compiled
    assert program is not None
    found = prove(program)
    assert found.holds, lines(found)
    assert not found.reserves


def test_a_network_that_the_compiler_quantises_is_proved() -> None:
    network = small_cnn()
    samples = np.random.default_rng(2).standard_normal((16, *network.inputs[0].shape[1:])).astype(np.float32)
    made = tx8.compile(network, dtype="int8", calibrate={"x": samples}).compiled
    assert made is not None
    found = prove(made)
    assert found.holds, lines(found)


# --- mistakes ---------------------------------------------------------------------------------------------


def wrong(program: Program, pattern: str, change: Callable[[str], str], explain: bool = True) -> Proof:
    """The proof of a program whose first instruction that fits a pattern is changed."""
    numbered = enumerate(program.text.splitlines(), 1)
    number = next(at for at, line in numbered if re.search(pattern, line))
    return prove(Mutant("", number, change).of(program), explain=explain)


@pytest.mark.parametrize("integers", ["exact", "near"])
@pytest.mark.parametrize(
    ("pattern", "change"),
    [
        (r"ne\.gemm\.int8.*zp_a", lambda line: re.sub(r"zp_a=\d+", "zp_a=7", line)),
        (r"ne\.gemm\.int8.*zp_a", lambda line: re.sub(r"k=(\d+)", lambda at: f"k={int(at[1]) - 1}", line)),
        (r"ct\.div\.vs", lambda line: re.sub(r"src1=[\d.e-]+", "src1=0.07", line)),
        (r"ct\.sub\.vs", lambda line: ""),
        (r"ct\.cvt\.fp32\.int8", lambda line: re.sub(r"src0=([^,]+)", r"src0=\1+256", line)),
    ],
    ids=["zero point", "missing term", "scale", "rounding alone", "row"],
)
def test_mistakes_between_bytes_are_found(integers: str, pattern: str, change: Callable[[str], str]) -> None:
    model, _ = matrices(0, "int8")
    program = tx8.compile(model, dtype="fp16", integers=integers).compiled
    assert program is not None
    assert wrong(program, pattern, change).differences


@cache
def with_table() -> Program:
    """A program in which a product reads the bytes of GELU from a table."""
    program = tx8.compile(byte_encoder(1, "uint8", rows=16)[0], dtype="fp16").compiled
    assert program is not None and "ct.lut16" in program.text
    return program


def test_a_table_stands_for_a_function_only_if_all_its_entries_are_right() -> None:
    program = with_table()
    found = prove(program)
    assert found.holds and not found.reserves, lines(found)
    moved = partial(re.sub, r"dst=([^,]+)", r"dst=\1+128")
    assert wrong(program, r"ct\.lut16", moved, explain=False).differences


@pytest.mark.long
def test_tables_of_other_functions_are_open() -> None:
    """Words that begin later hold no function of the graph; odd offsets are not of words."""
    for pattern, change in (
        (r"ct\.lut16", lambda line: re.sub(r"src0=([^,]+)", r"src0=\1+2", line)),
        (r"ct\.and\.bv", lambda line: ""),
    ):
        mistaken = wrong(with_table(), pattern, change, explain=False)
        assert not mistaken.holds and any("ct.lut16" in each for each in mistaken.reserves)


def test_a_byte_without_a_sign_is_another_one_than_with_a_sign() -> None:
    """Programs invert the highest bits of such outputs and inputs, and may leave that out."""
    program = tx8.compile(byte_mlp(1, "uint8", 24, 40)[0], dtype="fp16", integers="exact").compiled
    assert program is not None
    assert prove(program).holds
    assert wrong(program, r"ct\.xor", left_out).differences
    assert not wrong(program, r"ct\.xor", lambda line: line.replace("n=640", "n=639")).holds


def test_a_sum_of_integers_is_no_float() -> None:
    program = tx8.compile(byte_mlp(1, "uint8", 24, 40)[0], dtype="fp16", integers="exact").compiled
    assert program is not None
    assert wrong(program, r"ct\.cvt\.int32\.fp32", left_out).differences


@pytest.mark.parametrize("operand", ["q0", "q1", "bias", "scale_p", "psum"])
def test_mistakes_of_the_engines_own_rounding_are_found(operand: str) -> None:
    model, _ = bottlenecks(2, 64, 32, 6, 6, 2)
    program = tx8.compile(model, dtype="fp16", integers="near").compiled
    assert program is not None
    found = wrong(program, rf"ne\..*out_format=int8.*\b{operand}=", lambda line: changed(line, operand))
    assert found.differences, lines(found)


def changed(line: str, operand: str) -> str:
    """A line with another number, or another address, in an operand."""
    given = re.search(rf"\b{operand}=([^,]+)", line)
    assert given is not None
    other = f"{given[1]}+4" if not given[1].isdigit() else str(int(given[1]) + 1)
    return line.replace(given[0], f"{operand}={other}")
