"""Any program ends, faults or is refused, whatever its contents. No host memory besides the emulated memories
is touched, no bytes but those of results change, and no program runs forever.

The examples run in processes of their own (``fuzz_child.py``), their memories between guard pages.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import fuzz_guard
from c_tools import build, needs_gcc
from paths import TESTS

EXAMPLES = TESTS / "support" / "fuzz"


def run(kind: str, first: int, count: int, timeout: float, **environment: str) -> list[str]:
    """Return the lines of that many examples; a process that ended in any other way fails with its last
    words."""
    command = [
        sys.executable,
        "-X",
        "faulthandler",
        str(EXAMPLES / "fuzz_child.py"),
        kind,
        str(first),
        str(count),
    ]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=variables)
    except subprocess.TimeoutExpired as expired:
        output = (expired.stdout or b"").decode().splitlines()
        pytest.fail(f"still running after {timeout} s: {output[-1:]}")
    lines = done.stdout.splitlines()
    if done.returncode:
        pytest.fail(f"process ended with {done.returncode} at: {lines[-1:]}\n{done.stderr[-3000:]}")
    assert len(lines) >= count
    return lines


@pytest.mark.parametrize(
    ("kind", "count"),
    [
        *[("tiles", 30), ("registers", 75), ("images", 75), ("executables", 50), ("scalar", 100)],
        *[("assembly", 50), ("graphs", 50), ("models", 50), ("states", 50), ("gdb", 75)],
        *[("disassembly", 30), ("interrupted", 30), ("repeats", 20)],
    ],
)
def test_hostile_input(kind: str, count: int) -> None:
    lines = run(kind, 0, count, 300)
    assert len({line.split(" ", 2)[2] for line in lines}) > count // 10, "the examples are all alike"


@pytest.mark.parametrize("offset", [100, 4096 + 100, fuzz_guard.GUARD, -4096])
def test_what_leaves_a_memory_ends_the_process(offset: int) -> None:
    """Otherwise the guard pages detect nothing."""
    read = "import ctypes, fuzz_guard; a = fuzz_guard.guarded(100); "
    read += f"ctypes.string_at(a.ctypes.data + {offset}, 1)"
    for text, status in ((read, -signal.SIGSEGV), (read.replace(f"+ {offset}", "+ 99"), 0)):
        done = subprocess.run([sys.executable, "-c", text], cwd=EXAMPLES, capture_output=True, check=False)
        assert done.returncode == status, done.stderr


PROGRAM = """
#include <stdio.h>
int numbers[100] = {1, 2, 3};
int main(void) { printf("%d\\n", numbers[1]); return 0; }
"""


@pytest.mark.long
@needs_gcc
def test_damaged_executables_of_gcc(tmp_path: Path) -> None:
    path = build(PROGRAM, tmp_path)
    lines = run("executables", 50_000, 60, 300, FUZZ_EXECUTABLE=str(path))
    assert any("ended" in line or "limit" in line for line in lines)
    assert any("a.elf: " in line for line in lines)


def test_hostile_instructions() -> None:
    """The examples contain legal instructions, and refused ones; otherwise nothing was tried."""
    lines = run("instructions", 0, 30, 300)
    assert len({line.split(" ", 2)[2] for line in lines}) > 3, "the examples are all alike"
    counts = [int(line.split(" legal, ")[1].split()[0]) for line in lines]
    assert sum(count > 0 for count in counts) > 10
    assert sum(count == 0 for count in counts) > 2


@pytest.mark.long
def test_orders_and_the_slow_reference() -> None:
    assert all("the same in two orders" in line for line in run("orders", 0, 3, 300))
    assert all("as the reference" in line for line in run("reference", 0, 6, 300))


def test_a_random_network() -> None:
    assert "within the tolerance" in run("networks", 0, 1, 300)[-1]


@pytest.mark.long
def test_the_largest_operands() -> None:
    lines = run("largest", 0, 1, 300)
    assert lines[-1].endswith(" executed")


@pytest.mark.long
def test_scalar_code_compiled_and_as_plain_python() -> None:
    """Registers, memory and the message are the same after any words."""
    assert run("scalar", 0, 10, 300) == run("scalar", 0, 10, 300, TX8_JIT="0")


@pytest.mark.long
def test_scalar_code_translated_and_not() -> None:
    assert run("hot", 0, 20, 300) == run("hot", 0, 20, 300, TX8_TRANSLATE="0")


@pytest.mark.long
@pytest.mark.parametrize("number", [83, 99, 367])
def test_labels_and_values_of_translations_have_names_of_their_own(number: int) -> None:
    """Regions in which a label once had the name of a value, which LLVM refuses."""
    assert run("hot", number, 1, 300) == run("hot", number, 1, 300, TX8_TRANSLATE="0")


@pytest.mark.long
@pytest.mark.parametrize("part", range(10))
@pytest.mark.parametrize(
    ("kind", "count"),
    [
        ("instructions", 1500),
        ("formats", 1500),
        ("tiles", 500),
        ("registers", 1500),
        ("images", 2000),
        ("executables", 2000),
        ("scalar", 3000),
    ],
)
def test_much_hostile_input(kind: str, count: int, part: int) -> None:
    run(kind, 1000 + part * count, count, 1800)


@pytest.mark.long
def test_much_scalar_code_translated_and_not() -> None:
    assert run("hot", 1000, 4000, 3000) == run("hot", 1000, 4000, 3000, TX8_TRANSLATE="0")


@pytest.mark.long
def test_much_scalar_code_compiled_and_as_plain_python() -> None:
    assert run("scalar", 100_000, 2000, 3000) == run("scalar", 100_000, 2000, 3000, TX8_JIT="0")
