"""Writes the function that computes the bytes of an instruction's operands from its entry in the queues."""

from __future__ import annotations

from collections.abc import Callable

from emulator.engines import queues, tables
from emulator.native.inline import Names
from emulator.native.primitives.memory import get, put
from tx8isa.table import footprint

Loops = Callable[[int, int, int, int], None]
"""(number of the extent, queues, 1 if it is written, where to write the loops of its footprint)"""


def put_loops(at: int, loops: footprint.Loops) -> None:
    """Write a footprint."""
    for i in range(footprint.WORDS):
        put(at, i, loops[i])


def write_footprints() -> Loops:
    """Return a function that writes the footprint of an extent by its number, with the queues' arguments."""
    names = Names()
    read, write = names.name(get), names.name(put_loops)
    lines = ["def loops(number, q, write, at):"]
    for number, length in enumerate(tables.extents()):
        count = length.__code__.co_argcount
        arguments = [f"{read}(q, {queues.ARGUMENTS + i})" for i in range(count)]
        lines += [f"    if number == {number}:", f"        {write}(at, {_source(names, length, arguments)})"]
    return names.function("\n".join(lines), "loops")


def _source(names: Names, length: Callable[..., int], arguments: list[str]) -> str:
    """Return the call that gives a footprint."""
    plan = footprint.plan(length)
    if plan.loops is not None:
        return f"{names.name(plan.loops)}({', '.join(arguments)})"
    if plan.facts is not None:
        facts = names.call(plan.facts, arguments)
        return f"{names.name(footprint.aligned)}({facts}, {arguments[0]}, write)"
    return f"{names.name(footprint.one_run)}({names.call(length, arguments)})"


def functions_written() -> list[Callable[..., object]]:
    """Return the functions that the text of ``write_footprints`` is made of, for its key."""
    plans = [footprint.plan(length) for length in tables.extents()]
    used = [function for plan in plans for function in plan if function is not None]
    return [*tables.extents(), *used, footprint.aligned, footprint.one_run, put_loops]
