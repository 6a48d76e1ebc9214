"""Kinds of sequences: groups that run one after another in one phase, with intermediate values in the SPM."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from compiler.codegen.phase import Target
from compiler.lowering.pointwise.chain import CASTS
from compiler.lowering.pointwise.record import POINTWISE
from compiler.lowering.pools.pooled import begins_pooled, can_be_pooled, check_pooled, pooled_placement
from compiler.lowering.record import AnyWork, Placement, SequenceWork
from compiler.lowering.sharded.placement import sharded_placement
from compiler.lowering.sharded.reading import begins_layer, can_be_sharded, layers_of
from compiler.lowering.sliced.placement import can_be_sliced, check_sliced, sliced_placement
from compiler.lowering.stack.placement import stack_placement
from compiler.lowering.stack.stages import begins_stage, can_be_stage, stages_of

ANY = "*"
"""Stands for every operator."""


@dataclass(frozen=True)
class SequenceKind:
    """A kind of sequence: how its groups become one phase.

    ``table``: name of the table that allows them in a set of patterns. ``lowering`` is the operator whose
    lowering computes the whole sequence. ``begins`` is True for operators that begin a group. Without it any
    operator may begin one, and a sequence records where its stages begin. ``takes`` is True if a group can be
    in a sequence. ``check`` raises ValueError for an impossible sequence. ``place`` returns the homes of the
    values of a sequence with a cut. ``longest``: among sequences that end with the same group, or inside one
    that saves time, only the longest is tried. ``several``: True if other groups may need intermediate
    values of a sequence, which it stores. ``grows``: True if groups become a sequence of this kind by growth
    around a value (``groups.growth``), with such values too.
    """

    table: str
    lowering: str
    begins: Callable[[str], bool] | None
    takes: Callable[[AnyWork], bool]
    check: Callable[[SequenceWork], object]
    place: Callable[[Target, SequenceWork], Placement]
    longest: bool = False
    several: bool = False
    grows: bool = False


STACKS = SequenceKind("stack", "Stack", begins_stage, can_be_stage, stages_of, stack_placement)
SHARDS = SequenceKind(
    "sharded",
    "Sharded",
    begins_layer,
    can_be_sharded,
    layers_of,
    sharded_placement,
    longest=True,
    several=True,
)
POOLED_CONVOLUTIONS = SequenceKind(
    "pooled", "Pooled", begins_pooled, can_be_pooled, check_pooled, pooled_placement
)
SLICES = SequenceKind("sliced", "Sliced", None, can_be_sliced, check_sliced, sliced_placement, grows=True)
KINDS = (STACKS, SHARDS, POOLED_CONVOLUTIONS, SLICES)


def kind_of(operators: Sequence[str]) -> SequenceKind | None:
    """The kind of sequence of a group with these members; None if it is no sequence.

    Its first member begins a stage, and so does at least one more. Pointwise operators and casts without an
    anchor are a chain.
    """
    if all(operator in POINTWISE or operator in CASTS for operator in operators):
        return None
    for kind in KINDS:
        begins = [kind.begins is not None and kind.begins(operator) for operator in operators]
        if begins[0] and sum(begins) > 1:
            return kind
    return None
