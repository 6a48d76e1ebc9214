"""Files that are not images: damaged, truncated, or contradictory."""

from __future__ import annotations

import io
import re

import pytest
from elftools.elf.elffile import ELFFile
from hypothesis import given, settings
from hypothesis import strategies as st

import asm
from asm.image import ImageError, read_image
from asm.image import elf as image_elf
from sample_image import CORE, FILE, TEXT, edited_note, read_all, sealed


def patched(offset: int, data: bytes) -> bytes:
    return FILE[:offset] + data + FILE[offset + len(data) :]


NOT_IMAGES = [
    (b"", "not a program image: it starts with nothing, expected 7f 45 4c 46"),
    (b"PK\3\4" * 30, "not a program image: it starts with 50 4b 03 04, expected 7f 45 4c 46"),
    (FILE[:63], "truncated image: 63 bytes, the header has 64"),
    (patched(4, b"\1"), "foreign file: ELF class 1, expected 2 (64 bits)"),
    (patched(5, b"\2"), "foreign file: byte order 2, expected 1 (little endian)"),
    (patched(18, b"\x3e\0"), "foreign file: machine 62, expected 243 (RISC-V)"),
    (patched(16, b"\1"), "foreign file: file type 1, expected 2 (executable)"),
    (patched(54, b"\x20"), "corrupted image: program headers of 32 bytes, not 56"),
    (patched(58, b"\x28"), "corrupted image: section headers of 40 bytes, not 64"),
    (patched(0x1001, b"\1"), "corrupted image: .text does not match its checksum"),
    (patched(0x2005, b"a"), "corrupted image: .data does not match its checksum"),
    (
        patched(0x800, b"\1"),
        "corrupted image: its headers or tables do not match the checksum; "
        "was it changed after it was written?",
    ),
    (edited_note('"version":2', '"version":1'), "image format version 1: this tool reads version 2"),
    (
        edited_note('"entry":2147483648', '"entry":2147483652'),
        "corrupted image: entry 0x80000000 in the header, 0x80000004 in the note",
    ),
    (
        edited_note('"machine"', '"machina"'),
        "corrupted image: note .note.tx8: Object contains unknown field `machina`",
    ),
    (
        edited_note('"kind":"input"', '"kind":"inqut"'),
        "buffer x: kind 'inqut', expected one of input output constant",
    ),
    (
        edited_note('"shape":[4,8]', '"shape":[4,0]'),
        "buffer x: shape [4, 0] in layout cx, expected extents of 1 or more",
    ),
    (
        sealed(patched(64 + 24, b"\4")),
        "corrupted image: .text has the physical address 0x4, but 0x80000000 shows DDR offset 0x0",
    ),
    (sealed(patched(64 + 4, b"\7")), "segment .text: flags '0x7', expected one of rx rw r"),
    (sealed(patched(64, b"\6")), "corrupted image: 3 loadable segments, the note lists 4"),
]


@pytest.mark.parametrize(("data", "message"), NOT_IMAGES, ids=[message[:45] for _, message in NOT_IMAGES])
def test_files_that_are_no_images(data: bytes, message: str) -> None:
    with pytest.raises(ImageError) as refused:
        read_image(data, "prog.bin")
    assert str(refused.value) == f"prog.bin: {message}"


def test_an_image_that_lost_its_note_is_no_plain_executable() -> None:
    """tests/test_image_plain.py has plain executables, whose physical addresses equal the virtual ones."""
    text = image_elf.ElfSection(".text", image_elf.PROGBITS, TEXT, flags=6, address=CORE, size=len(TEXT))
    load = image_elf.Loadable(image_elf.PT_LOAD, 5, 0, len(TEXT), 0)
    with pytest.raises(ImageError) as refused:
        read_image(b"".join(image_elf.build(CORE, [text], [load])), "a.out")
    expected = "a.out: segment .text is linked for 0x80000000 but to be loaded at 0x0: the loader copies "
    assert str(refused.value) == expected + "nothing afterwards, link it for one address"


def test_every_truncation_is_noticed() -> None:
    for length in (*range(0, 64), *range(64, len(FILE), 97), len(FILE) - 1):
        with pytest.raises(ImageError):
            read_image(FILE[:length], "prog.bin")
    with pytest.raises(ImageError, match="truncated image: the table of section headers ends at byte"):
        read_image(FILE[:-1], "prog.bin")
    with pytest.raises(ImageError, match="corrupted image"):
        read_image(FILE + b"\0", "prog.bin")


@pytest.mark.parametrize(
    ("old", "new", "table"),
    [
        ('"runs":[0,2,1,1,0,1]', '"runs":[0,2,1,1,0,2]', "lines"),
        ('"runs":[0,2,1,1,0,1]', '"runs":[0,2,1,1,2,1]', "lines"),
        ('"runs":[0,2,1,1,0,1]', '"runs":[0,2,1,1,001]', "lines"),
        ('"lines":[9,-7,-1,9]', '"lines":[9,-71,190]', "lines"),
        ('"lines":[9,-7,-1,9]', '"lines":[9,-7,"1",9', "lines"),
        ('"names":["relu 0","add"]', '"names":["relu 0",12345]', "nodes"),
        ('"runs":[0,2,1,1]', '"runs":[0,2,2,1]', "nodes"),
        ('"addresses":[2147483652,20,4]', '"addresses":[2147483652,20,0]', "nodes"),
        ('"addresses":[2147483652,20,4]', '"addresses":[2147483652,-0,4]', "nodes"),
    ],
)
def test_tables_that_contradict_themselves(old: str, new: str, table: str) -> None:
    with pytest.raises(ImageError, match=r"prog\.bin: corrupted image: .*\.note\.tx8"):
        len(getattr(read_image(edited_note(old, new), "prog.bin"), table))


def symbol_entry(index: int) -> int:
    return int(ELFFile(io.BytesIO(FILE)).get_section_by_name(".symtab")["sh_offset"]) + 24 * index


SYMTAB_HEADER = len(FILE) - 64 * 3
BAD_SYMBOLS = [
    (patched(symbol_entry(4), b"\xff"), "a symbol name lies outside the string table"),
    (patched(symbol_entry(4), FILE[symbol_entry(5) :][:1]), "two symbols are called N"),
    (patched(symbol_entry(4) + 6, b"\x09"), "a symbol of section 9, which is not a segment"),
    (patched(symbol_entry(3) + 6, b"\x09"), None),
    (FILE.replace("größe".encode(), b"gr\xff\xff\xff\xffe"), "a symbol name is not UTF-8"),
]


@pytest.mark.parametrize(("data", "message"), BAD_SYMBOLS)
def test_symbol_tables_that_make_no_sense(data: bytes, message: str | None) -> None:
    image = read_image(sealed(data), "prog.bin")
    if message is None:  # a mapping symbol of another section does not end a range of this one
        assert image.data_ranges == [(CORE + 4, CORE + 32)]
        return
    with pytest.raises(ImageError, match=f"prog.bin: corrupted image: {message}"):
        len(image.symbols)


def with_mapping_symbol(index: int, section: int, address: int) -> bytes:
    """The sample with another place for its mapping symbol 1 ($x), 2 ($d) or 3 ($x)."""
    at = symbol_entry(index)
    head = FILE[at : at + 6] + section.to_bytes(2, "little")
    return sealed(FILE[:at] + head + address.to_bytes(8, "little") + FILE[at + 16 :])


OUTSIDE = [CORE - 1, CORE + 33, 0, 1 << 32, (1 << 64) - 1]


@pytest.mark.parametrize("address", OUTSIDE, ids=hex)
@pytest.mark.parametrize("index", [1, 2, 3])
def test_mapping_symbols_outside_their_section(index: int, address: int) -> None:
    """The bytes between two of them are disassembled, however many there are."""
    image = read_image(with_mapping_symbol(index, 1, address), "prog.bin")
    text = f"a mapping symbol of .text at {address:#x}, expected 0x80000000..0x80000020"
    for use in (lambda: len(image.data_ranges), lambda: asm.disassemble(image)):
        with pytest.raises(ImageError, match=f"^prog.bin: corrupted image: {text}$"):
            use()


@pytest.mark.parametrize(
    ("section", "address", "message"),
    [
        (2, CORE + 0x1004, r"a mapping symbol \$d in .data, expected in code alone"),
        (4, 0x180002001, r"a mapping symbol \$d in .rodata, expected in code alone"),
        (0xFFF1, CORE + 4, r"a mapping symbol \$d in \*ABS\*, expected in code alone"),
        (0, CORE + 4, "a symbol of section 0, which is not a segment"),
        (9, CORE + 4, "a symbol of section 9, which is not a segment"),
    ],
)
def test_data_ranges_that_begin_outside_code(section: int, address: int, message: str) -> None:
    image = read_image(with_mapping_symbol(2, section, address), "prog.bin")
    with pytest.raises(ImageError, match=f"^prog.bin: corrupted image: {message}$"):
        len(image.data_ranges)


@pytest.mark.parametrize(("start", "end"), [(0, 32), (0, 1), (4, 32), (31, 32), (32, 32)])
def test_mapping_symbols_up_to_the_end_of_their_section(start: int, end: int) -> None:
    data = with_mapping_symbol(2, 1, CORE + start)
    at = symbol_entry(3)
    image = read_image(
        sealed(data[: at + 8] + (CORE + end).to_bytes(8, "little") + data[at + 16 :]), "prog.bin"
    )
    assert image.data_ranges == [(CORE + start, CORE + end)]
    assert asm.disassemble(image)


@pytest.mark.parametrize(
    ("offset", "value", "message"),
    [
        (4, b"\3", "0 symbol tables, expected 1"),
        (32, b"\xbf", ".symtab of 191 bytes, 24 per symbol"),
        (40, b"\x63", "section 99 of 12"),
    ],
)
def test_headers_of_the_symbol_table(offset: int, value: bytes, message: str) -> None:
    with pytest.raises(ImageError, match=f"prog.bin: corrupted image: {re.escape(message)}"):
        read_image(sealed(patched(SYMTAB_HEADER + offset, value)), "prog.bin")


damage = st.lists(st.tuples(st.integers(0, len(FILE) - 1), st.integers(1, 255)), min_size=1, max_size=4)


def damaged(flips: list[tuple[int, int]]) -> bytes:
    data = bytearray(FILE)
    for position, difference in flips:
        data[position] ^= difference
    return bytes(data)


@settings(max_examples=300)
@given(damage)
def test_any_changed_byte_is_noticed(flips: list[tuple[int, int]]) -> None:
    data = damaged(flips)
    if data == FILE:
        return
    with pytest.raises(ImageError):
        read_image(data, "prog.bin")


# The bytes with a meaning: headers, and everything after the padded segments.
meaningful = st.one_of(st.integers(0, 400), st.integers(0x3000, len(FILE) - 1))


@settings(max_examples=300)
@given(st.lists(st.tuples(meaningful, st.integers(1, 255)), min_size=1, max_size=4))
def test_nonsense_with_a_fitting_checksum_is_no_traceback(flips: list[tuple[int, int]]) -> None:
    try:
        read_all(sealed(damaged(flips)))
    except ImageError as error:
        assert str(error).startswith("prog.bin: ")
        assert "\n" not in str(error)
