"""The program image: accepted by tools of other projects, exact in both directions; damaged files are
refused."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import struct
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from asm.image import (
    ABSOLUTE,
    LIVE_ROLES,
    Buffer,
    Image,
    ImageError,
    LiveRange,
    Segment,
    Symbol,
    Window,
    ddr_offset,
    ddr_windows,
    image_parts,
    named_place,
    read_image,
    write_image,
)
from paths import ROOT
from sample_image import CORE, ENGINE, FILE, SAMPLE, TEXT, UNCACHED, descriptor_range, read_all, with_part
from tx8isa.machine.description import load_machine
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import Layout

# --- GNU tools and pyelftools ------------------------------------------------------------------------------


@pytest.fixture
def gnu(tmp_path: Path) -> Callable[..., str]:
    """Run a GNU tool on the sample's file and return its output; any complaint fails the test."""
    path = tmp_path / "prog.bin"
    path.write_bytes(FILE)

    def run(tool: str, *options: str) -> str:
        program = shutil.which(f"riscv64-unknown-elf-{tool}")
        if program is None:
            reason = f"riscv64-unknown-elf-{tool} is not installed"
            if os.environ.get("CI") == "true":
                pytest.fail(reason)
            pytest.skip(reason)
        done = subprocess.run([program, *options, path], capture_output=True, text=True, errors="replace")
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    return run


def test_readelf_shows_sections_segments_and_notes(gnu: Callable[..., str]) -> None:
    text = gnu("readelf", "-aW")
    for name in (".text", ".data", ".ddr", ".rodata", ".note.tx8", ".symtab", ".strtab", ".shstrtab"):
        assert re.search(rf"\] {re.escape(name)} ", text), name
    assert re.search(r"\.ddr +NOBITS +0000000280100000", text)
    assert re.search(r"LOAD +0x\w+ 0x0+280100000 0x0+100000 0x0+ 0x0+4000 RW ", text)
    assert re.search(r"LOAD +0x\w+ 0x0+80000000 0x0+ 0x0+20 0x0+20 R E 0x1000", text)
    assert re.search(r"Entry point address: +0x80000000", text)
    assert "tx8 " in text
    assert "arning" not in text


def test_objdump_stays_in_step_with_engine_instructions(gnu: Callable[..., str]) -> None:
    text = gnu("objdump", "-d", "-M", "no-aliases")
    found = re.findall(r"^\s+(\w+):\t(\w+)\s+\t(\S+)", text, re.MULTILINE)
    assert [(int(address, 16), int(word, 16)) for address, word, _ in found] == [
        (CORE + 4 * index, word) for index, word in enumerate(struct.unpack("<8I", TEXT))
    ]
    assert [name for _, _, name in found] == ["addi", *[".word"] * 5, "addi", "ecall"]
    assert "<_start>:" in text
    assert "<loop>:" in text


def test_nm_lists_the_symbols(gnu: Callable[..., str]) -> None:
    rows = {row.split()[2]: row.split()[:2] for row in gnu("nm").splitlines()}
    assert rows["_start"] == ["0000000080000000", "T"]
    assert rows["loop"] == ["0000000080000018", "t"]
    assert rows["größe"] == ["0000000280100000", "B"]
    assert rows["N"] == ["fffffffffffffffb", "a"]


def test_pyelftools_agrees() -> None:
    elf = ELFFile(io.BytesIO(FILE))
    assert (elf["e_machine"], elf["e_type"], elf["e_entry"]) == ("EM_RISCV", "ET_EXEC", CORE)
    loads = [segment for segment in elf.iter_segments() if segment["p_type"] == "PT_LOAD"]
    offsets = (0, 0x1004, 0x100000, 0x2001)
    for load, segment, offset in zip(loads, SAMPLE.segments, offsets, strict=True):
        assert (load["p_vaddr"], load["p_paddr"]) == (segment.address, offset)
        assert (load["p_filesz"], load["p_memsz"]) == (len(segment.data), segment.size)
        assert load.data() == segment.data
        section = elf.get_section_by_name(segment.section)
        assert section["sh_addr"] == segment.address and segment.address % section["sh_addralign"] == 0
        assert not segment.data or (load["p_offset"] - load["p_vaddr"]) % 4096 == 0
    table = elf.get_section_by_name(".symtab")
    names = [symbol.name for symbol in table.iter_symbols()]
    assert names == ["", "$x", "$d", "$x", "loop", "N", "_start", "größe"]
    assert table["sh_info"] == 6  # first global symbol
    assert [symbol["st_info"]["bind"] for symbol in table.iter_symbols()] == ["STB_LOCAL"] * 6 + [
        "STB_GLOBAL"
    ] * 2


def test_the_example_of_the_manual() -> None:
    manual = (ROOT / "docs" / "image.md").read_text(encoding="utf-8")
    program = re.search(r"```python\n(.*?)```", manual, re.DOTALL)
    shown = re.search(r"```json\n(.*?)```", manual, re.DOTALL)
    assert program
    assert shown
    names: dict[str, bytes] = {}
    exec(program[1], names)
    start, end = descriptor_range(names["data"])
    assert json.loads(names["data"][start:end]) == json.loads(shown[1])
    for key in json.loads(shown[1]):
        assert f"| `{key}` |" in manual


# --- both directions ---------------------------------------------------------------------------------------


def test_reading_gives_back_what_was_written() -> None:
    image = read_all(FILE)
    assert image == SAMPLE
    assert write_image(image) == FILE
    assert repr(image.data_ranges) == repr(SAMPLE.data_ranges)
    assert repr(image.lines) == repr(SAMPLE.lines)


def test_the_pieces_of_an_image_hold_no_copies_of_its_segments() -> None:
    image = read_image(FILE, "prog.bin")
    pieces = {id(piece) for piece in image_parts(image)}
    assert all(id(segment.data) in pieces for segment in image.segments if segment.data)


def test_default_windows_are_those_of_the_machine() -> None:
    assert SAMPLE.windows == ddr_windows(load_machine(None))
    assert [window.address for window in SAMPLE.windows] == [CORE, UNCACHED, ENGINE]
    assert [ddr_offset(window.address + 5, SAMPLE.windows) for window in SAMPLE.windows] == [5, 5, 5]
    assert ddr_offset(CORE - 1, SAMPLE.windows) is None
    assert ddr_offset(ENGINE + (64 << 30), SAMPLE.windows) is None


@pytest.mark.parametrize(
    ("ranges", "names", "expected"),
    [
        ([], ["$x"], []),
        ([(0, 4)], ["$d", "$x"], [(0, 4)]),
        ([(28, 32)], ["$x", "$d"], [(28, 32)]),
        ([(0, 32)], ["$d"], [(0, 32)]),
        ([(4, 8), (8, 12), (12, 16)], ["$x", "$d", "$x"], [(4, 16)]),
        ([(4, 8), (12, 16)], ["$x", "$d", "$x", "$d", "$x"], [(4, 8), (12, 16)]),
        ([(4, 4), (8, 8)], ["$x"], []),
    ],
)
def test_mapping_symbols(
    ranges: list[tuple[int, int]], names: list[str], expected: list[tuple[int, int]]
) -> None:
    placed = [(CORE + start, CORE + end) for start, end in ranges]
    data = write_image(replace(SAMPLE, data_ranges=placed, symbols={}))
    table = ELFFile(io.BytesIO(data)).get_section_by_name(".symtab")
    assert [symbol.name for symbol in table.iter_symbols()][1:] == names
    found = read_image(data, "prog.bin").data_ranges
    assert [(start - CORE, end - CORE) for start, end in found] == expected


def test_data_ranges_of_two_code_segments() -> None:
    second = Segment(".text2", CORE + 0x8000, TEXT, len(TEXT), "rx")
    ranges = [(CORE + 28, CORE + 32), (CORE + 0x8000, CORE + 0x8004)]
    for segments in ((*SAMPLE.segments, second), (second, *SAMPLE.segments)):
        image = replace(SAMPLE, segments=segments, data_ranges=ranges)
        assert read_all(write_image(image)) == image


names_ = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=6)
words64 = st.integers(0, 2**64 - 1)


@st.composite
def images(draw: st.DrawFn) -> Image:
    """Small images: code first, then segments in random windows with gaps between their DDR offsets."""
    code = draw(st.binary(min_size=4, max_size=40))
    segments = [Segment(".text", CORE, code, len(code) + draw(st.integers(0, 9)), "rx")]
    offset = 64
    for index in range(draw(st.integers(0, 3))):
        offset += draw(st.integers(0, 5000))
        data = draw(st.binary(max_size=20))
        size = len(data) + draw(st.integers(0 if data else 1, 30))
        window = draw(st.sampled_from((CORE, UNCACHED, ENGINE)))
        segments.append(
            Segment(f".s{index}", window + offset, data, size, draw(st.sampled_from(("r", "rw", "rx"))))
        )
        offset += size
    sections = [segment.section for segment in segments]
    symbol = st.builds(
        Symbol,
        words64,
        words64,
        st.sampled_from(("notype", "object", "func")),
        st.sampled_from([*sections, ABSOLUTE]),
        st.sampled_from(("local", "global")),
    )
    buffer = st.builds(
        Buffer,
        names_,
        st.sampled_from(("input", "output", "constant")),
        st.integers(ENGINE, ENGINE + 1000),
        st.sampled_from(Format).map(lambda f: f.token),
        st.lists(st.integers(1, 2**40), max_size=4).map(tuple),
        st.sampled_from(Layout).map(lambda layout: layout.token),
        st.none() | names_,
    )
    cuts = sorted(draw(st.sets(st.integers(0, len(code)), max_size=6)))
    addresses = st.integers(0, 2**63 - 1)
    numbers = st.integers(1, 2**40)
    live = st.builds(
        lambda *parts, begin, size: LiveRange(*parts, begin, begin + size),
        *(names_, st.sampled_from(LIVE_ROLES), names_, addresses, numbers),
        begin=addresses,
        size=numbers,
    )
    return Image(
        entry=CORE + 4 * draw(st.integers(0, (len(code) - 1) // 4)),
        segments=tuple(draw(st.permutations(segments))),
        tile_entries=draw(st.dictionaries(st.integers(0, 300), st.just(CORE), max_size=3)),
        symbols=draw(st.dictionaries(names_.filter(lambda n: n not in ("$x", "$d")), symbol, max_size=5)),
        data_ranges=[(CORE + a, CORE + b) for a, b in zip(cuts[::2], cuts[1::2], strict=False)],
        buffers=tuple(draw(st.lists(buffer, max_size=2, unique_by=lambda b: b.name))),
        lines=draw(st.dictionaries(addresses, st.tuples(names_, st.integers(0, 10**6)), max_size=6)),
        nodes=draw(st.dictionaries(addresses, names_, max_size=6)),
        live=tuple(draw(st.lists(live, max_size=3))),
        machine=draw(st.one_of(names_, st.dictionaries(names_, st.integers(0, 9), max_size=2))),
    )


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(images())
def test_round_trip(image: Image) -> None:
    data = write_image(image)
    found = read_all(data)
    assert found == image
    assert write_image(found) == data
    assert len(ELFFile(io.BytesIO(data)).get_section_by_name(".symtab").data()) % 24 == 0


# --- images that cannot be written -------------------------------------------------------------------------

CODE = "expected one of .text .data .ddr .rodata *ABS*"
UNWRITABLE = [
    (replace(SAMPLE, version=3), "format version 3: this tool knows version 2"),
    (replace(SAMPLE, segments=()), "entry 0x80000000 lies in no code"),
    (replace(SAMPLE, entry=CORE + 1), "entry 0x80000001 is not a multiple of 2"),
    (replace(SAMPLE, entry=CORE + 32), "entry 0x80000020 lies in no code"),
    (replace(SAMPLE, entry=CORE + 0x1004), "entry 0x80001004 lies in no code"),
    (replace(SAMPLE, tile_entries={5: 0}), "entry of tile 5 0x0 lies in no code"),
    (replace(SAMPLE, tile_entries={-1: CORE}), "entry of tile -1: tiles count from 0"),
    (with_part(1, flags="rwx"), "segment .data: flags 'rwx', expected one of rx rw r"),
    (with_part(1, size=4), "segment .data: size 4, expected at least 1 and its 5 bytes of data"),
    (with_part(2, size=0), "segment .ddr: size 0, expected at least 1 and its 0 bytes of data"),
    (
        with_part(1, section=".symtab"),
        "segment .symtab: this section name is kept for the image's own tables",
    ),
    (with_part(1, section=".text"), "two segments of section .text"),
    (with_part(1, section=""), "a name among the segments of section is empty or holds a NUL: ''"),
    (with_part(1, section="a\0b"), "a name among the segments of section is empty or holds a NUL: 'a\\x00b'"),
    (
        with_part(1, address=CORE - 1),
        "segment .data: 0x7fffffff..0x8000001e lies in no DDR window, "
        "expected 0x80000000..0x17fffffff 0x180000000..0x27fffffff 0x280000000..0x127fffffff",
    ),
    (
        with_part(1, address=CORE + (1 << 32) - 16),  # its end is in another window
        "segment .data: 0x17ffffff0..0x18000000f lies in no DDR window, "
        "expected 0x80000000..0x17fffffff 0x180000000..0x27fffffff 0x280000000..0x127fffffff",
    ),
    (
        replace(
            with_part(1, address=UNCACHED - 0x10),
            windows=(Window(CORE, 1 << 32),),
            segments=SAMPLE.segments[:3],
        ),
        "segment .ddr: 0x280100000..0x280103fff lies in no DDR window, expected 0x80000000..0x17fffffff",
    ),
    (
        replace(SAMPLE, windows=()),
        "segment .text: 0x80000000..0x8000001f lies in no DDR window, expected one",
    ),
    (with_part(2, address=ENGINE + 0x1010), "segments .data and .ddr overlap at DDR offset 0x1010"),
    (with_part(3, address=UNCACHED + 31), "segments .text and .rodata overlap at DDR offset 0x1f"),
    (
        replace(SAMPLE, buffers=(replace(SAMPLE.buffers[0], kind="weight"),)),
        "buffer x: kind 'weight', expected one of input output constant",
    ),
    (
        replace(SAMPLE, buffers=(replace(SAMPLE.buffers[0], address=0x1000),)),
        "buffer x: address 0x1000 lies in no DDR window",
    ),
    (
        replace(SAMPLE, buffers=(replace(SAMPLE.buffers[0], shape=(4, 0)),)),
        "buffer x: shape [4, 0] in layout cx, expected extents of 1 or more",
    ),
    (replace(SAMPLE, buffers=SAMPLE.buffers[:1] * 2), "two input buffers x"),
    (replace(SAMPLE, symbols={"s": Symbol(0, section=".bss")}), f"symbol s: section '.bss', {CODE}"),
    (
        replace(SAMPLE, symbols={"s": Symbol(0, kind="tls")}),
        "symbol s: kind 'tls', expected one of notype object func",
    ),
    (
        replace(SAMPLE, symbols={"s": Symbol(0, binding="weak")}),
        "symbol s: binding 'weak', expected one of local global",
    ),
    (replace(SAMPLE, symbols={"s": Symbol(-1)}), "symbol s: address -1, expected 64 bits"),
    (replace(SAMPLE, symbols={"s": Symbol(0, 1 << 64)}), f"symbol s: size {1 << 64}, expected 64 bits"),
    (replace(SAMPLE, symbols={"$d": Symbol(0)}), "'$d' cannot be the name of a symbol"),
    (replace(SAMPLE, symbols={"": Symbol(0)}), "'' cannot be the name of a symbol"),
    (replace(SAMPLE, symbols={"\ud800": Symbol(0)}), "a name is not valid Unicode: '\\ud800'"),
    (replace(SAMPLE, nodes={CORE: "\ud800"}), "a name is not valid Unicode: '\\ud800'"),
    (replace(SAMPLE, data_ranges=[(CORE + 8, CORE + 4)]), "the data ranges do not ascend"),
    (replace(SAMPLE, data_ranges=[(CORE, CORE + 8), (CORE + 4, CORE + 9)]), "the data ranges do not ascend"),
    (
        replace(SAMPLE, data_ranges=[(CORE + 28, CORE + 33)]),
        "the data range 0x8000001c..0x80000021 lies in no code segment",
    ),
    (
        replace(SAMPLE, data_ranges=[(CORE + 0x1004, CORE + 0x1008)]),
        "the data range 0x80001004..0x80001008 lies in no code segment",
    ),
]


@pytest.mark.parametrize(("image", "message"), UNWRITABLE, ids=[message[:40] for _, message in UNWRITABLE])
def test_images_that_cannot_be_written(image: Image, message: str) -> None:
    with pytest.raises(ImageError) as refused:
        write_image(image)
    assert str(refused.value) == message


@pytest.mark.parametrize(("field", "value"), [("format", "fp8"), ("layout", "nchw")])
def test_unknown_formats_and_layouts(field: str, value: str) -> None:
    buffer = replace(SAMPLE.buffers[0], **{field: value})
    with pytest.raises(ImageError, match=rf"buffer x: unknown {field} '{value}'"):
        write_image(replace(SAMPLE, buffers=(buffer,)))


def test_a_message_is_one_line_whatever_the_image_holds() -> None:
    """A damaged image may have a line end where a word should be."""
    broken = replace(SAMPLE.buffers[0], kind="in\nput\x1b")
    with pytest.raises(ImageError) as raised:
        write_image(replace(SAMPLE, buffers=(broken,)))
    assert str(raised.value).isprintable()
    assert "expected one of input output constant" in str(raised.value)


def test_too_many_segments() -> None:
    segments = tuple(Segment(f".s{i}", CORE + 16 * i, TEXT[:4], 4, "rx") for i in range(4097))
    with pytest.raises(ImageError, match="4097 segments: at most 4096 are allowed"):
        write_image(Image(entry=CORE, segments=segments))


@pytest.mark.parametrize(
    ("line", "node", "text"),
    [
        ("prog.s:12", "conv1", "prog.s:12, node 'conv1'"),
        ("prog.s:12", None, "prog.s:12"),
        ("", "conv1", "node 'conv1'"),
        ("", "", ""),
        ("/a/kernels.py:51", "kernels.py:51", "/a/kernels.py:51"),
        ("/a/kernels.py:52", "kernels.py:51", "/a/kernels.py:52, node 'kernels.py:51'"),
    ],
)
def test_a_place_is_a_line_and_a_node_that_says_more(line: str, node: str | None, text: str) -> None:
    assert named_place(line, node) == text
