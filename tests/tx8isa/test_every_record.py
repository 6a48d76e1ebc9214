"""Every record, with operands drawn from the record itself: encoding, text, kernels, ends of memory.

Kernels, compiled and as plain Python, and the slow reference run on equal memories. Results may overlap
operands, and lengths are near the widths of vectors. ``record_operands`` draws the operands.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from random import Random

import numpy as np
import pytest

import asm
from chip_bench import EBREAK, W, chip, words_image
from disassembled_text import instruction_lines, text_section
from emulator.chip.system import System
from emulator.engines import queues
from emulator.memory import state
from emulator.tile.fault import Fault
from extreme_operands import KERNELS, RECORDS, Bench, formats, memory, one_format
from record_operands import DDR_BYTES, SOLVERS, SPM_BYTES, Case, draw
from tx8isa.numbers.formats import Format
from tx8isa.records.meaning import Form
from tx8isa.records.record import Engine, Instruction, Operand
from tx8isa.table.encoding import DecodedInstruction, decode, encoder
from tx8isa.table.registry import by_mnemonic

SIZES = (1, 15, 16, 17, 63, 64, 65)
MACHINE = chip(spm=SPM_BYTES)
every_record = pytest.mark.parametrize("record", RECORDS, ids=lambda r: r.mnemonic)
every_kernel = pytest.mark.parametrize("record", KERNELS, ids=lambda r: r.mnemonic)


def cases(record: Instruction, fmt: Format | None, sizes: tuple[int, ...] = SIZES) -> Iterator[Case]:
    """A case of each size the record allows."""
    rng = Random(f"{record.mnemonic} {fmt!r}")
    for size in sizes:
        case = draw(record, fmt, size, rng)
        if case is not None:
            yield case


# --- the generators -----------------------------------------------------------------------


@every_record
def test_every_record_has_legal_operands_of_every_size(record: Instruction) -> None:
    assert type(record.meaning) in SOLVERS, f"{record.mnemonic}: write a solver in record_operands"
    for fmt in formats(record):
        for size in SIZES:
            assert draw(record, fmt, size, Random(size)) is not None, f"{fmt!r} {size}"


# --- encoding and text --------------------------------------------------------------------


def encoded(case: Case) -> bytes:
    """The instruction with immediates; DDR addresses as the engines see them."""
    ddr = {o.name: case.named[o.name] + W.ddr_engine for o in case.addresses(memory="ddr")}
    return encoder(case.record).encode(case.moved(**ddr).values)


@every_record
def test_encoding_and_text_come_back(record: Instruction) -> None:
    rng = Random(record.mnemonic)
    for fmt in formats(record):
        case = draw(record, fmt, rng.randint(1, 90), rng)
        assert case is not None
        code = encoded(case)
        found = decode(code)
        assert isinstance(found, DecodedInstruction) and (found.instruction, found.registers) == (record, 0)
        assert encoder(record).encode(found.values) == code
        printed = instruction_lines(asm.disassemble(text_section(code, data=True)))[1]
        assert printed.split()[0] == record.mnemonic + (f".{fmt.token}" if fmt is not None else "")
        assert asm.assemble(printed + "\n").segments[0].data == code


# --- kernels and the reference ------------------------------------------------------------


def check(case: Case, compiled: bool, seed: int = 1) -> None:
    """Assert that the kernel and the reference change the same bytes."""
    kernel, reference = Bench(case, seed), Bench(case, seed)
    kernel.execute_kernel(case, compiled)
    reference.execute_reference(case)
    found, due = kernel.image(), reference.image()
    if found != due:
        wrong = np.flatnonzero(np.frombuffer(found, np.uint8) != np.frombuffer(due, np.uint8))
        pytest.fail(
            f"{case.record.mnemonic} {case.fmt!r} {case.named}: {wrong.size} bytes differ, first at "
            f"{int(wrong[0]):#x}, last at {int(wrong[-1]):#x}"
        )


@every_kernel
def test_plain_kernels_equal_the_reference_at_every_length(record: Instruction) -> None:
    for fmt in one_format(record):
        for case in cases(record, fmt):
            check(case, False)


@pytest.mark.long
@every_kernel
def test_compiled_kernels_equal_the_reference_at_every_length(record: Instruction) -> None:
    for fmt in formats(record):
        for case in cases(record, fmt, (*SIZES, 2, 31, 127, 128, 129)):
            check(case, True)
        for case in cases(record, fmt, (1, 17, 65)):
            check(case, False)


# --- results on operands ------------------------------------------------------------------


def aliased(case: Case) -> Iterator[Case]:
    """A result at an operand, one element before and after it; all operands at one place."""
    sources = case.addresses("read", "spm")
    results = case.addresses("write", "spm")
    for result in results:
        for source in sources:
            for distance in (0, -1, 1):
                to = case.named[source.name] + distance * case.align(result)
                to -= to % case.align(result)
                yield case.moved(**{result.name: max(to, 0)})
    if len(sources) > 1 and results:
        first, align = case.named[sources[0].name], max(map(case.align, [*sources, results[0]]))
        first -= first % align
        yield case.moved(**{o.name: first for o in (*sources, results[0])})


@every_kernel
def test_results_may_lie_on_operands(record: Instruction) -> None:
    tried = 0
    for fmt in one_format(record, 1):
        for case in cases(record, fmt, (17, 65)):
            for moved in aliased(case):
                if not moved.problem():
                    check(moved, False)
                    tried += 1
    assert tried or not (case.addresses("read", "spm") and case.addresses("write", "spm"))


@pytest.mark.long
@every_kernel
def test_results_of_compiled_kernels_may_lie_on_operands(record: Instruction) -> None:
    for fmt in formats(record):
        for case in cases(record, fmt, (17, 65, 300)):
            for moved in aliased(case):
                if not moved.problem():
                    check(moved, True)


# --- ends of memory, in a whole system ----------------------------------------------------


def system(case: Case, spm: np.ndarray, on_exception: str) -> System:
    """A program: the instruction and a wait; the scratchpad holds numbers of its format."""
    wait = encoder(by_mnemonic()["ncc.wait"]).encode([])
    code = encoded(case) + wait + EBREAK.to_bytes(4, "little")
    words = list(struct.unpack(f"<{len(code) // 4}I", code))
    loaded = System(words_image(words), MACHINE, on_exception=on_exception)
    loaded.tiles[0].spm.data[:] = spm
    return loaded


def at_the_end(case: Case, operand: Operand) -> Case:
    """At the last place that alignment allows, without room for one element more."""
    first = SPM_BYTES - case.length(operand)
    return case.moved(**{operand.name: first - first % case.align(operand)})


def check_last_byte(record: Instruction, fmt: Format | None) -> None:
    """Assert that the emulator agrees with the reference, with each operand at the last byte in turn."""
    for case in cases(record, fmt, (17,)):
        for operand in case.addresses(memory="spm"):
            last = at_the_end(case, operand)
            assert not last.problem()
            bench = Bench(last, 3)
            chip_ = system(last, bench.spm, "stop")
            bench.ddr[:] = chip_.ddr[:DDR_BYTES]
            bench.state[state.RANDOM] = chip_.tiles[0].words[state.RANDOM]
            with pytest.raises(Fault, match="ebreak"):
                chip_.run()
            bench.execute_reference(last)
            assert np.array_equal(chip_.tiles[0].spm.data, bench.spm), last.named
            assert np.array_equal(chip_.ddr[:DDR_BYTES], bench.ddr), last.named


def one_of_each_kind() -> list[Instruction]:
    """A record for each kind of meaning and each form of vectors."""
    found: dict[tuple[type, Form | None], Instruction] = {}
    for record in KERNELS:
        found.setdefault((type(record.meaning), getattr(record.meaning, "form", None)), record)
    return list(found.values())


@pytest.mark.parametrize("record", one_of_each_kind(), ids=lambda r: r.mnemonic)
def test_operands_may_end_at_the_last_byte(record: Instruction) -> None:
    check_last_byte(record, formats(record)[0])


@pytest.mark.long
@every_kernel
def test_operands_of_all_may_end_at_the_last_byte(record: Instruction) -> None:
    for fmt in one_format(record):
        check_last_byte(record, fmt)


@every_record
def test_one_element_beyond_the_last_byte_is_refused(record: Instruction) -> None:
    """The instruction is dropped: nothing changes, and the exception register shows it. Stopped: the
    message."""
    rng = Random(record.mnemonic)
    for fmt in one_format(record):
        case = draw(record, fmt, 17, rng)
        assert case is not None
        spm = memory(case, SPM_BYTES, 4)
        for operand in case.addresses(memory="spm"):
            last = at_the_end(case, operand)
            beyond = last.moved(**{operand.name: last.named[operand.name] + case.align(operand)})
            if beyond.problem():
                continue
            stopped = system(beyond, spm, "stop")
            with pytest.raises(Fault, match=f"'{operand.name}' (reads|writes) .* outside the SPM"):
                stopped.run()
            if record.engine is Engine.DTE:
                continue  # its exceptions stop a program in either mode
            dropped = system(beyond, spm, "drop")
            with pytest.raises(Fault, match="ebreak"):
                dropped.run()
            tile = dropped.tiles[0]
            assert np.array_equal(tile.spm.data, spm)
            assert tile.block(0)[queues.EXCEPTION]
