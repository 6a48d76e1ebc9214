"""Compares formats of a whole network, and choices for its nodes, by their loss and their expected cycles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from compiler.evaluation.reference import quantises
from compiler.graph import Graph, GraphError
from compiler.operators import OPERATORS
from compiler.quantise.cycles import CyclesOf
from compiler.quantise.formats import (
    FLOAT,
    ComparedFormats,
    Decision,
    DecisionTable,
    SavedFormats,
    check_nodes,
    saved_formats,
)
from compiler.quantise.metric import Metric, Outputs
from compiler.quantise.mixed import FormatSearch
from compiler.quantise.places import Places
from compiler.quantise.quantise import Goal, Quantised, quantise
from compiler.quantise.ranges.calibration import Settings
from compiler.quantise.ranges.observation import Progress, silent
from compiler.quantise.ranges.samples import Samples

from .float_network import FloatNetwork, rewritten

HALVES = ("fp16", "bf16")
WHOLES = ("tf32", "fp32")
"""The float formats of four bytes, the cheaper one first."""
DEFAULT_LOSS = 0.001
"""The default limit: the share of the cosine that may be lost."""

CyclesIn = Callable[[str], CyclesOf]
"""Returns, for a format of floats, the function that compiles a graph and gives the cycles of its phases."""


@dataclass(frozen=True)
class Allowed:
    """The limits of a choice of formats, and the samples that it is judged by.

    ``calibrated``: True if the samples are the user's data, so bytes may be chosen too; ``settings``: how to
    quantise. ``origin``: a description of the samples, for the table.
    """

    goal: Goal
    settings: Settings
    calibrated: bool = True
    origin: str = ""

    @property
    def limit(self) -> float:
        """The limit of the loss."""
        return DEFAULT_LOSS if self.goal.max_loss is None else self.goal.max_loss


@dataclass(frozen=True)
class _Choice:
    """A choice within the limit, before or after it was compiled."""

    made: Quantised
    trial: ComparedFormats


def automatic(
    graph: Graph, samples: Samples, allowed: Allowed, cycles: CyclesIn, progress: Progress = silent
) -> Quantised:
    """Choose the formats that the compiler expects to be fastest among those within the limit.

    GraphError for a network that no format computes within the limit, a file of formats that does not fit,
    and a metric that fails.
    """
    if allowed.goal.formats is not None:
        return _from_file(graph, samples, allowed, cycles, progress)
    compared = _Comparison(graph, samples, allowed, cycles, progress)
    compared.floats()
    if allowed.calibrated:
        compared.bytes()
    return compared.best()


class _Comparison:
    """The trials so far, within the limit and beyond it."""

    def __init__(
        self, graph: Graph, samples: Samples, allowed: Allowed, cycles: CyclesIn, progress: Progress
    ) -> None:
        self._graph, self._samples, self._allowed = graph, samples, allowed
        self._cycles, self._progress = cycles, progress
        self._source = rewritten(graph)
        self._metric = allowed.goal.metric or Metric()
        self._within: list[_Choice] = []
        self._beyond: list[ComparedFormats] = []
        self._expected: Outputs | None = None

    def floats(self) -> None:
        """Try formats of two bytes; if nodes must be in FP32 with them, also formats of four bytes."""
        halves = [self._network(dtype) for dtype in HALVES]
        for network, loss in sorted(halves, key=lambda found: found[1]):
            self._whole(network, loss)
        if not self._within:
            network, _ = min(halves, key=lambda found: found[1])
            formats, losses = self._search(network).within(self._allowed.limit)
            self._add(network, formats, losses)
        if all(choice.trial.aside for choice in self._within):
            for dtype in WHOLES:
                self._whole(*self._network(dtype))

    def bytes(self) -> None:
        """Try bytes; do nothing if no product can compute with them, or if every product exceeds the
        limit."""
        known = Places(self._source).candidates.values()
        if quantises(self._graph) or not any(OPERATORS[node.op].product for node in known):
            return
        goal = replace(self._allowed.goal, max_loss=self._allowed.limit)
        settings, compiled = self._allowed.settings, self._cycles(FLOAT)
        made = quantise(self._graph, self._samples, settings, goal, self._progress, compiled)
        held = self._network(FLOAT)[0].held.nodes
        made = replace(made, graph=replace(made.graph, precise=made.graph.precise | held))
        table = made.table
        aside = sum(decision.format != "int8" for decision in table.decisions)
        if aside == len(table.decisions):
            return
        loss = 0.0 if table.loss is None else table.loss
        self._compiled(made, ComparedFormats(f"int8 and {FLOAT}", aside, loss))

    def best(self) -> Quantised:
        """Return the fastest choice, with all trials in its table."""
        if not self._within:
            best = min(self._beyond, key=lambda trial: trial.loss)
            found = f"{best.name} loses least, {best.loss:.4%} of {self._metric.name}"
            raise GraphError([f"no format keeps --max-loss {self._allowed.limit:.4%}: {found}"])
        order = sorted(self._within, key=_expected)
        trials = (*(choice.trial for choice in order), *self._beyond)
        chosen = order[0].made
        table = replace(chosen.table, trials=trials, origin=self._allowed.origin)
        return replace(chosen, table=table)

    # --- trials -----------------------------------------------------------------------------------------

    def _network(self, dtype: str) -> tuple[FloatNetwork, float]:
        """Return the network in a format, and its loss."""
        network = FloatNetwork(self._source, self._samples, dtype, self._progress)
        return network, self._search(network).loss(dict.fromkeys(network.candidates, dtype))

    def _search(self, network: FloatNetwork) -> FormatSearch:
        network.expected = self._expected
        search = FormatSearch(network, self._metric, self._progress)
        self._expected = search.expected
        return search

    def _whole(self, network: FloatNetwork, loss: float) -> None:
        """Try one format for all nodes; a format beyond the limit is only recorded."""
        dtype = network.narrow
        if loss > self._allowed.limit:
            self._beyond.append(ComparedFormats(dtype, len(network.held.values), loss))
            return
        self._add(network, dict.fromkeys(network.candidates, dtype), {}, loss)

    def _add(
        self,
        network: FloatNetwork,
        formats: Mapping[str, str],
        losses: Mapping[str, float],
        loss: float | None = None,
    ) -> None:
        """Add a choice of floats, which is within the limit."""
        loss = self._search(network).loss(formats) if loss is None else loss
        made = _made(self._graph, network, formats, losses, self._metric.name, loss)
        aside = sum(decision.format != network.narrow for decision in made.table.decisions)
        name = network.narrow + (" and fp32" if aside else "")
        self._compiled(made, ComparedFormats(name, aside, loss))

    def _compiled(self, made: Quantised, trial: ComparedFormats) -> None:
        """Compile a choice; fp16 and bf16 without exceptions cost the same."""
        same = next((other for other in self._within if _alike(trial, other.trial)), None)
        if same is not None:
            cycles = same.trial.cycles
        else:
            self._progress(f"cycles in {trial.name}", 0, 1)
            cycles = sum(phase.cycles for phase in self._cycles(made.dtype)(made.graph))
        self._within.append(_Choice(made, replace(trial, cycles=cycles)))


def _alike(trial: ComparedFormats, other: ComparedFormats) -> bool:
    names = {trial.name, other.name}
    return not trial.aside and not other.aside and names == set(HALVES)


def _expected(choice: _Choice) -> tuple[int, float]:
    return choice.trial.cycles or 0, choice.trial.loss


def _made(
    graph: Graph,
    network: FloatNetwork,
    formats: Mapping[str, str],
    losses: Mapping[str, float],
    metric: str,
    loss: float | None,
) -> Quantised:
    """Return the graph and table of a float format; nodes around values that it cannot hold are in FP32."""
    whole = {node.name: node for node in network.source.nodes}
    found = dict.fromkeys((name for name in whole if name in network.held.nodes), network.wide) | dict(
        formats
    )
    decisions = tuple(
        Decision(name, node.op, found[name], losses.get(name))
        for name, node in whole.items()
        if name in found
    )
    table = DecisionTable(
        graph.name, decisions, "", metric, loss, narrow=network.narrow, dtype=network.narrow
    )
    return Quantised(network.of(graph, formats), table, network.narrow)


# --- files ----------------------------------------------------------------------------------------------


def _from_file(
    graph: Graph, samples: Samples, allowed: Allowed, cycles: CyclesIn, progress: Progress
) -> Quantised:
    """Use the formats of a file, with bytes or with floats only."""
    assert allowed.goal.formats is not None
    saved = saved_formats(allowed.goal.formats)
    if any(decision.format == "int8" for decision in saved.nodes.values()):
        if not allowed.calibrated:
            wanted = "samples of the inputs: --calibrate FILE.npz"
            raise GraphError([f"{allowed.goal.formats}: nodes in int8 need {wanted}"])
        return quantise(graph, samples, allowed.settings, allowed.goal, progress, cycles(FLOAT))
    network = FloatNetwork(rewritten(graph), samples, _checked(saved, allowed, graph), progress)
    formats = {name: decision.format for name, decision in saved.nodes.items()}
    metric = allowed.goal.metric or Metric()
    loss = FormatSearch(network, metric, progress).loss(formats)
    if allowed.goal.max_loss is not None and loss > allowed.goal.max_loss:
        found = f"{loss:.3%} is lost with them; at most {allowed.goal.max_loss:.3%} is allowed"
        raise GraphError(
            [f"{allowed.goal.formats}: {found}: keep more nodes in fp32, or leave out --formats"]
        )
    return _made(graph, network, formats, {}, metric.name, loss)


def _checked(saved: SavedFormats, allowed: Allowed, graph: Graph) -> str:
    """Return the format of the floats of a file; GraphError unless the file fits the graph."""
    path = allowed.goal.formats
    assert path is not None
    known = (*HALVES, *WHOLES)
    if saved.dtype not in known:
        raise GraphError([f"{path}: floats in '{saved.dtype}'; allowed are {', '.join(known)}"])
    formats = {name: decision.format for name, decision in saved.nodes.items()}
    check_nodes(path, saved.graph, formats, rewritten(graph), dict.fromkeys((saved.dtype, "fp32")))
    return saved.dtype
