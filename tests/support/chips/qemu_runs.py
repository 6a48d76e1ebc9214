"""Programs in assembly, run under QEMU's user mode and on our core: the same file, the same output."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from asm.image import Image, Segment
from chip_bench import DATA, ONE
from emulator.chip.system import System

TOOLS = ("qemu-riscv64", "riscv64-unknown-elf-as", "riscv64-unknown-elf-ld")


def missing_qemu() -> None:
    """Skip a test where a tool is missing; in continuous integration it fails."""
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing and os.environ.get("CI") == "true":
        pytest.fail(f"missing tools: {' '.join(missing)}")
    if missing:
        pytest.skip(f"missing tools: {' '.join(missing)}")


def by_qemu(text: str, folder: Path, march: str = "rv64imfd_zicsr_zifencei") -> bytes:
    """Run a program under QEMU and return its output; GNU as and ld make it, as ``p`` in the folder."""
    (folder / "p.s").write_text(f".globl _start\n_start:\n{text}")
    # The same addresses, since programs may show pointers.
    places = ["-Ttext=0x80000000", f"-Tdata={DATA:#x}", "--no-relax"]
    subprocess.run([TOOLS[1], f"-march={march}", "-mno-relax", "p.s", "-o", "p.o"], cwd=folder, check=True)
    subprocess.run([TOOLS[2], *places, "p.o", "-o", "p"], cwd=folder, check=True)
    done = subprocess.run([TOOLS[0], "-cpu", "rv64", "p"], cwd=folder, check=True, capture_output=True)
    return done.stdout


def image_of(folder: Path) -> Image:
    """The program ``p`` of ``by_qemu`` as an image of ours."""
    from elftools.elf.elffile import ELFFile

    with (folder / "p").open("rb") as file:
        elf = ELFFile(file)
        segments = []
        for name, flags in ((".text", "rx"), (".data", "rw")):
            section: Any = elf.get_section_by_name(name)
            segments.append(Segment(name, section["sh_addr"], section.data(), section["sh_size"], flags))
        return Image(elf["e_entry"], tuple(segments))


def by_us(folder: Path) -> bytes:
    """Run the program ``p`` on our core and return its output."""
    shown: list[bytes] = []
    System(image_of(folder), ONE, show=lambda _, data: shown.append(data)).run(1_000_000)
    return b"".join(shown)
