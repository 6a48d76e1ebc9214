"""The bytes that phases load early: as many as DDR supplies while the phase before is executed."""

from __future__ import annotations

import pytest

from compiler.codegen.kernel import Kernel, Target
from compiler.codegen.schedule.phases import schedule
from compiler.codegen.slices.tensors import DdrTensor
from compiler.passes.ddr.early_loads import came_early, early_bytes
from compiler.search.cost import estimate
from tx8isa.machine.description import load_machine
from tx8isa.numbers.formats import Format

MACHINE = load_machine(None)
RATE = 150 / 16
"""Bytes of DDR for each of sixteen tiles in a cycle."""
TABLE, INPUT = (DdrTensor(name, Format.FP32, (1 << 20,)) for name in ("table", "x"))


def kernel(prefix: str) -> Kernel:
    return Kernel(prefix, Target(16, 0x2F0000, Format.FP32, MACHINE), 0x2F0000)


def host(squares: int, loads: int) -> Kernel:
    made = kernel("p0")
    buffer = made.buffer("x", 1 << 16)
    for _ in range(loads):
        made.emit("rdma.fp32", dst=buffer, src=TABLE.at(made.tile * 16384), n=16384)
    for _ in range(squares):
        made.emit("ct.square.v.fp32", dst=buffer, src0=buffer, n=16384)
    made.place_buffers()
    return made


def guest(n: int, early: int, room: int = 4096) -> Kernel:
    made = kernel("p1")
    weights = made.buffer("w", 4 * n)
    made.emit("rdma.fp32", dst=weights, src=TABLE.at(0), n=n)
    made.await_earlier_phases()
    result = made.buffer("y", room)
    made.emit("rdma.fp32", dst=result, src=INPUT.at(0), n=64)
    made.emit("ct.mul.vv.fp32", dst=result, src0=result, src1=weights, n=64)
    made.early = early
    made.place_buffers()
    return made


@pytest.mark.parametrize("squares", [20, 200])
def test_three_quarters_of_the_time_in_which_ddr_has_nothing_to_do(squares: int) -> None:
    first = host(squares, 0)
    cycles = estimate(first, MACHINE).cycles
    assert cycles > 512 * squares
    found = early_bytes([first, guest(64, 100)], MACHINE)
    assert found == {1: pytest.approx(0.75 * cycles * RATE, rel=0.01)}


def test_what_the_phase_before_moves_itself_is_no_time() -> None:
    alone, loading = (early_bytes([host(200, loads), guest(64, 100)], MACHINE)[1] for loads in (0, 4))
    assert alone - 4 * 65536 < loading < alone


def test_no_less_than_what_it_needs_to_begin() -> None:
    assert early_bytes([host(0, 8), guest(64, 12345)], MACHINE) == {1: 12345}


def test_phases_that_cannot_begin_with_more() -> None:
    assert early_bytes([host(200, 0), guest(64, 0)], MACHINE) == {}
    assert early_bytes([guest(64, 100)], MACHINE) == {}


@pytest.mark.parametrize(("n", "came"), [(16384, 70000), (8192, 32768)])
def test_what_the_head_does_not_bring_is_not_early(n: int, came: int) -> None:
    """A head with all data with which the phase begins, and one with half of it."""
    phases = schedule([("one", host(2, 0)), ("two", guest(n, 65536))], {"table"})
    assert came_early(phases, {1: 70000}) == {1: came}


def test_nothing_is_early_without_room() -> None:
    full = kernel("p0")
    buffer = full.buffer("x", 0x2E0000)
    full.emit("ct.square.v.fp32", dst=buffer, src0=buffer, n=64)
    full.place_buffers()
    phases = schedule([("one", full), ("two", guest(32768, 131072))], {"table"})
    assert came_early(phases, {1: 140000}) == {1: 0}
