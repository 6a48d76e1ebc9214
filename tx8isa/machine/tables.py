"""Reads machine descriptions as unchecked tables, with inheritance.

``like = "tx81"`` inherits the packaged description of that name; the other keys override its keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tx8isa.errors import Tx8Error
from tx8isa.tools.suggestions import hint

MACHINES = Path(__file__).parent / "machines"
"""The folder of the packaged descriptions, each a file with its name."""
LIKE = "like"

Table = dict[str, Any]


class MachineError(Tx8Error):
    """A machine description that cannot be read or contradicts itself, or a tile outside of the machine."""


def packaged_names() -> list[str]:
    """The names of the packaged descriptions."""
    return sorted(file.stem for file in MACHINES.glob("*.toml"))


def packaged_file(name: str) -> Path | None:
    """The file of a packaged description; None when there is none of that name."""
    return MACHINES / f"{name}.toml" if name in packaged_names() else None


def read_table(path: Path) -> Table:
    """Reads the keys of a description and of the one named by ``like``; MachineError names the file."""
    import tomllib  # imported here: importing this module must stay cheap for users that read no file

    try:
        table = tomllib.loads(path.read_bytes().decode())
    except OSError as error:
        raise MachineError(f"{path}: cannot read the machine description: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise MachineError(f"{path}: not a TOML file: byte {error.start} is not UTF-8 text") from None
    except tomllib.TOMLDecodeError as error:
        raise MachineError(f"{path}: not a TOML file: {error}") from None
    if LIKE not in table:
        return table
    name = table.pop(LIKE)
    base = packaged_file(name) if isinstance(name, str) else None
    if base is None or base == path:
        others = [other for other in packaged_names() if packaged_file(other) != path]
        near = hint(name, others) if isinstance(name, str) else ""
        raise MachineError(f"{path}: key {LIKE}: found {name!r}, expected one of {' '.join(others)}{near}")
    return _over(read_table(base), table)


def _over(base: Mapping[str, Any], table: Mapping[str, Any]) -> Table:
    """Override the values of ``base`` by those of ``table``, also in nested tables."""
    merged = dict(base)
    for key, value in table.items():
        there = merged.get(key)
        both = isinstance(value, dict) and isinstance(there, dict)
        merged[key] = _over(there, value) if both and there is not None else value
    return merged
