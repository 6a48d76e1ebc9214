"""Snapshots: a run that is cut anywhere ends like an uncut one; damaged files are refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import asm
import compiler
import emulator
from compiler_harness import one
from dte_harness import EXIT, only
from emulator.chip.pause import Pause
from emulator.chip.system import System
from emulator.debug.snapshot.chip import restore, save
from emulator.debug.snapshot.types import SnapshotError
from emulator.memory.buffers import travel_dtype
from emulator.tile.fault import Fault
from emulator.tile.tile import Status
from paths import ROOT
from saved_runs import FOUR, ONE, PROGRAMS, SELF, Run, build, cut, longest, through_file, whole
from stream_programs import CONFIG, SPM_STREAM, config, fsm
from tx8isa.machine.description import load_machine


@pytest.fixture(params=PROGRAMS)
def program(request: pytest.FixtureRequest) -> str:
    """The name of each program."""
    name: str = request.param
    return name


# --- the rest of a run -------------------------------------------------------------------------------------


@pytest.mark.long
def test_cut_after_every_instruction(program: str) -> None:
    expected = whole(program)
    end = longest(expected)
    for place in range(1, end, max(end // 12, 1)):
        assert cut(program, place) == expected, place


@pytest.mark.parametrize("quantum", [5, 17])
def test_cut_in_the_middle_of_rounds(program: str, quantum: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("emulator.chip.system.QUANTUM", quantum)
    expected = whole(program)
    end = longest(expected)
    for place in range(2, end, max(end // 8, 1)):
        assert cut(program, place) == expected, place


@pytest.mark.long
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(sorted(PROGRAMS)), st.sets(st.integers(1, 60), min_size=1, max_size=4), st.booleans())
def test_cut_several_times(name: str, places: set[int], serial: bool) -> None:
    expected = whole(name, serial=serial)
    inside = sorted(place for place in places if place < longest(expected))
    assert cut(name, *inside, serial=serial) == expected


@pytest.mark.parametrize("place", [3, 20, 33, 47, 60])
def test_simulated_time_goes_on(place: int) -> None:
    expected = whole("ring", timed=True)
    assert expected["cycles"] > 0
    assert cut("ring", place, timed=True) == expected


def test_what_is_on_its_way_is_part_of_the_state() -> None:
    """The cuts above meet instructions in queues, copies, updates, and tiles at a barrier."""
    met = set()
    for name in ("ring", "workers", "stream"):
        run = Run(name)
        while run.system.run(pause=Pause(max(tile.retired for tile in run.system.tiles) + 1)):
            for tile in save(run.system).tiles:
                met |= {"queue"} if any(worker.entries for worker in tile.workers) else set()
                met |= {type(work).__name__ for work in tile.started} | {tile.status}
                met |= {"output"} if tile.output else set()
    assert met >= {"queue", "SavedCopy", "output", "RUNNING", "BARRIER", "SENDING", "EXITED"}


def test_an_update_on_its_way() -> None:
    text = only(
        0,
        fsm({CONFIG + 4 * SPM_STREAM: config(48)}) + " li t0, 0x670000\n li t1, 1\n"
        f" li t2, {SPM_STREAM << 12}\n or t1, t1, t2\n sw t1, 0(t0)\n nop\n nop\n",
    )
    system, other = build(text, FOUR), build(text, FOUR)
    for place in range(1, 100):
        system.run(pause=Pause(place))
        if system.traffic.started[0]:
            break
    restore(other, through_file(system))
    assert other.traffic.started[0] == system.traffic.started[0] != []
    other.run()
    assert other.traffic.dte.streams[0].ready[SPM_STREAM] == 1


def test_stop_at_a_label() -> None:
    text = "_start: li s1, 5\nloop: addi s1, s1, -1\n bnez s1, loop\ndone: nop\n" + EXIT
    image = asm.assemble(text, machine=FOUR)
    system = System(image, FOUR)
    at = image.symbols["done"].address
    assert system.run(pause=Pause(addresses=frozenset((at,))))
    assert [(tile.pc, tile.register(9)) for tile in system.tiles] == [(at, 0)] * 4
    other = System(image, FOUR)
    restore(other, through_file(system))
    assert not other.run()
    assert not system.run()
    assert [t.retired for t in other.tiles] == [t.retired for t in system.tiles]


def test_a_label_in_code_that_was_fetched_again() -> None:
    run = Run("self")
    image = asm.assemble(SELF, machine=ONE)
    assert run.system.run(pause=Pause(addresses=frozenset((image.symbols["place"].address,))))
    assert run.system.tiles[0].register(18) == 0
    run.system.run()
    assert run.result() == whole("self")


def test_a_label_that_is_not_reached_changes_nothing() -> None:
    run = Run("ring")
    assert not run.system.run(pause=Pause(addresses=frozenset((0x8000_0002,))))
    assert run.result() == whole("ring")


def test_going_back_in_the_same_system() -> None:
    run = Run("ring")
    run.system.run(pause=Pause(20))
    saved, written = save(run.system), list(run.output)
    run.system.run()
    first = run.result()
    run.output[:] = written
    restore(run.system, saved)
    assert save(run.system) == saved
    run.system.run()
    assert run.result() == first == whole("ring")


def test_a_fault_comes_at_the_same_place() -> None:
    text = "_start: li s1, 9\n1: addi s1, s1, -1\n bnez s1, 1b\n lw a0, 0(zero)\n"
    messages = []
    for place in (None, 4):
        system = build(text)
        if place:
            system.run(pause=Pause(place))
            saved, system = through_file(system), build(text)
            restore(system, saved)
        with pytest.raises(Fault) as fault:
            system.run()
        messages.append(str(fault.value))
    assert messages[0] == messages[1]


def test_rules_of_the_machine_are_kept() -> None:
    text = "_start: ct.add.vv.fp16 dst=0x3fff00, src0=0, src1=0, n=512\n nop\n" + EXIT
    text = "_start: li t0, 0x3ff0\n ct.add.vv.fp16 dst=t0, src0=0, src1=0, n=512\n nop\n" + EXIT
    system = build(text, on_exception="drop")
    system.run(pause=Pause(3))
    saved = through_file(system)
    with pytest.raises(SnapshotError, match="on_exception='drop'"):
        restore(build(text), saved)
    other = build(text, on_exception="drop")
    restore(other, saved)
    other.run()
    assert other.tiles[0].status is Status.EXITED


@pytest.mark.parametrize("name", ["hello", "vuv_loop", "gemm_tiled", "allgather_ring"])
def test_examples_go_on(name: str) -> None:
    machine = load_machine(None)
    image = asm.assemble_file(ROOT / "examples/assembly" / f"{name}.s")
    check_program(emulator.Program(image, machine), name)


def test_a_compiled_program_goes_on() -> None:
    made = one("Conv", [(8, 3, 10, 10), (16, 3, 3, 3)], pads=(1, 1, 1, 1))
    program = compiler.compile(made, "fp16")
    check_program(emulator.Program(program.image, load_machine(None)), "conv")


def check_program(program: emulator.Program, seed: str) -> None:
    """Outputs, memory, counts and cycles of a run that was cut at a random place."""
    rng = np.random.default_rng(len(seed))
    inputs = {
        buffer.name: rng.integers(0, 4, buffer.shape).astype(travel_dtype(buffer))
        for buffer in program.inputs
    }
    shown: list[bytes] = []
    whole = program.start(inputs, timed=True, show=lambda _, data: shown.append(data))
    whole.run()
    place = int(rng.integers(1, max(tile.retired for tile in whole.tiles)))
    expected, outputs = list(shown), program.results(whole)
    shown.clear()
    first = program.start(inputs, timed=True, threads=2, show=lambda _, data: shown.append(data))
    assert first.run(pause=Pause(place))
    saved = through_file(first)
    second = program.start({}, snapshot=saved, timed=True, show=lambda _, data: shown.append(data))
    second.run()
    assert b"".join(shown) == b"".join(expected)
    for name, array in program.results(second).items():
        assert np.array_equal(array, outputs[name], equal_nan=array.dtype.kind == "f")
    for tile, other in zip(whole.tiles, second.tiles, strict=True):
        assert tile.retired == other.retired
        assert np.array_equal(tile.spm.data, other.spm.data)
        assert np.array_equal(tile.counts, other.counts)
    assert second.cycles == whole.cycles
