"""Files that must differ in one run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tx8isa.errors import Tx8Error
from tx8isa.tools.files import GrowingFile, read_bytes, write_together, write_whole
from tx8isa.tools.overwrite import check_outputs, run_of_tool


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
    check_outputs([("a", "x" * 300), ("c", "prog.s/x"), ("d", "sub")], [("e", "prog.s")])


@pytest.mark.parametrize("name", ["nul\0", "half\ud800", "sub/half\ud800/x"])
def test_names_that_no_file_has_are_refused(folder: Path, name: str) -> None:
    message = f"{name!r}: no file can have this name: expected no NUL and no half of a surrogate pair"
    with pytest.raises(Tx8Error) as caught:
        check_outputs([("a", name)], [])
    assert str(caught.value) == message
    check_outputs([("a", "new")], [("b", name)])
    with pytest.raises(Tx8Error) as caught:
        write_whole(name, b"")
    assert str(caught.value) == message


# --- what a run of a tool has read -------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["prog.s", "sub/../prog.s", "link.s", "second.s"])
def test_a_run_writes_over_no_file_that_it_has_read(folder: Path, name: str) -> None:
    with run_of_tool():
        read_bytes("prog.s")
        with pytest.raises(Tx8Error) as caught:
            write_whole(name, b"new")
    assert (
        str(caught.value) == f"{name}: to write it would replace a file that the run reads; name another file"
    )
    assert (folder / "prog.s").read_text() == "nop"
    write_whole("prog.s", b"of the next run")
    with run_of_tool():
        write_whole("prog.s", b"read by nobody")


def test_none_of_a_set_is_written_when_one_was_read(folder: Path) -> None:
    with run_of_tool():
        read_bytes("prog.s")
        with pytest.raises(Tx8Error, match=r"^link\.s: to write it would replace"):
            write_together({Path("new"): [b"1"], Path("link.s"): [b"2"]})
    assert not (folder / "new").exists()
    assert sorted(path.name for path in folder.iterdir() if path.name.startswith(".")) == []


def test_inputs_that_were_checked_are_known_by_what_they_are(folder: Path) -> None:
    with run_of_tool():
        check_outputs([("the image", "new")], [("the program", "prog.s")])
        read_bytes("prog.s")
        with pytest.raises(Tx8Error, match=r"^prog\.s: to write it would replace the program; name another"):
            write_whole("prog.s", b"")


def test_a_file_that_grows_is_not_kept_over_one_that_was_read_meanwhile(folder: Path) -> None:
    with run_of_tool():
        growing = GrowingFile("prog.s")
        growing.open().close()
        read_bytes("prog.s")
        with pytest.raises(Tx8Error, match=r"would replace a file that the run reads"):
            growing.keep()
        growing.drop()
    assert (folder / "prog.s").read_text() == "nop"
