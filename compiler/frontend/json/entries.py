"""Files of several networks: named entry points with a model file each, and the states that they share."""

from __future__ import annotations

from pathlib import Path

import msgspec

from compiler.graph import GraphError

_LARGEST = 1 << 20
"""The most bytes of such a file; a larger one is a graph."""


class EntryFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The model of each entry as a path, and states by the names of their inputs.

    Paths begin at the folder of the file.
    """

    entries: dict[str, str]
    state: dict[str, str] = {}

    def models(self, path: Path) -> dict[str, Path]:
        """Return the paths of the models; ``path`` is the path of this file."""
        return {name: path.parent / model for name, model in self.entries.items()}


def read_entries(path: Path) -> EntryFile | None:
    """Read the entries of a file, None if it is a model of another kind; GraphError for a wrong file."""
    try:
        if path.suffix.lower() != ".json" or path.stat().st_size > _LARGEST:
            return None
        text = path.read_bytes()
        if "entries" not in msgspec.json.decode(text, type=dict[str, msgspec.Raw]):
            return None
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None  # the reader of graphs says what is wrong
    try:
        return msgspec.json.decode(text, type=EntryFile)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise GraphError([f"{path}: {error}"]) from None
