"""Code of the kernel core that loads and stores single elements, against NumPy."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

import compiler
from compiler.tools import run
from compiler_harness import graph
from tx8isa.machine.description import Machine, load_machine


def machine_with(**windows: int) -> Machine:
    """The TX81 with other windows of DDR."""
    machine = load_machine(None)
    moved = msgspec.structs.replace(machine.windows, **windows)
    return msgspec.structs.replace(machine, windows=moved, name="moved")


@pytest.mark.parametrize("ddr_engine", [0x2_8000_0000, 0x3_0000_0000])
def test_the_core_finds_elements_in_its_own_view_of_ddr(ddr_engine: int) -> None:
    """Symbols are addresses of the engines; the machine says where the core sees the same bytes."""
    made = graph([("Add", ["a", "b"], ["y"], {})], {"a": (3, 50), "b": (3, 50)}, dtype="int64")
    program = compiler.compile(made, "fp32", 4, machine_with(ddr_engine=ddr_engine))
    given = {name: np.arange(150).reshape(3, 50) * 7**k for k, name in enumerate("ab", 1)}
    outcome = run.check(program, given)
    np.testing.assert_array_equal(outcome.outputs["y"], given["a"] + given["b"])
