"""The progress line of a compilation, and the table of --timing."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp

from compiler.tools.progress import ProgressLine, timing_table
from paths import ROOT
from terminals import Clock, Terminal

MODULE = ModuleOp([])


def shown(file: io.StringIO, step: float) -> str:
    with ProgressLine("net", ["import", "cast", "codegen"], file, Clock(step)) as line:
        for name in ("import", "cast", "codegen"):
            line.after_pass(name, MODULE)
    return file.getvalue()


def test_a_long_compilation_says_what_is_being_done() -> None:
    parts = shown(Terminal(), 1.0).split("\r")
    for text in ("1/4", "net: cast", "2/4", "net: codegen", "3/4", "net: assemble"):
        assert any(text in part for part in parts), text
    assert parts[-1].strip() == ""  # gone at the end
    assert parts[-2].strip() == ""


def test_the_search_counts_groups_and_candidates() -> None:
    file = Terminal()
    with ProgressLine("net", ["import", "group_cost", "codegen"], file, Clock(1.0)) as line:
        line.after_pass("import", MODULE)
        line.searching(2, 7, 31)
        line.after_pass("group_cost", MODULE)
    parts = file.getvalue().split("\r")
    (at,) = [at for at, part in enumerate(parts) if "2/7" in part]
    assert "net: search, 31 candidates tried" in parts[at]
    assert any("2/4" in part and "net: codegen" in part for part in parts[at:])


def test_the_search_is_not_shown_at_every_step() -> None:
    file = Terminal()
    with ProgressLine("net", ["group_cost", "codegen"], file, Clock(0.03)) as line:
        for tried in range(100):
            line.searching(0, 1, tried)
    shown_times = file.getvalue().count("candidates tried")
    assert 0 < shown_times < 60


def test_a_short_search_says_nothing() -> None:
    file = Terminal()
    with ProgressLine("net", ["group_cost"], file, Clock(0.001)) as line:
        for tried in range(100):
            line.searching(0, 1, tried)
    assert file.getvalue() == ""


def test_a_short_compilation_says_nothing() -> None:
    assert shown(Terminal(), 0.01) == ""


def test_nothing_goes_into_a_pipe() -> None:
    assert shown(io.StringIO(), 1.0) == ""


def test_the_line_can_be_taken_away_for_other_output() -> None:
    file = Terminal()
    with ProgressLine("net", ["import", "cast"], file, Clock(1.0)) as line:
        line.clear()  # before there is one
        line.after_pass("import", MODULE)
        line.clear()
        assert file.getvalue().split("\r")[-2].strip() == ""


def test_an_error_takes_the_line_away() -> None:
    file = Terminal()
    with pytest.raises(KeyboardInterrupt), ProgressLine("net", ["import", "cast"], file, Clock(1.0)) as line:
        line.after_pass("import", MODULE)
        raise KeyboardInterrupt
    assert file.getvalue().split("\r")[-1].strip() == ""


def test_a_terminal_without_standard_error_is_no_terminal() -> None:
    with ProgressLine("net", ["import"], None, Clock(1.0)) as line:
        line.after_pass("import", MODULE)


def test_the_table_of_times() -> None:
    lines = timing_table({"import": 0.0123, "codegen": 1.2, "assemble": 0.0}).splitlines()
    assert [line.split() for line in lines] == [
        ["stage", "ms", "share"],
        ["import", "12.3", "1.0%"],
        ["codegen", "1,200.0", "99.0%"],
        ["assemble", "0.0", "0.0%"],
        ["total", "1,212.3", "100.0%"],
    ]
    assert len({len(line) for line in lines}) == 1


def test_the_table_of_a_program_that_took_no_time() -> None:
    assert timing_table({}).splitlines()[1].split() == ["total", "0.0", "100.0%"]


def test_tx8cc_shows_the_line_on_a_terminal_and_takes_it_away(tmp_path: Path) -> None:
    """A compilation in a pseudo-terminal, in which every pass seems to take long."""
    graph = ROOT / "examples" / "batchnorm" / "bn30.json"
    code = (
        "import sys, compiler.tools.progress as p; p._SILENT_SECONDS = 0; from compiler.cli import main; "
        f"sys.exit(main([{str(graph)!r}, '-o', {str(tmp_path)!r}, '--no-cache']))"
    )
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
    os.set_blocking(ours, False)
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=theirs, text=True)
    said = os.read(ours, 1 << 16).decode()  # while the other side is open: a closed terminal gives an error
    os.close(theirs)
    os.close(ours)
    assert done.returncode == 0
    assert done.stdout.count("\n") == 1
    assert ": assemble" in said
    assert "\n" not in said
    assert said.split("\r")[-1].strip() == ""
