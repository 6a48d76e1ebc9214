"""Mistakes that are easily overlooked: open comments, look-alike characters, floats, operands of the chip."""

from __future__ import annotations

from pathlib import Path

import pytest

import asm
from asm.diagnostics import AsmError


@pytest.mark.parametrize(
    ("line", "note"),
    [
        ("\u0430ddi a0, a0, 1", "note: '\u0430' is U+0430 CYRILLIC SMALL LETTER A"),
        ("li a0, 1 \u2013 2", "note: '\u2013' is U+2013 EN DASH"),
        ("li a0, \u201c1\u201d", "note: '\u201c' is U+201C LEFT DOUBLE QUOTATION MARK"),
        ("addi a0,\u00a0a0, 1", "error: U+00A0 is a blank that the assembler does not read"),
        ("nop\u3000", "error: U+3000 is a blank that the assembler does not read"),
        ('.node "\ud800"', "error: U+D800 is half of a surrogate pair, which no file can hold"),
    ],
)
def test_characters_that_look_like_others_are_named(line: str, note: str) -> None:
    with pytest.raises(AsmError) as caught:
        asm.assemble(line + "\n")
    assert note in str(caught.value)


def test_blanks_beyond_ascii_stand_in_texts_and_comments() -> None:
    image = asm.assemble('nop # a\u00a0b\n.data\n.ascii "\u00a0" // \u3000\n/* \u00a0 */\n')
    assert image.segments[1].data == "\u00a0".encode()


@pytest.mark.parametrize(
    ("text", "place"),
    [("nop\n  /* open\nnop\n", "2:3"), ("nop /*/\n", "1:5"), ("/* a */ nop /* b\n*\n/\n", "1:13")],
)
def test_a_comment_that_never_ends_is_refused(text: str, place: str, tmp_path: Path) -> None:
    message = r"error: /\* without \*/: the rest of the file is a comment"
    with pytest.raises(AsmError, match=rf"p\.s:{place}: {message}"):
        asm.assemble(text, name="p.s")
    (tmp_path / "k.s").write_text(text)
    with pytest.raises(AsmError, match=rf"k\.s:{place}: {message}"):
        asm.assemble('.include "k.s"\n', include_dirs=[tmp_path])


@pytest.mark.parametrize(
    "text", ["nop // /*\n", 'nop\n.data\n.ascii "/*"\n', "nop # /*\n", "/**/ nop /***/\n"]
)
def test_what_is_no_open_comment(text: str) -> None:
    assert asm.assemble(text).segments


@pytest.mark.parametrize("number", ["1e400", "-1e400", "123456789e500"])
@pytest.mark.parametrize("name", [".float", ".double"])
def test_a_number_beyond_every_float_is_refused(name: str, number: str) -> None:
    with pytest.raises(AsmError, match=f"{number.lstrip('-')} does not fit {name}"):
        asm.assemble(f"nop\n.data\n{name} {number}\n")
    assert asm.assemble(f"nop\n.data\n{name} inf, -inf, 1.5e38\n").segments


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("ct.abs.v.fp32 dst=2, src0=0, n=4", "operand 'dst' = 0x2 must be a multiple of 4"),
        ("ct.abs.v.fp16 dst=0, src0=1, n=4", "operand 'src0' = 0x1 must be a multiple of 2"),
        ("rdma.fp32 dst=0, src=0x280000002, n=4", "operand 'src' = 0x80000002 must be a multiple of 4"),
        ("ct.abs.v.fp32 dst=X+2, src0=0, n=4", "operand 'dst' = 0x102 must be a multiple of 4"),
        ("dte.unicast dst=0, src=0, tile=16, n=256", "operand 'tile': 0x10 names a tile outside 0..15"),
        ("ncc.barrier tiles=65536", "operand 'tiles': 0x10000 names a tile outside 0..15"),
        ("dte.broadcast dst=0, src=0, tiles=1<<20, n=256", "operand 'tiles': 0x100000 names a tile outside"),
    ],
)
def test_an_operand_that_the_chip_refuses_is_refused_when_assembled(line: str, message: str) -> None:
    with pytest.raises(AsmError, match=message):
        asm.assemble(f".equ X, 0x100\n{line}\n")


@pytest.mark.parametrize(
    "line",
    [
        "ct.abs.v.fp32 dst=a0, src0=a1, n=4",
        "dte.unicast dst=0, src=0, tile=15, n=256",
        "dte.unicast dst=0, src=0, tile=a0, n=256",
        "ncc.barrier tiles=0xffff",
        "ncc.barrier",
        "td.memset.int8 dst=3, value=1, n=4",
    ],
)
def test_what_the_chip_allows_or_the_run_decides(line: str) -> None:
    assert asm.assemble(f"{line}\n").segments


@pytest.mark.parametrize("line", ["( ret", "[ addi a0, a0, 1", ", li a0, 70000"])
def test_signs_before_a_known_statement_are_refused(line: str) -> None:
    """The statement itself stands above, so that its shape is known."""
    with pytest.raises(AsmError) as error:
        asm.assemble(f"_start: ecall\n{line[2:]}\n{line}\n", "a.s")
    assert str(error.value).startswith(f"a.s:3:1: error: a statement begins with a name, found '{line[0]}'")


def test_lines_repeated_in_another_section_are_refused_each() -> None:
    """Such lines are known from .text, where they may stand."""
    known = "addi a0, a0, 1\nadd a0, a0, a1\n"
    with pytest.raises(AsmError) as error:
        asm.assemble(f"_start: ret\n{known}{known}.data\n{known}.text\n{known}", "a.s")
    lines = [line for line in str(error.value).splitlines() if "error" in line]
    assert [line.split(":")[1] for line in lines] == ["7", "8"]
    assert all("an instruction in section .data" in line for line in lines)


def test_repeated_lines_have_the_bytes_and_rows_of_lines_that_differ() -> None:
    """Constants, engine instructions and pairs, each line three times, against texts that never repeat."""
    lines = ["li a0, 0x123456789", "ct.relu.v.fp16 dst=0, src0=0, n=64", "c.nop", "add a0, a0, a1", "call f"]
    repeated = [line for line in lines for _ in range(3)]
    differing = [line + " " * at for at, line in enumerate(repeated)]
    images = [asm.assemble("\n".join(("f: ret", *text)), "a.s") for text in (repeated, differing)]
    assert images[0] == images[1]
    assert len({line for _, line in images[0].lines.values()}) == 1 + len(repeated)
