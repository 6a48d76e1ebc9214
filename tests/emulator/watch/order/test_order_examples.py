"""The proof of order and the sanitizer, which judge in different ways: the same pairs in each example."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest

import asm
from chip_bench import ONE, TX81
from emulator import Fault, Program
from emulator.session.order import OrderProof, prove_order
from emulator.watch.strict.hazards import Hazard, HazardKind
from paths import ROOT
from strict_runs import orderly
from tx8isa.machine.description import Machine

EXIT = "\n li a0, 0\n li a7, 93\n ecall"
EXAMPLES = sorted(path.stem for path in (ROOT / "examples/hazards").glob("*.s"))
NOT_JUDGED = {
    "end": "the end of 'src0' is",
    "half_end": "the end of 'out' is",
    "endless": "polls of registers: not followed",
    "endless_ok": "packets of streams",
}
"""Examples that end in a fault, or in which tiles wait by other means; with the reason that is given."""


def pairs(hazards: tuple[Hazard, ...]) -> set[tuple[str, frozenset[str]]]:
    judged = (each for each in hazards if each.kind in (HazardKind.RACE, HazardKind.UNFINISHED))
    return {(str(h.kind), frozenset((h.at.place, h.other.place if h.other else ""))) for h in judged}


def proved(text: str, machine: Machine = TX81) -> tuple[OrderProof, set[tuple[str, frozenset[str]]]]:
    """The proof of a program, and the pairs that the sanitizer finds in a run."""
    program = Program(asm.assemble(text, "prog.s"), machine)
    found = prove_order(program)
    with suppress(Fault):
        program.run(strict=True)
    return found, pairs(program.hazards)


@pytest.mark.parametrize("name", EXAMPLES)
def test_each_example_has_the_pairs_that_the_sanitizer_finds(name: str) -> None:
    text = (ROOT / f"examples/hazards/{name}.s").read_text()
    if name in NOT_JUDGED:
        open_one = prove_order(Program(asm.assemble(text, "prog.s"), TX81))
        assert not open_one.holds
        assert NOT_JUDGED[name] in str(open_one)
        return
    found, expected = proved(text)
    assert pairs(found.hazards) == expected
    assert found.holds == (not expected)
    assert found.confirmed == bool(expected)


@pytest.mark.parametrize("seed", range(6))
def test_workers_that_are_waited_for_are_in_order(seed: int) -> None:
    found, expected = proved(orderly(Random(seed)) + EXIT, ONE)
    assert found.holds, str(found)
    assert not expected


@pytest.mark.parametrize("seed", range(6))
def test_workers_that_are_not_waited_for_are_found(seed: int) -> None:
    lines = orderly(Random(seed)).splitlines()
    waits = [at for at, line in enumerate(lines) if line.startswith("ncc.wait worker")]
    del lines[Random(seed).choice(waits)]
    found, expected = proved("\n".join(lines) + EXIT, ONE)
    assert expected <= pairs(found.hazards)  # the sanitizer only knows the last accesses to a byte
    assert bool(expected) == bool(found.hazards)


def test_some_of_these_waits_are_needed() -> None:
    whole = orderly(Random(0))
    found, expected = proved(whole.replace("ncc.wait worker=1\n", "") + EXIT, ONE)
    assert expected
    assert found.confirmed
