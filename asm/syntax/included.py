"""The files that a program names: where they are found, and their bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from asm.diagnostics import Fault


class Included:
    """Files beside the one that names them, or in one of ``folders``; each is read once.

    ``given`` holds the bytes of files that need not exist, by the name under which the program includes them.
    """

    def __init__(self, folders: Sequence[str | Path] = (), given: Mapping[str, bytes] | None = None) -> None:
        self._folders = [Path(folder) for folder in folders]
        self._given = given or {}
        self._read: dict[Path, bytes] = {}

    def find(self, name: str, beside: Path) -> tuple[Path, bytes]:
        """Path and bytes of a file that a file in the folder ``beside`` names; Fault when there is none."""
        if name in self._given:
            return Path(name), self._given[name]
        folders = [beside, *self._folders]
        path = next((folder / name for folder in folders if (folder / name).is_file()), None)
        if path is None:
            searched = ", ".join(str(folder) for folder in folders)
            raise Fault(f"file {name} not found in {searched}", None, "name its folder with -I")
        if path not in self._read:
            try:
                self._read[path] = path.read_bytes()
            except OSError as error:
                raise Fault(f"cannot read {path}: {error.strerror}") from None
        return path, self._read[path]
