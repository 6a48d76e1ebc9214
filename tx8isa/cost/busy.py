"""The time of one command on its engine, for those who choose between commands."""

from __future__ import annotations

from tx8isa.machine.description import Machine

from .instructions import TICKS, cost, evaluate


def busy_cycles(mnemonic: str, machine: Machine, **operands: int) -> float:
    """Cycles for which a command occupies its engine; of its operands, those that its time depends on.

    ``operands`` are values by name; the others have the values that they have in a text without them.
    """
    from tx8isa.table.registry import find

    found = find(mnemonic)
    assert found is not None, mnemonic
    record, fmt = found
    given = {"format": int(fmt or 0), **operands}
    values = [
        given.get(each.name, each.default if isinstance(each.default, int) else 0) for each in record.operands
    ]
    of_record = cost(record, machine)
    return (of_record.fixed + evaluate(of_record.data, record, values)) / TICKS
