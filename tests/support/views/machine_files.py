"""Machine descriptions with single entries changed."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, cast

import msgspec

from tx8isa.machine.description import TX81

Table = dict[str, Any]

COLD = (("issue", "kind"), ("core", "line"))
"""The coefficients of cold costs, as tables of ``timing`` and names."""

_PACKAGED = msgspec.json.encode(tomllib.loads(TX81.read_text()))


def packaged_table() -> Table:
    """The packaged description as plain data, to be spoilt."""
    return cast(Table, msgspec.json.decode(_PACKAGED))


def warm_machine(folder: Path) -> str:
    """A description of a TX81 without cold costs, so that commands follow each other closely."""
    table = packaged_table()
    for place, name in COLD:
        table["timing"][place][name] |= {"value": 0, "least": 0, "most": 0}
    file = folder / "warm.toml"
    file.write_text(toml(table))
    return str(file)


def toml(table: Table, prefix: str = "") -> str:
    """A TOML text of nested tables of numbers and strings, in dotted keys."""
    lines = []
    for key, value in table.items():
        if isinstance(value, dict):
            lines.append(toml(value, f"{prefix}{key}."))
        else:
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            text = repr(value) if number else msgspec.json.encode(value).decode()
            lines.append(f"{prefix}{key} = {text}")
    return "\n".join(lines)
