"""Warns of a whole decimal number for a float, which means its raw bits: allowed, but hardly intended."""

from __future__ import annotations

import math
import struct
from pathlib import Path

import pytest

import asm
from asm.assembler import assemble_text
from asm.cli import assemble_main
from asm.diagnostics import MOST_SHOWN, AsmError, AsmWarning, Diagnostic
from tx8isa.numbers.formats import FLOATS, INTEGERS, Format

MUL = "ct.mul.vs.fp16 dst=0, src0=0, src1={}, n=64"


def warnings_of(text: str) -> list[Diagnostic]:
    return sorted(assemble_text(text, "p.s", (), {}, None).warnings.values())


def test_place_value_and_what_to_write() -> None:
    (found,) = warnings_of(f"_start: nop\n  {MUL.format(2)}  # twice\n")
    assert str(found).splitlines() == [
        "p.s:2:38: warning: operand 'src1': 2 is the raw bits 0x2, 1.19e-07 in fp16",
        f"      {MUL.format(2)}  # twice",
        "    " + " " * 37 + "^",
        "    help: write 2.0 for the number, 0x2 for the bits",
    ]


def value_of(bits: int, fmt: Format) -> float:
    """The float of a pattern, by the module struct; the upper half of a word for bf16."""
    if fmt is Format.FP16:
        return float(struct.unpack("<e", struct.pack("<H", bits))[0])
    return float(struct.unpack("<f", struct.pack("<I", bits << 16 if fmt is Format.BF16 else bits))[0])


@pytest.mark.parametrize("fmt", FLOATS)
@pytest.mark.parametrize("number", [1, 3, 100, 1024, 5000])
def test_the_value_that_the_bits_have(fmt: Format, number: int) -> None:
    (found,) = warnings_of(f"td.memset.{fmt.token} dst=0, n=4, value={number}\n")
    shown, name = found.message.rpartition(", ")[2].split(" in ")
    value = value_of(number, fmt)
    assert name == fmt.token and float(shown) == pytest.approx(value, rel=0.01)
    bits = found.notes[0].split()[-4]
    assert not warnings_of(f"td.memset.{fmt.token} dst=0, n=4, value={bits}\n")
    assert not warnings_of(f"td.memset.{fmt.token} dst=0, n=4, value={number}.0\n")


@pytest.mark.parametrize("fmt", FLOATS)
@pytest.mark.parametrize("number", [0.001, 1.0, math.inf, math.nan])
def test_decimal_bits_of_no_tiny_number_are_taken(fmt: Format, number: float) -> None:
    """Programs that write assembly may write bits as decimal numbers."""
    bits = struct.unpack("<H", struct.pack("<e", number + number / 1000))[0]
    if fmt is not Format.FP16:
        bits = struct.unpack("<I", struct.pack("<f", number))[0] + 0xFFFF & 0xFFFF0000
        bits >>= 16 if fmt is Format.BF16 else 0
    assert not warnings_of(f"td.memset.{fmt.token} dst=0, n=4, value={bits}\n")


@pytest.mark.parametrize(
    "value", ["0", "0x2", "0b10", "02", "2.0", "1e3", "inf", "a0", "TWO", "(2)", "1 + 1", "'a'"]
)
def test_what_needs_no_warning(value: str) -> None:
    """Zero is the same number either way, and another base or an expression shows that bits are meant."""
    assert not warnings_of(f".equ TWO, 2\n{MUL.format(value)}\n")


@pytest.mark.parametrize("fmt", INTEGERS)
def test_integer_formats_take_whole_numbers(fmt: Format) -> None:
    assert not warnings_of(f"td.memset.{fmt.token} dst=0, n=4, value=2\n")


def test_other_operands_take_whole_numbers() -> None:
    assert not warnings_of("ct.add.vv.fp16 dst=256, src0=512, src1=1024, n=64\n")


def test_the_bytes_are_those_of_the_bits() -> None:
    with pytest.warns(AsmWarning):
        doubtful = asm.assemble(MUL.format(2))
    assert doubtful.segments == asm.assemble(MUL.format("0x2")).segments


def test_every_line_of_a_shape_is_warned_of() -> None:
    lines = [MUL.format(text) for text in ("2.0", "2", "0x2", "2", "3", "a0", "2")]
    assert [warning.line for warning in warnings_of("\n".join(lines))] == [2, 4, 5, 7]


def test_a_line_that_waits_for_a_symbol_is_warned_of() -> None:
    (found,) = warnings_of(f"{MUL.format(7).replace('dst=0', 'dst=late')}\n.equ late, 256\n")
    assert found.message.startswith("operand 'src1': 7 is")


def test_a_repetition_is_warned_of_once() -> None:
    (found,) = warnings_of(f".rept 50\n{MUL.format(2)}\n.endr\n")
    assert (found.line, found.notes[-1]) == (2, "note: in repetition 1 of .rept at p.s:1")


def test_from_python_it_is_a_warning_of_the_caller() -> None:
    with pytest.warns(AsmWarning, match=r"^<text>:1:36: warning: .* fp16; help: write 2\.0 for") as caught:
        asm.assemble(MUL.format(2))
    assert [Path(warning.filename).name for warning in caught] == [Path(__file__).name]


def test_a_negative_whole_number_is_a_mistake_with_the_same_help() -> None:
    with pytest.raises(AsmError) as error:
        asm.assemble(MUL.format(-2))
    assert "error: operand 'src1': -2 is outside 0..4294967295" in str(error.value)
    assert "help: write -2.0 for the number" in str(error.value)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "two.s").write_text(f"{MUL.format(2)}\n{MUL.format(3)}\n")
    return tmp_path


def test_the_command_warns_and_writes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert assemble_main(["two.s"]) == 0
    error = capsys.readouterr().err
    assert error.count(": warning: ") == 2 and error.endswith(" bytes\n")
    assert (folder / "two.bin").exists()


@pytest.mark.parametrize("option", ["-W", "--no-warn", "-q"])
def test_warnings_are_left_out_on_request(
    folder: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    assert assemble_main([option, "two.s"]) == 0
    assert "warning" not in capsys.readouterr().err


def test_fatal_warnings_write_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert assemble_main(["--fatal-warnings", "-q", "two.s"]) == 1
    error = capsys.readouterr().err
    assert error.count(": warning: ") == 2
    last = "tx8as: error: nothing is written: with --fatal-warnings no warning is allowed, found 2\n"
    assert error.endswith(last)
    assert [path.name for path in folder.iterdir()] == ["two.s"]
    (folder / "two.s").write_text(MUL.format("2.0"))
    assert assemble_main(["--fatal-warnings", "-q", "two.s"]) == 0


def test_warnings_cannot_be_fatal_and_left_out(folder: Path) -> None:
    with pytest.raises(SystemExit) as end:
        assemble_main(["--fatal-warnings", "-W", "two.s"])
    assert end.value.code == 2


def test_many_warnings_are_counted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "two.s").write_text(f"{MUL.format(2)}\n" * 300)
    assert assemble_main(["two.s"]) == 0
    error = capsys.readouterr().err
    assert error.count(": warning: ") == MOST_SHOWN
    assert f"{300 - MOST_SHOWN} more warnings; 300 in all" in error
