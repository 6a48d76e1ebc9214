"""A small image with all kinds of contents, and functions that damage its file."""

from __future__ import annotations

import io
import struct
from dataclasses import replace
from zlib import crc32

from elftools.elf.elffile import ELFFile

from asm.image import ABSOLUTE, Buffer, Image, LiveRange, Segment, Symbol, read_image, write_image

CORE, UNCACHED, ENGINE = 0x80000000, 0x180000000, 0x280000000
TEXT = struct.pack("<8I", 0x513, 0x707F, 0x12345678, 0xDEADBEEF, 1, 2, 0x150513, 0x73)
SAMPLE = Image(
    entry=CORE,
    segments=(
        Segment(".text", CORE, TEXT, len(TEXT), "rx"),
        Segment(".data", CORE + 0x1004, b"hello", 0x20, "rw"),
        Segment(".ddr", ENGINE + 0x100000, b"", 0x4000, "rw"),
        Segment(".rodata", UNCACHED + 0x2001, b"abc", 3, "r"),
    ),
    tile_entries={3: CORE + 28, 1: CORE + 24},
    symbols={
        "loop": Symbol(CORE + 24),
        "N": Symbol(2**64 - 5, section=ABSOLUTE),
        "_start": Symbol(CORE, 32, "func", ".text", "global"),
        "größe": Symbol(ENGINE + 0x100000, 0x4000, "object", ".ddr", "global"),
    },
    data_ranges=[(CORE + 4, CORE + 24)],
    buffers=(
        Buffer("x", "input", ENGINE + 0x100000, "fp16", (4, 8), "cx", "float32"),
        Buffer("scalar", "output", ENGINE + 0x100200, "fp32", (), "tensor"),
    ),
    lines={CORE: ("a.s", 9), CORE + 4: ("a.s", 2), CORE + 24: ("b.s", 1), CORE + 28: ("a.s", 10)},
    nodes={CORE + 4: "relu 0", CORE + 24: "relu 0", CORE + 28: "add"},
    live=(
        LiveRange("größe", "weights", "relu 0", 0x10000, 256, CORE + 4, CORE + 24),
        LiveRange("y", "output", "", 0x10100, 1, CORE + 4, CORE + 32),
    ),
)
FILE = write_image(SAMPLE)


def with_part(index: int, **changes: object) -> Image:
    """The sample with one segment changed."""
    segments = list(SAMPLE.segments)
    segments[index] = replace(segments[index], **changes)  # type: ignore[arg-type]
    return replace(SAMPLE, segments=tuple(segments))


def descriptor_range(data: bytes) -> tuple[int, int]:
    """Return the first and the last byte of the JSON in an image file, the last exclusive."""
    section = ELFFile(io.BytesIO(data)).get_section_by_name(".note.tx8")
    first = next(iter(section.iter_notes()))
    start = section["sh_offset"] + 12 + 4
    return start, start + first["n_descsz"]


def sealed(data: bytes) -> bytes:
    """Give a file the checksum of its content, as a dishonest writer would."""
    section = ELFFile(io.BytesIO(FILE)).get_section_by_name(".note.tx8")
    end = section["sh_offset"] + section["sh_size"]
    blank = data[: end - 4] + bytes(4) + data[end:]
    return blank[: end - 4] + struct.pack("<I", crc32(blank)) + blank[end:]


def edited_note(old: str, new: str) -> bytes:
    """The sample's file with a text of the same length in its JSON, and a checksum that fits."""
    start, end = descriptor_range(FILE)
    note = FILE[start:end]
    assert note.count(old.encode()) == 1
    assert len(old.encode()) == len(new.encode())
    return sealed(FILE[:start] + note.replace(old.encode(), new.encode()) + FILE[end:])


def read_all(data: bytes) -> Image:
    """Read an image, including everything that is decoded late."""
    image = read_image(data, "prog.bin")
    for table in (image.lines, image.nodes, image.symbols, image.data_ranges, image.live):
        len(table)
    return image
