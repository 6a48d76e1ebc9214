"""Lower bounds on the time of links and DDR for a graph that several chips compute together."""

from __future__ import annotations

import math
from typing import NamedTuple

import msgspec
from msgspec import UNSET

from compiler.graph import Graph, GraphError, Node, Tensor
from compiler.lowering.movement.chips.routes import LinkPrice, SendPrice
from compiler.operators import call_of
from compiler.operators.domains.chips.collectives import COLLECTIVES, RECEIVE, SEND, groups_of, way_of
from tx8isa.cost.rates import ddr_rate
from tx8isa.machine.description import Machine

MOST_PRICED = 4096
"""Most cards of a priced mesh: the largest class of networks (spec)."""


class ChipBounds(NamedTuple):
    """Cycles of one chip."""

    ddr: float
    """Cycles of DDR for constants, inputs and outputs, each once."""
    links: float
    """Cycles of links for all exchanges (latencies and bytes), and for the bytes that a stage sends."""


def bounds_of(local: Graph, machine: Machine, bytes_each: int, tiles: int) -> ChipBounds:
    """The bounds of one chip's graph; floats have ``bytes_each`` bytes."""
    tensors = [*local.inputs, *local.outputs]
    tensors += [Tensor(name, array.dtype.name, array.shape) for name, array in local.constants.items()]
    moved = sum(tensor.size * (bytes_each if tensor.is_float else 4) for tensor in tensors)
    links = sum(_on_links(local, node, machine, bytes_each, tiles) for node in local.nodes)
    rate = ddr_rate(machine)
    return ChipBounds(moved / rate, links)


def _on_links(local: Graph, node: Node, machine: Machine, bytes_each: int, tiles: int) -> float:
    """Cycles of links for a node: an exchange, or the message of a stage."""
    if node.op not in COLLECTIVES or node.op == RECEIVE:
        return 0.0
    call = call_of(local, node)
    groups = tuple(groups_of(call))
    if node.op == SEND:
        return SendPrice(machine, groups, local.tensors[node.inputs[0]].size * bytes_each).links
    size = max(math.prod(local.tensors[name].shape) for name in (*node.inputs, *node.outputs))
    return LinkPrice(machine, node.op, groups, size * bytes_each, tiles).bound(way_of(call))


def priced_machine(machine: Machine, x: int, y: int) -> Machine:
    """A machine with a mesh of x by y chips, for prices only: the table of cards sets no limit.

    GraphError for more than ``MOST_PRICED``, and for a machine without links.
    """
    if machine.chips is UNSET:
        raise GraphError([f"machine {machine.name} has no links between chips: give it a table [chips]"])
    if x * y > MOST_PRICED:
        raise GraphError([f"--chips {x}x{y}: {x * y} chips, expected at most {MOST_PRICED} for an estimate"])
    chips = msgspec.structs.replace(machine.chips, x=x, y=y, good=UNSET)
    return msgspec.structs.replace(machine, name=f"{machine.name} x {x}x{y}", chips=chips)
