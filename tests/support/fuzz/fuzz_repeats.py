"""Runs of one program again and again in the same memories: each has the time and statistics of a new chip.

Tiles repeat random legal instructions, each as often as a register says that is set before the run. Some runs
are equal and take their time from an earlier one. Whether they may is drawn for each run.
"""

from __future__ import annotations

import os
import struct
from random import Random
from typing import Any
from unittest.mock import patch

from chip_bench import word, words_image
from emulator import Program
from emulator.session.runs import RepeatedRuns
from emulator.timing.replay import TimeRange
from emulator.timing.slices import Waiting
from emulator.watch.stats.output import lines
from emulator.watch.stats.sink import Statistics
from fuzz_instructions import FOUR, WAIT, legal
from fuzz_orders import OWN
from record_operands import SPM_BYTES
from tx8isa.numbers.formats import Format
from tx8isa.table.encoding import encoder
from tx8isa.table.registry import by_mnemonic

_COUNTER, _ELEMENTS = 4, 5
"""Registers that are set before the run: turns of the loop, and elements of the last instruction."""
_SIZES = (1, 1000, SPM_BYTES)
Given = tuple[tuple[int, int], ...]
"""Both for each tile."""
_FILL = by_mnemonic()["td.memset"]


def _last() -> bytes:
    """Fill as many elements as the register says, so that the same instructions may take another time."""
    named = {"format": Format.INT8, "dst": 0, "n": _ELEMENTS, "value": 0}
    values = [named.get(operand.name, operand.low) for operand in _FILL.operands]
    return encoder(_FILL).encode(values, 1 << [o.name for o in _FILL.operands].index("n"))


def _program(rng: Random) -> Program:
    """Legal instructions in a loop, some with a wait after it, and an exit."""
    code = b""
    for _ in range(rng.choice((1, 2, 4, 8))):
        case = legal(rng, records=OWN)
        widths = [32 * operand.words or operand.width for operand in case.record.operands]
        values = [value & (1 << width) - 1 for value, width in zip(case.values, widths, strict=True)]
        code += encoder(case.record).encode(values) + (WAIT if rng.random() < 0.5 else b"")
    last = _last()
    words = [
        *struct.unpack(f"<{len(code) // 4}I", code),
        word("addi", rd=_COUNTER, rs1=_COUNTER, imm=-1),
        word("bne", rs1=_COUNTER, rs2=0, target=-len(code) - 4),
        *struct.unpack(f"<{len(last) // 4}I", last),
        word("addi", rd=10, rs1=0, imm=0),
        word("addi", rd=17, rs1=0, imm=93),
        word("ecall"),
    ]
    return Program(words_image(words), FOUR)


def _run(program: Program, repeated: RepeatedRuns | None, given: Given, **options: Any) -> list[str]:
    """The statistics of a run, with the range of its time."""
    sink = Statistics(program.image, program.machine)
    sink.range, waiting = TimeRange(), Waiting(sink)
    options["sinks"] = [waiting, sink.range]

    def lines_of(system: Any) -> list[str]:
        for tile, (turns, elements) in zip(system.tiles, given, strict=True):
            tile.set_register(_COUNTER, turns)
            tile.set_register(_ELEMENTS, elements)
        system.run()
        waiting.settle()
        return [*lines(sink, system.tiles), str(sink.ends)]

    if repeated is None:
        return lines_of(program.start({}, **options))
    with repeated.started({}, **options) as system:
        return lines_of(system)


def example(rng: Random) -> str:
    """Some runs, most of which equal earlier ones."""
    program = _program(rng)
    repeated = RepeatedRuns(program)
    draws = [_given(rng) for _ in range(rng.choice((1, 2, 3)))]
    draws += [tuple((turns, rng.choice(_SIZES)) for turns, _ in draws[0])]
    expected = {given: _run(program, None, given) for given in draws}
    for _ in range(8):
        given, reuse = rng.choice(draws), rng.choice("1110")
        with patch.dict(os.environ, TX8_REUSE_TIME=reuse):
            found = _run(program, repeated, given, threads=rng.choice((1, 2)), data=rng.random() < 0.7)
        assert found == expected[given], f"{given}: another time than that of a new chip"
    times = len({each[-1] for each in expected.values()})
    return f"{len(expected)} different runs with {times} times, each with its own"


def _given(rng: Random) -> Given:
    return tuple((rng.choice((1, 2, 5, 40)), rng.choice(_SIZES)) for _ in range(4))
