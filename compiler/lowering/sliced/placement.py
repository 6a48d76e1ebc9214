"""Tests whether groups can be stages of a sliced sequence, and decides the homes of its values."""

from __future__ import annotations

from compiler.codegen.phase import Target
from compiler.codegen.slices.tensors import DdrTensor
from compiler.dialect.homes import WHOLE, Home
from compiler.lowering.record import LOWERINGS, AnyWork, ChainWork, Placement, SequenceWork, Work
from compiler.operators import OPERATORS

from .candidates import possible_shares
from .shares import divide
from .sliced import SLICES, division_of, exchanges_of
from .tile_share import Needed, Undividable, specified_share

_MOST_BITS = 32
"""Bits of the widest elements that loads and stores move."""


def can_be_sliced(work: AnyWork) -> bool:
    """True if a group can be a stage: engines compute it, from tensors that loads and stores can move."""
    if any(t is not None and t.fmt.bits > _MOST_BITS for t in (*work.operands, work.output)):
        return False
    if isinstance(work, ChainWork):
        return all(node.call is None or OPERATORS[node.op].needs is not None for node in work.nodes)
    entry = LOWERINGS[work.op]
    return (
        isinstance(work, Work)
        and entry.lower is not None
        and not entry.core_reads
        and not entry.updates  # new rows are written in the memory of the cache
        and not (entry.on_core is not None and (work.call is None or entry.on_core(work.call)))
        and (work.call is None or OPERATORS[work.op].needs is not None)
    )


def check_sliced(work: SequenceWork) -> None:
    """ValueError if tiles cannot share the values of a sequence in any way."""
    for share in possible_shares(work.output, max(work.output.shape, default=1)):
        try:
            divide(work, share.axis, share.count, gathering=True)
        except Undividable:
            continue
        return
    raise Undividable("the stages have no common division")


def sliced_placement(target: Target, work: SequenceWork) -> Placement:
    """The homes of intermediate values, and the all-gathers of those that all tiles need whole."""
    assert work.cut is not None
    division = division_of(work, work.cut)
    made = [(stage.work.output, stage.result) for stage in division.stages]
    kept = division.read
    homes = {output.symbol: _home(output, share) for output, share in made if output.symbol in kept}
    return Placement(homes, tuple(exchanges_of(division)))


def _home(tensor: DdrTensor, share: Needed) -> Home:
    if share is None:
        return Home((WHOLE,) * len(tensor.shape))
    axis, reach = specified_share(tensor, share).axis, share.reached(tensor.shape)
    axes = tuple(SLICES if at == axis else WHOLE for at in range(len(tensor.shape)))
    return Home(axes, reach.before, max(share.size - reach.before - reach.pitch, 0))
