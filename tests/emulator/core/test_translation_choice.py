"""The choice of code to translate: the emulator decides by the time that a loop has run."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

import asm
from chip_bench import ONE
from emulator import native
from emulator.chip import system as system_module
from emulator.chip.system import System
from emulator.core import translate
from emulator.core.float_unit import ON_HOST
from emulator.core.predecode import ENGINE, FIRST_SCALAR, FLOAT, FULL
from emulator.core.translate import ENOUGH, instructions
from emulator.core.translate.instructions import source_of, translates
from emulator.core.translate.region import LEFT_OUT, operation_kinds
from emulator.memory import state, stop
from machine_code import needs_jit
from translated_runs import entrances, same, translate_all
from tx8isa.table import scalar as rv

pytestmark = needs_jit


# -- the choice -------------------------------------------------------------------------------------------


def test_every_instruction_but_those_of_the_environment_is_translated() -> None:
    kinds = operation_kinds()
    used = [FLOAT, ENGINE]
    for number, record in enumerate(rv.scalar_instructions()):
        if record.kind != "float" or record.mnemonic in ON_HOST:  # the others are FLOAT
            used.append(FIRST_SCALAR + number)
    assert {kinds[op] for op in used if not translates(op)} == set()
    assert {kinds[op] for op in used} - LEFT_OUT == {
        "alu",
        "divide",
        "upper",
        "load",
        "store",
        "branch",
        "jal",
        "jalr",
        "float",
        "fence",
        "cache",
        "cache line",
        "wait",
        "engine",
    }


def test_no_instruction_is_described_again() -> None:
    """The translator's sources name no instruction, because bodies and kinds come from the records and the
    core."""
    folder = Path(translate.__file__).parent
    strings = [
        node.value
        for path in folder.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    llvm = {"add", "sub", "mul", "and", "or", "xor", "fence.i", "jal", "jalr"}
    assert len(strings) > 200 and not {r.mnemonic for r in rv.scalar_instructions()} - llvm & set(strings)


def test_a_body_that_is_not_known_is_left_to_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    image = asm.assemble("_start: li a0, 3\n1: xor a1, a1, a0\n addi a0, a0, -1\n bnez a0, 1b\n ebreak")
    number = [r.mnemonic for r in rv.scalar_instructions()].index("xor") + FIRST_SCALAR
    original = source_of
    monkeypatch.setattr(
        instructions, "source_of", lambda op: "for i in range(3): pass" if op == number else original(op)
    )
    translates.cache_clear()
    try:
        assert not translates(number)
        system, fault = same(image, {})
    finally:
        translates.cache_clear()
    assert "ebreak" in fault and system.tiles[0].register(11) == 3 ^ 2 ^ 1
    at = int(np.flatnonzero(system.code.words & 0xFF == number)[0])
    assert at not in system.code.translation.covered and at + FULL in system.code.translation.covered


LONG = "_start: li a0, {turns}\n1: addi a0, a0, -1\n bnez a0, 1b\n li a7, 93\n ecall"


def test_translation_begins_when_a_loop_has_run_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    short, long = (System(asm.assemble(LONG.format(turns=n)), ONE) for n in (500_000, 5_000_000))
    short.run()
    long.run()
    assert (entrances(short), entrances(long)) == (0, 1)
    assert [s.tiles[0].retired for s in (short, long)] == [2 * 500_000 + 4, 2 * 5_000_000 + 4]


def test_translation_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    image = asm.assemble(LONG.format(turns=5_000_000))
    off = System(image, ONE, translate=False)
    monkeypatch.setenv("TX8_TRANSLATE", "0")
    switched_off = System(image, ONE)
    off.run()
    switched_off.run()
    assert entrances(off) == entrances(switched_off) == 0


def test_a_large_translation_waits_longer_and_is_made_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system_module, "QUANTUM", 1000)
    body = " addi a1, a1, 1\n" * 100
    text = f"_start: li a0, {{turns}}\n1: {body} addi a0, a0, -1\n bnez a0, 1b\n li a7, 93\n li a0, 0\n ecall"
    found = []
    for quanta in (12, 20, 150):
        system = System(asm.assemble(text.format(turns=quanta * 1000 // 102)), ONE)
        system.run()
        found.append(len(system.code.translation.covered))
    assert found[0] == 0 and 0 < found[1] <= ENOUGH and found[2] >= 102


def test_a_program_spread_over_much_memory_is_interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system_module, "QUANTUM", 1000)
    found = []
    for missing in (1, 0):
        system = System(asm.assemble(LONG.format(turns=10_000)), ONE)
        monkeypatch.setattr(translate, "LARGEST_PROGRAM", system.code.words.size - missing)
        system.run()
        found.append(entrances(system))
    assert found == [0, 1]


def test_words_of_the_program_stay_as_they_are() -> None:
    image = asm.assemble(LONG.format(turns=10))
    system = System(image, ONE)
    before = system.code.words.copy()
    translate_all(system)
    assert entrances(system) > 0 and np.array_equal(system.code.words, before)


def test_an_interrupt_of_the_run_ends_translated_code_at_its_slice() -> None:
    """LIMIT set to 0 from outside counts when the function is entered again."""
    system = System(asm.assemble("_start: addi a0, a0, 1\n j _start"), ONE)
    translate_all(system)
    tile = system.tiles[0]
    tile.words[state.LIMIT] = 1000
    assert native.call(system.loop, tile.words.ctypes.data) == stop.LIMIT and tile.retired == 1000
    tile.words[state.LIMIT] = 0
    assert native.call(system.loop, tile.words.ctypes.data) == stop.LIMIT and tile.retired == 1000
