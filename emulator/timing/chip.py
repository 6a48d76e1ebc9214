"""The state of the simulation for a machine: one array, as ``layout`` says."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from emulator.tile.moment import Moment
from tx8isa.cost import instructions as cost
from tx8isa.machine.description import Machine
from tx8isa.records.record import Engine

from . import layout as a

Words = npt.NDArray[np.int64]
MOST_FLOWS_OF_A_TILE = 2 + a.MOST_MESSAGES
"""RDMA, WDMA and messages."""


def make_chip(machine: Machine) -> Words:
    """Everything at rest at time 0; host addresses are still missing."""
    tiles, workers = machine.tiles, machine.tile.workers
    size = a.P_QUEUES + workers * a.WORKER_WORDS
    links = a.HEADER
    flows = links + tiles * a.LINKS
    first = flows + tiles * MOST_FLOWS_OF_A_TILE * a.FLOW_WORDS
    chip = np.zeros(first + tiles * size, dtype=np.int64)
    chip[[a.H_TILES, a.H_TILE_WORDS, a.H_WORKERS]] = tiles, size, workers
    chip[[a.H_LINKS, a.H_FLOW_AT, a.H_TILE_AT]] = links, flows, first
    chip[a.H_DDR_NEXT] = a.HUGE
    _set_coefficients(chip, machine)
    for number in range(tiles):
        _rest(chip[first + number * size :][:size], number)
    return chip


def _set_coefficients(chip: Words, machine: Machine) -> None:
    timing, clock = machine.timing, machine.engines.clock.value
    for place, cycles in (
        (a.H_CPI, timing.core.instruction),
        (a.H_ISSUE, timing.core.issue),
        (a.H_ISSUE_COLD, timing.core.issue_cold),
        (a.H_BARRIER, timing.barrier.fixed),
        (a.H_DTE_FIXED, timing.dte.fixed),
        (a.H_DTE_FIRST, timing.dte.first),
        (a.H_HOP, timing.dte.hop),
    ):
        chip[place] = cost.ticks(cycles.value)
    chip[a.H_LINK] = max(round(cost.link_rate(machine) * a.KILO), 1)
    chip[a.H_DDR_RATE] = max(round(machine.ddr.nominal.value / clock * a.KILO), 1)
    chip[a.H_COLLISION] = round(timing.spm.collision.value * a.MILLION)
    chip[a.H_ROWS] = machine.grid.y
    for engine in (Engine.CT, Engine.NE, Engine.RDMA, Engine.WDMA, Engine.TDMA):
        chip[a.H_DEPTH + engine] = getattr(machine.queues, engine.name.lower())


def _rest(tile: Words, number: int) -> None:
    """A tile whose log is empty."""
    tile[a.P_TILE], tile[a.P_CORE], tile[a.P_PATH_HOLDER] = number, a.STARVED, -1
    tile[[a.P_NEXT, a.P_DUE, a.P_MESSAGE_NEXT]] = a.HUGE
    engines = tile[a.P_ENGINES : a.P_ARRIVED].reshape(-1, a.ENGINE_WORDS)
    engines[:, a.E_EVENT] = a.HUGE
    messages = tile[a.P_COPIES : a.P_SCALAR].reshape(-1, a.MESSAGE_WORDS)
    messages[:, a.M_EVENT] = a.HUGE


def read_moment(snapshot: Words, workers: int) -> Moment:
    """The moment that a tile's words at ``P_SNAPSHOT`` hold."""
    busy = snapshot[1 : 1 + a.UNITS].copy()
    blocked = snapshot[1 + a.UNITS :][: workers * a.BLOCKED_UNITS].copy()
    return Moment(int(snapshot[0]), busy, blocked.reshape(workers, a.BLOCKED_UNITS))
