"""Random programs on several chips: right results, equal for every order in which chips are emulated."""

from __future__ import annotations

import itertools
import random

import pytest

from chip_programs import Case, OtherOrders, final_slots, machine
from emulator.chips.mesh import ChipMesh
from tx8isa.machine.description import Machine


def times(mesh: ChipMesh) -> list[tuple[list[int], int]]:
    """Return for each chip the times when its tiles end, and its rounds."""
    return [(chip.time.ends, chip.rounds) for chip in mesh.chips]


def seeds(count: int, all_of_them: int) -> list[object]:
    """A few seeds for every run, the others for the long run."""
    return [pytest.param(n, marks=pytest.mark.long) if n >= count else n for n in range(all_of_them)]


@pytest.mark.parametrize("seed", seeds(2, 40))
@pytest.mark.parametrize(
    ("x", "y", "shape"), [(2, 1, "mesh"), (2, 2, "mesh"), (3, 1, "torus"), (4, 2, "torus")]
)
def test_messages_arrive_and_nothing_depends_on_the_order(seed: int, x: int, y: int, shape: str) -> None:
    case = Case.random(seed, machine(x, y, shape=shape))
    plain = case.run()
    assert case.slots(plain) == final_slots(case.sent, case.start)
    OtherOrders.rng = random.Random(seed)
    other = case.run(OtherOrders)
    assert case.slots(other) == case.slots(plain)
    assert times(other) == times(plain)


@pytest.mark.long
@pytest.mark.parametrize("threads", [2, 3])
def test_nothing_depends_on_the_number_of_threads(threads: int) -> None:
    case = Case.random(99, machine(2, 2, tiles=3))
    one, several = case.run(), case.run(threads=threads)
    assert case.slots(one) == case.slots(several) == final_slots(case.sent, case.start)
    assert times(one) == times(several)


@pytest.mark.long
@pytest.mark.parametrize("seed", seeds(2, 40))
def test_a_strict_run_finds_nothing_in_a_right_program(seed: int) -> None:
    case = Case.random(seed, machine(2, 2))
    mesh = case.run(strict=True)
    assert mesh.hazards() == ()
    assert case.slots(mesh) == final_slots(case.sent, case.start)


def left_out(case: Case) -> list[int]:
    """Messages whose missing wait leads to a race, by the order that the program makes."""
    return [number for number in range(len(case.sent)) if case.racing_sends(number)]


def seed_of_a_racing_case(seed: int, found: Machine) -> int:
    """The first of ``seed``, ``seed`` + 1000, ... whose program needs one of its waits, because some need
    none."""
    return next(each for each in itertools.count(seed, 1000) if left_out(Case.random(each, found)))


@pytest.mark.parametrize("seed", seeds(5, 60))
def test_a_strict_run_finds_the_missing_wait_and_nothing_else(seed: int) -> None:
    found = machine(2, 2)
    seed = seed_of_a_racing_case(seed, found)
    whole = Case.random(seed, found)
    racing = left_out(whole)
    missing = racing[seed % len(racing)]
    message = whole.sent[missing]
    hazards = Case.random(seed, found, left_out=missing).run(strict=True).hazards()
    sender, receiver = divmod(message.sender, 2), divmod(message.receiver, 2)
    first = message.target * 64
    for hazard in hazards:
        assert (hazard.first, hazard.last) == (first, first + 63)
        assert hazard.memory == f"SPM of tile {receiver[1]} of chip {receiver[0]}"
    both = [hazard for hazard in hazards if hazard.other is not None]
    sites = [{(s.chip, s.tile) for s in (h.at, h.other) if s is not None} for h in both]
    assert sites == [{sender, receiver}] * len(both)
    assert 1 <= len(both) <= whole.racing_sends(missing)  # reads of one agent before the write count once
    assert {hazard.kind for hazard in both} <= {"race", "unfinished"}


@pytest.mark.long
@pytest.mark.parametrize("seed", seeds(2, 20))
def test_a_wait_that_another_one_makes_needless_is_not_missed(seed: int) -> None:
    found = machine(2, 1)
    whole = Case.random(seed, found)
    needless = [number for number in range(len(whole.sent)) if number not in left_out(whole)]
    missing = needless[seed % len(needless)]
    assert Case.random(seed, found, left_out=missing).run(strict=True).hazards() == ()
