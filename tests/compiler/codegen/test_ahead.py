"""Loads that run one iteration ahead: equal results in less time, and loops in which they must not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from compiler.codegen.expr import Value, minimum
from compiler.codegen.kernel import Kernel, Target
from compiler.codegen.schedule.head import find_head
from compiler.codegen.slices.shards import shard_of, slices
from compiler.codegen.slices.tensors import DdrTensor
from compiler.codegen.spm import SpmOverflow
from compiler.codegen.tree import Issue
from compiler.search.cost import estimate
from compiler_harness import assert_right, one, small_machine
from phase_harness import phase_program, run_phase
from tx8isa.machine.description import load_machine
from tx8isa.numbers.formats import Format

SLICE = 8192
"""Elements of a slice."""
SPM = 1 << 18
MACHINE = load_machine(None)


def vectors(count: int) -> tuple[DdrTensor, DdrTensor]:
    return DdrTensor("x", Format.FP32, (count,)), DdrTensor("y", Format.FP32, (count,))


def chain(kernel: Kernel, x: DdrTensor, y: DdrTensor, ahead: bool = True, doublings: int = 3) -> None:
    """y = 1 - 2^doublings x, slice by slice, by one tile or by several."""
    kernel.ahead = ahead
    (count,) = x.shape
    with kernel.items(-(-count // SLICE)) as turn:
        length = kernel.let(minimum(SLICE, count - turn * SLICE))
        data, result = kernel.buffer("data", 4 * SLICE), kernel.buffer("result", 4 * SLICE)
        kernel.emit("rdma.fp32", dst=data, src=x.at(turn * SLICE), n=length)
        kernel.emit("ct.add.vv.fp32", dst=result, src0=data, src1=data, n=length)
        for _ in range(doublings - 1):
            kernel.emit("ct.add.vv.fp32", dst=result, src0=result, src1=result, n=length)
        kernel.emit("ct.neg.v.fp32", dst=result, src0=result, n=length)
        kernel.emit("ct.add.vs.fp32", dst=result, src0=result, src1=1.0, n=length)
        kernel.emit("wdma.fp32", dst=y.at(turn * SLICE), src=result, n=length)


def order(lines: list[str]) -> list[str]:
    """The loads, the first instruction on their data, and the labels of loops, in the order of the text."""
    words = [line.split()[0] for line in lines if line.split()]
    found = [word.rstrip(":").split(".")[-1] if word.endswith(":") else word.split(".")[0] for word in words]
    return [word for word in found if word in ("rdma", "ct") or word.startswith(("loop", "end"))]


@pytest.mark.parametrize("tiles", [1, 3])
@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("count", [1, SLICE, SLICE + 1, 2 * SLICE, 5 * SLICE - 3, 16 * SLICE])
def test_every_slice_is_loaded_once_and_right(count: int, tiles: int, small: bool) -> None:
    x, y = vectors(count)
    data = np.linspace(-3, 5, count, dtype=np.float32)
    program, _ = phase_program(lambda kernel: chain(kernel, x, y), [x], y, tiles, small=small)
    run = program.run({"x": data}, strict=True)
    assert not program.hazards
    np.testing.assert_array_equal(run["y"], 1 - 8 * data)


def test_the_first_load_is_before_the_loop_and_the_next_before_the_arithmetic() -> None:
    x, y = vectors(4 * SLICE)
    kernel = phase(lambda kernel: chain(kernel, x, y))
    assert order(kernel.text())[:5] == ["rdma", "loop0", "rdma", "end1", "ct"]


def phase(lower: Callable[[Kernel], None], tiles: int = 1, spm: int = SPM) -> Kernel:
    kernel = Kernel("p0", Target(tiles, spm, Format.FP32), spm)
    lower(kernel)
    kernel.place_buffers()
    return kernel


def cycles(ahead: bool) -> tuple[float, float]:
    """Simulated and estimated cycles of a phase with six slices for each tile, and much arithmetic."""
    x, y = vectors(96 * SLICE)
    program, _ = phase_program(lambda kernel: chain(kernel, x, y, ahead, 20), [x], y, 16)
    system = program.start({"x": np.zeros(96 * SLICE, np.float32)}, timed=True)
    system.run()
    assert system.cycles is not None
    return system.cycles, estimate(phase(lambda kernel: chain(kernel, x, y, ahead, 20), 16), MACHINE).cycles


def test_it_takes_less_time_and_the_estimate_says_so() -> None:
    (slow, slowly), (fast, quickly) = cycles(ahead=False), cycles(ahead=True)
    assert fast < 0.85 * slow
    assert quickly < 0.85 * slowly


def test_the_estimate_knows_loops_whose_bounds_are_in_registers() -> None:
    """Each tile has separate rows, in slices whose length is known only in an iteration."""
    x, y = vectors(16 * 3 * SLICE - 5)

    def lower(kernel: Kernel) -> None:
        kernel.ahead = True
        with slices(kernel, shard_of(x.shape[0], 16, kernel.tile, SLICE)) as (begin, length):
            data, result = kernel.buffer("data", 4 * SLICE), kernel.buffer("result", 4 * SLICE)
            kernel.emit("rdma.fp32", dst=data, src=x.at(begin), n=length)
            for _ in range(4):
                kernel.emit("ct.add.vv.fp32", dst=result, src0=data, src1=data, n=length)
            kernel.emit("wdma.fp32", dst=y.at(begin), src=result, n=length)

    kernel = phase(lower, 16)
    assert kernel.spm.needed_twice
    program, _ = phase_program(lower, [x], y, 16)
    data = np.arange(x.shape[0], dtype=np.float32)
    system = program.start({"x": data}, timed=True, strict=True)
    system.run()
    np.testing.assert_array_equal(program.results(system)["y"], 2 * data)
    assert system.cycles is not None and not system.sanitizer.hazards()  # type: ignore[union-attr]
    assert 0.3 * system.cycles < estimate(kernel, MACHINE).cycles < system.cycles


def loads_in_place(change: Callable[[Kernel, Value, Value], None], **options: int) -> Kernel:
    """A loop whose load must stay after ``change``, which receives the buffer of the load and the index."""
    x, _ = vectors(8 * SLICE)

    def lower(kernel: Kernel) -> None:
        kernel.ahead = True
        with kernel.loop(4) as turn:
            data = kernel.buffer("data", 4 * SLICE)
            change(kernel, data, turn)
            kernel.emit("rdma.fp32", dst=data, src=x.at(turn * SLICE), n=SLICE)
            for _ in range(4):
                kernel.emit("ct.neg.v.fp32", dst=data, src0=data, n=SLICE)

    kernel = phase(lower, **options)
    assert order(kernel.text())[0] == "loop0"
    assert not kernel.spm.needed_twice
    return kernel


def test_a_load_over_what_the_turn_has_written_stays() -> None:
    loads_in_place(lambda k, data, turn: k.emit("td.memset.fp32", dst=data, value=0.0, n=SLICE))


def test_a_load_after_a_use_of_the_buffer_in_a_condition_stays() -> None:
    def change(kernel: Kernel, data: Value, turn: Value) -> None:
        with kernel.if_below(turn, 2):
            kernel.emit("ct.neg.v.fp32", dst=data, src0=data, n=SLICE)

    loads_in_place(change)


def test_a_load_of_what_the_loop_stores_stays() -> None:
    x, _ = vectors(8 * SLICE)
    loads_in_place(lambda k, data, turn: k.emit("wdma.fp32", dst=x.at(0), src=k.buffer("z", 4), n=1))


def test_loads_of_a_loop_that_waits_stay() -> None:
    loads_in_place(lambda k, data, turn: k.emit("ncc.wait"))


def test_loads_of_a_loop_in_which_tiles_exchange_data_stay() -> None:
    def change(kernel: Kernel, data: Value, turn: Value) -> None:
        kernel.emit("dte.broadcast", dst=data, src=data, tiles=3, n=64)

    loads_in_place(change, tiles=2)


def test_loads_by_another_worker_stay() -> None:
    def change(kernel: Kernel, data: Value, turn: Value) -> None:
        with kernel.on_worker(1):
            kernel.emit("td.memset.fp32", dst=kernel.buffer("other", 256), value=0.0, n=1)

    loads_in_place(change)


def test_an_address_that_only_the_turn_knows_keeps_a_load_in_its_place() -> None:
    x, _ = vectors(8 * SLICE)

    def lower(kernel: Kernel) -> None:
        kernel.ahead = True
        with kernel.loop(4) as turn:
            data = kernel.buffer("data", 4 * SLICE)
            known = kernel.registers.hold(kernel.registers.compute(turn * SLICE), 0, 4 * SLICE)
            kernel.emit("rdma.fp32", dst=data, src=x.at(known), n=SLICE)
            for _ in range(4):
                kernel.emit("ct.neg.v.fp32", dst=data, src0=data, n=SLICE)

    assert order(phase(lower).text())[0] == "loop0"


def test_of_two_loads_into_one_buffer_the_second_stays() -> None:
    x, y = vectors(4 * SLICE)

    def lower(kernel: Kernel) -> None:
        kernel.ahead = True
        with kernel.loop(4) as turn:
            data, result = kernel.buffer("data", 4 * SLICE), kernel.buffer("result", 4 * SLICE)
            for factor in (1, 2):
                kernel.emit("rdma.fp32", dst=data, src=x.at((3 - turn) * SLICE), n=SLICE)
                kernel.emit("ct.mul.vs.fp32", dst=result, src0=data, src1=float(factor), n=SLICE)
            kernel.emit("ct.add.vv.fp32", dst=result, src0=result, src1=data, n=SLICE)
            kernel.emit("wdma.fp32", dst=y.at((3 - turn) * SLICE), src=result, n=SLICE)

    data = np.arange(4 * SLICE, dtype=np.float32)
    got, lines = run_phase(lower, {"x": data}, [x], y, 1, strict=True)
    assert order(lines)[:4] == ["rdma", "loop0", "rdma", "end1"]
    assert order(lines).count("rdma") == 3
    np.testing.assert_array_equal(got, 3 * data)


def test_loads_in_nested_loops_run_ahead_in_the_inner_one() -> None:
    x, y = vectors(6 * SLICE)

    def lower(kernel: Kernel) -> None:
        kernel.ahead = True
        with kernel.loop(2) as outer:
            total = kernel.buffer("total", 4 * SLICE)
            kernel.emit("td.memset.fp32", dst=total, value=0.0, n=SLICE)
            with kernel.loop(3) as inner:
                data = kernel.buffer("data", 4 * SLICE)
                kernel.emit("rdma.fp32", dst=data, src=x.at((outer * 3 + inner) * SLICE), n=SLICE)
                for _ in range(3):
                    kernel.emit("ct.add.vv.fp32", dst=total, src0=total, src1=data, n=SLICE)
            kernel.emit("wdma.fp32", dst=y.at(outer * SLICE), src=total, n=SLICE)

    data = np.arange(6 * SLICE, dtype=np.float32) % 61
    got, _ = run_phase(lower, {"x": data}, [x], y, 1, strict=True)
    want = 3 * data.reshape(2, 3, SLICE).sum(1).reshape(-1)
    np.testing.assert_array_equal(got[: 2 * SLICE], want)


def test_loads_that_run_ahead_need_room_for_both_copies() -> None:
    x, y = vectors(4 * SLICE)
    with pytest.raises(SpmOverflow, match=r"p0\.\w+ of 32768 bytes does not fit"):
        phase(lambda kernel: chain(kernel, x, y), spm=10 * SLICE)
    assert phase(lambda kernel: chain(kernel, x, y, ahead=False), spm=10 * SLICE).spm.end <= 10 * SLICE


@pytest.mark.parametrize("rows", [37, 512, 1025])
@pytest.mark.parametrize("spm_bytes", [0x10000, 0x40000])
def test_networks_with_several_slices_are_right(rows: int, spm_bytes: int) -> None:
    for op in ("Softmax", "LayerNormalization", "Gelu"):
        shapes = [(rows, 256), (256,)] if op == "LayerNormalization" else [(rows, 256)]
        assert_right(one(op, shapes), "fp16", 16, small_machine(spm_bytes))


def test_constants_whose_loads_run_ahead_are_not_loaded_in_the_phase_before() -> None:
    x, y = vectors(4 * SLICE)
    moved, kept = (phase(lambda kernel, ahead=ahead: chain(kernel, x, y, ahead)) for ahead in (True, False))  # type: ignore[misc]
    assert any(isinstance(item, Issue) for item in moved.tree)
    assert not any(isinstance(item, Issue) for item in kept.tree)
    assert not find_head(moved, {"x"}, 10).instructions
