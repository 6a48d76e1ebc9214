"""Machine descriptions with single entries changed."""

from __future__ import annotations

import tomllib
from typing import Any, cast

import msgspec

from tx8isa.machine.description import TX81

Table = dict[str, Any]


_PACKAGED = msgspec.json.encode(tomllib.loads(TX81.read_text()))


def packaged_table() -> Table:
    """The packaged description as plain data, to be spoilt."""
    return cast(Table, msgspec.json.decode(_PACKAGED))


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
