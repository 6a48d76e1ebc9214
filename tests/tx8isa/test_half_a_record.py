"""An instruction without a page of the manual: every tool says so in one line."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from paths import ROOT

RECORD = '''"""One more function."""

from tx8isa.families.vector import unary


@unary(190, "proposed", single=True)
def cube(x: float) -> float:
    """x * x * x."""
    return x * x * x
'''
SAID = (
    "ct.cube.v: no page of the manual has the records of insns/ct/mine.py: name it in tx8isa/table/pages.py"
)
START = "import sys; from tx8_entry.commands import {0}; sys.argv[0] = '{0}'; sys.exit({0}())"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the packages with one more record, in a separate file."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("tx8isa", "asm", "emulator", "compiler", "tx8", "tx8_entry", "docs"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "tx8isa/insns/ct/mine.py").write_text(RECORD)
    (folder / "cube.s").write_text("    ct.cube.v.fp32 dst=0, src0=0x100, n=64\n")
    return folder


def run(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("tx8as", ("-c", START.format("tx8as"), "cube.s")),
        ("tx8emu", ("-c", START.format("tx8emu"), "--instructions", "ct.cube.v")),
        ("generate.py", ("docs/generate.py",)),
        ("header.py", ("-m", "tx8isa.c.header")),
    ],
)
def test_a_record_without_a_page_is_one_line(checkout: Path, name: str, arguments: tuple[str, ...]) -> None:
    found = run(checkout, *arguments)
    assert (found.returncode, found.stdout) == (1, "")
    assert found.stderr == f"{name}: error: {SAID}\n"


@pytest.mark.long
def test_with_its_page_the_instruction_works(checkout: Path, tmp_path: Path) -> None:
    """The sentence says all that is to be done."""
    copy = tmp_path / "copy"
    shutil.copytree(checkout, copy)
    pages = copy / "tx8isa/table/pages.py"
    pages.write_text(pages.read_text().replace('("ct.arith",)', '("ct.arith", "ct.mine")'))
    assert run(copy, "-c", START.format("tx8as"), "cube.s").returncode == 0
    shown = run(copy, "-c", START.format("tx8emu"), "--instructions", "ct.cube.v")
    assert "x * x * x" in shown.stdout
    assert run(copy, "docs/generate.py").returncode == 0
    assert "ct.cube.v" in (copy / "docs/isa/arithmetic.md").read_text()
