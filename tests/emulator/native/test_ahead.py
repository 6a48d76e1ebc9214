"""Kernels compiled in separate processes, before a program needs them."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import numpy as np
import pytest

import asm
from asm.image import Image
from emulator import native
from emulator.chip import memories
from emulator.chip.system import System
from emulator.engines import expected, slots, tables
from emulator.native import ahead, store
from machine_code import needs_jit
from tx8isa.machine.description import load_machine

MACHINE = load_machine(None)
PROGRAM = """
_start: ct.add.vv.fp16 dst=0x100, src0=0x200, src1=0x300, n=4
    ct.cvt.fp32.fp16 dst=0x100, src0=0x200, n=4, rnd=rtz
    ct.relu.v.bf16 dst=0x100, src0=0x200, n=4
    ct.relu.v.bf16 dst=0x100, src0=0x200, n=4
    ncc.wait
    li a0, 0
    li a7, 93
    ecall
"""


def image() -> Image:
    return asm.assemble(PROGRAM)


def test_every_job_runs_once_and_a_failing_one_is_left_out(tmp_path: Path) -> None:
    def job(number: int) -> None:
        if number == 3:
            raise ValueError
        with (tmp_path / str(number)).open("x") as file:
            file.write(str(os.getpid()))

    done: list[int] = []
    ahead.run_all([lambda number=number: job(number) for number in range(1100)], lambda: done.append(1))
    written = {int(path.name): path.read_text() for path in tmp_path.iterdir()}
    assert sorted(written) == [number for number in range(1100) if number != 3]
    assert str(os.getpid()) not in written.values()
    assert len(done) == 1100


def test_the_text_says_which_kernels_are_needed() -> None:
    system = System(image(), MACHINE)
    system.run()
    filled = np.flatnonzero(system.slots.words[:, 0]).tolist()
    assert system.code.expected_slots == filled
    assert len(filled) == 3
    assert sum(tables.slot_parts(slot)[2] is False for slot in filled) == 1  # rnd=rtz


def test_every_slot_can_be_compiled_and_what_a_program_needs_is_among_them() -> None:
    every = expected.all_slots()
    assert len(every) == len(set(every)) > 600
    needed = System(image(), MACHINE).code.expected_slots
    assert [slot & tables.ROUNDED for slot in needed if slot not in every] == [tables.ROUNDED]
    assert {tables.slot_parts(slot)[0].mnemonic for slot in every} == {
        record.mnemonic for number, record in enumerate(tables.records()) if expected.has_kernels(number)
    }


@pytest.fixture
def processes(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of jobs given to processes, with two processors and an empty cache."""
    given: list[int] = []
    run_all = ahead.run_all
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    monkeypatch.setattr(ahead, "run_all", lambda jobs: (given.append(len(jobs)), run_all(jobs)))
    return given


@pytest.mark.long
@needs_jit
def test_a_first_run_compiles_side_by_side_and_a_second_one_not(processes: list[int]) -> None:
    wanted = System(image(), MACHINE).code.expected_slots
    assert processes == [3 + len(wanted)]  # the loop of the core, the issue function, and the rounds
    built: list[str] = []
    before, native.on_compile = native.on_compile, lambda name, seconds: built.append(name)
    try:
        System(image(), MACHINE).run()
    finally:
        native.on_compile = before
    assert (processes, built) == ([3 + len(wanted)], [])


@pytest.mark.long
@needs_jit
def test_simulated_time_is_compiled_with_the_rest(processes: list[int]) -> None:
    wanted = System(image(), MACHINE, timed=True).code.expected_slots
    assert processes == [5 + len(wanted)]


@needs_jit
def test_nothing_is_compiled_where_only_the_cache_counts(own_cache: Path) -> None:
    (wanted, *_) = memories.Memories(image(), MACHINE).code.expected_slots
    with native.cached_only(), pytest.raises(native.Missing):
        slots.Slots().compile(wanted)
    address = slots.Slots().compile(wanted)
    with native.cached_only():
        assert slots.Slots().compile(wanted) == address


@needs_jit
def test_nothing_is_started_where_it_cannot_help(
    processes: list[int], own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = slots.Slots().jobs(memories.Memories(image(), MACHINE).code.expected_slots)
    monkeypatch.setattr(threading, "active_count", lambda: 2)
    ahead.prepare(jobs)
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    ahead.prepare(jobs[:1])
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    ahead.prepare(jobs)
    assert processes == []


def test_where_kernels_can_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TX8_CACHE_DIR", str(tmp_path / "not" / "there"))
    assert store.is_kept()
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TX8_CACHE_DIR", str(tmp_path / "file"))
    assert not store.is_kept()
