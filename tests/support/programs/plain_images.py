"""Executables as GCC and GNU ld write them: without the note of tx8as."""

from __future__ import annotations

import struct

from asm.image import elf as image_elf

BASE = 0x80000000


CODE = struct.pack("<4I", 0x00000513, 0x05D00893, 0x00000073, 0x0000006F)  # exit(0)


def executable(
    code: bytes = CODE, address: int = BASE, physical: int | None = None, flags: int = 5, extra: int = 0
) -> bytearray:
    """An ELF file as a linker writes it: .text and, after a gap, .data with ``extra`` zero bytes more."""
    data = b"\1\2\3\4"
    sections = [
        image_elf.ElfSection(".text", image_elf.PROGBITS, code, flags=6, address=address),
        image_elf.ElfSection(".data", image_elf.PROGBITS, data, flags=3, address=address + 0x10000),
    ]
    loadables = [
        image_elf.Loadable(1, flags, address if physical is None else physical, len(code), 0),
        image_elf.Loadable(1, 6, address + 0x10000, len(data) + extra, 1),
    ]
    return bytearray(b"".join(image_elf.build(BASE, sections, loadables)))
