"""Chips share the host memory of large constants until one of them writes there."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest

import asm
from chip_programs import machine
from dte_harness import EXIT
from emulator.program import Program
from tx8isa.machine.description import Machine

MEGABYTES = 4
LOAD = f"""
_start: la      t0, weights
        li      t1, {MEGABYTES << 20}
        add     t1, t0, t1
        li      t3, 4096
loop:   lbu     t2, 0(t0)
        add     t0, t0, t3
        blt     t0, t1, loop
        csrr    t0, mhartid
        li      t1, 2
        bne     t0, t1, finish
        la      t0, weights
        li      t1, 0x55
        sb      t1, 100(t0)
finish: {EXIT}
        .section .rodata
        .balign 64
weights:
        .incbin "weights.bin"
"""


def mappings() -> list[dict[str, int]]:
    """Return the host's figures of the mappings of shared segments in this process, in KiB."""
    found, text = [], Path("/proc/self/smaps").read_text()
    for part in re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", text, flags=re.MULTILINE):
        if "segments of a program" in part.partition("\n")[0]:
            found.append({name: int(size) for name, size in re.findall(r"^(\w+): +(\d+) kB", part, re.M)})
    return found


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """Four chips; tile 0 of chip 1 changes a byte of their constants."""
    monkeypatch.chdir(tmp_path)
    Path("weights.bin").write_bytes(np.random.default_rng(0).bytes(MEGABYTES << 20))
    found: Machine = machine(2, 2)
    return Program(asm.assemble(LOAD, machine=found), found)


def test_a_page_that_nobody_writes_is_there_once(program: Program) -> None:
    before = len(mappings())
    mesh = program.start_chips({})
    mesh.run()
    found = mappings()
    assert len(found) == before + 4
    assert sum(one["Rss"] for one in found) > 4 * (MEGABYTES - 1) * 1024
    assert sum(one["Pss"] for one in found) < (MEGABYTES + 1) * 1024
    assert sum(one["Anonymous"] for one in found) == os.sysconf("SC_PAGESIZE") // 1024


def test_a_write_is_seen_by_one_chip(program: Program) -> None:
    mesh = program.start_chips({})
    first = program.image.symbols["weights"].address - 0x8000_0000
    weights = np.frombuffer(Path("weights.bin").read_bytes(), dtype=np.uint8)
    assert weights[100] != 0x55
    mesh.run()
    for chip in mesh.chips:
        expected = weights.copy()
        if chip.number == 1:
            expected[100] = 0x55
        assert np.array_equal(chip.ddr[first : first + weights.size], expected)
