"""Folders of cached files: trusted entries, and entries refused before their use."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest

from tx8isa.tools import cache_folder
from tx8isa.tools.cache_folder import SECRET, SealedFolder, folder_lock


@pytest.fixture
def folder(tmp_path: Path) -> SealedFolder:
    """A folder with the entry "a", about which no warning was printed yet."""
    cache_folder._say_once.cache_clear()
    made = SealedFolder(tmp_path / "cache" / "things", "cache of things")
    assert made.write("a", [b"con", b"tent"])
    return made


def test_an_entry_comes_back(folder: SealedFolder) -> None:
    assert folder.read("a") == b"content"
    assert folder.read("b") is None


def test_everything_is_the_users_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        folder = SealedFolder(tmp_path / "cache" / "things", "cache of things")
        assert folder.write("a", [b"content"])
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "cache").rglob("*")}
    assert modes == {"things": 0o700, "a": 0o600, SECRET: 0o600}
    assert (tmp_path / "cache").stat().st_mode & 0o777 == 0o700


def renamed(path: Path) -> None:
    SealedFolder(path, "").write("b", [b"other"])
    (path / "b").replace(path / "a")


def forged(path: Path) -> None:
    """Forge an entry with the form of a seal, without the secret."""
    digest = cache_folder._seal(bytes(32), "a", [b"other"])
    (path / "a").write_bytes(digest + b"other")


def from_elsewhere(path: Path) -> None:
    SealedFolder(path.with_name("elsewhere"), "").write("a", [b"other"])
    (path.with_name("elsewhere") / "a").replace(path / "a")


def flipped(path: Path) -> None:
    data = bytearray((path / "a").read_bytes())
    data[-1] ^= 1
    (path / "a").write_bytes(data)


def cut(path: Path) -> None:
    (path / "a").write_bytes((path / "a").read_bytes()[:7])


@pytest.mark.parametrize("change", [renamed, forged, from_elsewhere, flipped, cut])
def test_what_was_not_written_here_is_refused_and_replaced(
    folder: SealedFolder, change: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    change(folder.path)
    assert folder.read("a") is None
    expected = f"cache of things: {folder.path / 'a'} is damaged, or another program wrote it; computed again"
    assert [record.getMessage() for record in caplog.records] == [expected]
    assert folder.write("a", [b"content"])
    assert folder.read("a") == b"content"


@pytest.mark.parametrize(
    ("name", "mode", "fault"),
    [
        (".", 0o770, "is open to other users (mode 0770)"),
        (".", 0o1777, "is open to other users (mode 1777)"),
        ("a", 0o620, "is open to other users (mode 0620)"),
        ("a", 0o666, "is open to other users (mode 0666)"),
        (SECRET, 0o640, "is open to other users (mode 0640)"),
        (SECRET, 0o604, "is open to other users (mode 0604)"),
    ],
)
def test_what_others_may_write_is_not_used(
    folder: SealedFolder, caplog: pytest.LogCaptureFixture, name: str, mode: int, fault: str
) -> None:
    path = folder.path / name
    path.chmod(mode)
    for _ in range(2):
        assert folder.read("a") is None
    advice = "it is not used. Remove it, or name a folder of your own in TX8_CACHE_DIR"
    assert [r.getMessage() for r in caplog.records] == [f"cache of things: {path} {fault}; {advice}"]
    assert folder.write("a", [b"new"]) == (name == "a")  # an entry is replaced by one with the right mode
    assert (folder.read("a") == b"new") == (name == "a")


def test_a_folder_that_others_may_only_read_is_used(folder: SealedFolder) -> None:
    folder.path.chmod(0o755)
    (folder.path / "a").chmod(0o644)
    assert folder.read("a") == b"content"


def test_the_folder_of_another_user_is_not_used(
    folder: SealedFolder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert folder.read("a") is None
    assert not folder.write("a", [b"new"])
    assert f"{folder.path} belongs to user {owner}, not to {owner + 1}; it is not used" in caplog.text


@pytest.mark.parametrize("name", ["a", SECRET])
def test_a_file_of_another_user_is_not_used(
    folder: SealedFolder, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")
    os.chown(folder.path / name, 12345, -1)
    assert folder.read("a") is None
    assert f"{folder.path / name} belongs to user 12345, not to 0" in caplog.text


def test_links_are_not_followed(folder: SealedFolder, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    (folder.path / "a").rename(folder.path / "b")
    (folder.path / "a").symlink_to("b")
    assert folder.read("a") is None
    assert "cannot read" in caplog.text
    real = folder.path.rename(folder.path.with_name("real"))
    folder.path.symlink_to(real)
    assert folder.read("a") is None
    assert f"{folder.path} is not a folder" in caplog.text


def test_a_pipe_in_place_of_an_entry_does_not_block(folder: SealedFolder) -> None:
    (folder.path / "a").unlink()
    os.mkfifo(folder.path / "a", 0o600)
    assert folder.read("a") is None


def test_a_damaged_secret_is_not_replaced(folder: SealedFolder, caplog: pytest.LogCaptureFixture) -> None:
    (folder.path / SECRET).write_bytes(b"short")
    assert folder.read("a") is None
    assert not folder.write("b", [b"new"])
    assert f"{folder.path / SECRET} is damaged" in caplog.text


def test_the_secret_of_a_process_that_was_faster_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = SealedFolder(tmp_path / "things", "cache of things")
    lock = cache_folder.folder_lock

    def later(path: Path, kind: int) -> AbstractContextManager[None]:
        monkeypatch.setattr(cache_folder, "folder_lock", lock)
        assert SealedFolder(folder.path, "").write("b", [b"faster"])
        return lock(path, kind)

    monkeypatch.setattr(cache_folder, "folder_lock", later)
    assert folder.write("a", [b"content"])
    assert (folder.read("a"), folder.read("b")) == (b"content", b"faster")
    assert sorted(path.name for path in folder.path.iterdir()) == [SECRET, "a", "b"]


@pytest.mark.parametrize("missing", ["link", "flock"])
def test_file_systems_without_hard_links_or_locks(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(os if missing == "link" else fcntl, missing, refused)
    folder = SealedFolder(tmp_path / "things", "cache of things")
    assert folder.write("a", [b"content"])
    assert folder.read("a") == b"content"
    assert sorted(path.name for path in folder.path.iterdir()) == [SECRET, "a"]


def test_who_empties_a_folder_waits_for_who_writes_there(
    folder: SealedFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = os.open(folder.path, os.O_RDONLY)
    writers = ExitStack()
    for _ in range(2):
        writers.enter_context(folder_lock(folder.path, fcntl.LOCK_SH))
    waited: list[float] = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        writers.close()

    monkeypatch.setattr(time, "sleep", sleep)
    with folder_lock(folder.path, fcntl.LOCK_EX):
        assert len(waited) == 1
        with pytest.raises(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    os.close(handle)


def test_nobody_waits_for_ever_for_a_process_that_stands_still(
    folder: SealedFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_folder, "_PATIENCE_SECONDS", 0.0)
    with folder_lock(folder.path, fcntl.LOCK_EX):
        assert folder.write("b", [b"content"])
    assert folder.read("b") == b"content"


def filled_anew(path: Path, name: str, content: bytes) -> None:
    """Other processes that empty a folder and use it leave this."""
    for each in path.iterdir():
        each.unlink()
    assert SealedFolder(path, "").write(name, [content])


def test_an_entry_of_a_folder_that_is_filled_anew_is_not_called_damaged(
    folder: SealedFolder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The reader has read the secret that existed before."""
    read = SealedFolder._owned_file

    def then_filled(self: SealedFolder, name: str, forbidden: int) -> bytes | None:
        if name == "a":
            monkeypatch.setattr(SealedFolder, "_owned_file", read)
            filled_anew(folder.path, "a", b"of the other")
        return read(self, name, forbidden)

    monkeypatch.setattr(SealedFolder, "_owned_file", then_filled)
    assert folder.read("a") is None
    assert caplog.records == []
    assert folder.read("a") == b"of the other"


def test_the_lock_of_a_folder_that_was_made_anew_is_none(
    folder: SealedFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = cache_folder._taken

    def after_it_was_made_anew(handle: int, kind: int) -> bool:
        folder.path.rename(folder.path.with_name("removed"))
        folder.path.mkdir(mode=0o700)
        return taken(handle, kind)

    monkeypatch.setattr(cache_folder, "_taken", after_it_was_made_anew)
    with pytest.raises(FileNotFoundError), folder_lock(folder.path, fcntl.LOCK_SH):
        pytest.fail("the block was entered")


def test_an_entry_is_not_stored_under_a_secret_that_is_gone(
    folder: SealedFolder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The folder is emptied, and used by another process, after the writer has looked for the secret."""
    make = SealedFolder._make_secret

    def then_emptied(self: SealedFolder) -> None:
        make(self)
        monkeypatch.setattr(SealedFolder, "_make_secret", make)
        filled_anew(folder.path, "b", b"of the other")

    monkeypatch.setattr(SealedFolder, "_make_secret", then_emptied)
    assert folder.write("a", [b"content"])
    assert (folder.read("a"), folder.read("b")) == (b"content", b"of the other")
    assert caplog.records == []
