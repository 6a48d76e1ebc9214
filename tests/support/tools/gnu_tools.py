"""GNU binutils for RISC-V as an oracle: the bytes and the text that it makes of a program."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

import asm
import asm.image

PREFIX = "riscv64-unknown-elf-"
_MERGE = 0x10
"""SHF_MERGE: the linker may store equal strings once."""
GNU_AS, OBJCOPY = "riscv64-unknown-elf-as", "riscv64-unknown-elf-objcopy"
MARCH = "rv64imfd_zicsr_zifencei_xtheadcmo_xtheadsync"
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
    """Assert that both assemblers give the same bytes; the message has the first difference."""
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


def undefined_symbols(folder: Path) -> list[str]:
    """The symbols that ``p.o`` leaves to other files."""
    found = subprocess.run(
        [f"{PREFIX}nm", "--undefined-only", "p.o"], cwd=folder, capture_output=True, text=True, check=True
    )
    return [line.split()[1] for line in found.stdout.splitlines() if line.split()[0] == "U"]


def same_image(text: str, folder: Path, march: str = MARCH) -> asm.image.Image:
    """Assert that GNU as and ld give every section the same bytes as we do; returns our image.

    Symbols of other files get addresses beyond the program. The linker neither merges strings nor relaxes.
    """
    (folder / "p.s").write_text(text)
    subprocess.run([GNU_AS, f"-march={march}", "-mno-relax", "p.s", "-o", "p.o"], cwd=folder, check=True)
    others = {name: 0x8100_0000 + 64 * number for number, name in enumerate(undefined_symbols(folder))}
    labels = "".join(f"{name}: .zero 64\n" for name in others)
    elsewhere = f'\n.section .elsewhere, "aw", @nobits\n.base 0x81000000\n{labels}' if others else ""
    image = asm.assemble(text + elsewhere, str(folder / "p.s"))
    segments = [segment for segment in image.segments if segment.section != ".elsewhere"]
    with (folder / "p.o").open("rb") as file:
        sections = [(s.name, s["sh_flags"]) for s in ELFFile(file).iter_sections()]
    whole = [
        f"--set-section-flags={name}=alloc,readonly,data"
        for name, flags in sections
        if flags & _MERGE and flags & 2
    ]
    subprocess.run([OBJCOPY, *whole, "p.o", "q.o"], cwd=folder, check=True)
    places = "".join(
        f"{s.section} {s.address:#x} : {{ *({s.section}){' *(COMMON)' if s.section == '.bss' else ''} }}\n"
        for s in segments
    )
    (folder / "p.ld").write_text(f"SECTIONS {{ {places} /DISCARD/ : {{ *(.eh_frame) *(.comment) }} }}\n")
    symbols = [f"--defsym={name}={value}" for name, value in others.items()]
    command = [LINKER, "--no-relax", "-T", "p.ld", "-e", "0", *symbols, "q.o", "-o", "p.elf"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    with (folder / "p.elf").open("rb") as file:
        elf = ELFFile(file)
        for segment in segments:
            theirs = elf.get_section_by_name(segment.section)
            assert theirs is not None and theirs["sh_addr"] == segment.address, segment.section
            data = theirs.data()
            ours = bytes(segment.data).ljust(segment.size, b"\0")
            wrong = [at for at in range(0, segment.size, 2) if ours[at : at + 2] != data[at : at + 2]]
            assert not wrong, f"{segment.section}: first difference at {wrong[0]:#x}"
            padding = data[segment.size :]
            assert len(padding) < 64 and set(padding) <= set(bytes.fromhex("0100130000")), segment.section
        loaded = [s for s in elf.iter_sections() if s["sh_flags"] & 2 and s["sh_size"]]
        assert {s.name for s in loaded} == {s.section for s in segments}
    return image
