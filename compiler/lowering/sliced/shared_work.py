"""The work of one tile of several that share a work: the same operators on the tile's shares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from compiler.codegen.slices.tensors import DdrTensor
from compiler.lowering.record import LOWERINGS, ChainNode, Step, Work
from compiler.operators.record import Call

from .shares import Axis, Stage, Undividable, shared_call

Placed = Callable[[DdrTensor, Axis], DdrTensor]
"""Gives a tile's share of a tensor as a tensor of its own."""


def shared_work(stage: Stage, parts: int, placed: Placed) -> Work:
    """The work of a tile; Undividable if an operator means something else on shares."""
    work = stage.work
    inputs = _operands(work.inputs, stage.inputs, placed)
    output = placed(work.output, stage.result)
    call = None if work.call is None else _shared(work.call, stage.inputs, parts)
    steps = tuple(
        _shared_step(step, axes, parts, placed) for step, axes in zip(work.steps, stage.steps, strict=True)
    )
    nodes = tuple(_shared_node(node, axes, parts) for node, axes in zip(work.nodes, stage.nodes, strict=True))
    made = replace(work, inputs=inputs, output=output, call=call, steps=steps, nodes=nodes, cut=None)
    check = LOWERINGS[work.op].check
    problem = check(call) if check is not None and call is not None else None
    if problem is not None:
        raise Undividable(f"{work.op} {problem}")
    return made


def _operands(
    tensors: Sequence[DdrTensor | None], axes: Sequence[Axis], placed: Placed
) -> tuple[DdrTensor | None, ...]:
    pairs = zip(tensors, axes, strict=True)
    return tuple(None if tensor is None else placed(tensor, axis) for tensor, axis in pairs)


def _shared_step(step: Step, axes: Sequence[Axis], parts: int, placed: Placed) -> Step:
    return replace(
        step, call=_shared(step.call, axes, parts), operands=_operands(step.operands, axes, placed)
    )


def _shared_node(node: ChainNode, axes: Sequence[Axis], parts: int) -> ChainNode:
    return node if node.call is None else replace(node, call=_shared(node.call, axes, parts))


def _shared(call: Call, axes: Sequence[Axis], parts: int) -> Call:
    """A call on shares; operands that are not in memory are whole."""
    return shared_call(call, (*axes, *(None,) * (len(call.inputs) - len(axes))), parts)
