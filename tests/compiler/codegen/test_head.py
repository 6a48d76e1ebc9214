"""Heads: the instructions of a phase that can begin before it, and the places where they are inserted."""

from __future__ import annotations

import re

import numpy as np
import pytest

import emulator
from asm.image import read_image, write_image
from compiler.codegen.kernel import Kernel, Target
from compiler.codegen.schedule.head import find_head
from compiler.codegen.schedule.phases import ScheduledPhase, schedule
from compiler.codegen.slices.tensors import DdrTensor
from compiler.driver import compile_graph
from compiler.graph import Graph
from compiler.tools.run import check, random_inputs
from compiler_harness import NodeSpec, draw, graph
from tx8isa.numbers.formats import Format

TABLE = DdrTensor("table", Format.FP32, (1 << 20,))
INPUT = DdrTensor("x", Format.FP32, (1 << 20,))


def kernel(prefix: str = "p0", synchronized: bool = True) -> Kernel:
    return Kernel(prefix, Target(16, 0x2F0000, Format.FP32), 0x2F0000, synchronized=synchronized)


def mnemonics(of: Kernel) -> list[str]:
    head = find_head(of, {"table"}, 64)
    return [each.issue.mnemonic for each in head.instructions]


def load(k: Kernel, name: str, source: DdrTensor, n: int = 64) -> object:
    buffer = k.buffer(name, 4 * n)
    k.emit("rdma.fp32", dst=buffer, src=source.at(k.tile * n), n=n)
    return buffer


def test_loads_of_constants_and_what_is_computed_of_them() -> None:
    k = kernel()
    a = load(k, "a", TABLE)
    k.emit("ct.square.v.fp32", dst=a, src0=a, n=64)
    ones = k.buffer("ones", 256)
    k.emit("td.memset.fp32", dst=ones, value=1.0, n=64)
    k.await_earlier_phases()
    x = load(k, "x", INPUT)
    k.emit("ct.mul.vv.fp32", dst=x, src0=x, src1=a, n=64)
    assert mnemonics(k) == ["rdma.fp32", "ct.square.v.fp32", "td.memset.fp32"]


def test_wait_is_before_the_first_use_outside_of_the_head() -> None:
    k = kernel()
    a = load(k, "a", TABLE)
    k.await_earlier_phases()
    x = load(k, "x", INPUT)
    k.emit("ct.mul.vv.fp32", dst=x, src0=x, src1=a, n=64)
    head = find_head(k, {"table"}, 64)
    assert head.wait is not None
    assert k.out.lines[head.wait.line].split()[0] != "rdma.fp32"
    assert head.wait.number == 4  # load, ncc.wait, ncc.barrier, load: the product is number 4


def test_what_does_not_belong_to_a_head() -> None:
    """Data that phases write, buffers in use before, loop iterations, copies, buffers that others write."""
    k = kernel()
    x = load(k, "x", INPUT)
    k.emit("rdma.fp32", dst=x, src=TABLE.at(0), n=64)
    with k.loop(4) as turn:
        inner = k.buffer("inner", 256)
        k.emit("rdma.fp32", dst=inner, src=TABLE.at(turn * 64), n=64)
    target = k.buffer("target", 256)
    k.receive(target)
    k.emit("rdma.fp32", dst=target, src=TABLE.at(0), n=64)
    k.emit("dte.broadcast", dst=target, src=x, tiles=0xFFFF, n=256)
    assert mnemonics(k) == []


def test_a_loop_of_at_most_one_turn_is_a_condition() -> None:
    k = kernel()
    with k.if_below(k.tile, 5):
        load(k, "a", TABLE)
    (early,) = find_head(k, {"table"}, 64).instructions
    assert len(early.conditions) == 1


def test_values_of_registers_are_computed_again() -> None:
    k = kernel()
    first = k.let(k.tile * 64 + 7)
    buffer = k.buffer("a", 256)
    k.emit("rdma.fp32", dst=buffer, src=TABLE.at(first), n=64)
    assert mnemonics(k) == ["rdma.fp32"]


def test_addresses_in_registers_are_looked_through() -> None:
    """An input's data at an address in a register, and arithmetic on a buffer that such a load fills."""
    k = kernel()
    x = k.buffer("x", 256)
    first = k.let(k.tile * 64 + INPUT.at(0))
    k.emit("rdma.fp32", dst=x, src=first, n=64)
    address = k.let(k.tile * 4 + x)
    k.emit("ct.square.v.fp32", dst=address, src0=address, n=4)
    with k.loop(4) as turn:
        inner = k.let(turn * 64 + k.buffer("y", 1024))
        k.emit("rdma.fp32", dst=inner, src=TABLE.at(turn * 64), n=16)
    assert mnemonics(k) == []
    table = k.let(k.tile * 64 + TABLE.at(0))
    z = k.let(k.tile * 4 + k.buffer("z", 1024))
    k.emit("rdma.fp32", dst=z, src=table, n=64)
    k.emit("ct.square.v.fp32", dst=z, src0=z, n=64)
    assert mnemonics(k) == ["rdma.fp32", "ct.square.v.fp32"]


def test_a_buffer_is_alive_as_long_as_a_register_has_its_address() -> None:
    k = kernel()
    a, b = k.buffer("a", 256), k.buffer("b", 256)
    k.emit("rdma.fp32", dst=a, src=TABLE.at(0), n=64)
    address = k.let(k.tile * 4 + a)
    k.emit("rdma.fp32", dst=b, src=TABLE.at(64), n=64)
    k.emit("ct.add.vv.fp32", dst=b, src0=b, src1=address, n=4)
    k.spm.place(512)
    first, second = k.spm.buffers
    assert abs(first.address - second.address) >= 256


def test_a_prefix_of_a_head() -> None:
    k = kernel()
    for name in "abc":
        load(k, name, TABLE)
    assert len(find_head(k, {"table"}, 2).instructions) == 2


def test_little_is_loaded_for_what_comes_after_the_wait() -> None:
    """A phase waits for all of the head at once, so loads needed later would delay the first ones."""
    k = kernel()
    a = load(k, "a", TABLE, 1 << 16)
    k.emit("dte.broadcast", dst=k.buffer("target", 256), src=a, tiles=0xFFFF, n=256)
    for name, n in (("b", 6144), ("c", 2048), ("d", 64), ("e", 64)):
        load(k, name, TABLE, n)
    assert [each.arguments["n"] for each in find_head(k, {"table"}, 64).instructions] == [1 << 16, 6144, 2048]


def two_phases(bytes_of_first: int = 1024, n: int = 8192) -> list[ScheduledPhase]:
    first, second = kernel("p0", False), kernel("p1")
    buffer = first.buffer("x", bytes_of_first)
    first.emit("rdma.fp32", dst=buffer, src=INPUT.at(0), n=64)
    first.emit("ct.square.v.fp32", dst=buffer, src0=buffer, n=64)
    a = load(second, "a", TABLE, n)
    second.await_earlier_phases()
    x = load(second, "x", INPUT, n)
    second.emit("ct.mul.vv.fp32", dst=x, src0=x, src1=a, n=n)
    return schedule([("one", first), ("two", second)], {"table"})


def test_head_is_in_the_phase_before_on_another_worker() -> None:
    one, two = two_phases()
    host, guest = "\n".join(one.lines()), "\n".join(two.lines())
    assert re.search(r'\.node "two"\n(.*\n)*.*rdma\.fp32 .*worker=2\n +\.node "one"', host)
    assert guest.count("rdma.fp32") == 1
    assert guest.count("ncc.wait                worker=2") == 1
    buffers = [buffer for phase in (one, two) for buffer in phase.kernel.spm.buffers]
    x, a = buffers[0], buffers[1]
    assert a.address + a.span <= x.address or x.address + x.span <= a.address


@pytest.mark.parametrize("small", [False, True])
def test_instructions_of_a_head_share_a_condition_in_small_code(small: bool) -> None:
    target = Target(16, 0x2F0000, Format.FP32, small=small)
    one, two = (Kernel(prefix, target, 0x2F0000, synchronized=prefix == "p1") for prefix in ("p0", "p1"))
    one.emit("rdma.fp32", dst=one.buffer("x", 1024), src=INPUT.at(0), n=64)
    with two.if_below(two.tile, 5):
        for name in ("a", "b"):
            load(two, name, TABLE, 4096)
    load(two, "c", TABLE, 4096)
    two.await_earlier_phases()
    host, _ = schedule([("one", one), ("two", two)], {"table"})
    text = host.lines()
    assert sum("worker=2" in line for line in text) == 3
    assert sum(line.split()[0] in ("blt", "bge") for line in text if line.split()) == (1 if small else 2)
    assert all(line.strip() for line in text)


@pytest.mark.parametrize(("before", "address"), [(0, 0x2F0000 - 32768), (1, 0)])
def test_a_head_begins_where_its_phase_counts_addresses(before: int, address: int) -> None:
    """Odd phases count from the end of the scratchpad, so the head is there, contiguous with their other
    buffers."""
    empty, host, phase = kernel("p0", False), kernel("p1", False), kernel("p2")
    held = host.buffer("x", 2048)
    host.emit("rdma.fp32", dst=held, src=INPUT.at(0), n=64)
    a = load(phase, "a", TABLE, 8192)
    phase.await_earlier_phases()
    phase.emit("ct.square.v.fp32", dst=a, src0=a, n=64)
    phases = [("empty", empty)] * before + [("host", host), ("phase", phase)]
    schedule(phases, {"table"})
    assert phase.spm.buffers[0].address == address


@pytest.mark.parametrize(("held", "n"), [(0x2EF000, 8192), (1024, 64)])
def test_no_head_without_room_or_for_little(held: int, n: int) -> None:
    one, two = two_phases(held, n)
    assert not one.guests
    assert "worker" not in "\n".join(two.lines())


def test_large_loads_are_divided_where_there_are_many_places() -> None:
    first, second = kernel("p0", False), kernel("p1")
    sent = first.buffer("x", 1024)
    for _ in range(6):
        first.emit("dte.broadcast", dst=sent, src=sent, tiles=0xFFFF, n=256)
        first.emit("dte.wait")
        first.synchronize()
    load(second, "a", TABLE, 1 << 16)
    one, _ = schedule([("one", first), ("two", second)], {"table"})
    counts = [int(n) for n in re.findall(r"rdma\.fp32 .*n=(\d+), worker=2", "\n".join(one.lines()))]
    assert sum(counts) == 1 << 16
    assert max(counts) == 4096
    assert len(one.guests) > 2


def host_of_all_workers(released: list[int]) -> list[ScheduledPhase]:
    """A phase that loads with both workers besides 0 and waits for them, and one with a head."""
    first, second = kernel("p0", False), kernel("p1")
    for worker in (1, 2):
        with first.on_worker(worker):
            load(first, "own", TABLE)
        first.await_worker(worker)
        if worker in released:
            first.released[worker] = first.out.count
    load(first, "x", INPUT)
    a = load(second, "a", TABLE, 8192)
    second.await_earlier_phases()
    second.emit("ct.square.v.fp32", dst=a, src0=a, n=64)
    return schedule([("one", first), ("two", second)], {"table"})


@pytest.mark.parametrize(("released", "worker"), [([1], 1), ([2], 2), ([1, 2], 1)])
def test_a_head_takes_a_worker_that_the_host_has_released(released: list[int], worker: int) -> None:
    one, two = host_of_all_workers(released)
    assert two.worker == worker
    (line,) = one.guests
    assert line >= one.kernel.released[worker]
    assert f"ncc.wait                worker={worker}" in "\n".join(two.lines())


def test_no_head_where_the_host_keeps_its_workers() -> None:
    one, _ = host_of_all_workers([])
    assert not one.guests


def chain() -> Graph:
    """Two convolutions with a softmax between them; the weights of the second are worth an early load."""
    constants = {f"w{at}": draw(256, 256, 1, 1, seed=at, scale=1 / 16) for at in range(2)}
    nodes: list[NodeSpec] = [
        ("Conv", ["x", "w0"], ["a"], {}),
        ("Softmax", ["a"], ["b"], {"axis": 1}),
        ("Conv", ["b", "w1"], ["y"], {}),
    ]
    return graph(nodes, {"x": (1, 256, 6, 6)}, constants)


def runs_clean(made: Graph, dtype: str, tiles: int) -> str:
    program = compile_graph(made, dtype, tiles)
    inputs = random_inputs(made, {}, 3)
    assert all(verdict.ok for verdict in check(program, inputs).verdicts.values())
    loaded = emulator.Program(read_image(write_image(program.image), "prog.bin"), program.machine)
    loaded.run(inputs, strict=True)
    assert loaded.hazards == ()
    return program.text


def test_a_program_with_heads_is_right_and_without_hazards() -> None:
    assert "worker=2" in runs_clean(chain(), "fp16", 16)


def test_results_do_not_depend_on_when_workers_execute() -> None:
    """Serial mode, in which an instruction waits for all older ones of its worker, gives the same bytes."""
    made = chain()
    program = compile_graph(made, "fp16", 16)
    loaded = emulator.Program(read_image(write_image(program.image), "prog.bin"), program.machine)
    inputs = random_inputs(made, {}, 3)
    expected = dict(loaded.run(inputs))
    found = dict(loaded.run(inputs, serial=True))
    np.testing.assert_array_equal(found["y"], expected["y"])
