"""Cuts of a graph into stages of about equal time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from compiler.graph import Graph, GraphError, Node


def crossing(graph: Graph, at: int) -> list[str]:
    """The values that nodes before a cut compute and nodes after it read, and that are sent.

    Values that are not floats and follow from inputs alone, such as positions, are computed by each stage.
    """
    own = _of_inputs(graph)
    before = {name for node in graph.nodes[:at] for name in node.outputs if name and name not in own}
    after = dict.fromkeys(name for node in graph.nodes[at:] for name in node.inputs)
    return [name for name in after if name in before]


def stage_nodes(graph: Graph, begin: int, end: int) -> tuple[Node, ...]:
    """The nodes of a stage, and earlier nodes that it needs and that every stage computes for itself."""
    own, found = _of_inputs(graph), [*graph.nodes[begin:end]]
    needed = {name for node in found for name in node.inputs}
    for node in reversed(graph.nodes[:begin]):
        if own.issuperset(filter(None, node.outputs)) and not needed.isdisjoint(node.outputs):
            found.insert(0, node)
            needed.update(node.inputs)
    return tuple(found)


def _of_inputs(graph: Graph) -> set[str]:
    """Values that are not floats and follow from inputs and constants through other such values."""
    known = {*graph.constants, *(tensor.name for tensor in graph.inputs)}
    found: set[str] = set()
    for node in graph.nodes:
        results = [name for name in node.outputs if name]
        computed = (name for name in node.inputs if name and name not in known)
        if found.issuperset(computed) and not any(graph.tensors[name].is_float for name in results):
            found.update(results)
    return found


def stage_of_states(graph: Graph, cuts: Sequence[int]) -> dict[str, int]:
    """The stage that reads and writes each state; GraphError for a state that several stages need."""
    found = {}
    for past, (first, last) in _spans(graph).items():
        stages = [stage for stage, end in enumerate(cuts[1:]) if cuts[stage] <= first < end]
        found[past] = stages[0]
        if last >= cuts[stages[0] + 1]:
            what = f"state {past}={dict(graph.states)[past]} is used by {graph.nodes[first]}"
            other = f"{graph.nodes[last]}, which is of a later stage; expected one stage for each state"
            raise GraphError([f"pipeline stage {stages[0]}: {what} and by {other}"])
    return found


def _spans(graph: Graph) -> dict[str, tuple[int, int]]:
    """For each state: the first and the last node that reads or computes it."""
    found = {}
    for past, present in graph.states:
        places = [n for n, node in enumerate(graph.nodes) if past in node.inputs or present in node.outputs]
        if places:
            found[past] = places[0], places[-1]
    return found


def node_prices(graph: Graph, phases: Mapping[str, float]) -> dict[str, float]:
    """Cycles of nodes, from the cycles of phases, whose names begin with a node's name."""
    found = dict.fromkeys((node.name for node in graph.nodes), 0.0)
    for phase, cycles in phases.items():
        owner = max((name for name in found if phase.startswith(name)), key=len, default="")
        if owner:
            found[owner] += cycles
    return found


def balanced_cuts(
    graph: Graph,
    prices: Mapping[str, float],
    bytes_price: float,
    stages: int,
    owners: Mapping[str, int] | None = None,
    background: bool = True,
) -> list[int]:
    """The first node of each stage, and the end, such that the longest stage is as short as possible.

    ``prices`` are cycles by the names of nodes. ``bytes_price`` is the price of an element that a stage
    sends. ``owners`` are the stages that have some states. No state is of two stages. In the ``background`` a
    stage receives and sends while it computes; otherwise transfers take time of the stage. GraphError for a
    graph that cannot be cut into as many stages.
    """
    costs = [prices.get(node.name, 0.0) for node in graph.nodes]
    places, fits = _places(graph), _Fits(_spans(graph), owners or {})
    sends = {at: bytes_price * sum(graph.tensors[name].size for name in crossing(graph, at)) for at in places}
    sums = [0.0, *accumulate(costs)]

    def cycles(begin: int, end: int) -> float:
        computed, *sent = sums[end] - sums[begin], sends.get(begin, 0.0), sends.get(end, 0.0)
        return max(computed, *sent) if background else computed + sum(sent)

    # best[end]: the longest stage up to there, the elements sent between stages, and the stages' begins
    best: dict[int, tuple[float, float, list[int]]] = {0: (0.0, 0.0, [])}
    for number in range(1, stages + 1):
        ends: Sequence[int] = places if number < stages else [len(costs)]
        best = {
            end: min(
                (max(longest, cycles(begin, end)), sent + sends.get(begin, 0.0), [*cuts, begin])
                for begin, (longest, sent, cuts) in best.items()
                if fits(number - 1, begin, end)
            )
            for end in ends
            if any(fits(number - 1, begin, end) for begin in best)
        }
    if len(costs) not in best:
        raise GraphError([f"pp={stages}: {_too_few(graph, len(places) + 1, stages)}"])
    return [*best[len(costs)][-1], len(costs)]


def _places(graph: Graph) -> list[int]:
    """Places where a stage can begin: only floats are sent there, and no state is used on both sides."""
    kept = {at for first, last in _spans(graph).values() for at in range(first + 1, last + 1)}
    return [at for at in range(1, len(graph.nodes)) if at not in kept and _floats(graph, at)]


@dataclass(frozen=True)
class _Fits:
    """Tells if a stage may have the nodes from one to before another, by the states that it owns."""

    spans: Mapping[str, tuple[int, int]]
    owners: Mapping[str, int]

    def __call__(self, stage: int, begin: int, end: int) -> bool:
        each = [
            (past, begin <= first < end) for past, (first, _) in self.spans.items() if past in self.owners
        ]
        return begin < end and all((self.owners[past] == stage) == has for past, has in each)


def _too_few(graph: Graph, places: int, stages: int) -> str:
    """The reason why a graph cannot be cut into as many stages."""
    if places < stages:
        return f"graph '{graph.name}' has only {places} places for a stage to begin"
    return "no stages have the states that those of another entry have; give the layers one order"


def _floats(graph: Graph, at: int) -> bool:
    """True if at least one value crosses a cut, and all that do are floats, which chips can send."""
    values = [graph.tensors[name] for name in crossing(graph, at)]
    return bool(values) and all(value.is_float for value in values)


def in_stages(graph: Graph, stages: Mapping[str, int]) -> Graph:
    """The graph with its nodes sorted by stages.

    ``stages`` are the stages of some nodes, by name; another node is in the stage of the last of its
    operands. GraphError for a node that needs something of a later stage.
    """
    found = _all_stages(graph, stages)
    return replace(graph, nodes=tuple(sorted(graph.nodes, key=lambda node: found[node.name])))


def stage_cuts(graph: Graph, stages: Mapping[str, int]) -> list[int]:
    """The first node of each stage, and the end, of a graph that is ``in_stages``.

    GraphError for a stage from which nothing can be sent to the next one.
    """
    found = [*_all_stages(graph, stages).values()]
    missing = next((stage for stage in range(max(stages.values())) if stage not in found), None)
    if missing is not None:
        raise GraphError(
            [f"pipeline stage {missing} of the model: all its nodes are computed when compiling"]
        )
    cuts = [*(found.index(stage) for stage in range(max(found) + 1)), len(found)]
    for stage, at in enumerate(cuts[1:-1]):
        if not _floats(graph, at):
            sent = [name for name in crossing(graph, at) if not graph.tensors[name].is_float]
            what = f"would send '{sent[0]}', {graph.tensors[sent[0]].dtype}," if sent else "sends nothing"
            text = f"{what} to stage {stage + 1}; expected floats from each stage to the next one"
            raise GraphError([f"pipeline stage {stage} of the model {text}"])
    return cuts


def _all_stages(graph: Graph, stages: Mapping[str, int]) -> dict[str, int]:
    """The stage of each node, in the order of the nodes."""
    makers = {name: node for node in graph.nodes for name in node.outputs if name}
    found: dict[str, int] = {}
    for node in graph.nodes:
        sources = [makers[name] for name in node.inputs if name in makers]
        last = max(sources, key=lambda source: found[source.name], default=None)
        least = 0 if last is None else found[last.name]
        stage = found[node.name] = stages.get(node.name, least)
        if last is not None and stage < least:
            text = f"needs a result of {last}, which is of stage {least}; expected {least} or more"
            raise GraphError([f"{node} is of pipeline stage {stage} and {text}"])
    return found
