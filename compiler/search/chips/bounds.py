"""What links and DDR take at least for a graph that several chips compute together."""

from __future__ import annotations

import math
from typing import NamedTuple

import msgspec
from msgspec import UNSET

from compiler.graph import Graph, GraphError, Tensor
from compiler.lowering.movement.chips.routes import LinkPrice
from compiler.operators import call_of
from compiler.operators.domains.chips.collectives import COLLECTIVES, groups_of, way_of
from tx8isa.machine.description import Machine

MOST_PRICED = 4096
"""Cards of a mesh that is priced: the largest class of networks (spec)."""


class ChipBounds(NamedTuple):
    """Cycles of one chip."""

    ddr: float
    """Of constants, inputs and outputs, each once."""
    links: float
    """Of all exchanges: latencies and bytes."""


def bounds_of(local: Graph, machine: Machine, bytes_each: int, tiles: int) -> ChipBounds:
    """The bounds of what a chip computes; floats have ``bytes_each`` bytes."""
    tensors = [*local.inputs, *local.outputs]
    tensors += [Tensor(name, array.dtype.name, array.shape) for name, array in local.constants.items()]
    moved = sum(tensor.size * (bytes_each if tensor.is_float else 4) for tensor in tensors)
    links = 0.0
    for node in local.nodes:
        if node.op in COLLECTIVES:
            call = call_of(local, node)
            size = max(math.prod(local.tensors[name].shape) for name in (*node.inputs, *node.outputs))
            price = LinkPrice(machine, node.op, tuple(groups_of(call)), size * bytes_each, tiles)
            links += price.bound(way_of(call))
    rate = machine.ddr.nominal.value / machine.engines.clock.value
    return ChipBounds(moved / rate, links)


def priced_machine(machine: Machine, x: int, y: int) -> Machine:
    """A machine with so many chips, of which only prices are wanted: the table of cards need not have room.

    GraphError for more than ``MOST_PRICED``, and for a machine without links.
    """
    if machine.chips is UNSET:
        raise GraphError([f"machine {machine.name} has no links between chips: give it a table [chips]"])
    if x * y > MOST_PRICED:
        raise GraphError([f"--chips {x}x{y}: {x * y} chips, expected at most {MOST_PRICED} for an estimate"])
    chips = msgspec.structs.replace(machine.chips, x=x, y=y, good=UNSET)
    return msgspec.structs.replace(machine, name=f"{machine.name} x {x}x{y}", chips=chips)
