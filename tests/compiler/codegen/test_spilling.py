"""Values that leave the registers of the kernel core: the same results with fewer registers than values."""

from __future__ import annotations

import math
import random
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import pytest

import compiler
import network_draws
from compiler.codegen.expr import Address, Value
from compiler.codegen.kernel import Kernel, Target
from compiler.codegen.registers import POOL
from compiler.codegen.registers import values as registers
from compiler.codegen.registers.spilling import OutOfRegisters, Spills, fitting
from compiler.codegen.slices.tensors import DdrTensor
from compiler.graph import Array, GraphError
from compiler_harness import draw, one, small_machine
from phase_harness import run_phase
from tx8isa.machine.description import Machine
from tx8isa.numbers.formats import Format

SIZE, ROWS, TILES = 16, 40, 2
"""Elements of a row that the phase of these tests copies; the row's number is computed from many values."""


def with_stack(spm_bytes: int, stack: int = 2048) -> Machine:
    """A machine with a small scratchpad that reserves ``stack`` bytes for the core."""
    machine = small_machine(spm_bytes)
    spm = msgspec.structs.replace(machine.spm, bytes=spm_bytes + stack)
    return msgspec.structs.replace(machine, spm=spm)


@pytest.fixture(params=[26, 13, 7])
def few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """The number of registers that phases have."""
    monkeypatch.setattr(registers, "POOL", POOL[: request.param])
    return int(request.param)


@dataclass(frozen=True)
class Nest:
    """Nested loops. Each adds values made of earlier ones: the number of one, a factor, an addend."""

    counts: tuple[int, ...]
    made: tuple[tuple[tuple[int, int, int], ...], ...]

    @property
    def rows(self) -> int:
        return math.prod(self.counts) * TILES

    def lower(self, kernel: Kernel) -> None:
        """y[turn] = x[sum of all values], unless a condition between values says otherwise."""
        with ExitStack() as inside:
            values: list[Value] = [kernel.tile]
            turn: Value = 0
            for count, made in zip(self.counts, self.made, strict=True):
                index = inside.enter_context(kernel.loop(kernel.let(kernel.tile // TILES + count)))
                turn = turn * count + index
                for which, factor, more in made:
                    values.append(kernel.let(values[which] * factor % 29 + index + more))
            inside.enter_context(kernel.if_below(values[-1] % 7, values[-2] % 5 + 2))
            row = sum(values[1:], values[0]) % ROWS
            buffer = kernel.buffer("x", SIZE * 4)
            kernel.emit("rdma.fp32", dst=buffer, src=Address("x") + row * (SIZE * 4), n=SIZE)
            target = (turn * TILES + kernel.tile) * (SIZE * 4)
            kernel.emit("wdma.fp32", dst=Address("y") + target, src=buffer, n=SIZE)

    def expected(self, x: Array) -> Array:
        y = np.zeros((self.rows, SIZE), np.float32)
        for tile in range(TILES):
            for turn, indices in enumerate(np.ndindex(*self.counts)):
                values = [tile]
                for index, made in zip(indices, self.made, strict=True):
                    for which, factor, more in made:
                        values.append(values[which] * factor % 29 + index + more)
                if values[-1] % 7 < values[-2] % 5 + 2:
                    y[turn * TILES + tile] = x[sum(values) % ROWS]
        return y


def nest(seed: int) -> Nest:
    rng = random.Random(seed)
    counts, known = tuple(rng.choice((1, 2, 3)) for _ in range(5)), 1
    levels = []
    for _ in counts:
        level = []
        for _ in range(rng.choice((2, 4, 6))):
            level.append((rng.randrange(known), rng.choice((1, 3, 8)), rng.randrange(9)))
            known += 1
        levels.append(tuple(level))
    return Nest(counts, tuple(levels))


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_values_that_are_more_than_registers(few: int, seed: int, small: bool) -> None:
    made, x = nest(seed), draw(ROWS, SIZE)
    tensors = [DdrTensor("x", Format.FP32, x.shape)]
    output = DdrTensor("y", Format.FP32, (made.rows, SIZE))
    machine = with_stack(0x8000)
    got, lines = run_phase(made.lower, {"x": x}, tensors, output, TILES, machine, strict=True, small=small)
    np.testing.assert_array_equal(got, made.expected(x))
    assert few > 7 or any("(sp)" in line for line in lines)


@pytest.mark.parametrize("seed", [0, 3, 4, 8, 9, 12])
def test_networks_with_few_registers(seed: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(registers, "POOL", POOL[:8])
    monkeypatch.setattr(network_draws, "small_machine", with_stack)
    net, made = network_draws.drawn(seed)
    assert not network_draws.problems(
        made, network_draws.inputs_of(net), network_draws.setting(seed), tmp_path
    )


def test_every_phase_gives_the_stack_back() -> None:
    """A phase restores the stack pointer, and a phase with enough registers does not change it."""
    spilled = [line.split() for line in _written(nest(1), Spills(frozenset(range(1, 9)))).text()]
    moves = [int(line[-1]) for line in spilled if line[0] == "addi" and line[1] == "sp,"]
    assert len(moves) == 2 and moves[0] < 0 and sum(moves) == 0 and moves[0] % 16 == 0
    assert not any("sp" in line for line in _written(nest(1), Spills()).text())


def _written(made: Nest, spills: Spills, stack: int = 2048) -> Kernel:
    machine = with_stack(0x8000, stack)
    kernel = Kernel("p0", Target(TILES, 0x8000, Format.FP32, machine), 0x8000, spills=spills)
    made.lower(kernel)
    kernel.place_buffers()
    return kernel


def test_a_stack_that_is_too_small_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registers, "POOL", POOL[:7])
    with pytest.raises(OutOfRegisters, match=r"need a stack of \d+ bytes; allowed are 16$"):
        fitting(lambda spills: _written(nest(0), spills, 16))


def test_an_instruction_with_more_operands_than_registers_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registers, "POOL", POOL[:1])
    with pytest.raises(OutOfRegisters, match=r"\d values at once; the kernel core has 1 registers"):
        fitting(lambda spills: _written(nest(0), spills))


def test_a_chip_without_stack_is_named_with_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registers, "POOL", POOL[:7])
    graph = one("MatMul", ((70, 40), (40, 90)))
    with pytest.raises(GraphError, match=r"node 'n0' \(MatMul\): values that the core's registers"):
        compiler.compile(graph, "fp16", 4, small_machine(0x4000))


def test_nothing_is_spilled_where_that_is_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registers, "POOL", POOL[:7])
    with pytest.raises(OutOfRegisters, match="more values are alive at once than"):
        fitting(lambda spills: _written(nest(0), spills), spilling=False)
