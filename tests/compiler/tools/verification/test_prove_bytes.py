"""Graphs of bytes in prime fields: what follows from integers is exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from compiler.driver import compile_graph
from compiler.graph import Graph
from compiler.tools.verification.findings import lines
from compiler.tools.verification.prove import prove
from compiler_harness import graph
from program_mutants import Mutant

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
    number, line = next((at, line) for at, line in numbered if "ne.gemm" in line)
    found = prove(Mutant("", number, line.replace("k=24", "k=23")).of(program))
    assert [each.output for each in found.differences] == ["y"], lines(found)


@pytest.mark.parametrize(
    ("nodes", "dtype", "what"),
    [
        (
            [("QLinearMatMul", TO_BYTES, ["r"], {}), ("DequantizeLinear", ["r", "ys", "yz"], ["y"], {})],
            "int8",
            "integers that are rounded, and read by others",
        ),
        ([("QuantizeLinear", ["q", "s", "z"], ["y"], {})], "float32", "no meaning in the field"),
    ],
)
def test_bytes_that_are_rounded_from_floats_are_open(nodes: Any, dtype: str, what: str) -> None:
    read = {name for _, operands, _, _ in nodes for name in operands}
    constants = {name: array for name, array in NUMBERS.items() if name in read}
    found = prove(compile_graph(graph(nodes, {"q": (8, 24)}, constants, dtype=dtype), "fp16"))
    assert not found.differences, lines(found)
    assert not found.holds
    assert any(what in each for each in found.not_followed.values()), found.not_followed
