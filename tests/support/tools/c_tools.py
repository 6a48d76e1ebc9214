"""Building C programs for the emulated chip and running them, for the tests."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import pytest

from emulator.program import load
from paths import ROOT

EXAMPLES = ROOT / "examples" / "c"
PROGRAMS = ("hello", "vector_add", "batchnorm", "gemm", "ring", "floats", "allreduce")
HEADERS = ROOT / "tx8isa" / "include"
GCC = "riscv64-unknown-elf-gcc"
MARCHES = ("rv64imfd_zicsr_zifencei", "rv64imfdc_zicsr_zifencei")
"""Without compressed instructions, as the Makefile of the examples has it, and with them."""
FLAGS = [
    "-std=c11",
    "--specs=picolibc.specs",
    f"-march={MARCHES[0]}",
    "-mabi=lp64d",
    "-mcmodel=medany",
    "-ffp-contract=off",
    f"-I{HEADERS}",
]


@cache
def missing_tools() -> str:
    """Name the missing tools; empty if all are installed."""
    absent = [tool for tool in (GCC, "riscv64-unknown-elf-objcopy", "make") if shutil.which(tool) is None]
    if absent:
        return f"missing tools: {' '.join(absent)}"
    library = subprocess.run(
        [GCC, "--specs=picolibc.specs", "-E", "-x", "c", "-"],
        input="#include <stdio.h>\n",
        text=True,
        capture_output=True,
        check=False,
    )
    return "" if library.returncode == 0 else f"{GCC} finds no picolibc"


def needs_gcc(test):
    """Decorator: skip without the tools, but fail under CI."""
    if os.environ.get("CI") == "true":
        return test
    return pytest.mark.skipif(bool(missing_tools()), reason=missing_tools() or "none")(test)


def compile_object(source: str, folder: Path, flags: Sequence[str]) -> Path:
    """The object file of a C text; a warning or an error fails the test with GCC's message."""
    path = folder / "program.c"
    path.write_text(source)
    target = folder / "program.o"
    command = [GCC, *FLAGS, *flags, "-c", str(path), "-o", str(target)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return target


def make(folder: Path, *targets: str, march: str = MARCHES[0]) -> Path:
    """The folder in which the Makefile of the examples has built its targets."""
    wanted = (f"{folder}/{target}" for target in targets)
    command = ["make", "-s", "-C", str(EXAMPLES), f"BUILD={folder}", f"MARCH={march}", *wanted]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return folder


def build(source: str, folder: Path, march: str = MARCHES[0]) -> Path:
    """The program of a C text, with the start-up code of the examples."""
    compile_object(source, folder, ["-O1", "-Wall", "-Werror", f"-march={march}"])
    make(folder, "program.elf", march=march)
    return folder / "program.elf"


def run_with(
    program: Path, inputs: Mapping[str, bytes], outputs: Mapping[str, int], *, threads: int = 1
) -> tuple[dict[str, bytes], str]:
    """Run with bytes in global variables; return the bytes of other variables afterwards, and the output."""
    loaded = load(program)
    printed: list[bytes] = []
    system = loaded.start({}, threads=threads, show=lambda _, data: printed.append(data))
    windows = loaded.machine.windows

    def memory(name: str, size: int):
        address = loaded.image.symbols[name].address - windows.ddr_cached + windows.ddr_engine
        return system.ddr_range(address, size)

    for name, data in inputs.items():
        memory(name, len(data))[:] = bytearray(data)
    system.run(200_000_000)
    return {name: memory(name, size).tobytes() for name, size in outputs.items()}, b"".join(printed).decode()
