"""``tx8emu --instructions``: every record is listed, patterns select, mistakes give one line, few modules are
loaded."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from emulator.cli import main
from emulator.cli.manual import lines
from paths import ROOT
from tx8isa.insns.riscv import i as rv_i
from tx8isa.table import scalar as rv
from tx8isa.table.compressed import compressed_instructions
from tx8isa.table.manual import ManualError, find
from tx8isa.table.registry import by_mnemonic, instructions

CORE = [record.mnemonic for record in (*rv.scalar_instructions(), *compressed_instructions())]
EVERYTHING = len(instructions()) + len(CORE)
TX8EMU = Path(sys.executable).with_name("tx8emu")
Capture = pytest.CaptureFixture[str]


def heads(text: str) -> list[str]:
    """The mnemonics that begin an entry."""
    return re.findall(r"^(\S+) +(?:[A-Z]+ \d+|core) ", text, re.MULTILINE)


def shown(capsys: Capture, *arguments: str) -> str:
    with pytest.raises(SystemExit) as status:
        main(["--instructions", *arguments])
    out, err = capsys.readouterr()
    assert (status.value.code, err) == (0, "")
    return out


# -- the text ----------------------------------------------------------------------------------------------


def test_all_instructions_are_there_once(capsys: Capture) -> None:
    found = heads(shown(capsys))
    assert sorted(found) == sorted([i.mnemonic for i in instructions()] + CORE)


def test_an_entry_says_what_the_record_says(capsys: Capture) -> None:
    for mnemonic in ("ct.add.vuv_loop", "ne.conv", "td.gatherscatter", "rdma", "ct.argmax", "sc.recip"):
        record = by_mnemonic()[mnemonic]
        text = shown(capsys, mnemonic)
        flat = " ".join(text.split())
        assert heads(text) == [mnemonic]
        assert " ".join(record.doc.split()) in flat
        assert f"Example: {record.example}\n" in text
        assert f"Evidence: {record.evidence}." in flat
        assert all(f"Rule: {rule.text}." in flat for rule in record.rules)
        operands = re.findall(r"^    (\w+) +words? \d", text, re.MULTILINE)
        assert operands == [o.name for o in record.operands]


def test_a_scalar_entry_has_its_bits(capsys: Capture) -> None:
    text = shown(capsys, "addi")
    assert heads(text) == ["addi"]
    assert f"    addi rd, rs1, imm\n    Bits 31..0: {rv_i.addi.pattern}\n" in text


def test_each_entry_begins_in_the_first_column_and_no_other_line_does() -> None:
    body = "\n".join(lines(None)).partition("== ")[2].splitlines()
    outside = [line for line in body[1:] if line and not line.startswith((" ", "== "))]
    assert len(outside) == EVERYTHING


def test_lines_fit_a_terminal_but_for_examples_and_summaries() -> None:
    long = [line for line in lines(None) if len(line) > 100 and "\n" not in line]
    assert [line for line in long if line.startswith(" ") and not line.startswith("    Example: ")] == []


# -- selection ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("ct.max.v*", ["ct.max.vv", "ct.max.vs", "ct.max.vuv", "ct.max.vuv_loop"]),
        ("ct.add.vv.fp16", ["ct.add.vv"]),
        ("[rw]dma", ["rdma", "wdma"]),
        ("mul?", ["mulh", "mulw"]),
        ("*dma.int8", ["rdma", "wdma"]),
        ("sc.*.tf32", ["sc.recip", "sc.sqrt", "sc.sin", "sc.cos", "sc.log2", "sc.pow2"]),
    ],
)
def test_patterns(pattern: str, expected: list[str]) -> None:
    engine, scalar = find(pattern)
    assert [*(i.mnemonic for i in engine), *(r.mnemonic for r in scalar)] == expected


@pytest.mark.parametrize(
    ("pattern", "help"),
    [
        ("ct.add", "did you mean 'ct.add.*'?"),
        ("ct.adddd.vv", "did you mean 'ct.add.vv'?"),
        ("CT.ADD.VV", "did you mean 'ct.add.vv'?"),
        ("ct.add.vv.fp61", "did you mean 'ct.add.vv.fp16'?"),
        ("adddi", "did you mean 'addi'?"),
        ("zzzzzzzz", "--instructions alone shows all of them"),
        ("ct.zzzz*", None),
        ("", "--instructions alone shows all of them"),
    ],
)
def test_an_unknown_name_is_one_line(pattern: str, help: str | None, capsys: Capture) -> None:
    assert main(["--instructions", pattern]) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    assert err.startswith(f"tx8emu: error: no instruction is called '{pattern}'; ")
    assert help is None or err.endswith(f"; {help}\n")


def test_find_raises_an_error_of_ours() -> None:
    with pytest.raises(ManualError, match="no instruction is called 'x'"):
        find("x")


# -- the command -------------------------------------------------------------------------------------------


def test_nothing_heavy_is_loaded() -> None:
    program = (
        "import sys\nfrom emulator.cli import main\n"
        "try: main(['--instructions'])\nexcept SystemExit: pass\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)"
    )
    command = [sys.executable, "-c", program]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    loaded = set(run.stderr.split())
    assert "tx8isa" in loaded and len(heads(run.stdout)) == EVERYTHING
    assert loaded.isdisjoint({"numba", "llvmlite", "numpy", "asm", "pydoc"})


def test_a_reader_that_leaves_early_is_no_error() -> None:
    command = f"{TX8EMU} --instructions | head -n 1; exit ${{PIPESTATUS[0]}}"
    run = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr, run.stdout.count("\n")) == (0, "", 1)


@pytest.mark.parametrize(("pattern", "paged"), [((), True), (("ct.abs.v",), False)], ids=["all", "one"])
def test_a_terminal_gets_a_pager_when_the_text_is_longer(
    pattern: tuple[str, ...], paged: bool, tmp_path: Path
) -> None:
    pager = tmp_path / "pager"
    pager.write_text(f'#!/bin/sh\ncat > "{tmp_path}/paged"\n')
    pager.chmod(0o755)
    main_end, end = pty.openpty()
    environment = {**os.environ, "PAGER": str(pager), "TERM": "xterm", "LINES": "40", "COLUMNS": "100"}
    environment.pop("MANPAGER", None)
    try:
        command = [str(TX8EMU), "--instructions", *pattern]
        run = subprocess.run(command, stdin=end, stdout=end, env=environment, timeout=60, check=False)
        assert run.returncode == 0
        assert (tmp_path / "paged").exists() is paged
        if paged:
            assert len(heads((tmp_path / "paged").read_text())) == EVERYTHING
        else:
            assert b"ct.abs.v " in os.read(main_end, 4096)
    finally:
        os.close(main_end)
        os.close(end)


def test_no_standard_output_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(SystemExit) as status:
        main(["--instructions", "ct.abs.v"])
    assert status.value.code == 0
