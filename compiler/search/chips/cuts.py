"""Where a graph is cut into stages that take about as long as each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from compiler.graph import Graph, GraphError


def crossing(graph: Graph, at: int) -> list[str]:
    """The values that nodes before a cut compute and nodes after it read."""
    before = {name for node in graph.nodes[:at] for name in node.outputs if name}
    after = dict.fromkeys(name for node in graph.nodes[at:] for name in node.inputs)
    return [name for name in after if name in before]


def node_prices(graph: Graph, phases: Mapping[str, float]) -> dict[str, float]:
    """Cycles of nodes from those of phases, whose names begin with that of a node."""
    found = dict.fromkeys((node.name for node in graph.nodes), 0.0)
    for phase, cycles in phases.items():
        owner = max((name for name in found if phase.startswith(name)), key=len, default="")
        if owner:
            found[owner] += cycles
    return found


def balanced_cuts(graph: Graph, prices: Mapping[str, float], bytes_price: float, stages: int) -> list[int]:
    """The first node of each stage, and the end: the longest stage is as short as can be.

    ``prices`` are cycles by the names of nodes, ``bytes_price`` those of an element that a stage sends.
    GraphError for a graph that has not so many stages.
    """
    costs = [prices.get(node.name, 0.0) for node in graph.nodes]
    places = [at for at in range(1, len(costs)) if _floats(graph, at)]
    sends = {at: bytes_price * sum(graph.tensors[name].size for name in crossing(graph, at)) for at in places}
    sums = [0.0]
    for cost in costs:
        sums.append(sums[-1] + cost)
    # best[end]: the longest stage of those up to there, and where they begin
    best: dict[int, tuple[float, list[int]]] = {0: (0.0, [])}
    for number in range(1, stages + 1):
        ends: Sequence[int] = places if number < stages else [len(costs)]
        best = {
            end: min(
                (
                    max(longest, sums[end] - sums[begin] + sends.get(begin, 0.0) + sends.get(end, 0.0)),
                    [*cuts, begin],
                )
                for begin, (longest, cuts) in best.items()
                if begin < end
            )
            for end in ends
            if any(begin < end for begin in best)
        }
    if len(costs) not in best:
        raise GraphError(
            [f"pp={stages}: graph '{graph.name}' has only {len(places) + 1} places for a stage to begin"]
        )
    return [*best[len(costs)][1], len(costs)]


def _floats(graph: Graph, at: int) -> bool:
    """Whether all that crosses a cut are floats, which chips send, and there is something."""
    values = [graph.tensors[name] for name in crossing(graph, at)]
    return bool(values) and all(value.is_float for value in values)


def in_stages(graph: Graph, stages: Mapping[str, int]) -> Graph:
    """The graph with the nodes of each stage after those of the one before.

    ``stages`` are those of some nodes, by name; another one is in the stage of the last of its operands.
    GraphError for a node that needs something of a later stage.
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
