"""The language of assembly for editors: a remembered assembly equals a full one, and answers come from the
records.

The oracle is the assembler without memory, and its messages as ``tx8as`` prints them.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from asm.assembler import assemble_text
from asm.diagnostics import AsmError, Diagnostic
from asm.image import write_image
from asm.output import image_of
from tx8.desktop.language.answers import completions, hover
from tx8.desktop.language.memory import Memory
from tx8.desktop.language.places import Place, definition, renamed
from tx8.desktop.language.text import Reading, read
from tx8isa.errors import Tx8Error

PROGRAM = """\
        .input  x, fp16, 16x1000
        .equ    N, 1000
_start: csrr    t0, mhartid
        la      a0, x
1:      rdma.fp16      dst=0x10000, src=a0, n=N
        ct.relu.v.fp16 dst=0x20000, src0=0x10000, n=N  # N elements
        bnez    t0, 1b
        beqz    t0, 1f
        j       _start
        .macro  twice what
        \\what
        \\what
        .endm
        twice   nop
1:      ret
"""
LINES = (
    *(
        "nop",
        "  addi a0, a0, 1",
        "li t1, N",
        "li t1, N * 2",
        "a:",
        "b: ret",
        "j a",
        "beq a0, a1, b",
        "call b",
        "la a0, x",
    ),
    *(
        "1: nop",
        "j 1b",
        "bnez a0, 1f",
        ".equ N, 8",
        ".set N, N + 1",
        ".set M, N << 1",
        "N = 12",
        "# nothing",
        "",
    ),
    *(
        "ct.relu.v.fp16 dst=0x20000, src0=0x10000, n=N",
        "ct.relu.v.fp16 dst=buf, src0=0x10000, n=4",
        ".equ buf, 0x300",
    ),
    *(
        "rdma.fp16 dst=0x100, src=x, n=16",
        "  ct.add.s.fp32 dst=0, src0=0, value=7, n=3",
        "addi a0, a0, N",
        "addx",
        "ld a0, (a1",
    ),
    *(
        ".space 5000",
        ".align 3",
        ".if N > 9",
        ".else",
        ".endif",
        ".rept 3",
        "nop; j a",
        ".endr",
        "twice nop",
        "lw a0, b",
    ),
    *(
        ".data",
        ".text",
        ".word b - a",
        ".weak b",
        ".option rvc",
        ".option norvc",
        "lui a0, %hi(b)",
        "/* out",
        "*/",
        ".end",
    ),
)


def full(text: str) -> tuple[list[Diagnostic], bytes]:
    """Mistakes and warnings of a text, and its image, by an assembler without memory."""
    try:
        assembly = assemble_text(text, "p.s", (), {}, None)
        return sorted(assembly.warnings.values()), write_image(image_of(assembly))
    except AsmError as error:
        return [*error.diagnostics], b""


def remembered(text: str, memory: Memory) -> tuple[list[Diagnostic], bytes]:
    """The same by the recalling assembler, without warnings of a text with mistakes, as by ``tx8as``."""
    reading = read(text, "p.s", memory)
    errors = [told for told in reading.told if told.kind == "error"]
    return errors or [*reading.told], b"" if errors else write_image(image_of(reading.assembly))


@pytest.mark.parametrize("seed", range(3))
def test_after_random_edits_the_result_is_that_of_a_full_assembly(seed: int) -> None:
    draw, memory, lines = random.Random(seed), Memory(), PROGRAM.split("\n")
    good = 0
    for _ in range(60):
        at = draw.randrange(len(lines))
        match draw.randrange(4):
            case 0 if len(lines) > 12:
                del lines[at]
            case 1:
                lines[at] = lines[at][: draw.randrange(len(lines[at]) + 1)]
            case _:
                lines.insert(at, draw.choice(LINES))
        if draw.random() < 0.1:
            lines = PROGRAM.split("\n")
        found = remembered("\n".join(lines), memory)
        assert found == full("\n".join(lines))
        good += bool(found[1])
    assert good > 5


def test_a_known_line_is_assembled_again_only_when_a_symbol_of_it_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    memory = Memory()
    read(PROGRAM, "p.s", memory)
    encoded: list[object] = []
    base = assemble_text.__globals__["Assembler"]
    original = base._encoded

    def counted(self: object, template: object, atoms: tuple[str, ...], spot: object) -> object:
        encoded.append(atoms)
        return original(self, template, atoms, spot)

    monkeypatch.setattr(base, "_encoded", counted)
    read(PROGRAM.replace("ret", "nop"), "p.s", memory)
    local = [atoms for atoms in encoded if any("\x02" in atom for atom in atoms)]
    assert encoded == local, "statements with numeric labels alone"
    read(PROGRAM.replace("1000\n_start", "999\n_start"), "p.s", memory)
    assert [atoms for atoms in encoded if "N" in atoms] == [
        ("0x10000", "a0", "N"),
        ("0x20000", "0x10000", "N"),
    ]


def test_a_long_session_forgets_lines_that_no_text_has() -> None:
    memory = Memory()
    for number in range(0, 30_000, 1000):
        read("\n".join(f"li t0, {number + n}" for n in range(1000)), "p.s", memory)
    assert len(memory.plain) < 20_000


def reading(text: str = PROGRAM) -> Reading:
    return read(text, "p.s", Memory())


def at(text: str, marked: str) -> tuple[int, int]:
    """Line and column of ``|`` in the marked piece of a text, which the text has once without it."""
    piece = marked.replace("|", "")
    assert text.count(piece) == 1
    start = text.index(piece) + marked.index("|")
    return text.count("\n", 0, start), start - text.rfind("\n", 0, start) - 1


@pytest.mark.parametrize(
    ("marked", "shown"),
    [
        ("ct.re|lu", "NaN gives +0"),
        ("src|0=0x10000", "src0: 0x0..0x3fffff; required; SPM address, read"),
        ("la|      a0", "pseudo-instruction"),
        ("j |      _start", ""),
        ("n=|N  #", "N = 0x3e8 (1000); defined at p.s:2"),
        ("a0, |x", "x = .ddr.bss + 0x0, 32000 bytes; defined at p.s:1"),
        (".inp|ut", "FORMAT, SHAPE"),
        ("t0, mhart|id", "0xf14"),
        ("# N ele|ments", ""),
    ],
)
def test_hover_shows_what_the_records_and_the_assembly_say(marked: str, shown: str) -> None:
    found = hover(reading(), *at(PROGRAM, marked))
    assert shown in (found[1] if found else "")
    assert bool(found) == bool(shown) or marked.startswith("j")


@pytest.mark.parametrize(
    ("marked", "line"),
    [
        ("j       _st|art", 2),
        ("a0, |x", 0),
        ("n=|N  #", 1),
        ("t0, 1|b", 4),
        ("t0, 1|f", 14),
        ("tw|ice   nop", 9),
        ("rd|ma.fp16", None),
        ("# N| elements", None),
    ],
)
def test_definitions_of_labels_buffers_symbols_and_macros(marked: str, line: int | None) -> None:
    found = definition(reading(), *at(PROGRAM, marked))
    assert (found and found.line) == line
    if found is not None:
        word = PROGRAM.split("\n")[found.line][found.start : found.end]
        assert word and word in marked.replace("|", "")


def test_a_symbol_of_an_included_file_leads_there(tmp_path: Path) -> None:
    (tmp_path / "inc.s").write_text("nop\n.equ K, 3\n")
    text = '.include "inc.s"\nli t0, K\n'
    found = read(text, str(tmp_path / "p.s"), Memory())
    assert definition(found, 1, 7) == Place(str(tmp_path / "inc.s"), 1, 0, 1)
    with pytest.raises(Tx8Error, match=r"K is defined in .*inc\.s"):
        renamed(found, 1, 7, "L", Memory())


def proposed(line: str) -> dict[str, str]:
    """Words and details that are proposed at the end of a line."""
    text = PROGRAM + line
    return {found.text: found.detail for found in completions(reading(text), PROGRAM.count("\n"), len(line))}


@pytest.mark.parametrize(
    ("line", "word", "detail", "absent"),
    [
        ("        ct.rel", "ct.relu.v.fp16", "x above zero", "a0"),
        ("", "twice", "", "N"),
        ("x: add", "addi", "addi rd, rs1, imm", "N"),
        (" rdma.fp16 dst=0, ", "n=", "1..16777215; required", "dst="),
        (" rdma.fp16 dst=0, n=", "N", "N = 0x3e8", "src="),
        (" ne.gemm.fp16 out_format=", "fp16", "fp16 (2)", "N"),
        (" addi a0, ", "t0", "rs1", "N"),
        (" addi a0, a0, ", "N", "", "t0"),
        (" csrrs a0, ", "mhartid", "csr", "N"),
        (" fadd.s fa0, fa1, ", "fa2", "rs2", "a0"),
        (" .word ", "_start", "", "nop"),
        (" nop; ret; ", "nop", "", "N"),
    ],
)
def test_completion_proposes_what_can_stand_there(line: str, word: str, detail: str, absent: str) -> None:
    found = proposed(line)
    assert detail in found[word]
    assert absent not in found


@pytest.mark.parametrize(("marked", "uses"), [("a0, |x", 2), ("n=|N  #", 3), ("j       |_start", 2)])
def test_renaming_keeps_the_program(marked: str, uses: int) -> None:
    places = renamed(reading(), *at(PROGRAM, marked), "other", Memory())
    lines = PROGRAM.split("\n")
    for place in reversed(places):
        lines[place.line] = f"{lines[place.line][: place.start]}other{lines[place.line][place.end :]}"
    assert len(places) == uses
    before, after = (image_of(assemble_text(t, "p.s", (), {}, None)) for t in (PROGRAM, "\n".join(lines)))
    assert before.segments == after.segments
    assert "other" in after.symbols


@pytest.mark.parametrize(
    ("marked", "new", "message"),
    [
        ("rd|ma.fp16", "copy", "p.s:5:9: rdma.fp16 is an instruction; labels, buffers and symbols"),
        ("|.equ", "x", ".equ is a directive"),
        ("t0, 1|b", "x", "1b is a numeric label"),
        ("# N| el", "x", "there is no word here"),
        ("n=|N  #", "_start", "new name _start: it is already defined at p.s:3"),
        ("n=|N  #", "a0", "new name a0: it is a register"),
        ("n=|N  #", "2n", "new name '2n': expected letters"),
        ("n=|N  #", "what", "renaming N to what would change the program"),
        ("a0, |x", "t0", "register"),
    ],
)
def test_renaming_refuses_in_one_line(marked: str, new: str, message: str) -> None:
    text = (
        PROGRAM.replace(
            "        \\what\n", "        \\what\n        li t1, \\()N\n        .equ \\what\\()2, 1\n", 1
        )
        if new == "what"
        else PROGRAM
    )
    with pytest.raises(Tx8Error) as refused:
        renamed(reading(text), *at(text, marked), new, Memory())
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)
