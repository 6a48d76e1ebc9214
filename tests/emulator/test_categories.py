"""Categories of faults and hazards: each kind has one, and documents and faults name it."""

from __future__ import annotations

import pickle
import re

import pytest

import asm
import emulator
from asm.image import read_again
from emulator.memory import stop
from emulator.tile.fault import CategorisedKind, Category, FaultKind
from emulator.watch.strict.hazards import HazardKind
from paths import ROOT
from tx8isa.machine.description import load_machine

KINDS: list[tuple[str, CategorisedKind]] = [
    *(("fault", kind) for kind in FaultKind),
    *(("hazard", kind) for kind in HazardKind),
]
EXIT = "li a0, 0\nli a7, 93\necall\n"
SERVED = {"LIMIT", "KERNEL", "SYSTEM", "CONTROL", "FENCE_I", "LOG_FULL"}
"""Stops of compiled code after which the program continues, or whose fault Python finds."""
INTERNAL = {"FLOAT", "TRANSLATED", "HINT", "NEAR_LIMIT"}

PROGRAMS = {
    "illegal-instruction": "nop\n.word 0\n",
    "csr": "csrr a0, 0x7ff\n",
    "address": "li t0, 0x10\nlw t1, 0(t0)\n",
    "branch": "li t0, 0x20\njr t0\n",
    "range": "li t0, 0x2fff00\ntd.memset.fp32 dst=t0, value=1.0, n=1024\n",
    "value": "csrr t0, mhartid\nli t1, 0x10000\nncc.barrier tiles=t1\n",
    "alignment": "li t0, 0x10001\nct.abs.v.fp16 dst=t0, src0=0x20000, n=4\n",
    "deadlock": f"csrr t0, mhartid\nbnez t0, end\nncc.barrier tiles=3\nend: {EXIT}",
    "exit-status": "li a0, 7\nli a7, 93\necall\n",
    "breakpoint": "ebreak\n",
    "instruction-limit": "here: j here\n",
}


def fault_of(text: str, **options: object) -> emulator.Fault:
    """Run a program that faults."""
    program = emulator.Program(read_again(asm.assemble(text), "test"), load_machine())
    with pytest.raises(emulator.Fault) as found:
        program.start({}, **options).run(1000)
    return found.value


def test_every_category_has_kinds() -> None:
    assert {kind.category for _, kind in KINDS} == set(Category)


def test_no_two_kinds_of_faults_or_hazards_have_one_name() -> None:
    names = [str(kind) for _, kind in KINDS]
    assert len(set(names)) == len(names) and all(kind.facts.meaning for _, kind in KINDS)


def test_every_stop_that_ends_a_program_is_a_kind() -> None:
    numbers = {name: number for name, number in vars(stop).items() if name.isupper()}
    ends = set(numbers) - SERVED - INTERNAL
    assert {kind.facts.reason for kind in FaultKind} - {None} == {numbers[name] for name in ends}


def test_the_documents_list_every_kind() -> None:
    text = (ROOT / "docs/faults.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w-]+)` \| (fault|hazard) \| ([\w ]+) \| (.+) \| (.+) \|$", text, re.MULTILINE)
    assert rows == [
        (str(kind), what, str(kind.category), kind.facts.meaning, kind.facts.fix or "as the finding says")
        for what, kind in KINDS
    ]
    for category in Category:
        assert f"\n| {category} | " in text


@pytest.mark.parametrize("kind", PROGRAMS)
def test_a_fault_has_its_kind(kind: str) -> None:
    fault = fault_of(PROGRAMS[kind])
    assert fault.kind == kind and fault.category is FaultKind(kind).category


def test_a_run_without_data_is_not_implemented() -> None:
    text = "td.memset.int32 dst=0x100, value=3, n=1\nncc.wait\nli t0, 0x30400100\nlw t1, 0(t0)\n"
    fault = fault_of(text, data=False, timed=True)
    assert (fault.kind, fault.category) == ("needs-data", "not implemented")


def test_a_bound_of_the_emulator_is_not_the_program_s_mistake() -> None:
    nest = "li t0, 0x3fffff\ntd.memset.int32 dst=0, value=1, n=1024, iter0=t0, iter1=t0\n"
    assert fault_of(nest).category is Category.MISSING


def test_a_fault_keeps_its_kind_in_a_copy() -> None:
    fault = fault_of(PROGRAMS["breakpoint"])
    for copy in (fault.bare, pickle.loads(pickle.dumps(fault))):
        assert (str(copy), copy.kind, copy.__traceback__) == (str(fault), fault.kind, None)
