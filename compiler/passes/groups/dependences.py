"""Which operations wait for which: orders of a block in which every value is made before it is used."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Mapping, Sequence

from compiler.dialect.ops import TensorOperation

Edges = Mapping[TensorOperation, set[TensorOperation]]
"""For each operation those that must come before it besides the ones whose results it reads."""


def in_order(found: Sequence[TensorOperation], before: Edges) -> list[TensorOperation] | None:
    """The operations with those before them that ``before`` names, otherwise in their order; None if they
    wait for each other."""
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
