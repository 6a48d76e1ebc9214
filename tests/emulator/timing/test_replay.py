"""The time of a run at both ends of the ranges, and with the C runtime's submissions, against runs on
machines that have these figures as values."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest

import asm
from chip_bench import TX81, chip
from emulator.chip.system import System
from emulator.tile.observer import Observer
from emulator.timing import layout, replay
from emulator.timing.replay import TimeRange
from emulator.timing.simulator import Simulator
from time_bench import EXIT, Keep
from tx8isa.machine.description import Machine
from tx8isa.machine.ends import End, at_end, figures
from tx8isa.machine.figures import Coefficient

MACHINE = chip(4, 0x40000)
DDR = 0x2_8020_0000
MIXED = f"""csrr s0, mhartid
    slli s1, s0, 14
    li s2, {DDR}
    add s2, s2, s1
    li t1, 60
1:  rdma.fp16 dst=0x1000, src=s2, n=512
    rdma.fp16 dst=0x2000, src=s2, n=64, stride0=512, iter0=8, worker=1
    ct.exp.v.fp16 dst=0x3000, src0=0x1000, n=512
    ct.div.vv.fp16 dst=0x3000, src0=0x1000, src1=0x1000, n=512
    ne.gemm.fp16 a=0x4000, b=0x5000, out=0x6000, m=8, k=16, n=16
    wdma.fp16 dst=s2, src=0x3000, n=512
    td.memset.fp16 dst=0x7000, value=0, n=512
    addi t1, t1, -1
    bnez t1, 1b
    ncc.wait
    ncc.wait worker=1
    addi t2, s0, 1
    andi t2, t2, 3
    dte.unicast dst=0x9000, src=0x3000, n=1024, tile=t2
    dte.wait
    ncc.barrier
    sc.recip.fp32 src=2.0"""


def cycles(text: str, machine: Machine) -> float:
    """The time of a run of its own."""
    sink = Keep()
    System(asm.assemble(f"_start: {text}{EXIT}"), machine, sinks=[sink]).run()
    return max(sink.ends) / 1000


def ranged(text: str, machine: Machine = MACHINE, **options: Any) -> tuple[float, TimeRange]:
    """The time of a run, and the range that it was asked for."""
    sink, wanted = Keep(), TimeRange()
    System(asm.assemble(f"_start: {text}{EXIT}"), machine, sinks=[sink, wanted], **options).run()
    return max(sink.ends) / 1000, wanted


def with_ranges(machine: Machine, rng: Random) -> Machine:
    """The machine with a random range about every coefficient of time."""

    def changed(table: msgspec.Struct) -> msgspec.Struct:
        parts: dict[str, Any] = {}
        for name in table.__struct_fields__:
            old = getattr(table, name)
            if isinstance(old, Coefficient):
                low, high = old.value * rng.uniform(0.5, 1), old.value * rng.uniform(1, 2) + 1e-3
                parts[name] = msgspec.structs.replace(old, least=low, most=high)
            elif isinstance(old, msgspec.Struct):
                parts[name] = changed(old)
        return msgspec.structs.replace(table, **parts)

    return msgspec.structs.replace(machine, timing=changed(machine.timing))


@pytest.mark.parametrize("threads", [1, 2])
def test_the_ends_are_those_of_runs_of_their_own(threads: int) -> None:
    middle, found = ranged(MIXED, threads=threads)
    assert found.least == cycles(MIXED, at_end(MACHINE, End.LEAST))
    assert found.most == cycles(MIXED, at_end(MACHINE, End.MOST))
    assert middle == cycles(MIXED, MACHINE)
    assert found.least < middle < found.most


@pytest.mark.parametrize("end", End)
def test_the_c_runtime_is_that_of_a_run_of_its_own(end: End) -> None:
    machine = at_end(MACHINE, end)
    middle, found = ranged(MIXED, machine)
    own, itself = ranged(MIXED, machine.issued_by("c-runtime"))
    assert found.c_runtime == own > middle
    assert itself.least is not None and itself.c_runtime is None, "the run has these submissions"


def test_a_program_with_the_library_for_c_has_no_figure_of_the_c_runtime() -> None:
    """Its log has the time of the library's code, for which a run with those submissions counts none."""
    _, found = ranged(f"slti x0, x0, 1\n{MIXED}\n slti x0, x0, 2")
    assert found.least is not None and found.c_runtime is None


@pytest.mark.parametrize("seed", range(4))
def test_every_coefficient_has_its_effect(seed: int) -> None:
    """Ranges everywhere: the logs keep no cost from the run."""
    machine = with_ranges(MACHINE, Random(seed))
    assert all(figure.least <= figure.value < figure.most for _, figure in figures(machine.timing))
    _, found = ranged(MIXED, machine)
    assert found.least == cycles(MIXED, at_end(machine, End.LEAST))
    assert found.most == cycles(MIXED, at_end(machine, End.MOST))
    assert found.c_runtime == cycles(MIXED, machine.issued_by("c-runtime"))


def test_without_ranges_the_ends_are_the_run() -> None:
    middle, found = ranged(MIXED, at_end(MACHINE, End.MIDDLE))
    assert (found.least, found.most) == (middle, middle)


def test_full_logs_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    _, expected = ranged(MIXED)
    monkeypatch.setattr(layout, "LOG_WORDS", layout.LOG_MARGIN + 4096)
    monkeypatch.setattr(replay, "_ROOM", 64)
    _, found = ranged(MIXED)
    assert (found.least, found.most, found.c_runtime) == (expected.least, expected.most, expected.c_runtime)


def test_the_run_is_the_same_with_and_without() -> None:
    image = asm.assemble(f"_start: {MIXED}{EXIT}")
    alone, beside = Keep(), Keep()
    one, other = System(image, MACHINE, sinks=[alone]), System(image, MACHINE, sinks=[beside, TimeRange()])
    one.run()
    other.run()
    assert alone.slices.tobytes() == beside.slices.tobytes()
    for a, b in zip(one.tiles, other.tiles, strict=True):
        assert np.array_equal(a.spm.data, b.spm.data)
        assert np.array_equal(a.words[:33], b.words[:33])


def test_a_program_that_reads_time_has_read_that_of_the_run() -> None:
    """It turns once for every 8 cycles that a load took, in every simulation as often as in the run."""
    text = f"""csrr s2, cycle
        rdma.fp16 dst=0x1000, src={DDR}, n=8192
        ncc.wait
        csrr s3, cycle
        sub s3, s3, s2
        srli s3, s3, 3
    1:  ct.add.vv.fp16 dst=0x300, src0=0x100, src1=0x200, n=64
        addi s3, s3, -1
        bnez s3, 1b"""
    middle, found = ranged(text)
    assert found.least is not None
    assert found.most is not None
    turns = [cycles(text, at_end(MACHINE, end)) for end in (End.LEAST, End.MOST)]
    assert found.least < middle < found.most
    assert found.most != turns[1]  # a slower chip would have made more turns


def test_a_run_that_is_stopped_has_a_range() -> None:
    sink, wanted = Keep(), TimeRange()
    add = "ct.add.vv.fp16 dst=0x300, src0=0x100, src1=0x200, n=2048"
    system = System(asm.assemble(f"_start: {add}\n1: j 1b"), TX81, sinks=[sink, wanted])
    with pytest.raises(Exception, match="the limit given"):
        system.run(1000)
    assert wanted.least is not None
    assert wanted.most is not None
    assert wanted.least <= max(sink.ends) / 1000 <= wanted.most


def test_a_range_goes_on_from_what_was_saved() -> None:
    """Two halves of a run, with the range requested in both, or only in the second, whose first half then
    counts as it was."""
    middle, whole = ranged(MIXED)
    assert whole.least is not None
    found = {kept: halved(kept) for kept in (True, False)}
    kept = found[True]
    assert (kept.least, kept.most, kept.c_runtime) == (whole.least, whole.most, whole.c_runtime)
    assert found[False].least is not None
    assert whole.least < found[False].least < middle


def halved(kept: bool) -> TimeRange:
    """The range of a run that continues from a saved state; ``kept``: requested from the beginning."""
    wanted = TimeRange()
    system = System(
        asm.assemble(f"_start: {MIXED}{EXIT}"), MACHINE, sinks=[Keep(), *([wanted] if kept else [])]
    )
    rounds = 0

    class Exchange(Observer):
        def round_ended(self, tiles: object) -> None:
            nonlocal rounds
            rounds += 1
            if rounds == 2:
                assert system.simulator is not None
                saved = system.simulator.save()
                system.observers.remove(system.simulator)
                system.simulator = Simulator(system.tiles, MACHINE, [Keep(), wanted])
                system.simulator.restore(saved)
                system.observers.append(system.simulator)

    system.observers.insert(0, Exchange())
    system.run()
    assert rounds >= 2
    return wanted
