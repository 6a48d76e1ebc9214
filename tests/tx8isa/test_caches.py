"""--cache-info and --cache-clear: the output, the removed files, and files that must stay."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from compiler.cli import main as tx8cc
from compiler.tools.cache import ProgramCache
from emulator.cli import main as tx8emu
from paths import ROOT
from tx8isa.tools.caches import PROGRAM_BYTES, cache_clear, cache_info

TOOLS = [pytest.param(tool, id=tool.__module__.partition(".")[0]) for tool in (tx8emu, tx8cc)]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of caches with two kernels, a program, a leftover, an older version, and other files."""
    monkeypatch.setenv("TX8_CACHE_DIR", str(tmp_path / "cache"))
    root = tmp_path / "cache"
    for name, size in (
        ("kernels-v2/a.o", 1 << 20),
        ("kernels-v2/b.o", 1 << 19),
        ("kernels-v2/.secret", 32),
        ("kernels-v1/old.o", 1 << 20),
        ("programs-v2/c.program", 3 << 20),
        ("programs-v2/d.program.7.tmp", 10),
        ("programs-v2/notes.txt", 10),
        ("mine/e.o", 10),
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(bytes(size))
    return root


@pytest.mark.parametrize("tool", TOOLS)
def test_info(tool: Callable[[list[str]], int], root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        tool(["--cache-info"])
    assert left.value.code == 0
    assert capsys.readouterr().out.splitlines() == [
        f"folder {root}",
        "kernels-v2        3 files       1.5 MB  machine code of the emulator; no limit",
        "programs-v2       2 files       3.0 MB  compiled programs; at most 2,048 MB",
        "kernels-v1        1 files       1.0 MB  of an older version, not used; removed by --cache-clear",
    ]


@pytest.mark.parametrize("tool", TOOLS)
def test_clear(tool: Callable[[list[str]], int], root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        tool(["--cache-clear"])
    assert left.value.code == 0
    assert capsys.readouterr().out == f"6 files, 5.5 MB removed from {root}\n"
    files = sorted(path.relative_to(root).as_posix() for path in root.rglob("*"))
    assert files == ["mine", "mine/e.o", "programs-v2", "programs-v2/notes.txt"]


def test_links_are_not_followed(root: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "f.o").write_bytes(bytes(10))
    (root / "kernels-v9").symlink_to(elsewhere)
    cache_clear()
    assert (elsewhere / "f.o").exists()


def test_a_folder_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TX8_CACHE_DIR", str(tmp_path / "none"))
    assert next(iter(cache_info())) == f"folder {tmp_path / 'none'}, not there yet"
    assert cache_clear() == f"0 files, 0.0 MB removed from {tmp_path / 'none'}"
    assert not (tmp_path / "none").exists()


def test_the_limit_is_the_one_that_is_kept(tmp_path: Path) -> None:
    assert ProgramCache(tmp_path).most == PROGRAM_BYTES == 2 << 30


def test_a_folder_that_cannot_be_emptied_is_one_line(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(path: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "unlink", refused)
    with pytest.raises(SystemExit) as left:
        tx8emu(["--cache-clear"])
    first = root / "kernels-v1" / "old.o"
    assert (left.value.code, capsys.readouterr().err) == (1, f"tx8emu: error: {first}: Permission denied\n")


USE = """
import logging, sys
from tx8isa.tools.cache_folder import SealedFolder, cache_folder
from tx8isa.tools.caches import cache_clear, cache_info
logging.basicConfig(level=logging.WARNING)
for number in range(int(sys.argv[2])):
    if sys.argv[1] == "clear":
        cache_clear()
    elif sys.argv[1] == "info":
        list(cache_info())
    else:
        folder = SealedFolder(cache_folder("programs-v2"), "program cache")
        folder.write(f"{number % 3}.program", [b"content of", str(number % 3).encode()])
        assert folder.read(f"{number % 3}.program") in (None, b"content of%d" % (number % 3))
"""


def test_caches_are_emptied_while_others_empty_and_fill_them(tmp_path: Path) -> None:
    """No process fails, and none reads an entry sealed with an earlier secret."""
    environment = {**os.environ, "TX8_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    works = [("clear", 600), ("clear", 600), ("info", 300), ("fill", 120), ("fill", 120)]
    started = [
        subprocess.Popen(
            [sys.executable, "-c", USE, what, str(count)], env=environment, stderr=subprocess.PIPE, text=True
        )
        for what, count in works
    ]
    assert [(each.communicate(timeout=60)[1], each.returncode) for each in started] == [("", 0)] * len(works)
    cache_folder = tmp_path / "programs-v2"
    left = {path.name for path in cache_folder.iterdir()} if cache_folder.exists() else set()
    assert left <= {".secret", "0.program", "1.program", "2.program"}
