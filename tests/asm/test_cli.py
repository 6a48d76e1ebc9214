"""tx8as and tx8dis as commands: files, exit statuses, messages."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
from pathlib import Path

import lark
import pytest

import asm
from asm.cli import VERSION, assemble_main, disassemble_main
from asm.image import read_image
from tx8isa.machine import description

BIN = Path(sys.executable).parent
PROGRAM = (
    '_start: li a0, 1\n.node "n"\nrdma.fp16 dst=0, src=0x280000000, n=4\nbnez a0, _start\n.data\n.word 5\n'
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prog.s").write_text(PROGRAM)
    (tmp_path / "bad.s").write_text("nop\n  adi a0, a0, 1\n")
    return tmp_path


def feed(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def test_the_image_is_written_beside_the_program(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert assemble_main(["prog.s"]) == 0
    data = (folder / "prog.bin").read_bytes()
    assert read_image(data, "p").segments == asm.assemble(PROGRAM).segments
    assert capsys.readouterr().err == f"tx8as: prog.bin: {len(data)} bytes\n"


def test_output_listing_and_quiet(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert assemble_main(["prog.s", "-o", "out.bin", "-l", "out.lst", "-q"]) == 0
    assert sorted(p.name for p in folder.iterdir()) == ["bad.s", "out.bin", "out.lst", "prog.s"]
    assert "li a0, 1" in (folder / "out.lst").read_text()
    assert capsys.readouterr() == ("", "")


def test_verbose_says_where_the_sections_lie(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert assemble_main(["-v", "prog.s", "-o", "p.bin"]) == 0
    lines = [line.split() for line in capsys.readouterr().err.splitlines()]
    assert [line[1:5] for line in lines] == [
        [".text", "0x80000000", "60", "bytes,"],
        [".data", "0x80001000", "4", "bytes,"],
    ]


def test_a_planted_table_of_the_grammar_is_not_read(folder: Path) -> None:
    """A table that Lark unpickles can run any command."""
    grammar = Path(asm.__file__).with_name("syntax") / "grammar.lark"
    options = "parserlalrpropagate_positionsTruemaybe_placeholdersFalsecache"
    tables = folder / "cache" / "grammar-v1" / "grammar.tables"
    tables.parent.mkdir(parents=True)
    text = f"{grammar.read_text()}{options}{tables}{lark.__version__}{sys.version_info[:2]}"
    planted = b"cos\nsystem\n(S'touch planted'\ntR."
    tables.write_bytes(hashlib.sha256(text.encode()).hexdigest().encode() + b"\n" + planted)
    (folder / "sum.s").write_text("addi a0, a0, 1 + 2 * 3\n")
    environment = {**os.environ, "TX8_CACHE_DIR": str(folder / "cache")}
    found = subprocess.run(
        [BIN / "tx8as", "-q", "sum.s"], cwd=folder, env=environment, capture_output=True, check=True
    )
    assert found.stderr == b""
    assert not (folder / "planted").exists()
    assert read_image((folder / "sum.bin").read_bytes(), "p").segments[0].data.hex() == "13057500"


def test_include_folders_and_defines(folder: Path) -> None:
    (folder / "inc").mkdir()
    (folder / "inc" / "k.s").write_text("addi a0, a0, K + L\n")
    (folder / "main.s").write_text('.include "k.s"\n')
    assert assemble_main(["-q", "-I", "inc", "-D", "K=2*3", "-D", "L", "main.s"]) == 0
    assert read_image((folder / "main.bin").read_bytes(), "p").segments[0].data.hex() == "13057500"


def test_a_program_at_fault_gives_one_and_no_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert assemble_main(["bad.s", "-l", "bad.lst"]) == 1
    first, *_ = capsys.readouterr().err.splitlines()
    assert first == "bad.s:2:3: error: unknown instruction 'adi'"
    assert sorted(p.name for p in folder.iterdir()) == ["bad.s", "prog.s"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "prog.s"], "prog.s: the image would replace the program"),
        (["-o", "./prog.s"], "./prog.s: the image would replace the program"),
        (["-l", "prog.s"], "prog.s: the listing would replace the program"),
        (["-l", "prog.bin"], "prog.bin: the image and the listing name the same file"),
        (["-o", "q", "-l", "./q"], "./q: the image and the listing name the same file"),
        (["-o", "own.toml", "--machine", "own.toml"], "own.toml: the image would replace the machine descr"),
        (["-o", "k.s"], "k.s: the image would replace a file that the program includes"),
        (["-l", "data"], "data: the listing would replace a file that the program includes"),
    ],
)
def test_no_file_of_a_run_is_written_over_another(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    (folder / "k.s").write_text('addi a0, a0, 1\n.data\n.incbin "data"\n')
    (folder / "prog.s").write_text('.include "k.s"\n')
    (folder / "data").write_bytes(b"data")
    machines = Path(description.__file__).with_name("machines")
    (folder / "own.toml").write_text((machines / "tx81.toml").read_text())
    before = {path: path.read_bytes() for path in folder.iterdir()}
    assert assemble_main(["-q", "prog.s", *arguments]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"tx8as: error: {message}")
    assert error.count("\n") == 1
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_an_old_image_survives_a_mistake(folder: Path) -> None:
    (folder / "bad.bin").write_bytes(b"old")
    assert assemble_main(["bad.s"]) == 1
    assert (folder / "bad.bin").read_bytes() == b"old"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.s"], "tx8as: error: none.s: cannot be read: No such file or directory"),
        (["."], "tx8as: error: .: cannot be read: Is a directory"),
        (
            ["prog.s", "-o", "none/out.bin"],
            "tx8as: error: none/out.bin: cannot be written: No such file or directory",
        ),
        (["prog.s", "-o", "prog.s/x"], "tx8as: error: prog.s/x: cannot be written: Not a directory"),
        (["prog.s", "--machine", "none.toml"], "none.toml: cannot read the machine description"),
        (["prog.s", "-D", "5=1"], "<command line>:1:1: error: -D 5: not a name"),
        (["prog.bin"], "tx8as: error: prog.bin: cannot be read"),
        (["text.bin"], "the image would replace the program"),
        (["latin.s"], "latin.s:2:3: error: byte 0xe9 is not UTF-8 text"),
        (["empty.s"], "empty.s:1:1: error: the program has no instruction"),
        (["overlap.s"], "overlap"),
    ],
)
def test_mistakes_are_one_line_and_status_one(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    (folder / "text.bin").write_text("nop\n")
    (folder / "latin.s").write_bytes(b"nop\n# \xe9\n")
    (folder / "empty.s").write_text("")
    (folder / "overlap.s").write_text("nop\n.data\n.base 0x80000000\n.word 1\n")
    before = sorted(folder.iterdir())
    assert assemble_main(arguments) == 1
    error = capsys.readouterr().err
    assert message in error.splitlines()[0]
    assert "Traceback" not in error
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize("arguments", [[], ["a.s", "b.s"], ["--bogus", "a.s"], ["-o"]])
def test_usage_is_status_two(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    for main in (assemble_main, disassemble_main):
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        assert caught.value.code == 2
        assert "--help" in capsys.readouterr().err


@pytest.mark.parametrize("main", [assemble_main, disassemble_main])
def test_help_has_examples_and_the_version(main: object, capsys: pytest.CaptureFixture[str]) -> None:
    for flag, wanted in (("--help", "examples:"), ("--version", VERSION)):
        with pytest.raises(SystemExit) as caught:
            main([flag])  # type: ignore[operator]
        assert caught.value.code == 0
        assert wanted in capsys.readouterr().out


def test_standard_input_makes_a_bin(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    feed(monkeypatch, PROGRAM.encode())
    assert assemble_main(["-", "-q"]) == 0
    assert dict(read_image((folder / "a.bin").read_bytes(), "p").lines)[0x80000000] == ("<stdin>", 1)


@pytest.mark.long
def test_disassembly_of_a_pipe_gives_the_same_file(folder: Path) -> None:
    run = {"cwd": folder, "check": True}
    subprocess.run([BIN / "tx8as", "-q", "prog.s", "-o", "p.bin"], **run)  # type: ignore[call-overload]
    printed = subprocess.run([BIN / "tx8dis", "p.bin"], stdout=subprocess.PIPE, **run).stdout  # type: ignore[call-overload]
    subprocess.run([BIN / "tx8as", "-q", "-", "-o", "q.bin"], input=printed, **run)  # type: ignore[call-overload]
    assert (folder / "p.bin").read_bytes() == (folder / "q.bin").read_bytes()


def test_a_pipe_that_closes_early_is_no_error(folder: Path) -> None:
    (folder / "long.s").write_text("nop\n" * 50000)
    assert assemble_main(["-q", "long.s"]) == 0
    command = f"'{BIN / 'tx8dis'}' long.bin | head -n 1; exit ${{PIPESTATUS[0]}}"
    found = subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True)
    assert (found.returncode, found.stderr) == (0, b"")


def test_output_may_be_a_device(folder: Path) -> None:
    assert assemble_main(["-q", "prog.s", "-o", os.devnull]) == 0
    assert not Path(os.devnull).is_file()


def test_one_section_is_printed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert assemble_main(["-q", "prog.s"]) == 0
    assert disassemble_main(["prog.bin", "-s", ".data"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        '.section .data, "aw"',
        ".base 0x80001000",
        "    .word 0x00000005",
    ]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none.bin", "tx8dis: error: none.bin: cannot be read"),
        ("prog.s", "tx8dis: error: prog.s: "),
        ("short.bin", "tx8dis: error: short.bin: "),
    ],
)
def test_what_cannot_be_disassembled(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str, message: str
) -> None:
    assert assemble_main(["-q", "prog.s"]) == 0
    (folder / "short.bin").write_bytes((folder / "prog.bin").read_bytes()[:-40])
    assert disassemble_main([name]) == 1
    error = capsys.readouterr().err
    assert error.startswith(message)
    assert error.count("\n") == 1


def test_the_listing_may_be_written_with_the_default_image(folder: Path) -> None:
    assert assemble_main(["-q", "-l", "p.lst", "prog.s"]) == 0
    assert (folder / "prog.bin").exists()
    assert (folder / "p.lst").exists()


def test_no_temporary_file_is_left(folder: Path) -> None:
    (folder / "out").mkdir()
    assert assemble_main(["-q", "prog.s", "-o", "out"]) == 1
    assert sorted(p.name for p in folder.iterdir()) == ["bad.s", "out", "prog.s"]
