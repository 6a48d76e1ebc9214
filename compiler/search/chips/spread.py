"""Data and tensor parallelism: a graph as what each chip computes, with the exchanges between chips."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from compiler.codegen import DEFAULT_TILES
from compiler.graph import Array, Graph, GraphError
from compiler.operators.domains.chips.collectives import PART
from compiler.operators.reductions.found import sized_outputs
from tx8isa.machine.description import Machine

from .attempt import Attempt, Choices
from .degrees import Degrees, places_in
from .honoured import HonouredAttempt
from .products import ChipGroups
from .rules import ChipParts, DividedAxis, NeedsWhole, StateToDivide, divided
from .splits import with_split_products
from .stage import ChipDivision
from .written import Wish, arrangement, wishes_of


@dataclass(frozen=True)
class SpreadGraph:
    """A graph on several chips. ``batch`` deals the batch, ``tensor`` the products; None: degree 1."""

    graph: Graph
    degrees: Degrees
    places: tuple[tuple[int, int], ...]
    """By chip: its place in the batch, and in the ring of its group."""
    batch: ChipDivision | None
    tensor: ChipDivision | None
    split: Graph
    """The graph as it is divided."""

    @cached_property
    def parts(self) -> dict[tuple[int, int], tuple[int, ...]]:
        """The chips that have the same constants, by the place of one of them."""
        found: dict[tuple[int, int], list[int]] = {}
        for chip, (batch, ring) in enumerate(self.places):
            one = batch if self.batch is not None and not self.batch.alike else 0
            two = ring if self.tensor is not None and not self.tensor.alike else 0
            found.setdefault((one, two), []).append(chip)
        return {place: tuple(chips) for place, chips in found.items()}

    def graph_of(self, place: tuple[int, int]) -> Graph:
        """What chips with a place compute."""
        local = self.split if self.batch is None else self.batch.graph_of(self.split, place[0])
        return local if self.tensor is None else self.tensor.graph_of(local, place[1])

    @property
    def divisions(self) -> list[tuple[ChipParts, int]]:
        """How values are divided, and which number of a place says the part; the batch comes first."""
        both = (self.batch, self.tensor)
        return [(each.parts, number) for number, each in enumerate(both) if each is not None]

    def ways_of(self, name: str) -> list[tuple[ChipParts, DividedAxis]]:
        """How an input or output is divided, by the batch and then by the products."""
        return [(parts, way) for parts, _ in self.divisions if (way := parts.division(name)) is not None]

    def dealt(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Inputs of the whole graph by the names that they have on the chips."""
        return {name: np.ascontiguousarray(view) for name, view in self.views(inputs).items()}

    def views(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """The parts of inputs and outputs that chips have, as views of the arrays."""
        return {
            f"chip{chip}.{name}": self._part(name, array, place)
            for chip, place in enumerate(self.places)
            for name, array in arrays.items()
        }

    def _part(self, name: str, array: Array, place: tuple[int, int]) -> Array:
        for parts, number in self.divisions:
            way = parts.division(name)
            if way is not None:
                array = array[parts.box(array.shape, way, place[number]).slices]
        return array

    def joined(self, outputs: Mapping[str, Array], names: Iterable[str] | None = None) -> dict[str, Array]:
        """Values of the whole graph from those of the chips, by default its outputs.

        Of chips that have the same the first one gives it.
        """
        chips = {place: chip for chip, place in reversed([*enumerate(self.places)])}
        found = {}
        for name in [tensor.name for tensor in self.graph.outputs] if names is None else names:
            parts = {place: outputs[f"chip{chip}.{name}"] for place, chip in chips.items()}
            batches = [
                self._joined(1, name, [parts[one, two] for two in range(self.degrees.tp)])
                for one in range(self.degrees.dp)
            ]
            found[name] = self._joined(0, name, batches)
        return found

    def _joined(self, number: int, name: str, each: Sequence[Array]) -> Array:
        """A value from the parts that places have which differ in one number."""
        division = (self.batch, self.tensor)[number]
        way = None if division is None else division.parts.division(name)
        return each[0] if way is None else np.concatenate(each[:: way.repeat], way.axis)


def spread_graph(
    graph: Graph, machine: Machine, degrees: Degrees, bytes_each: int = 4, tiles: int = DEFAULT_TILES
) -> SpreadGraph:
    """The graph on the chips of a machine; GraphError for one that cannot be divided so.

    The ways of exchanges are chosen for elements of ``bytes_each`` bytes, and ``tiles`` tiles of each chip.
    A graph whose model says how it is divided is divided so.
    """
    arranged = arrangement(graph, machine, degrees)
    if degrees.pp > 1:
        raise GraphError([f"{degrees}: only the program of a single network has stages; try tp or dp"])
    if graph.replaceable:
        raise GraphError(["--parallel: programs with replaceable constants are for one chip"])
    flow = next((node for node in graph.nodes if node.bodies), None)
    if flow is not None:
        raise GraphError([f"--parallel: {flow} is decided by the program, which is for one chip"])
    for output in sized_outputs(graph):
        raise GraphError([f"--parallel: data decides the size of output '{output}', which is for one chip"])
    split = with_split_products(graph, arranged.nodes) if degrees.tp > 1 else graph
    batch = batch_dealt(split, degrees.dp, arranged.common) if degrees.dp > 1 else None
    local = split if batch is None else batch.graph_of(split, 0)
    wishes = wishes_of(arranged, split, None if batch is None else batch.parts)
    groups = ChipGroups(machine, arranged.rings, bytes_each, tiles)
    tensor = _products_shared(local, groups, wishes) if degrees.tp > 1 else None
    return SpreadGraph(graph, degrees, places_in(arranged.rings), batch, tensor, split)


def batch_dealt(graph: Graph, count: int, whole: frozenset[str] = frozenset()) -> ChipDivision:
    """The batch in ``count`` parts; chips exchange nothing.

    Inputs without a batch, and those that are to be ``whole``, are those of all chips.
    """
    parts = ChipParts(graph, count)
    common = [t for t in graph.inputs if t.name in whole or not t.shape or t.shape[0] == 1]
    dealt = [tensor for tensor in graph.inputs if tensor not in common] or graph.inputs
    for tensor in dealt:
        if not tensor.shape or tensor.shape[0] % count:
            found = f"input '{tensor.name}' is {'x'.join(map(str, tensor.shape)) or 'a scalar'}"
            raise GraphError([f"dp={count}: {found}; its first axis must be a multiple of {count}"])
        parts.divide(tensor.name, DividedAxis(0))
    nodes = []
    for node in graph.nodes:
        try:
            nodes.append(divided(parts, node) if any(name in parts.axes for name in node.inputs) else node)
        except NeedsWhole as error:
            raise GraphError([f"dp={count}: {error}, so the batch cannot be dealt to chips"]) from None
        except StateToDivide as error:
            raise GraphError([f"dp={count}: {error}, which has no batch"]) from None
    for past, present in graph.states:
        if parts.division(past) != parts.division(present):
            raise GraphError(
                [f"dp={count}: state {past}={present} is dealt to chips only before or after a step"]
            )
    return ChipDivision(parts, tuple(nodes))


def _products_shared(graph: Graph, groups: ChipGroups, wishes: Sequence[Wish]) -> ChipDivision:
    """Products in ``groups.members`` parts, as many as can be; the others are computed by every chip.

    What needs a divided value whole gets it gathered if that takes less than to compute it everywhere. What
    the model of the graph wants is done in any case.
    """
    choices, first = Choices(), ""

    def attempt() -> Attempt:
        return HonouredAttempt(graph, groups, choices, wishes) if wishes else Attempt(graph, groups, choices)

    while not isinstance(found := attempt().run(), ChipDivision):
        first = first or ("" if isinstance(found, StateToDivide) else str(found))
    if not found.parts.constants and not any(node.op == PART for node in found.nodes):
        reason = first or "no product has constant weights with so many columns"
        raise GraphError([f"tp={groups.members}: nothing can be shared by the chips: {reason}"])
    return found
