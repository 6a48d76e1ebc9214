"""Rounds of tiles that end without Python, by any number of threads, against rounds that Python ends.

Python handles the ends of all rounds in a run with an observer that needs them. Simulated time does not.
"""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chip_bench import W, build, chip
from emulator import native
from emulator.chip.pause import Pause
from emulator.chip.system import System
from emulator.engines import queues
from emulator.memory import stop
from emulator.native.primitives.memory import view_i64
from emulator.native.primitives.threads import atomic_add, atomic_load, relax
from emulator.tile.fault import Fault
from emulator.tile.observer import Observer
from emulator.tile.tile import Tile
from emulator.timing import layout
from emulator.timing.simulator import Simulator
from machine_code import needs_jit
from round_programs import outcome

FOUR, MANY = chip(4, 0x4000), chip(64, 0x1000)
EXIT = "\n li a0, 0\n li a7, 93\n ecall\n"
OWN = "_start: csrr s0, mhartid\n"


def run(text: str, machine: Any = FOUR, **options: Any) -> System:
    system = build(text + EXIT, machine, **options)
    system.run()
    return system


def observed(text: str, machine: Any = FOUR, **options: Any) -> System:
    """A run with an observer that needs the ends of rounds."""
    system = watched_system(text + EXIT, machine, **options)
    system.run()
    return system


def watched_system(text: str, machine: Any = FOUR, **options: Any) -> System:
    system = build(text, machine, **options)
    system.observers.append(Observer())
    return system


def python_rounds(
    monkeypatch: pytest.MonkeyPatch, text: str, runs: Callable[..., System] = run, **options: Any
) -> int:
    """Count the rounds of a program that Python ends."""
    ended, end_round = [], System.end_round

    def count(system: System) -> bool:
        ended.append(0)
        return end_round(system)

    monkeypatch.setattr(System, "end_round", count)
    runs(text, **options)
    return len(ended)


LOOP = f"{OWN} li s1, 100\n1: ncc.barrier\n addi s1, s1, -1\n bnez s1, 1b"
SENDS = LOOP.replace("1: ncc", "1: dte.unicast dst=0x104, src=0x100, tile=0, n=4\n dte.wait\n dte.wait\n ncc")


@needs_jit
def test_barriers_need_no_python(monkeypatch: pytest.MonkeyPatch) -> None:
    assert python_rounds(monkeypatch, LOOP) < 5
    assert python_rounds(monkeypatch, LOOP, threads=3) < 5


def test_python_ends_every_round_for_observers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert python_rounds(monkeypatch, LOOP, observed) > 100
    assert python_rounds(monkeypatch, LOOP, observed, timed=True) > 100


@needs_jit
def test_simulated_time_needs_no_python(monkeypatch: pytest.MonkeyPatch) -> None:
    assert python_rounds(monkeypatch, LOOP, timed=True) < 5
    assert python_rounds(monkeypatch, SENDS) < 5
    assert python_rounds(monkeypatch, SENDS, timed=True) < 5


@needs_jit
def test_logs_are_processed_before_they_are_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """100,000 barriers take 800,000 words of each log."""
    long = [0]
    advance = Simulator.advance

    def note(simulator: Simulator) -> None:
        long.append(max(log.used for log in simulator.logs))
        advance(simulator)

    monkeypatch.setattr(Simulator, "advance", note)
    barriers = LOOP.replace("li s1, 100", "li s1, 100000")
    rounds = 100000 * layout.SHORT_ROW // layout.LOG_PART
    assert rounds <= python_rounds(monkeypatch, barriers, timed=True) <= rounds + 3
    assert layout.LOG_PART < max(long) <= layout.LOG_PART + 4 * layout.SHORT_ROW


def test_time_is_that_of_rounds_that_python_ends() -> None:
    for text in (
        LOOP,
        SENDS,
        f"{OWN} beqz s0, 1f\n ncc.barrier tiles=14\n1: nop",
        schedule([15, 3, 12, 15, 5], 4),
    ):
        wanted = observed(text, timed=True)
        for threads in (1, 3):
            found = run(text, timed=True, threads=threads)
            assert found.simulator is not None and wanted.simulator is not None
            assert found.simulator.ends == wanted.simulator.ends
            assert outcome(found) == outcome(wanted)


def schedule(groups: list[int], tiles: int) -> str:
    """Each tile passes the barriers of the sets it is in, in order, and sends the next tile a sum between."""
    lines = [OWN, " li s1, 1"]
    for number, group in enumerate(groups):
        lines += [
            f" li t0, {group}",
            " srl t1, t0, s0",
            " andi t1, t1, 1",
            f" beqz t1, {number + 10}f",
            " ncc.barrier tiles=t0",
            f" li t2, {W.spm_weak}",
            " lw t3, 0x104(t2)",
            " add s1, s1, t3",
            " sw s1, 0x100(t2)",
            f" addi t4, s0, 1\n li t5, {tiles}\n rem t4, t4, t5",
        ]
        if number % 3 == 2:
            lines.append(" dte.unicast dst=0x104, src=0x100, tile=t4, n=4\n dte.wait")
        lines.append(f"{number + 10}:")
    return "\n".join(lines)


@settings(max_examples=15)
@given(st.lists(st.integers(1, 15), min_size=1, max_size=12), st.integers(1, 4))
def test_any_sets_of_tiles_as_with_an_observer(groups: list[int], threads: int) -> None:
    text = schedule(groups, 4)
    wanted = outcome(observed(text))
    assert outcome(run(text, threads=threads)) == outcome(run(text, timed=True)) == wanted


def test_sixty_four_tiles() -> None:
    groups = [(1 << 64) - 1, 1 << 63 | 1, (1 << 64) - 1]
    text = schedule(groups, 64)
    one = outcome(run(text, MANY))
    assert one == outcome(run(text, MANY, threads=2)) == outcome(observed(text, MANY))
    assert one == outcome(run(text, MANY, timed=True))


def message(text: str, limit: int | None = None, make: Callable[..., System] = build, **options: Any) -> str:
    system = make(text + EXIT, FOUR, **options)
    with pytest.raises(Fault) as fault:
        system.run(limit)
    return str(fault.value)


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        (f"{OWN} beqz s0, 9f\n ncc.barrier\n9:", None, "tile 1 .* waits at barrier 0xf for tile 0 .*exited"),
        (
            f"{OWN} ncc.barrier\n li t0, 3\n beqz s0, 1f\n li t0, 6\n1: ncc.barrier tiles=t0",
            None,
            "'tiles' = 0x6, expected a set with",
        ),
        (f"{OWN} ncc.barrier\n li t0, 1\n ncc.barrier tiles=t0", None, "'tiles' = 0x1, expected a set with"),
        (f"{OWN} ncc.barrier\n ebreak", None, "ebreak"),
        (f"{OWN}1: ncc.barrier\n j 1b", 1000, "stopped after 1000 instructions"),
    ],
)
def test_faults_are_those_with_an_observer(text: str, limit: int | None, expected: str) -> None:
    first = message(text, limit)
    assert re.search(expected, first)
    assert first == message(text, limit, threads=3) == message(text, limit, timed=True)
    assert first == message(text, limit, watched_system)


def test_a_pause_stops_in_the_round_that_it_always_did() -> None:
    text = schedule([15] * 6, 4)
    plain, watched = build(text + EXIT, FOUR), watched_system(text + EXIT)
    assert plain.run(pause=Pause(40)) and watched.run(pause=Pause(40))
    assert outcome(plain) == outcome(watched) and plain.quanta == watched.quanta
    plain.run()
    assert outcome(plain) == outcome(run(text))


def test_an_interrupt_ends_rounds_that_would_go_on_for_ever() -> None:
    class Stop(Exception):
        """Raised by the signal handler."""

    def stop(number: int, frame: object) -> None:
        raise Stop

    system = build(f"{OWN}1: ncc.barrier\n j 1b{EXIT}", FOUR, threads=2)
    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(Stop):
            system.run()
    finally:
        signal.signal(signal.SIGALRM, before)


@needs_jit
def test_a_defect_in_one_thread_leaves_no_other_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(system: System, *of: object) -> bool:
        raise ZeroDivisionError

    monkeypatch.setattr(System, "_go_on", broken)
    with pytest.raises(ZeroDivisionError):
        run(LOOP.replace(OWN, f"{OWN} csrr t1, misa\n"), threads=3)


# -- exits that need no Python -------------------------------------------------------------------------------


@needs_jit
def test_a_run_that_nobody_watches_comes_to_python_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tiles read their number, issue instructions, and exit in different rounds."""
    text = f"{OWN} td.memset.int32 dst=0x100, value=7, n=64\n ncc.wait\n bnez s0, 1f"
    text += "\n ncc.barrier tiles=1\n1:"
    reasons, serve = set[int](), System.serve

    def note(system: System, tile: Tile, reason: int) -> None:
        reasons.add(reason)
        serve(system, tile, reason)

    monkeypatch.setattr(System, "serve", note)
    assert python_rounds(monkeypatch, text, threads=2) == 1
    assert reasons == {stop.KERNEL}


def ending(call: str) -> str:
    """Tiles with work in the queues of two workers exit one by one, after their last words."""
    return f"""{OWN}
        td.memset.int32 dst=0x200, value=s0, n=64
        li t0, 1
        sll t0, t0, s0
        ncc.barrier tiles=t0
        td.memset.int32 dst=0x100, value=9, n=64
        td.memset.int32 dst=0x100, value=5, n=32, worker=1
        dte.unicast dst=0x400, src=0x200, tile=s0, n=64
        slli a0, s0, 8
        li a7, {call}
        ecall
        ebreak"""


@pytest.mark.parametrize("call", ["93", "94"])
@pytest.mark.parametrize("threads", [1, 3])
def test_exits_are_those_with_an_observer(call: str, threads: int) -> None:
    plain, watched = run(ending(call), threads=threads), observed(ending(call))
    assert outcome(plain) == outcome(watched)
    assert [tile.exit_code for tile in plain.tiles] == [0] * 4
    assert all(not tile.pending() and tile.spm.data[0x400] == tile.number for tile in plain.tiles)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{OWN} mv a0, s0\n li a7, 93\n ecall", "the program exited with status 1"),
        (f"{OWN} li a7, 92\n ecall\n mv a0, s0\n li a7, 94\n ecall", "the program exited with status 1"),
        (f"{OWN} li a7, 93\n beqz s0, 1f\n ebreak\n1:", "ebreak: there is no debugger"),
        (f"{OWN} csrw mhartid, s0", "csrrw: cannot write CSR 0xf14, mhartid"),
        (f"{OWN} csrs mhartid, s0", "csrrs: cannot write CSR 0xf14, mhartid"),
        ("_start: csrr s0, 0xf15", "cannot read CSR 0xf15"),
    ],
)
def test_what_python_serves_as_before(text: str, expected: str) -> None:
    first = message(text)
    assert expected in first
    assert (
        first == message(text, threads=3) == message(text, timed=True) == message(text, None, watched_system)
    )


@pytest.mark.parametrize("read", ["csrr s1, mhartid", "csrrc s1, mhartid, zero", "csrrsi s1, mhartid, 0"])
def test_every_way_to_read_the_number_of_the_core(read: str) -> None:
    system = run(f"_start: csrr zero, mhartid\n {read}", MANY)
    assert [tile.register(9) for tile in system.tiles] == list(range(64))
    assert {(tile.retired, tile.register(0)) for tile in system.tiles} == {(5, 0)}


# -- priorities that need no Python --------------------------------------------------------------------------

PRIORITIES = f"{OWN} li t0, {W.ncc + 0x760}\n li t1, {W.ncc_stride}\n add t1, t1, t0\n"
FILLS = """
 td.memset.int32 dst=0x100, value=9, n=64
 td.memset.int32 dst=0x100, value=5, n=64, worker=1
 ncc.barrier
"""
"""Two workers fill the same bytes; the bytes of the worker that the engine serves last remain."""


def priorities(system: System) -> list[list[int]]:
    return [tile.queue[queues.PRIORITY :: queues.WORDS].tolist() for tile in system.tiles]


@needs_jit
@pytest.mark.parametrize(
    ("stores", "served"),
    [
        ("addi t2, s0, 1\n sd t2, 0(t1)\n sd zero, 0(t0)", False),
        ("li t2, -2\n sd t2, 0(t0)\n ld s2, 0(t0)", True),  # the load
        ("li t2, 3\n sw t2, 0(t0)\n addi t0, t0, 4\n sw t2, 0(t0)", True),
        ("addi s1, t0, 0\n li a0, 7\n c.sd a0, 0(s1)", True),
        ("li t2, 1\n sd t2, 0x20(t0)", True),  # serial mode
    ],
)
def test_priorities_are_those_with_an_observer(
    monkeypatch: pytest.MonkeyPatch, stores: str, served: bool
) -> None:
    text = f"{PRIORITIES}{stores}\n{FILLS}"
    watched, reasons, serve = observed(text), set[int](), System.serve

    def note(system: System, tile: Tile, reason: int) -> None:
        reasons.add(reason)
        serve(system, tile, reason)

    monkeypatch.setattr(System, "serve", note)
    for options in ({}, {"threads": 3}, {"timed": True}):
        plain = run(text, **options)
        assert outcome(plain) == outcome(watched)
        assert priorities(plain) == priorities(watched)
        assert plain.altered == served
    assert (stop.MEMORY in reasons) == served


@pytest.mark.parametrize("store", ["sd t1, 0(t2)", "sd s0, 4(t0)", "sb s0, 0(t0)", "sd s0, -0x770(t0)"])
def test_stores_beside_the_priorities_are_refused_as_before(store: str) -> None:
    beyond = f"{PRIORITIES} slli t2, t1, 0\n li t3, {8 * W.ncc_stride}\n add t2, t0, t3\n {store}"
    assert message(beyond) == message(beyond, timed=True) == message(beyond, None, watched_system)


# -- words that several threads change -----------------------------------------------------------------------


def count(address: int, times: int) -> int:
    for _ in range(times):
        atomic_add(address, 3)
    return atomic_load(address)


def patience(first: int, last: int) -> int:
    total = 0
    for looks in range(first, last):
        total += relax(looks)
    return total


@needs_jit
def test_no_addition_is_lost() -> None:
    kernel, word = native.compile_kernel(count, "atomic count", 2), np.zeros(1, np.int64)
    each = 200_000
    threads = [threading.Thread(target=native.call, args=(kernel, word.ctypes.data, each)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert word[0] == 3 * 4 * each


def test_the_plain_meaning_of_additions() -> None:
    word = np.int64([5])
    assert (atomic_add(word.ctypes.data, -7), atomic_load(word.ctypes.data)) == (5, -2)
    assert view_i64(word.ctypes.data, 1)[0] == -2
    assert native.call(native.compile_kernel(count, "atomic count", 2), word.ctypes.data, 4) == 10


@needs_jit
def test_waiting_gives_nothing_at_any_length() -> None:
    kernel = native.compile_kernel(patience, "patience", 2)
    assert native.call(kernel, 0, 2200) == 0 == patience(0, 2)
