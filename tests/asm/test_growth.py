"""Short texts that would expand without limit are refused, and so are messages that would."""

from __future__ import annotations

from pathlib import Path

import pytest

import asm
from asm.diagnostics import MOST_SHOWN, AsmError

_TWICE = ".macro m a\n{}\n.endm\nm x\n"
_MEGA = bytes(range(256)) * 4096


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (".rept 1000\n.rept 1000\nnop\n.endr\n.endr\n", "make more than 200000 lines"),
        (".macro m\n.endm\n.rept 1000\n.rept 1000\nm\n.endr\n.endr\nnop\n", "make more than 200000 lines"),
        (".rept 200001\nnop\n.endr\n", ".rept 200001 is outside 0..200000"),
        (
            ".macro m x:vararg\n.irp v, \\x\nnop\n.endr\nm \\x, \\x\n.endm\nm 1\n",
            "make more than 1048576 characters",
        ),
        (_TWICE.format("m \\a\\a"), "make more than 1048576 characters"),
        (f".rept 2200\n{'nop;' * 250}\n.endr\n", "make more than 1048576 characters"),
        (f".rept 10000\n.byte {'(1),' * 200}0\n.endr\n", "more than 524288 characters of expressions"),
        (_TWICE.format("m \\a\nm \\a"), "macros call one another more than 64 deep"),
        ('.include "big.s"\n' * 210, "make more than 200000 lines"),
        ('.include "self.s"\nnop\n', "files include one another more than 64 deep"),
        (".data\n.space 3000000000\n.byte 1\n", "fills and padding need 3000000000 bytes in the image"),
        (".data\n.fill 1 << 27, 8, 1\n", "fills and padding need 1073741824 bytes in the image"),
        (".data\n.space 1 << 29, 7\n", "fills and padding need 536870912 bytes in the image"),
        (".data\n.byte 1\n.org 1 << 29, 1\n", "fills and padding need 536870911 bytes in the image"),
        ('.data\n.rept 150\n.incbin "mega"\n.endr\n', "fills and padding need 135266304 bytes"),
        (".rept 20000\nbad a0\n.endr\n", "unknown instruction 'bad'"),
    ],
)
def test_a_short_text_does_not_grow_without_end(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "big.s").write_text("nop\n" * 1000)
    (tmp_path / "self.s").write_text('.include "self.s"\n' * 2)
    (tmp_path / "mega").write_bytes(_MEGA)
    with pytest.raises(AsmError) as caught:
        asm.assemble(text, include_dirs=[tmp_path])
    assert message in str(caught.value)
    assert len(str(caught.value)) < 40_000


@pytest.mark.long
def test_what_a_program_may_make(tmp_path: Path) -> None:
    """Reserved zeros at the end cost nothing; a file may be given in pieces, and long files are allowed."""
    image = asm.assemble("nop\n" * 300_000 + ".rept 190000\nnop\n.endr\n.section .ddr\n.space 3 << 30\n")
    found = [(segment.section, len(segment.data), segment.size) for segment in image.segments]
    assert found == [(".text", 1_960_000, 1_960_000), (".ddr", 0, 3 << 30)]
    (tmp_path / "mega").write_bytes(_MEGA)
    pieces = "".join(f'.incbin "mega", {n << 10}, 1024\n' for n in range(1024))
    image = asm.assemble(f"nop\n.data\n{pieces}.space 1000\n.byte 1\n", include_dirs=[tmp_path])
    assert image.segments[1].data == _MEGA + bytes(1000) + b"\1"


def test_symbols_that_double_each_other_are_computed_once() -> None:
    """They are used if the last definition is known and the addresses are not."""
    chain = "".join(f".equ q{n}, q{n + 1} + q{n + 1}\n" for n in range(40))
    image = asm.assemble(f"nop\n{chain}.equ q40, 1\n.data\n.space q30\n.dword q0\n")
    assert image.segments[1].data[-8:] == (1 << 40).to_bytes(8, "little")
    assert image.segments[1].size == 1024 + 8


@pytest.mark.long
def test_after_many_mistakes_the_rest_is_not_read() -> None:
    with pytest.raises(AsmError) as caught:
        asm.assemble("".join(f"bad{n} a0\n" for n in range(5000)))
    assert len(caught.value.diagnostics) == 1000
    assert str(caught.value).endswith("900 more errors; 1000; the rest was not read")


def test_only_what_is_shown_gets_a_suggestion(monkeypatch: pytest.MonkeyPatch) -> None:
    """Finding one among all mnemonics or symbols takes long: for 1000 mistakes it took 17 seconds."""
    asked: list[str] = []
    for module in ("assembler", "place"):
        monkeypatch.setattr(
            f"asm.{module}.did_you_mean", lambda word, known: asked.append(word) or f"{word}!"
        )
    with pytest.raises(AsmError) as caught:
        asm.assemble("".join(f"  ct.ad.vv.fp1{n} dst=0\n  la t0, unknown{n}\n" for n in range(400)))
    assert len(asked) == MOST_SHOWN
    shown = str(caught.value)
    assert shown.count("help: ct.ad.vv.fp1") == shown.count("error: unknown instruction") == MOST_SHOWN // 2
    assert shown.count("help: unknown") == shown.count("error: undefined symbol") == MOST_SHOWN // 2


@pytest.mark.parametrize("digits", [5000, 100_000])
def test_a_number_of_thousands_of_digits_is_refused(digits: int) -> None:
    with pytest.raises(AsmError, match=f"a number of {digits} digits does not fit 64 bits"):
        asm.assemble(f"li a0, {'7' * digits}\n")


def test_a_long_line_is_shown_around_the_mistake() -> None:
    with pytest.raises(AsmError) as caught:
        asm.assemble("nop\n.data\n.byte " + "1," * 20000 + "300," + "1," * 20000 + "1\n", name="p.s")
    first, shown, caret, *_ = str(caught.value).splitlines()
    assert first == "p.s:3:40007: error: 300 does not fit 1 byte"
    assert len(shown) < 200 and shown.startswith("    ... 1,1,") and shown.endswith(" ...")
    assert shown[caret.index("^") :].startswith("300,")


def test_a_long_word_is_not_quoted_in_full() -> None:
    with pytest.raises(AsmError) as caught:
        asm.assemble("nop" * 100_000 + " a0\n")
    assert len(str(caught.value)) < 1000
