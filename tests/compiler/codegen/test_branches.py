"""Branches in small code: equal results for any distance of the jump."""

from __future__ import annotations

from functools import partial

import pytest

from asm.instructions.constants import load_constant
from compiler.codegen.emitter import ScalarLine
from compiler.codegen.expr import Address
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.tensors import DdrTensor
from compiler.codegen.tree import most_bytes
from compiler_harness import draw
from phase_harness import run_phase
from tx8isa.numbers.formats import Format

ROWS, SIZE, TURNS, COPIED, TILES = 4, 16, 3, 2, 2


def copy_rows(kernel: Kernel, fillers: int) -> None:
    """y[turn] = x[turn] in the first two of three iterations, with ``fillers`` more instructions in each."""
    zero = kernel.tile // TILES
    with kernel.loop(kernel.let(zero + TURNS)) as turn, kernel.if_below(turn, kernel.let(zero + COPIED)):
        buffer, other = kernel.buffer("x", SIZE * 4), kernel.buffer("other", SIZE * 4)
        kernel.emit("rdma.fp32", dst=buffer, src=Address("x") + turn * (SIZE * 4), n=SIZE)
        for _ in range(fillers):
            kernel.emit("td.memset.fp32", dst=other, value=1.0, n=SIZE)
        kernel.emit("wdma.fp32", dst=Address("y") + turn * (SIZE * 4), src=buffer, n=SIZE)


@pytest.mark.parametrize(("fillers", "jumps"), [(1, 0), (104, None), (108, None), (112, None), (240, 3)])
def test_a_branch_goes_as_far_as_it_reaches(fillers: int, jumps: int | None) -> None:
    x = draw(ROWS, SIZE)
    tensors, output = [DdrTensor("x", Format.FP32, x.shape)], DdrTensor("y", Format.FP32, x.shape)
    lower = partial(copy_rows, fillers=fillers)
    y, lines = run_phase(lower, {"x": x}, tensors, output, TILES, small=True)
    assert (y[:COPIED] == x[:COPIED]).all() and not y[COPIED:].any()
    found = sum(line.split()[0] == "j" for line in lines if line.split())
    assert jumps is None or found == jumps


def copy_some_rows(kernel: Kernel) -> None:
    """y[tile] = x[tile], under conditions with known outcome, and for a known row."""
    row = kernel.let(kernel.tile * 2)
    with kernel.if_below(row + 2, row):
        kernel.emit("td.memset.fp32", dst=kernel.buffer("never", 256), value=1.0, n=SIZE)
    with kernel.if_below(row, row + 1), kernel.loop(kernel.let(row + 1) - row):
        buffer = kernel.buffer("x", SIZE * 4)
        kernel.emit("rdma.fp32", dst=buffer, src=Address("x") + row * (SIZE * 2), n=SIZE)
        kernel.emit("wdma.fp32", dst=Address("y") + kernel.tile * (SIZE * 4), src=buffer, n=SIZE)


@pytest.mark.parametrize("small", [False, True])
def test_what_is_known_takes_no_branch(small: bool) -> None:
    x = draw(ROWS, SIZE)
    tensors, output = [DdrTensor("x", Format.FP32, x.shape)], DdrTensor("y", Format.FP32, x.shape)
    y, lines = run_phase(copy_some_rows, {"x": x}, tensors, output, TILES, small=small)
    assert (y[:TILES] == x[:TILES]).all() and not y[TILES:].any()
    assert any("td.memset" in line for line in lines) == (not small)
    branches = [line for line in lines if line.split()[:1] and line.split()[0] in ("blt", "bge", "j")]
    assert bool(branches) == (not small)


NUMBERS = (0, -1, 2047, 2048, -(1 << 31), (1 << 31) - 1, 1 << 31, 0x1_0001_0000, 0x1234_5678_9ABC_DEF1)


@pytest.mark.parametrize("number", NUMBERS)
def test_constants_have_no_more_bytes_than_a_branch_expects(number: int) -> None:
    assert load_constant(number).size <= most_bytes([ScalarLine("li", ("t0", str(number)))])
