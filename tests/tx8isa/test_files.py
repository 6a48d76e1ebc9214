"""Files written whole or not at all, and files left by killed writers."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest

from paths import ROOT
from tx8isa.errors import Tx8Error
from tx8isa.tools.files import GrowingFile, write_together, write_whole


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def aged(path: Path) -> Path:
    os.utime(path, (1, 1))
    return path


def test_the_temporary_file_of_a_killed_writer_is_swept(tmp_path: Path) -> None:
    """The process kills itself while it writes; the next writer of the file removes its temporary file."""
    script = (
        "import os, signal, sys; from pathlib import Path; from tx8isa.tools.files import write_together\n"
        "write_together({Path(sys.argv[1]): lambda file: os.kill(os.getpid(), signal.SIGKILL)})"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    target = tmp_path / "out.bin"
    killed = subprocess.run([sys.executable, "-c", script, target], env=environment)
    assert killed.returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    write_whole(target, b"young")
    assert names(tmp_path) == sorted([left.name, "out.bin"])
    aged(left)
    write_whole(target, b"new")
    assert names(tmp_path) == ["out.bin"]


def test_the_temporary_file_of_a_living_writer_stays(tmp_path: Path) -> None:
    target = tmp_path / "out.bin"

    def content(file: IO[bytes]) -> None:
        file.write(b"slow")
        (mine,) = tmp_path.glob(".out.bin.*.tmp")
        aged(mine)
        write_whole(target, b"quick")
        assert mine.exists()

    write_together({target: content})
    assert target.read_bytes() == b"slow"
    assert names(tmp_path) == ["out.bin"]


def test_an_interrupt_among_the_renames_of_a_set_waits_for_their_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).write_bytes(b"old")
    replace = Path.replace

    def interrupted(self: Path, target: Path) -> Path:
        signal.raise_signal(signal.SIGINT)
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_together({tmp_path / name: [b"new"] for name in ("a", "b", "c")})
    assert [path.read_bytes() for path in sorted(tmp_path.iterdir())] == [b"new"] * 3


def test_files_are_also_written_in_other_threads(tmp_path: Path) -> None:
    """Only the main thread may hold interrupts back."""
    failed: list[BaseException] = []

    def write() -> None:
        try:
            write_whole(tmp_path / "a", b"new")
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    thread.join()
    assert (names(tmp_path), failed) == (["a"], [])


def test_a_set_of_more_files_than_a_process_may_open(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, limits[1]))
    try:
        write_together({tmp_path / f"{number}": [b"x"] for number in range(300)})
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert names(tmp_path) == sorted(map(str, range(300)))


@pytest.mark.parametrize("size", [5, 100_000])
def test_a_file_that_cannot_grow_is_named(tmp_path: Path, size: int) -> None:
    """A small one stays in a buffer until it is flushed, and fails again when it is closed."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    target = tmp_path / "out.bin"
    target.write_bytes(b"old")
    resource.setrlimit(resource.RLIMIT_FSIZE, (2, limits[1]))  # Python ignores the signal for it
    try:
        with pytest.raises(Tx8Error) as error:
            write_together({tmp_path / "first": [b"1"], target: [bytes(size)]})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert str(error.value) == f"{target}: cannot be written: File too large"
    assert names(tmp_path) == ["out.bin"] and target.read_bytes() == b"old"


def test_only_temporary_files_of_the_same_target_are_swept(tmp_path: Path) -> None:
    mark = "tx8-0123456789abcdef"
    others = [f".other.bin.{mark}.tmp", ".out.bin.tmp", f".out.bin.{mark}.bak", f"out.bin.{mark}.tmp"]
    others += [".out.bin.01234567.tmp", ".out.bin.0123456789abcdef.tmp"]
    for name in others:
        (tmp_path / name).write_bytes(b"")
        aged(tmp_path / name)
    write_whole(tmp_path / "out.bin", b"new")
    assert names(tmp_path) == sorted([*others, "out.bin"])


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Tx8Error, match=r"none/out\.bin: cannot be written: No such file or directory"):
        write_whole(tmp_path / "none" / "out.bin", b"")


def test_permissions_of_a_new_file(tmp_path: Path) -> None:
    write_together({tmp_path / "own": [b""]}, mode=0o600)
    write_together({tmp_path / "plain": [b""]})
    umask = os.umask(0)
    os.umask(umask)
    assert (tmp_path / "own").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "plain").stat().st_mode & 0o777 == 0o666 & ~umask


# --- foreign files -----------------------------------------------------------------------------------------

LEFT = ".out.bin.tx8-0123456789abcdef.tmp"


def pipe(path: Path) -> None:
    os.mkfifo(path)


def link(path: Path) -> None:
    path.symlink_to(path.with_name("precious"))


def of_another_user(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")
    path.write_bytes(b"theirs")
    os.chown(path, 12345, -1)


def folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize("make", [pipe, link, of_another_user, folder])
def test_what_is_no_temporary_file_of_this_user_stays(make: Callable[[Path], None], tmp_path: Path) -> None:
    """An old file under the name of a temporary file: no tool waits for it, or removes it."""
    (tmp_path / "precious").write_bytes(b"bytes")
    make(tmp_path / LEFT)
    os.utime(tmp_path / LEFT, (1, 1), follow_symlinks=False)
    write_whole(tmp_path / "out.bin", b"new")
    assert names(tmp_path) == sorted([LEFT, "out.bin", "precious"])
    assert (tmp_path / "precious").read_bytes() == b"bytes"


def test_a_temporary_file_is_always_a_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If its name were predictable, an attacker could make it a link to another file."""
    monkeypatch.setattr(os, "urandom", lambda count: bytes(range(1, count + 1)))
    foreseen = tmp_path / f".out.bin.tx8-{bytes(range(1, 9)).hex()}.tmp"
    (tmp_path / "precious").write_bytes(b"bytes")
    foreseen.symlink_to(tmp_path / "precious")
    with pytest.raises(Tx8Error, match=r"out\.bin: cannot be written: File exists"):
        write_whole(tmp_path / "out.bin", b"new")
    assert foreseen.is_symlink() and (tmp_path / "precious").read_bytes() == b"bytes"


def test_no_two_temporary_files_have_one_name(tmp_path: Path) -> None:
    growing = [GrowingFile(tmp_path / "out.bin") for _ in range(100)]
    for each in growing:
        each.open().close()
    assert len(names(tmp_path)) == 100
    for each in growing:
        each.drop()
    assert names(tmp_path) == []


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    """So a link planted in a shared folder has no effect."""
    (tmp_path / "precious").write_bytes(b"bytes")
    (tmp_path / "out.bin").symlink_to(tmp_path / "precious")
    write_whole(tmp_path / "out.bin", b"new")
    assert (tmp_path / "precious").read_bytes() == b"bytes"
    assert not (tmp_path / "out.bin").is_symlink() and (tmp_path / "out.bin").read_bytes() == b"new"


# --- devices, pipes and open files -------------------------------------------------------------------------


def test_a_pipe_is_written_as_it_is(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    write_whole(tmp_path / "pipe", b"bytes")
    reader.join()
    assert (read, names(tmp_path)) == ([b"bytes"], ["pipe"])


@pytest.mark.parametrize("of", ["/proc/self/fd", "/dev/fd"])
def test_a_name_of_an_open_file_stays(of: str, tmp_path: Path) -> None:
    """A name such as /dev/stdout: the text is appended, and the link is not replaced."""
    (tmp_path / "stdout").symlink_to(f"{of}/1")
    script = (
        "from tx8isa.tools.files import write_whole\n"
        "print('first', flush=True); write_whole('stdout', b'second\\n'); print('third')"
    )
    with (tmp_path / "printed").open("wb") as printed:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", script]
        assert subprocess.run(command, cwd=tmp_path, env=environment, stdout=printed).returncode == 0
    assert (tmp_path / "printed").read_text() == "first\nsecond\nthird\n"
    assert (tmp_path / "stdout").is_symlink() and names(tmp_path) == ["printed", "stdout"]


def test_two_names_of_one_file_in_a_set_are_refused(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    one, two = tmp_path / "y.npy", tmp_path / "sub" / ".." / "y.npy"
    with pytest.raises(Tx8Error, match=r"name the same file; name two files"):
        write_together({one: [b"1"], two: [b"2"]})
    assert names(tmp_path) == ["sub"]
