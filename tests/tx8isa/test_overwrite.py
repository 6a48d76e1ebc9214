"""Which files may not be the same in one run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tx8isa.errors import Tx8Error
from tx8isa.tools.overwrite import check_outputs


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a program, and other names of it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "prog.s").write_text("nop")
    (tmp_path / "link.s").symlink_to("prog.s")
    (tmp_path / "dangling").symlink_to("none")
    os.link(tmp_path / "prog.s", tmp_path / "second.s")
    (tmp_path / "folder").symlink_to("sub")
    return tmp_path


@pytest.mark.parametrize(
    "name", ["prog.s", "./prog.s", "sub/../prog.s", "folder/../prog.s", "link.s", "second.s", "ABSOLUTE"]
)
def test_an_output_may_not_be_an_input(folder: Path, name: str) -> None:
    name = str(folder / "prog.s") if name == "ABSOLUTE" else name
    with pytest.raises(Tx8Error) as caught:
        check_outputs([("the listing", "out.lst"), ("the image", name)], [("the program", "prog.s")])
    assert str(caught.value) == f"{name}: the image would replace the program; name another file"


@pytest.mark.parametrize(("one", "two"), [("new", "./new"), ("sub/new", "folder/new"), ("prog.s", "link.s")])
def test_two_outputs_may_not_be_one_file(folder: Path, one: str, two: str) -> None:
    with pytest.raises(Tx8Error) as caught:
        check_outputs([("the image", one), ("the listing", two)], [])
    assert str(caught.value) == f"{two}: the image and the listing name the same file; name two files"


def test_what_may_be_named_twice(folder: Path) -> None:
    """Inputs, devices, standard output, and files that only look alike."""
    check_outputs([("a", "/dev/null"), ("b", "/dev/null")], [("c", "/dev/null")])
    check_outputs([("a", "-"), ("b", "-"), ("c", None), ("d", None)], [("e", "-"), ("f", None)])
    check_outputs([("a", "prog.bin")], [("b", "prog.s"), ("c", "prog.s")])
    check_outputs([("a", "sub/prog.s"), ("b", "none/prog.s"), ("c", "dangling")], [("d", "prog.s")])


def test_names_that_cannot_be_are_left_to_whoever_opens_them(folder: Path) -> None:
    check_outputs([("a", "x" * 300), ("b", "nul\0"), ("c", "prog.s/x"), ("d", "sub")], [("e", "prog.s")])
