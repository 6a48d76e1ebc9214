"""Searches the fewest nodes to keep in a wider format so that the loss is within a limit."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from compiler.evaluation.host_run import HostRun, dependents, multiplications
from compiler.graph import Array, Graph, Node

from .metric import Metric, Outputs, distance, joined
from .ranges.observation import Progress
from .ranges.samples import Samples

_SENSITIVITY_SAMPLES = 4
"""Number of samples for sensitivities, which only order the nodes for trials."""
_SENSITIVITY_WORK, _CHOICE_WORK = 300_000_000_000, 17_000_000_000
"""Multiplications for all sensitivities, half a run each, and for one tried choice.

So large networks run fewer samples here. The final choice is run on all samples.
"""
_STEPS_BACK = 20
"""If all samples lose too much, one of this many nodes goes back to float at once."""
_MOST_RETURNS = 8
"""The most nodes in the wide format that are tried again in the narrow one once the limit is met."""


class Choosable(Protocol):
    """A network whose nodes can each be in a narrow format; a search decides which."""

    source: Graph
    """The network in binary32."""
    samples: Samples
    narrow: str
    wide: str

    @property
    def expected(self) -> Outputs | None:
        """Return the outputs in binary32, if they are known."""
        ...

    @property
    def candidates(self) -> Mapping[str, Node]:
        """The nodes, by name, that are in the narrow or in the wide format."""
        ...

    def run_of(self, formats: Mapping[str, str]) -> HostRun:
        """Return the runner of the network with some formats; nodes without one are in the wide format."""
        ...


class FormatSearch:
    """Compares choices of formats with the float network, on the samples."""

    def __init__(self, network: Choosable, metric: Metric, progress: Progress) -> None:
        self._network, self._metric, self._progress = network, metric, progress
        self._count = network.samples.count
        self.expected = network.expected or self._outputs(
            HostRun(network.source), self._count, "float network"
        )
        self._losses: dict[tuple[frozenset[str], int], float] = {}
        work = max(multiplications(network.source), 1)
        runs = max(_SENSITIVITY_WORK * 2 // (work * max(len(network.candidates), 1)), 1)
        self._tried_first = min(self._count, _SENSITIVITY_SAMPLES, runs)
        self._tried = self._count if self._metric.function else min(self._count, max(_CHOICE_WORK // work, 1))

    def loss(self, formats: Mapping[str, str], count: int | None = None) -> float:
        """Return the loss with some formats on the first samples, or on all, as the metric defines it."""
        count = self._count if count is None else count
        key = frozenset(f"{name} {found}" for name, found in formats.items()), count
        if key not in self._losses:
            found = self._outputs(self._network.run_of(formats), count, "loss of a choice")
            expected = {name: array[:count] for name, array in self.expected.items()}
            self._losses[key] = self._metric.loss(expected, found)
        return self._losses[key]

    def within(self, limit: float) -> tuple[dict[str, str], dict[str, float]]:
        """Return formats whose loss is at most ``limit``, 0 or more, and the sensitivities of the nodes."""
        losses = self.sensitivities()
        order = sorted(losses, key=lambda name: (-losses[name], name))
        low, high = 0, len(order)  # number of the most sensitive nodes in the wide format; 0 is tried first
        middle = 0
        while low < high:
            if self._loss_of(order[:middle]) <= limit:
                high = middle
            else:
                low = middle + 1
            middle = (low + high) // 2
        kept = self._returned(order[:high], limit)
        others = [name for name in order if name not in kept]
        while others and self.loss(self._formats(kept)) > limit:  # few samples were tried of a large network
            more = max(len(order) // _STEPS_BACK, 1)
            kept, others = kept + others[:more], others[more:]
        return self._formats(kept), losses

    def _returned(self, kept: list[str], limit: float) -> list[str]:
        """Return the nodes that have to stay in float; some of the least sensitive ones may be released
        later."""
        for name in kept[::-1][:_MOST_RETURNS]:
            fewer = [other for other in kept if other != name]
            if self._loss_of(fewer) <= limit:
                kept = fewer
        return kept

    def _loss_of(self, kept: Collection[str]) -> float:
        return self.loss(self._formats(kept), self._tried)

    def _formats(self, kept: Collection[str]) -> dict[str, str]:
        """Return the narrow format for all nodes except ``kept``."""
        narrow, wide = self._network.narrow, self._network.wide
        return {name: wide if name in kept else narrow for name in self._network.candidates}

    def sensitivities(self) -> dict[str, float]:
        """Return, for each node, the cosine that outputs lose when only that node is in the narrow format.

        Values that do not depend on the node are taken from the float network.
        """
        few = self._network.samples.first(self._tried_first)
        source, names = self._network.source, list(self._network.candidates)
        runs = {name: self._network.run_of({name: self._network.narrow}) for name in names}
        depending = {
            name: dependents(source, node.outputs) for name, node in self._network.candidates.items()
        }
        found: dict[str, list[dict[str, Array]]] = {name: [] for name in names}
        plain = HostRun(source)
        for at, inputs in enumerate(few):
            values: dict[str, Array] = {}
            plain.run(inputs, seen=values.__setitem__)
            for place, name in enumerate(names):
                self._progress("sensitivity of nodes", at * len(names) + place, few.count * len(names))
                known = {key: array for key, array in values.items() if key not in depending[name]}
                found[name].append(runs[name].run(inputs, known=known))
        expected = {name: array[: few.count] for name, array in self.expected.items()}
        return {name: distance(expected, joined(found[name])) for name in names}

    def _outputs(self, run: HostRun, count: int, what: str) -> Outputs:
        found, samples = [], self._network.samples.first(count)
        for at, inputs in enumerate(samples):
            self._progress(what, at, samples.count)
            found.append(run.run(inputs))
        return joined(found)
