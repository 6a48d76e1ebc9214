"""Growth: groups become one if a value that both need, or that one computes for the other, can stay on chip.

Values that other groups need are stored too, so the group has several results. Among all groups around a
value, those that save the most cycles are joined, repeatedly, until none saves any.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from xdsl.dialects.builtin import ModuleOp

from compiler.dialect.ops import ControlOperation, GroupOp, LoadConstOp, TensorOperation
from compiler.dialect.types import stored_bytes
from compiler.passes.base import Context, operations
from compiler.search import SearchResult

from .borders import Borders
from .dependences import RunOrder
from .layer_cost import LayerCost, RowPrices
from .sequences import Joint, Sequences, can_grow, move_to_first
from .views import state_edges, users_of

_MOST_AROUND = 6
"""Most groups around a value for which all pairs are tried."""

_UNKNOWN = 10**18
"""The gain of an unpriced joint, high enough that it is priced next."""

_Groups = tuple[GroupOp, ...]


def grown(context: Context, module: ModuleOp, sequences: Sequences) -> list[SearchResult]:
    """Let the groups of a module grow; returns the decisions for all groups made, intermediate ones too."""
    growth, made = _Growth(context, module, sequences), list[SearchResult]()
    while (best := growth.best()) is not None:
        found = list(operations(module))
        move_to_first(found, best.groups, sequences.make(best, grown=True))
        made.append(best.result)
    return made


class _Growth:
    """``gains`` has the savings of joints when they were last priced, which later joints may change."""

    def __init__(self, context: Context, module: ModuleOp, sequences: Sequences) -> None:
        self.context, self.module, self.sequences = context, module, sequences
        self.prices = RowPrices(context, sequences)
        self.known: dict[_Groups, Joint | None] = {}
        self.gains: dict[Joint, int] = {}
        self.most = len(sequences.by_key) + context.effort.grown

    def best(self) -> Joint | None:
        """The groups that save the most cycles as one, among the tried ones."""
        found = list(operations(self.module))
        possible = {each for each in found if isinstance(each, GroupOp) and can_grow(self.sequences, each)}
        candidates = self._candidates(found, possible)
        if not candidates:
            return None
        groups = [each for each in found if isinstance(each, GroupOp)]
        borders = Borders(self.context, groups, self.sequences.decided)
        cost = LayerCost(borders, self.prices)
        self._try(candidates, borders, cost)
        joints = [joint for each in candidates if (joint := self.known.get(each)) is not None]
        return self._best_of(joints, cost)

    def _best_of(self, joints: Sequence[Joint], cost: LayerCost) -> Joint | None:
        """The joint that saves most, if it saves any.

        Joints that saved most before are priced first, and others only if these now save less.
        """
        fresh = set[Joint]()
        while joints:
            best = max(joints, key=lambda joint: self.gains.get(joint, _UNKNOWN))
            asked = [best]
            if best in fresh:
                asked = [joint for joint in joints if joint not in fresh]
                if self.gains[best] or not asked:
                    return best if self.gains[best] else None
            self.gains |= {joint: cost.gain(joint) for joint in asked}
            fresh.update(asked)
        return None

    def _try(self, candidates: Mapping[_Groups, int], borders: Borders, cost: LayerCost) -> None:
        """Search for new candidates: first the ones that save layers, then the ones around large values."""
        new = [each for each in candidates if each not in self.known]
        new.sort(key=lambda each: (-cost.layers_saved(each), -candidates[each]))
        for each in new:
            more = len(self.sequences.by_key) < self.most
            self.known[each] = self.sequences.searched(each, borders, more)

    def _candidates(self, found: Sequence[TensorOperation], possible: set[GroupOp]) -> dict[_Groups, int]:
        """Groups that can be one, in their order, with the bytes of the value that they share.

        Groups between those around a value are included, unless control flow is also between them.
        """
        order, sizes = RunOrder(found, state_edges(found)), dict[_Groups, int]()
        for some, size in _around_values(found, possible):
            together = sorted({*some, *order.between(some)}, key=order.place.__getitem__)
            groups = tuple(each for each in together if isinstance(each, GroupOp))
            apart = any(isinstance(each, ControlOperation) for each in together)
            if not apart and possible.issuperset(groups) and self._is_short(groups):
                sizes[groups] = max(size, sizes.get(groups, 0))
        return sizes

    def _is_short(self, groups: Sequence[GroupOp]) -> bool:
        return sum(len(self.sequences.stages_of(each)) for each in groups) <= self.sequences.pattern.most


def _around_values(
    found: Sequence[TensorOperation], possible: set[GroupOp]
) -> Iterator[tuple[set[GroupOp], int]]:
    """The maker and the users of each value: all of these groups, and pairs; with the bytes of the value."""
    for operation in found:
        for value in operation.results if not isinstance(operation, LoadConstOp) else ():
            around = [
                each
                for each in dict.fromkeys((operation, *users_of(value)))
                if isinstance(each, GroupOp) and each in possible
            ]
            size = stored_bytes(value.type)
            if len(around) > 2:
                yield {*around}, size
            if len(around) <= _MOST_AROUND:
                yield from ((set(pair), size) for pair in combinations(around, 2))
