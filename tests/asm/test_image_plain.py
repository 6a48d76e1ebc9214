"""Executables of other tools: loaded segments, and refusals with their messages."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from asm.image import Image, ImageError, read_image
from asm.image import elf as image_elf
from emulator.program import Program
from plain_images import BASE, CODE, executable
from tx8isa.machine.description import load_machine

Change = Callable[[bytearray], None]


def with_flags(value: int) -> bytes:
    file = executable()
    struct.pack_into("<I", file, 48, value)
    return bytes(file)


def test_segments_and_entry() -> None:
    image = read_image(bytes(executable(extra=12)), "a.elf")
    found = [(s.section, s.address, s.data, s.size, s.flags) for s in image.segments]
    assert found == [(".text", BASE, CODE, len(CODE), "rx"), (".data", BASE + 0x10000, b"\1\2\3\4", 16, "rw")]
    assert (image.entry, image.tile_entries, image.buffers) == (BASE, {}, ())


def test_it_runs_and_takes_no_inputs() -> None:
    program = Program(read_image(bytes(executable()), "a.elf"), load_machine(None))
    assert program.run() == {}
    with pytest.raises(Exception, match="the program has no input 'x'; its inputs: none"):
        program.run({"x": 0})  # type: ignore[dict-item]


@pytest.mark.parametrize("flags", [0, 1, 2, 4, 5])
def test_any_float_abi_is_accepted_with_and_without_compressed_code(flags: int) -> None:
    image = read_image(with_flags(flags), "a.elf")
    assert isinstance(image, Image) and image.compressed == bool(flags & 1)


def patched(offset: int, text: bytes) -> bytes:
    file = executable()
    file[offset : offset + len(text)] = text
    return bytes(file)


ELSEWHERE = "expected 0x80000000..0x17fffffff 0x180000000..0x27fffffff 0x280000000..0x127fffffff"

REFUSED = [
    (bytes(executable(flags=7)), "segment .text: flags '0x7', expected one of rx rw r"),
    (
        bytes(executable(physical=0x1000)),
        "segment .text is linked for 0x80000000 but to be loaded at 0x1000: the loader copies nothing "
        "afterwards, link it for one address",
    ),
    (
        bytes(executable(address=0x10000, physical=0x10000)),
        f"segment .text: 0x10000..0x1000f lies in no DDR window, {ELSEWHERE}",
    ),
    (bytes(executable(flags=4)), "entry 0x80000000 lies in no code"),
    (patched(24, struct.pack("<Q", BASE + 1)), "entry 0x80000001 is not a multiple of 2"),
    (patched(16, b"\3"), "foreign file: file type 3, expected 2 (executable)"),
    (patched(4, b"\1"), "foreign file: ELF class 1, expected 2 (64 bits)"),
    (patched(56, b"\0\0"), "entry 0x80000000 lies in no code"),
]


@pytest.mark.parametrize(("data", "message"), REFUSED, ids=[message[:45] for _, message in REFUSED])
def test_what_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(ImageError) as refused:
        read_image(data, "a.elf")
    assert str(refused.value) == f"a.elf: {message}"


def test_a_cut_off_file() -> None:
    whole = bytes(executable())
    for length in range(0, len(whole), 61):
        with pytest.raises(ImageError, match=r"^a\.elf: "):
            read_image(whole[:length], "a.elf")


def test_no_flipped_byte_is_a_traceback() -> None:
    whole = executable()
    for position in range(len(whole)):
        if 0x1000 <= position < 0x1000 + len(CODE):
            continue
        file = bytearray(whole)
        file[position] ^= 0xFF
        try:
            len(read_image(bytes(file), "a.elf").symbols)
        except ImageError:
            continue


def test_overlapping_segments_are_refused() -> None:
    code = image_elf.ElfSection(".text", image_elf.PROGBITS, CODE, flags=6, address=BASE)
    same = image_elf.ElfSection(".more", image_elf.PROGBITS, CODE, flags=3, address=BASE + 8)
    loadables = [image_elf.Loadable(1, 5, BASE, 16, 0), image_elf.Loadable(1, 6, BASE + 8, 16, 1)]
    with pytest.raises(ImageError, match=r"segments \.text and \.more overlap at DDR offset 0x8"):
        read_image(b"".join(image_elf.build(BASE, [code, same], loadables)), "a.elf")
