"""The keys of generated kernels change with the numbers and functions that their text and code depend on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

from emulator.core import accesses, float_unit, loop, predecode
from emulator.engines import hooks, issue, queues, tables
from emulator.memory import state, stop
from emulator.native import inline, keys
from tx8isa.riscv.format import Scalar
from tx8isa.table import scalar as rv

CORE: list[tuple[ModuleType, str]] = [
    *((state, name) for name in ("PC", "DETAIL", "CORE_CHECK", "FCSR", "CODE_BASE", "HART", "SPM", "LINES")),
    *((stop, name) for name in ("LIMIT", "MEMORY", "JUMP", "CSR", "NEAR_LIMIT")),
    *((predecode, name) for name in ("ENGINE", "FIRST_SCALAR", "RD_BYTE", "TRANSLATED")),
    *((accesses, name) for name in ("GRANULE_SHIFT", "LINE_SHIFT")),
    *((loop, name) for name in ("NX", "RNE", "FLOAT")),
]
UNIT: list[tuple[ModuleType, str]] = [
    (stop, "ILLEGAL"),
    *((float_unit, name) for name in ("DYN", "RMM", "_GROUP")),
]
ISSUE: list[tuple[ModuleType, str]] = [
    *((state, name) for name in ("QUEUE", "WORKERS", "COUNTS", "SEVERAL", "TEXT", "ORDER", "SANITIZER_HOOK")),
    *((stop, name) for name in ("WORKER", "RULE", "RANGE", "CONTROL")),
    *((tables, name) for name in ("HEADER", "ENGINE", "O_CHOICES", "U_RULE", "R_SPACE", "ROUNDED")),
    *((queues, name) for name in ("NEXT", "PENDING", "WORDS", "E_FIELDS", "ARGUMENTS", "R_REACH")),
    *((issue, name) for name in ("TEXT", "CHECK", "TAKE", "DRAIN", "STEP", "_WORKER", "LINE_BYTES")),
]
KERNELS: dict[str, tuple[ModuleType, Callable[[], int], list[tuple[ModuleType, str]]]] = {
    "kernel core": (loop, loop.run_kernel, CORE),
    "float unit": (float_unit, float_unit.unit_kernel, UNIT),
    "engine issue": (issue, issue.issue_kernel, ISSUE),
}


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """The key that a generated kernel has now, without compiling it."""

    def now(kernel: str) -> str:
        module, make, _ = KERNELS[kernel]
        asked: list[tuple[Any, ...]] = []
        monkeypatch.setattr(module, "compile_generated", lambda *question: len(asked.append(question) or ()))
        make()
        return keys._generated_key(*asked[0])

    return now


NUMBERS = [(kernel, *number) for kernel, (_, _, numbers) in KERNELS.items() for number in numbers]


@pytest.mark.parametrize(
    ("kernel", "module", "name"), NUMBERS, ids=lambda part: str(getattr(part, "__name__", part))
)
def test_numbers_are_part_of_the_key(
    kernel: str, module: ModuleType, name: str, key: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = key(kernel)
    assert key(kernel) == before
    monkeypatch.setattr(module, name, getattr(module, name) + 1)
    assert key(kernel) != before


def other(*arguments: int) -> int:
    return 3


FUNCTIONS = [
    ("kernel core", loop, "_on_host"),
    ("kernel core", loop, "_move"),
    ("kernel core", float_unit, "host_groups"),
    ("kernel core", inline, "_choice"),
    ("float unit", float_unit, "_sources"),
    ("float unit", inline, "_choice"),
    ("engine issue", issue, "legal"),
    ("engine issue", tables, "write_dispatcher"),
    ("engine issue", hooks, "call_kernel"),
    ("engine issue", queues, "share_bytes"),
]


@pytest.mark.parametrize(
    ("kernel", "module", "name"), FUNCTIONS, ids=lambda part: str(getattr(part, "__name__", part))
)
def test_functions_are_part_of_the_key(
    kernel: str, module: ModuleType, name: str, key: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = key(kernel)
    monkeypatch.setattr(module, name, other)
    assert key(kernel) != before


@pytest.mark.parametrize("name", ["host_address", "note_store", "note_load", "call_check"])
def test_code_that_the_text_calls_is_part_of_the_key(
    name: str, key: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = key("kernel core")
    monkeypatch.setattr(getattr(accesses, name), "__code__", other.__code__)
    assert key("kernel core") != before


CHANGES: dict[str, Callable[[Scalar], Any]] = {
    "mnemonic": lambda record: "fadd.x",
    "kind": lambda record: "alu",
    "width": lambda record: 8,
    "operands": lambda record: record.operands[::-1],
    "fields": lambda record: tuple(replace(field, kind="unsigned") for field in record.fields),
    "body": lambda record: other,
}


@pytest.mark.parametrize("kernel", ["kernel core", "float unit"])
@pytest.mark.parametrize("what", CHANGES)
def test_what_the_text_reads_of_a_record_is_part_of_the_key(
    kernel: str, what: str, key: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before, records = key(kernel), rv.scalar_instructions()
    at = [record.mnemonic for record in records].index("fadd.s")
    changed: Any = {what: CHANGES[what](records[at])}
    edited = (*records[:at], replace(records[at], **changed), *records[at + 1 :])
    monkeypatch.setattr(rv, "scalar_instructions", lambda: edited)
    assert key(kernel) != before
