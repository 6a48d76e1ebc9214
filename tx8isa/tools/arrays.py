"""Reads arrays from untrusted .npy files and .npz archives.

NumPy allocates the size that a header claims, and unpacks all that an archive holds. Here a header that
claims more than the file has is refused first, and an archive unpacks to no more than a ``Budget``.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from tx8isa.errors import BudgetError, Tx8Error

from .budget import Budget
from .overwrite import note_read

Array = np.ndarray[Any, Any]

_NPY, _ZIP = b"\x93NUMPY", b"PK\x03\x04"
_SUFFIX = ".npy"


class ArrayFileError(Tx8Error):
    """A file does not hold an array; the text begins with the file's name."""


def read_npy(file: str | Path) -> Array:
    """Read the array in a .npy file; ArrayFileError when it holds none, OSError when it cannot be read."""
    note_read(file)
    with _explained(file, ".npy file"), Path(file).open("rb") as stream:
        start = stream.read(len(_NPY))
        if start.startswith(_ZIP):
            raise ArrayFileError(f"{file}: an archive of arrays; expected one array in a .npy file")
        if start != _NPY:
            raise ArrayFileError(f"{file}: not a .npy file: it starts with {start!r}, expected {_NPY!r}")
        stream.seek(0)
        _check_header(stream, stream.seek(0, io.SEEK_END) if stream.seekable() else None)
        return np.lib.format.read_array(stream, allow_pickle=False)


class Archive:
    """The arrays of a .npz file by name. Each is read on access; all share one budget."""

    def __init__(self, file: str | Path) -> None:
        note_read(file)
        self.file = file
        with _explained(file, "archive of arrays"), Path(file).open("rb") as stream:
            start = stream.read(len(_NPY))
            if start == _NPY:
                raise ArrayFileError(f"{file}: one array; expected an archive of arrays, a .npz file")
            with zipfile.ZipFile(stream) as archive:
                members = archive.infolist()
            self._budget = Budget(stream.seek(0, io.SEEK_END))
        self._members = {item.filename.removesuffix(_SUFFIX): item for item in members}

    @property
    def names(self) -> list[str]:
        return list(self._members)

    def __getitem__(self, name: str) -> Array:
        """An array; ArrayFileError when it is damaged or unpacks to too much."""
        item = self._members[name]
        with _explained(self.file, "archive of arrays"), zipfile.ZipFile(self.file) as archive:
            try:
                self._budget.hold(item.file_size)
            except BudgetError as error:
                raise ArrayFileError(f"{self.file}: '{name}', unpacked, {error}") from None
            with archive.open(item) as stream:
                _check_header(stream, item.file_size)
                return np.lib.format.read_array(stream, allow_pickle=False)

    def all(self) -> dict[str, Array]:
        return {name: self[name] for name in self.names}


def _check_header(stream: IO[bytes], size: int | None) -> None:
    """ValueError when a header claims more than a file of ``size`` bytes holds. Rewinds the stream."""
    stream.seek(0)
    major, _ = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if major == 1 else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(stream)
    claimed, held = dtype.itemsize, None if size is None else size - stream.tell()
    for extent in shape:
        claimed *= extent
    if held is not None and claimed > held and not dtype.hasobject:
        raise ValueError(f"its header claims {claimed} bytes, it holds {held}")
    stream.seek(0)


@contextmanager
def _explained(file: str | Path, what: str) -> Iterator[None]:
    """Turn an exception about a damaged file into one line. NumPy parses headers as Python source, and
    zipfile trusts the archive's directory, so both may raise anything."""
    try:
        yield
    except (Tx8Error, OSError, KeyboardInterrupt):
        raise
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ArrayFileError(f"{file}: damaged {what}: {reason}") from None
