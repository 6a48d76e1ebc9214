"""Rates of memory and links in bytes a cycle of the engines."""

from __future__ import annotations

from tx8isa.machine.description import Machine


def ddr_rate(machine: Machine) -> float:
    """Bytes a cycle of DDR, for all tiles together."""
    return machine.ddr.nominal.value / machine.engines.clock.value


def link_rate(machine: Machine) -> float:
    """Bytes a cycle of one direction of a link."""
    slower = min(machine.noc.link_out.value, machine.noc.link_in.value)
    return slower / machine.engines.clock.value


def chip_link_rate(machine: Machine) -> float:
    """Bytes a cycle of one direction of a link between chips."""
    slower = min(machine.card.c2c_out.value, machine.card.c2c_in.value)
    return slower / machine.engines.clock.value
