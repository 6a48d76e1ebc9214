"""Any text gives an image or a message, never anything else."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import asm
from asm.diagnostics import AsmError
from asm.image import read_image, write_image
from paths import TESTS
from tx8isa.errors import Tx8Error

_FRAGMENTS = r"""
nop addi li la lw j beq jalr call rdma.fp16 ct.add.vs.fp32 ncc.wait
.word .byte .align .space .org .if .else .endif .macro .endm .rept .endr .irp .equ .set .section
.input .const .tile .node .loc .size .type .globl .include .incbin .ascii .float .fill .data .bss .text
.base .insn .buffer
a0 sp x y 1 2 0x10 1f 1b -1 1.5 'a' "s" " ' n=1 dst=0 , ( ) [ ] + - * / % = : ; \x \@ # // /* */
%hi( %ncc( x: 1: fp16 4x4 é .
"""
WORDS = st.sampled_from([*_FRAGMENTS.split(), "\x00", "\t", ", "])


@settings(max_examples=400)
@given(st.lists(st.lists(WORDS, max_size=8).map(" ".join), max_size=6).map("\n".join))
def test_any_text_is_assembled_or_refused(text: str) -> None:
    try:
        image = asm.assemble(f"nop\n{text}\n")
        data = write_image(image)
    except Tx8Error as error:
        assert str(error)
    else:
        assert read_image(data, "p").segments == image.segments


PROGRAMS = [path.read_text() for path in sorted((TESTS / "asm" / "programs").glob("[oe][kr]*_*.s"))]
_TYPED = " ,()[]+-*/%=:;\\#\"'.0123456789abfnxrs_@\n"


def mistyped(rng: random.Random) -> str:
    """One of the test programs, or lines of several, with a few characters lost, added or replaced."""
    lines = [line for program in rng.choices(PROGRAMS, k=3) for line in program.split("\n")]
    text = list(rng.choice(PROGRAMS) if rng.random() < 0.5 else "\n".join(rng.choices(lines, k=8)))
    for _ in range(rng.choice((0, 1, 1, 2, 5))):
        at = rng.randrange(len(text))
        text[at : at + rng.randrange(2)] = rng.choice(_TYPED) if rng.random() < 0.6 else ""
    return "".join([*text, "\n"])


def check_mistyped(seed: int) -> bool:
    """Refused with a message, or assembled; then its disassembly gives the same file."""
    try:
        data = write_image(
            asm.assemble(mistyped(random.Random(seed)), str(TESTS / "asm" / "programs" / "p.s"))
        )
    except Tx8Error as error:
        assert re.search("error: |overlap|window|lies in no code", str(error))
        return False
    assert write_image(asm.assemble(asm.disassemble(data))) == data
    return True


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::asm.diagnostics.AsmWarning")
def test_mistyped_programs_are_refused_or_come_back() -> None:
    verdicts = [check_mistyped(seed) for seed in range(300)]
    assert 5 < sum(verdicts) < 295


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::asm.diagnostics.AsmWarning")
def test_many_mistyped_programs_are_refused_or_come_back() -> None:
    assert sum(check_mistyped(seed) for seed in range(300, 20_000))


@pytest.mark.long
@pytest.mark.parametrize("use", [".dword s0", "addi a0, a0, s0", ""])
def test_a_long_chain_of_forward_definitions_is_refused_in_words(use: str) -> None:
    chain = "".join(f".equ s{n}, s{n + 1} + 0\n" for n in range(100, 700))
    text = f"nop\n{use.replace('s0', 's100')}\n{chain}.equ s700, 1\n"
    with pytest.raises(AsmError, match="nested too deeply"):
        asm.assemble(text)


def test_an_included_file_must_be_text(tmp_path: Path) -> None:
    (tmp_path / "b.s").write_bytes(b"\xff\xfe")
    with pytest.raises(AsmError, match=r"b\.s is not UTF-8 text: byte 0"):
        asm.assemble('.include "b.s"\n', include_dirs=[tmp_path])


_SYMBOLS = ".equ SIZE, 64\n.equ far, 0x12345ffc\n"


@pytest.mark.parametrize(
    "line",
    [
        "li a0, 2 * 3",
        "li a0, (5)",
        "li a0, ~5",
        "li a0, SIZE",
        "li a0, SIZE + 1",
        "la a0, SIZE",
        "la a0, SIZE + 1",
        "addi a0, a0, SIZE",
        "addi a0, a0, SIZE - 1",
        "lw a0, SIZE(sp)",
        "lw a0, (sp)",
        "jalr (a0)",
        "jr SIZE(a0)",
        "zext.w a0, a1",
        "lui a0, %hi(far)",
        "addi a0, a0, %lo(far + 4)",
        "csrr a0, SIZE",
        "fence",
        "rdma.fp16 dst=SIZE, src=0, n=SIZE * 2",
        "td.memset.fp16 dst=-(-16), value=-1.5, n=(4)",
        "ct.reduce.sum.fp16 dst=0x30000, src0=0x10000, shape=[1, 2, SIZE, 8], dims=c",
    ],
)
def test_a_line_gives_the_same_bytes_every_time(line: str) -> None:
    once = asm.assemble(f"{_SYMBOLS}{line}\n").segments[0].data
    assert asm.assemble(_SYMBOLS + f"{line}\n" * 5).segments[0].data == once * 5
