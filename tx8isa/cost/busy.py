"""The time of one command on its engine, for code that chooses between commands."""

from __future__ import annotations

from tx8isa.machine.description import Machine

from .instructions import TICKS, cost, evaluate


def busy_cycles(mnemonic: str, machine: Machine, **operands: int) -> float:
    """Return the cycles for which a command occupies its engine.

    ``operands`` are values by name, at least of the operands on which the time depends. The other operands
    have the defaults of assembly.
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
