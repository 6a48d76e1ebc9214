"""Limits on the growth of sources, and arrays in files that claim or unpack to more than they hold."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tx8isa.errors import BudgetError
from tx8isa.tools import budget
from tx8isa.tools.arrays import Archive, ArrayFileError, read_npy
from tx8isa.tools.budget import BYTES, STEPS, Budget
from tx8isa.tools.command_line import guarded


def npy(shape: str, data: bytes = b"", descr: str = "<f4") -> bytes:
    """A .npy file whose header gives an arbitrary shape."""
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def archive(path: Path, content: bytes, method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as made:
        made.writestr("c.npy", content)
    return path


def test_a_budget_is_taken_once() -> None:
    left = Budget()
    left.hold(BYTES - 10)
    left.hold(10)
    with pytest.raises(
        BudgetError, match="would take 1 bytes before a run; a source of this size has 0 left"
    ):
        left.hold(1)
    left.work(STEPS)
    with pytest.raises(BudgetError, match="would take 1 steps of work"):
        left.work(1)


def test_what_is_beside_counts_only_meanwhile() -> None:
    left = Budget()
    for _ in range(100):
        left.hold(1, BYTES // 2)
    with pytest.raises(BudgetError):
        left.hold(1, BYTES)


def test_a_larger_source_has_more() -> None:
    Budget(BYTES).hold(60 * BYTES)
    with pytest.raises(BudgetError):
        Budget(1000).hold(2 * BYTES)


@pytest.mark.parametrize(
    "shape", ["(288230376151711744,)", "(4294967296, 4294967296)", "(6,)", "(-1,)", "(2, 2"]
)
def test_a_header_that_claims_too_much(tmp_path: Path, shape: str) -> None:
    content = npy(shape, bytes(20))
    (tmp_path / "c.npy").write_bytes(content)
    with pytest.raises(ArrayFileError, match=r"c\.npy: damaged \.npy file: "):
        read_npy(tmp_path / "c.npy")
    for method in (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED):
        made = Archive(archive(tmp_path / "c.npz", content, method))
        with pytest.raises(ArrayFileError, match=r"c\.npz: damaged archive of arrays: "):
            made["c"]


def test_an_archive_that_unpacks_a_thousandfold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "BYTES", 1000)
    path = archive(tmp_path / "bomb.npz", npy("(250000,)", bytes(1_000_000)))
    with pytest.raises(ArrayFileError, match=r"bomb\.npz: 'c', unpacked, would take 1,000,0\d\d bytes"):
        Archive(path)["c"]
    rng = np.random.default_rng(0)
    np.savez_compressed(tmp_path / "dense.npz", a=rng.standard_normal(5000), b=rng.standard_normal(5000))
    assert {name: array.shape for name, array in Archive(tmp_path / "dense.npz").all().items()} == {
        "a": (5000,),
        "b": (5000,),
    }


def test_many_arrays_share_a_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "BYTES", 0)
    np.savez_compressed(tmp_path / "many.npz", **{f"a{at}": np.zeros(20_000) for at in range(40)})
    with pytest.raises(ArrayFileError, match="unpacked, would take 160,128 bytes before a run"):
        Archive(tmp_path / "many.npz").all()


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04broken", npy("(1,)", bytes(4))])
def test_what_is_no_archive(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "c.npz").write_bytes(content)
    with pytest.raises(ArrayFileError, match=r"c\.npz: (damaged archive of arrays|one array; expected)"):
        Archive(tmp_path / "c.npz")


def _no_room() -> int:
    raise MemoryError("Unable to allocate 8 GiB")


def _bare() -> int:
    raise MemoryError


@pytest.mark.parametrize(
    ("action", "reason"), [(_no_room, "Unable to allocate 8 GiB"), (_bare, "nothing is left")]
)
def test_too_little_memory_is_one_line(
    action: Callable[[], int], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert guarded("tx8cc", action) == 1
    assert capsys.readouterr().err == f"tx8cc: error: this host has too little memory for it: {reason}\n"
