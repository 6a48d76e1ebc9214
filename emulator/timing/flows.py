"""DDR as a fluid that all transfers share. Plain functions that are compiled.

A transfer has two times: the ticks of its engine, and the ticks of DDR for its bytes and contiguous runs. The
quotient is the part of DDR that it demands. While all transfers together demand less than the rate of DDR,
each gets its full demand. Above it, each gets the same fraction of its demand. So one virtual time serves all
transfers: it advances at that fraction of simulated time. A transfer ends when virtual time has advanced by
the ticks that its data takes on an idle chip.
"""

from __future__ import annotations

from emulator.native.primitives.memory import get, put
from tx8isa.cost.terms import ddr_ticks

from . import layout


def pass_time(chip: int) -> None:
    """Bring the virtual time up to now."""
    passed, demand = get(chip, layout.H_NOW) - get(chip, layout.H_SINCE), get(chip, layout.H_DEMAND)
    if demand > layout.WHOLE:
        passed = passed * layout.WHOLE // demand
    put(chip, layout.H_VIRTUAL, get(chip, layout.H_VIRTUAL) + passed)
    put(chip, layout.H_SINCE, get(chip, layout.H_NOW))


def find_next(chip: int) -> None:
    """Find the end of the next flow, if no other begins before."""
    first, at = layout.HUGE, get(chip, layout.H_FLOW_AT)
    for i in range(get(chip, layout.H_FLOWS)):
        first = min(first, get(chip, at + i * layout.FLOW_WORDS + layout.F_END))
    if first == layout.HUGE:
        put(chip, layout.H_DDR_NEXT, layout.HUGE)
        return
    left, demand = first - get(chip, layout.H_VIRTUAL), get(chip, layout.H_DEMAND)
    if demand > layout.WHOLE:
        left = (left * demand + layout.WHOLE - 1) // layout.WHOLE
    put(chip, layout.H_DDR_NEXT, get(chip, layout.H_NOW) + max(left, 0))


def part(share: int, ticks: int) -> int:
    """Return ``share / ticks`` in units of 1 / ``WHOLE``, for a share of at most ``ticks``."""
    if share < layout.HUGE // layout.WHOLE:
        return share * layout.WHOLE // ticks
    return share // (ticks // layout.WHOLE)


def begin_flow(chip: int, place: int, who: int, size: int, runs: int, own: int) -> None:
    """``size`` bytes in ``runs`` runs begin to flow for ``who`` of a tile (``F_WHO``).

    ``own`` are the ticks that its engine needs. A single flow takes those, or the ticks of DDR if these are
    more.
    """
    pass_time(chip)
    share = ddr_ticks(size, runs, get(chip, layout.H_DDR_BYTE), get(chip, layout.H_DDR_RUN))
    ticks = max(own, share, 1)
    flow = get(chip, layout.H_FLOW_AT) + get(chip, layout.H_FLOWS) * layout.FLOW_WORDS
    demand = part(share, ticks)
    put(chip, flow + layout.F_TILE, place)
    put(chip, flow + layout.F_WHO, who)
    put(chip, flow + layout.F_END, get(chip, layout.H_VIRTUAL) + ticks)
    put(chip, flow + layout.F_DEMAND, demand)
    put(chip, layout.H_FLOWS, get(chip, layout.H_FLOWS) + 1)
    put(chip, layout.H_DEMAND, get(chip, layout.H_DEMAND) + demand)
    find_next(chip)


def ended_flow(chip: int) -> int:
    """Return the position of the oldest flow that has ended; 0 without one."""
    at = get(chip, layout.H_FLOW_AT)
    for i in range(get(chip, layout.H_FLOWS)):
        flow = at + i * layout.FLOW_WORDS
        if get(chip, flow + layout.F_END) <= get(chip, layout.H_VIRTUAL):
            return flow
    return 0


def remove_flow(chip: int, flow: int) -> None:
    """Remove a flow; the others keep their order."""
    put(chip, layout.H_DEMAND, get(chip, layout.H_DEMAND) - get(chip, flow + layout.F_DEMAND))
    left = get(chip, layout.H_FLOWS) - 1
    put(chip, layout.H_FLOWS, left)
    end = get(chip, layout.H_FLOW_AT) + left * layout.FLOW_WORDS
    for at in range(flow, end):
        put(chip, at, get(chip, at + layout.FLOW_WORDS))
