"""Identifies the machine of a program, and compares it with the machine that runs it.

Addresses, sizes and numbers of units are part of a program. Rates, queue depths and figures of time are
excluded, because the same program may run on a faster chip.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from .description import Machine, MachineError, packaged_machine

_AGREE: Mapping[str, tuple[str, ...]] = {
    "grid": ("x", "y"),
    "tile": ("workers", "dte_blocks"),
    "spm": ("bytes", "reserved", "reset_byte"),
    "ddr": ("bytes",),
    "windows": (),
}
"""Keys that must agree, by table; an empty entry means the whole table."""


def identity(machine: Machine) -> str | dict[str, Any]:
    """Return the machine as an image stores it: the name of a packaged description, or the whole
    description."""
    return machine.name if machine == packaged_machine(machine.name) else msgspec.to_builtins(machine)


def described(said: str | Mapping[str, Any], name: str) -> Machine | None:
    """Return the machine that an image names or describes; None for an unknown name.

    MachineError when its description is invalid; ``name`` is the image's.
    """
    if isinstance(said, str):
        return packaged_machine(said)
    try:
        return msgspec.convert(said, Machine)
    except msgspec.ValidationError as error:
        raise MachineError(f"{name}: the machine description in the image: {error}") from None


def differences(made: Machine, given: Machine) -> list[str]:
    """Lists the differences, as ``grid.y is 2, 4 on tx81``; ``given`` is the other machine."""
    return [
        f"{key} is {_number(there)}, {_number(here)} on {given.name}"
        for key, there, here in _compared(made, given)
        if there != here
    ]


def _compared(made: Machine, given: Machine) -> Iterator[tuple[str, int, int]]:
    if made.chip_count > 1:  # a program for one chip does not depend on the links
        for key in ("x", "y"):
            yield f"chips.{key}", getattr(made.chips, key), getattr(given.chips, key, 1)
    for table, keys in _AGREE.items():
        there, here = getattr(made, table), getattr(given, table)
        for key in keys or there.__struct_fields__:
            yield f"{table}.{key}", getattr(there, key), getattr(here, key)


def _number(value: int) -> str:
    return f"0x{value:x}" if value >= 4096 else str(value)
