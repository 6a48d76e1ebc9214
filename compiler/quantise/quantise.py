"""Quantises a float network: the decisions, and the graph that follows from them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from compiler.evaluation.judgement import FloatModel
from compiler.evaluation.remarks import WideValues
from compiler.graph import Graph, GraphError

from .cycles import CyclesOf, cycles_won
from .formats import FLOAT, Decision, DecisionTable, read_formats
from .metric import Metric
from .mixed import FormatSearch
from .quantiser import Quantiser
from .ranges.calibration import Settings
from .ranges.observation import Progress, silent
from .ranges.samples import Samples


@dataclass(frozen=True)
class Goal:
    """The rule by which nodes get their formats.

    ``max_loss``: the share of ``metric`` that may be lost; a search then keeps as few nodes in float as
    possible. ``formats``: a file with the format of each node, which replaces the search.
    """

    max_loss: float | None = None
    metric: Metric | None = None
    formats: Path | None = None


@dataclass(frozen=True)
class Quantised:
    """A graph with formats for its nodes, and the decisions that made it; its floats are in ``dtype``.

    ``source``: the graph before, if some of its nodes compute with bytes.
    """

    graph: Graph
    table: DecisionTable
    dtype: str = FLOAT
    source: FloatModel | None = None

    @property
    def chosen(self) -> Chosen:
        """The graph to compile, with its decisions."""
        return Chosen(self.graph, self.dtype, self.table, source=self.source)


@dataclass(frozen=True)
class Chosen:
    """A graph whose floats are in ``dtype``, and the decisions about it.

    ``table`` has the decisions, if nodes could be in several formats. ``wide`` has the values of the samples
    that one format of floats cannot hold. ``source`` is the float network that was quantised.
    """

    graph: Graph
    dtype: str | None
    table: DecisionTable | None = None
    wide: WideValues | None = None
    source: FloatModel | None = None


def quantise(
    graph: Graph,
    samples: Samples,
    settings: Settings,
    goal: Goal,
    progress: Progress = silent,
    cycles: CyclesOf | None = None,
) -> Quantised:
    """Quantise a float graph; ``cycles`` gives the expected cycles of a graph by phase, for the table.

    GraphError for a graph that cannot be quantised, for a file of formats that does not fit it or loses more
    than is allowed, and for a metric that fails.
    """
    quantiser = Quantiser(graph, samples, settings, progress)
    chosen, sensitivities, loss = _chosen(quantiser, goal, progress)
    won = cycles_won(quantiser, cycles) if cycles is not None else {}
    decisions = tuple(
        Decision(name, quantiser.places.node(name).op, found, sensitivities.get(name), won.get(name))
        for name, found in chosen.items()
    )
    metric = (goal.metric or Metric()).name
    table = DecisionTable(graph.name, decisions, quantiser.others(chosen), metric, loss)
    allowed = goal.max_loss if goal.metric is None else None
    ranges = {name: (float(array.min()), float(array.max())) for name, array in samples.arrays.items()}
    return Quantised(quantiser.graph(chosen), table, source=FloatModel(graph, allowed, ranges))


def _chosen(
    quantiser: Quantiser, goal: Goal, progress: Progress
) -> tuple[dict[str, str], dict[str, float], float | None]:
    """Return formats by node, the known sensitivities, and the loss if the goal asks for it."""
    chosen = dict.fromkeys(quantiser.places.candidates, "int8")
    sensitivities: dict[str, float] = {}
    if goal.formats is not None:
        chosen = read_formats(goal.formats, quantiser.places)
    if goal.max_loss is None and goal.metric is None:
        return chosen, {}, None
    search = FormatSearch(quantiser, goal.metric or Metric(), progress)
    if goal.max_loss is not None and goal.formats is None:
        chosen, sensitivities = search.within(goal.max_loss)
    loss = search.loss(chosen)
    if goal.max_loss is not None and loss > goal.max_loss:
        found = f"{loss:.3%} is lost with them; at most {goal.max_loss:.3%} is allowed"
        raise GraphError([f"{goal.formats}: {found}: keep more nodes in fp16, or leave out --formats"])
    return chosen, sensitivities, loss
