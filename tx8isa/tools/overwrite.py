"""No tool writes over a file that it reads, nor over another one that it writes in the same run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tx8isa.errors import Tx8Error

Role = tuple[str, str | Path | None]
"""What a file is to the run, in the words of a message, and its path; None or ``-`` for no file."""


def check_outputs(outputs: Iterable[Role], inputs: Iterable[Role]) -> None:
    """Tx8Error when an output is the same file as an input or another output, under whatever name.

    Devices and pipes may be written to twice.
    """
    seen = {identity: what for what, path in inputs if (identity := _identity(path)) is not None}
    written: dict[object, str] = {}
    for what, path in outputs:
        identity = _identity(path)
        if identity is None:
            continue
        if identity in seen:
            raise Tx8Error(f"{path}: {what} would replace {seen[identity]}; name another file")
        if identity in written:
            raise Tx8Error(f"{path}: {written[identity]} and {what} name the same file; name two files")
        written[identity] = what


def _identity(path: str | Path | None) -> object | None:
    """Equal for names of the same file, links included; None for a name of no file that could be replaced."""
    if path is None or str(path) == "-" or "\0" in str(path):  # the last can be the name of no file
        return None
    path = Path(path)
    try:
        status = path.stat()
    except OSError:  # not there yet, or a name that cannot be
        return Path(path.parent.absolute().resolve(), path.name)
    return (status.st_dev, status.st_ino) if path.is_file() else None
