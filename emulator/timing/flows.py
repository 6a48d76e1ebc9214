"""DDR as a fluid that all transfers share. Plain functions that are compiled.

While the transfers together stay below the rate of the card, each gets what it could take alone; above it,
each gets the same fraction of that. So one virtual time serves all: it advances at that fraction of simulated
time, and a transfer ends when it has advanced by the ticks that the data take on an idle chip.
"""

from __future__ import annotations

from emulator.native.primitives.memory import get, put

from . import layout


def pass_time(chip: int) -> None:
    """Bring the virtual time up to now."""
    passed, demand = get(chip, layout.H_NOW) - get(chip, layout.H_SINCE), get(chip, layout.H_DEMAND)
    rate = get(chip, layout.H_DDR_RATE)
    if demand > rate:
        passed = passed * rate // demand
    put(chip, layout.H_VIRTUAL, get(chip, layout.H_VIRTUAL) + passed)
    put(chip, layout.H_SINCE, get(chip, layout.H_NOW))


def find_next(chip: int) -> None:
    """Find when the next flow ends, if no other begins before."""
    first, at = layout.HUGE, get(chip, layout.H_FLOW_AT)
    for i in range(get(chip, layout.H_FLOWS)):
        first = min(first, get(chip, at + i * layout.FLOW_WORDS + layout.F_END))
    if first == layout.HUGE:
        put(chip, layout.H_DDR_NEXT, layout.HUGE)
        return
    left, demand, rate = (
        first - get(chip, layout.H_VIRTUAL),
        get(chip, layout.H_DEMAND),
        get(chip, layout.H_DDR_RATE),
    )
    if demand > rate:
        left = (left * demand + rate - 1) // rate
    put(chip, layout.H_DDR_NEXT, get(chip, layout.H_NOW) + max(left, 0))


def begin_flow(chip: int, place: int, who: int, size: int, ticks: int) -> None:
    """``size`` bytes begin to flow for ``who`` of a tile (``F_WHO``); alone they would take ``ticks``."""
    pass_time(chip)
    flow = get(chip, layout.H_FLOW_AT) + get(chip, layout.H_FLOWS) * layout.FLOW_WORDS
    demand = size * layout.MILLION // max(ticks, 1)
    put(chip, flow + layout.F_TILE, place)
    put(chip, flow + layout.F_WHO, who)
    put(chip, flow + layout.F_END, get(chip, layout.H_VIRTUAL) + ticks)
    put(chip, flow + layout.F_DEMAND, demand)
    put(chip, layout.H_FLOWS, get(chip, layout.H_FLOWS) + 1)
    put(chip, layout.H_DEMAND, get(chip, layout.H_DEMAND) + demand)
    find_next(chip)


def ended_flow(chip: int) -> int:
    """Position of the oldest flow that has ended; 0 when there is none."""
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
