"""Debug information of an image: pyelftools, GNU readelf, objdump and gdb read the line table from it."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from elftools.common.construct_utils import SLEB128, ULEB128
from elftools.elf.elffile import ELFFile
from hypothesis import given
from hypothesis import strategies as st

import asm
from asm.image import Image, ImageError, Segment, read_image, write_image
from asm.image.dwarf import SECTIONS
from asm.image.dwarf_lines import sleb, uleb

Lines = dict[int, tuple[str, int]]

PROGRAM = """    .include "macros.s"
    .globl _start, main
    .type main, @function
_start:
    li a0, 1
    call main
    li a7, 93
    li a0, 0
    ecall
main:
    addi sp, sp, -32
    ncc.wait
    ct.add.vv.fp16 dst=0x100, src0=0x200, src1=0x300, n=64
    twice a1
1:  call helper
    .rept 3
    nop
    nop
    .endr
    .word 1, 2, 3
    ret
    .size main, . - main
    .include "helper.s"
    .section .text.hot, "ax"
    .type hot, @function
hot:
    nop
    ret
    .section .data
    .word 7
"""
MACROS = "    .macro twice r\n    addi \\r, \\r, 1\n    addi \\r, \\r, 1\n    .endm\n"
HELPER = "helper:\n    twice a0\n\n\n\n\n\n    ret\n"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """The folder of PROGRAM, assembled from there."""
    for name, text in (("prog.s", PROGRAM), ("macros.s", MACROS), ("helper.s", HELPER)):
        (tmp_path / name).write_text(text)
    assemble_in(tmp_path, "prog.s")
    return tmp_path


def assemble_in(folder: Path, name: str) -> None:
    from asm.cli import assemble_main

    before = Path.cwd()
    os.chdir(folder)
    try:
        assert assemble_main(["-q", name, "-o", "prog.bin"]) == 0
    finally:
        os.chdir(before)


def image_in(folder: Path) -> Image:
    return read_image((folder / "prog.bin").read_bytes(), "prog.bin")


def decoded(file: bytes) -> tuple[Lines, list[tuple[int, int]]]:
    """The rows of an image's line programs, and [first, end) of their sequences, as pyelftools reads them."""
    dwarf = ELFFile(io.BytesIO(file)).get_dwarf_info()
    rows: Lines = {}
    sequences, first = [], None
    for unit in dwarf.iter_CUs():
        program = dwarf.line_program_for_CU(unit)
        files = [entry.name.decode() for entry in program["file_entry"]]
        for state in (entry.state for entry in program.get_entries() if entry.state):
            if first is None:
                first = state.address
            if state.end_sequence:
                sequences.append((first, state.address))
                first = None
            else:
                assert state.address not in rows
                rows[state.address] = (files[state.file], state.line)
    return rows, sequences


def tool(name: str, *arguments: object, folder: Path) -> str:
    """Run an external tool and return its output; any complaint fails the test."""
    found = shutil.which(name)
    if found is None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"{name} is not installed")
        pytest.skip(f"{name} is not installed")
    words = [found, *map(str, arguments)]
    done = subprocess.run(words, capture_output=True, text=True, cwd=folder, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


# --- readers by other projects ----------------------------------------------------------------------------


def test_pyelftools_reads_the_line_table(program: Path) -> None:
    image = image_in(program)
    rows, sequences = decoded((program / "prog.bin").read_bytes())
    assert rows == dict(image.lines)
    assert {file for file, _ in rows.values()} == {"prog.s", "helper.s"}
    code = [s for s in image.segments if s.flags == "rx"]
    assert sequences == [(s.address, s.address + len(s.data)) for s in code]


@pytest.mark.parametrize("readelf", ["readelf", "riscv64-unknown-elf-readelf"])
def test_readelf_reads_the_line_table(program: Path, readelf: str) -> None:
    text = tool(readelf, "--debug-dump=decodedline", "prog.bin", folder=program)
    rows = re.findall(r"^(\S+) +(\d+) +0x(\w+) +x$", text, re.MULTILINE)
    assert {int(at, 16): (file, int(line)) for file, line, at in rows} == dict(image_in(program).lines)


def test_objdump_prints_the_line_of_every_instruction(program: Path) -> None:
    text = tool("riscv64-unknown-elf-objdump", "-dl", "prog.bin", folder=program)
    found, here = {}, ("", 0)
    for row in text.splitlines():
        place, address = re.fullmatch(r"(\S+):(\d+)", row), re.match(r" +(\w+):\t", row)
        if place:
            here = place[1], int(place[2])
        elif address:
            found[int(address[1], 16)] = here
    lines = image_in(program).lines
    assert {at: found[at] for at in lines} == dict(lines)


def test_readelf_finds_nothing_wrong_with_the_units(program: Path) -> None:
    text = tool("readelf", "--debug-dump=info,abbrev", "prog.bin", folder=program)
    assert "arning" not in text
    assert text.count("DW_TAG_compile_unit)") == 2
    assert "DW_AT_producer    : tx8as" in text
    assert "(MIPS assembler)" in text


def test_gdb_shows_lines_and_sets_breakpoints(program: Path) -> None:
    commands = (
        "info line main",
        "break prog.s:12",
        "break helper.s:8",
        "break helper",
        "list hot",
        "info source",
        "disassemble /s 0x80000018,0x8000001c",
        "info symbol 0x8000001c",
    )
    arguments = [word for command in commands for word in ("-ex", command)]
    text = tool("gdb-multiarch", "-q", "-nx", "-batch", *arguments, "prog.bin", folder=program)
    image = image_in(program)
    at = {place: address for address, place in reversed(list(image.lines.items()))}
    assert f'Line 11 of "prog.s" starts at address {at["prog.s", 11]:#x} <main>' in text
    assert f"Breakpoint 1 at {at['prog.s', 12]:#x}: file prog.s, line 12." in text
    assert f"Breakpoint 2 at {at['helper.s', 8]:#x}: file helper.s, line 8." in text
    helper = image.symbols["helper"].address
    assert f"Breakpoint 3 at {helper:#x}: file helper.s, line 2." in text
    assert "\thot:\n" in text
    assert "Source language is asm." in text
    assert "prog.s:\n11\t    addi sp, sp, -32\n" in text
    assert "main + 4 in section .text" in text


def test_functions_are_the_symbols_of_that_type(program: Path) -> None:
    dwarf = ELFFile(io.BytesIO((program / "prog.bin").read_bytes())).get_dwarf_info()
    symbols = image_in(program).symbols
    found = {}
    for unit in dwarf.iter_CUs():
        for entry in unit.get_top_DIE().iter_children():
            name = entry.attributes["DW_AT_name"].value.decode()
            low, size = (entry.attributes[f"DW_AT_{end}_pc"].value for end in ("low", "high"))
            found[name] = low, size, bool(entry.attributes["DW_AT_external"].value)
    main, hot = symbols["main"], symbols["hot"]
    assert found == {"main": (main.address, main.size, True), "hot": (hot.address, 8, False)}


# --- any line table ----------------------------------------------------------------------------------------

FILES = st.sampled_from(["a.s", "b/c.s", "größe.inc", "x y.s"])
TABLES = st.dictionaries(
    st.integers(0, 20000).map(lambda n: 0x8000_0000 + 4 * n),
    st.tuples(FILES, st.one_of(st.integers(0, 9), st.integers(0, 2**31))),
)


def image_with(lines: Lines, segments: Sequence[Segment] | None = None) -> Image:
    code = bytes(80004)
    text = segments or (Segment(".text", 0x8000_0000, code, len(code), "rx"),)
    return Image(0x8000_0000, tuple(text), lines=lines)


@given(TABLES)
def test_any_line_table_comes_back(lines: Lines) -> None:
    file = write_image(image_with(lines))
    if lines:
        assert decoded(file)[0] == lines
    assert dict(read_image(file, "p").lines) == lines


@given(st.integers(0, 1 << 70))
def test_uleb_against_pyelftools(value: int) -> None:
    assert ULEB128("").parse(uleb(value)) == value


@given(st.integers(-(1 << 62), 1 << 62))
def test_sleb_against_pyelftools(value: int) -> None:
    assert SLEB128("").parse(sleb(value)) == value


def test_each_code_segment_has_a_unit_of_its_own() -> None:
    first, last = 0x8000_0000, 0x9000_0000
    segments = [Segment(name, at, bytes(8), 8, "rx") for name, at in ((".text", first), (".far", last))]
    lines = {last: ("b.s", 1), first: ("a.s", 7), first + 4: ("a.s", 6)}
    rows, sequences = decoded(write_image(image_with(lines, segments)))
    assert rows == lines
    assert sequences == [(first, first + 8), (last, last + 8)]


# --- what it must not do -----------------------------------------------------------------------------------


def test_a_program_without_lines_has_no_debug_sections() -> None:
    elf = ELFFile(io.BytesIO(write_image(image_with({}))))
    assert not [s.name for s in elf.iter_sections() if s.name in SECTIONS]


def test_lines_outside_the_code_are_left_out() -> None:
    lines = {0x8000_0000: ("a.s", 1), 0x7FFF_FFFC: ("a.s", 2), 0x9000_0000: ("a.s", 3)}
    assert decoded(write_image(image_with(lines)))[0] == {0x8000_0000: ("a.s", 1)}


def test_nothing_is_loaded(program: Path) -> None:
    elf = ELFFile(io.BytesIO((program / "prog.bin").read_bytes()))
    assert all(elf.get_section_by_name(name)["sh_flags"] == 0 for name in SECTIONS)
    with_lines = image_in(program)
    without = replace(with_lines, lines={})
    loads = [
        [s.data() for s in ELFFile(io.BytesIO(write_image(i))).iter_segments("PT_LOAD")]
        for i in (with_lines, without)
    ]
    assert loads[0] == loads[1]


def test_bytes_do_not_depend_on_the_place(program: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("elsewhere")
    for file in program.glob("*.s"):
        shutil.copy(file, other)
    assemble_in(other, "prog.s")
    assert (other / "prog.bin").read_bytes() == (program / "prog.bin").read_bytes()


@pytest.mark.parametrize("name", SECTIONS)
def test_section_names_of_debug_information_are_taken(name: str) -> None:
    segments = [Segment(name, 0x8000_0000, bytes(4), 4, "rx")]
    with pytest.raises(ImageError, match=f"segment {re.escape(name)}: this section name is kept"):
        write_image(image_with({}, segments))


def test_a_damaged_line_table_is_noticed(program: Path) -> None:
    file = bytearray((program / "prog.bin").read_bytes())
    section = ELFFile(io.BytesIO(bytes(file))).get_section_by_name(".debug_line")
    file[section["sh_offset"] + section["sh_size"] // 2] ^= 1
    with pytest.raises(ImageError, match="do not match the checksum"):
        read_image(bytes(file), "prog.bin")


def test_a_nul_in_a_name_does_not_spoil_the_table() -> None:
    lines = {0x8000_0000: ("a\0b", 3), 0x8000_0004: ("c.s", 4)}
    assert decoded(write_image(image_with(lines)))[0] == {0x8000_0000: ("a?b", 3), 0x8000_0004: ("c.s", 4)}


def test_the_disassembly_carries_the_same_debug_information(program: Path) -> None:
    file = (program / "prog.bin").read_bytes()
    assert write_image(asm.assemble(asm.disassemble(file))) == file
