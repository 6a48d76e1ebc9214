"""Dependences between operations, and orders of a block that respect them."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from xdsl.ir import Operation

from compiler.dialect.ops import TensorOperation

Edges = Mapping[TensorOperation, set[TensorOperation]]
"""For each operation, further operations that must come before it, in addition to its operands' producers."""


class RunOrder:
    """Operations in an order where each comes after all that it waits for.

    The edges ``before`` are ignored if they would make a cycle.
    """

    def __init__(self, found: Sequence[TensorOperation], before: Edges) -> None:
        ordered = in_order(found, before)
        self.before: Edges = defaultdict(set) if ordered is None else before
        self.operations = found if ordered is None else ordered
        self.place = {operation: at for at, operation in enumerate(self.operations)}

    def between(self, some: Collection[TensorOperation]) -> set[TensorOperation]:
        """The operations on paths between ``some``: each waits for one of these, and one of these for it."""
        places = [self.place[each] for each in some]
        inner = self.operations[min(places) + 1 : max(places)]
        behind, ahead = set[Operation](some), set[Operation]()
        for operation in inner:
            if not behind.isdisjoint(self._awaited(operation)):
                behind.add(operation)
        for operation in reversed([*inner, self.operations[max(places)]]):
            if operation in ahead or operation in some:
                ahead |= self._awaited(operation)
        return {operation for operation in inner if operation in ahead and operation in behind} - set(some)

    def _awaited(self, operation: TensorOperation) -> set[Operation]:
        makers = {value.owner for value in operation.operands}
        return {each for each in makers if isinstance(each, Operation)} | self.before[operation]


def in_order(found: Sequence[TensorOperation], before: Edges) -> list[TensorOperation] | None:
    """The operations sorted by dependences and the edges ``before``, otherwise in their order; None for a
    cycle.
    """
    place = {operation: at for at, operation in enumerate(found)}
    after: dict[TensorOperation, list[TensorOperation]] = defaultdict(list)
    waits = dict.fromkeys(found, 0)
    for operation in found:
        makers = {value.owner for value in operation.operands}
        for other in [*(each for each in makers if isinstance(each, TensorOperation)), *before[operation]]:
            after[other].append(operation)
            waits[operation] += 1
    ready = [place[operation] for operation, count in waits.items() if not count]
    heapq.heapify(ready)
    ordered: list[TensorOperation] = []
    while ready:
        ordered.append(found[heapq.heappop(ready)])
        for operation in after[ordered[-1]]:
            waits[operation] -= 1
            if not waits[operation]:
                heapq.heappush(ready, place[operation])
    return ordered if len(ordered) == len(found) else None
