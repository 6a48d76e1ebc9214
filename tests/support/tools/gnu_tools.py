"""GNU binutils for RISC-V as a judge: the bytes and the text that it makes of a program."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import asm

GNU_AS, OBJCOPY = "riscv64-unknown-elf-as", "riscv64-unknown-elf-objcopy"
MARCH = "rv64imfd_zicsr_zifencei"
LINKER, OBJDUMP = "riscv64-unknown-elf-ld", "riscv64-unknown-elf-objdump"


def missing_gnu() -> None:
    """Skip a test where binutils is missing; in continuous integration it fails."""
    missing = [tool for tool in (GNU_AS, OBJCOPY, LINKER, OBJDUMP) if shutil.which(tool) is None]
    if missing and os.environ.get("CI") == "true":
        pytest.fail(f"missing tools: {' '.join(missing)}")
    if missing:
        pytest.skip(f"missing tools: {' '.join(missing)}")


def gnu_text(text: str, folder: Path, march: str = MARCH) -> bytes:
    """The .text of a program by GNU as, linked to our address."""
    (folder / "p.s").write_text(text)
    subprocess.run([GNU_AS, f"-march={march}", "-mno-relax", "p.s", "-o", "p.o"], cwd=folder, check=True)
    layout = ["-Ttext=0x80000000", "-Tdata=0x80001000", "--no-relax", "-e", "0x80000000"]
    subprocess.run([LINKER, *layout, "p.o", "-o", "p.elf"], cwd=folder, check=True)
    subprocess.run([OBJCOPY, "-O", "binary", "-j", ".text", "p.elf", "p.bin"], cwd=folder, check=True)
    return (folder / "p.bin").read_bytes()


def our_text(text: str) -> bytes:
    """The .text of a program by our assembler."""
    return asm.assemble(text).segments[0].data


def same(text: str, folder: Path, march: str = MARCH) -> None:
    """Assert that both assemblers give the same bytes; the message has the first place where they do not."""
    ours, theirs = our_text(text), gnu_text(text, folder, march)
    wrong = [i for i in range(0, min(len(ours), len(theirs)), 2) if ours[i : i + 2] != theirs[i : i + 2]]
    assert not wrong, f"first difference at {wrong[0]:#x}: {ours[wrong[0] :][:4].hex()}"
    assert len(ours) == len(theirs)


def objdump(data: bytes, folder: Path) -> list[tuple[int, str]]:
    """(bits, text) of every instruction that GNU objdump finds in some bytes, without aliases."""
    (folder / "raw.bin").write_bytes(data)
    command = [OBJDUMP, "-D", "-z", "-b", "binary", "-m", "riscv:rv64", "-M", "no-aliases", "raw.bin"]
    found = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    rows = (line.split("\t", 2) for line in found.stdout.splitlines() if line.count("\t") >= 2)
    return [(int(bits, 16), text.partition("#")[0].strip()) for _, bits, text in rows]
