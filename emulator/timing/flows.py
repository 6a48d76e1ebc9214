"""DDR as a fluid that all transfers share; plain functions that are compiled.

Every transfer takes its part of the card's rate: as much as it could alone while all of them together stay
below it, else everybody the same fraction of that. So one virtual time serves all: it goes at that fraction,
and a transfer ends when it has advanced by the ticks that the data take on an idle chip.
"""

from __future__ import annotations

from emulator.native.primitives.memory import get, put

from . import layout as a


def pass_time(c: int) -> None:
    """Bring the virtual time up to now."""
    passed, demand = get(c, a.H_NOW) - get(c, a.H_SINCE), get(c, a.H_DEMAND)
    rate = get(c, a.H_DDR_RATE)
    if demand > rate:
        passed = passed * rate // demand
    put(c, a.H_VIRTUAL, get(c, a.H_VIRTUAL) + passed)
    put(c, a.H_SINCE, get(c, a.H_NOW))


def find_next(c: int) -> None:
    """When the next flow ends, if none begins before."""
    first, at = a.HUGE, get(c, a.H_FLOW_AT)
    for i in range(get(c, a.H_FLOWS)):
        first = min(first, get(c, at + i * a.FLOW_WORDS + a.F_END))
    if first == a.HUGE:
        put(c, a.H_DDR_NEXT, a.HUGE)
        return
    left, demand, rate = first - get(c, a.H_VIRTUAL), get(c, a.H_DEMAND), get(c, a.H_DDR_RATE)
    if demand > rate:
        left = (left * demand + rate - 1) // rate
    put(c, a.H_DDR_NEXT, get(c, a.H_NOW) + max(left, 0))


def begin_flow(c: int, p: int, who: int, size: int, ticks: int) -> None:
    """``size`` bytes begin to flow for ``who`` of a tile; alone it would take ``ticks``."""
    pass_time(c)
    flow = get(c, a.H_FLOW_AT) + get(c, a.H_FLOWS) * a.FLOW_WORDS
    demand = size * a.MILLION // max(ticks, 1)
    put(c, flow + a.F_TILE, p)
    put(c, flow + a.F_WHO, who)
    put(c, flow + a.F_END, get(c, a.H_VIRTUAL) + ticks)
    put(c, flow + a.F_DEMAND, demand)
    put(c, a.H_FLOWS, get(c, a.H_FLOWS) + 1)
    put(c, a.H_DEMAND, get(c, a.H_DEMAND) + demand)
    find_next(c)


def ended_flow(c: int) -> int:
    """Place of a flow that has ended, the oldest of those; 0 when there is none."""
    at = get(c, a.H_FLOW_AT)
    for i in range(get(c, a.H_FLOWS)):
        flow = at + i * a.FLOW_WORDS
        if get(c, flow + a.F_END) <= get(c, a.H_VIRTUAL):
            return flow
    return 0


def remove_flow(c: int, flow: int) -> None:
    """Take a flow out; the others keep their order."""
    put(c, a.H_DEMAND, get(c, a.H_DEMAND) - get(c, flow + a.F_DEMAND))
    left = get(c, a.H_FLOWS) - 1
    put(c, a.H_FLOWS, left)
    end = get(c, a.H_FLOW_AT) + left * a.FLOW_WORDS
    for at in range(flow, end):
        put(c, at, get(c, at + a.FLOW_WORDS))
