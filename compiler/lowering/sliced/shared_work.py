"""One tile's part of a work that several tiles share: the same operators on the tile's shares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from compiler.codegen.slices.tensors import DdrTensor
from compiler.lowering.record import AnyWork, ChainNode, ChainWork, Step, Work
from compiler.operators.record import Call

from .needed import shared_call
from .shares import SharedStage
from .tile_share import Needed, stored_share

Placed = Callable[[DdrTensor, Needed], DdrTensor]
"""Gives a tile's share of a tensor as a tensor of its own."""


def shared_work(stage: SharedStage, output: DdrTensor, placed: Placed) -> AnyWork:
    """The work of a tile, with its share of the result as ``output``."""
    inputs = _operands(stage.work.inputs, stage.inputs, placed)
    work = replace(stage.work, inputs=inputs, output=output, cut=None)
    if isinstance(work, ChainWork):
        nodes = tuple(_node(*each) for each in zip(work.nodes, stage.nodes, strict=True))
        return replace(work, nodes=nodes)
    assert isinstance(work, Work)
    call = None if work.call is None else _shared(work.op, work.call, stage.inputs)
    steps = tuple(_step(*each, placed) for each in zip(work.steps, stage.steps, strict=True))
    return replace(work, call=call, steps=steps)


def _operands(
    tensors: Sequence[DdrTensor | None], shares: Sequence[Needed], placed: Placed
) -> tuple[DdrTensor | None, ...]:
    pairs = zip(tensors, shares, strict=True)
    return tuple(
        None if tensor is None else placed(tensor, stored_share(tensor, share)) for tensor, share in pairs
    )


def _step(step: Step, shares: Sequence[Needed], placed: Placed) -> Step:
    return replace(
        step, call=_shared(step.op, step.call, shares), operands=_operands(step.operands, shares, placed)
    )


def _node(node: ChainNode, shares: Sequence[Needed]) -> ChainNode:
    return node if node.call is None else replace(node, call=_shared(node.op, node.call, shares))


def _shared(op: str, call: Call, shares: Sequence[Needed]) -> Call:
    """A call on shares; operands that are not in memory are whole."""
    return shared_call(op, call, (*shares, *(None,) * (len(call.inputs) - len(shares))))
