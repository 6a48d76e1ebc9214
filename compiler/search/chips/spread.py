"""A graph spread over chips: the graph of each chip, with the exchanges between chips."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from compiler.codegen import DEFAULT_TILES
from compiler.graph import Array, Graph, GraphError
from compiler.operators.domains.chips.collectives import PART
from compiler.operators.reductions.found import sized_outputs
from tx8isa.machine.description import Machine

from .attempt import Attempt, Choices
from .dealing import experts_dealt, rows_dealt, written_out
from .degrees import EXCHANGING, Degrees, places_in
from .honoured import HonouredAttempt
from .products import ChipGroups
from .rules import ChipParts, DividedAxis, NeedsWhole, StateToDivide, divided
from .splits import with_split_products
from .stage import ChipDivision
from .written import Arrangement, Wish, arrangement, wishes_of

_DEALT = {"sp": rows_dealt, "ep": experts_dealt}
"""The functions that divide a graph by other things than products, by kind."""


@dataclass(frozen=True)
class SpreadGraph:
    """A graph on several chips."""

    graph: Graph
    degrees: Degrees
    places: tuple[tuple[int, int], ...]
    """By chip: its place in the batch, and in the ring of its group."""
    divisions: Mapping[str, ChipDivision]
    """The divisions by kind, without degree 1; each divides the parts that the previous ones have made."""
    split: Graph
    """The graph in its present, divided form."""

    @cached_property
    def parts(self) -> dict[tuple[int, int], tuple[int, ...]]:
        """The chips with the same constants, by the place of the first of them."""
        found: dict[tuple[int, ...], list[int]] = {}
        for chip, place in enumerate(self.places):
            found.setdefault(self.constants_at(place), []).append(chip)
        return {self.places[chips[0]]: tuple(chips) for chips in found.values()}

    def constants_at(self, place: tuple[int, int]) -> tuple[int, ...]:
        """The numbers of the parts of constants at a place; equal numbers mean equal constants."""
        return tuple(self._part(kind, place) for kind, each in self.divisions.items() if not each.alike)

    def _part(self, kind: str, place: tuple[int, int]) -> int:
        """The number of the part of a kind at a place."""
        return place[0] if kind == "dp" else self.degrees.part(kind, place[1])

    def graph_of(self, place: tuple[int, int]) -> Graph:
        """The graph of chips with a place."""
        return self.divided(self.split, place, ("dp", *EXCHANGING))

    def divided(self, local: Graph, place: tuple[int, int], kinds: Sequence[str]) -> Graph:
        """A chip's version of a graph that has the form of the one that ``kinds`` have divided."""
        for kind, division in self.divisions.items():
            if kind in kinds:
                local = division.graph_of(local, self._part(kind, place))
        return local

    def ways_of(self, name: str) -> list[tuple[ChipParts, DividedAxis]]:
        """The divisions of an input or output, by one kind after another."""
        each = (division.parts for division in self.divisions.values())
        return [(parts, way) for parts in each if (way := parts.division(name)) is not None]

    def dealt(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Inputs of the whole graph by the names that they have on the chips."""
        return {name: np.ascontiguousarray(view) for name, view in self.views(inputs).items()}

    def views(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """The parts of inputs and outputs that chips have, as views of the arrays."""
        return {
            f"chip{chip}.{name}": self._view(name, array, place)
            for chip, place in enumerate(self.places)
            for name, array in arrays.items()
        }

    def _view(self, name: str, array: Array, place: tuple[int, int]) -> Array:
        for kind, division in self.divisions.items():
            way = division.parts.division(name)
            if way is not None:
                array = array[division.parts.box(array.shape, way, self._part(kind, place)).slices]
        return array

    def joined(self, outputs: Mapping[str, Array], names: Iterable[str] | None = None) -> dict[str, Array]:
        """Values of the whole graph, by default its outputs, joined from the chips' parts.

        If several chips have the same part, that of the first one is used.
        """
        chips = [chip for chip, _ in sorted(enumerate(self.places), key=lambda pair: pair[1])]
        names = [tensor.name for tensor in self.graph.outputs] if names is None else names
        return {name: self._joined(name, [outputs[f"chip{chip}.{name}"] for chip in chips]) for name in names}

    def _joined(self, name: str, each: list[Array]) -> Array:
        """Join the chips' parts of a value in the order of their places, the innermost kind first."""
        for kind in reversed(("dp", "pp", *EXCHANGING)):
            degree = getattr(self.degrees, kind)
            division = self.divisions.get(kind)
            way = None if division is None else division.parts.division(name)
            groups = [each[at : at + degree] for at in range(0, len(each), degree)]
            if way is None:
                each = [group[0] for group in groups]
            else:
                each = [np.concatenate(group[:: way.repeat], way.axis) for group in groups]
        return each[0]


def spread_graph(
    graph: Graph, machine: Machine, degrees: Degrees, bytes_each: int = 4, tiles: int = DEFAULT_TILES
) -> SpreadGraph:
    """The graph on the chips of a machine; GraphError for a graph that cannot be divided so.

    The algorithms of exchanges are chosen for elements of ``bytes_each`` bytes, and ``tiles`` tiles of each
    chip. A graph whose model gives a sharding is divided by it.
    """
    assert degrees.pp == 1, "stages are those of pipelined_graph"
    return spread_arranged(graph, machine, arrangement(graph, machine, degrees), bytes_each, tiles)


def spread_arranged(
    graph: Graph,
    machine: Machine,
    arranged: Arrangement,
    bytes_each: int,
    tiles: int,
    part_of: Callable[[Graph], Graph] = lambda local: local,
) -> SpreadGraph:
    """The graph on chips in a given arrangement; the arguments are the same as for ``spread_graph``.

    ``part_of`` returns the part of a pipeline's graph whose work the chips share.
    """
    degrees = arranged.degrees
    _check_graph(graph)
    split = written_out(graph) if degrees.sp > 1 or degrees.ep > 1 else graph
    split = local = with_split_products(split, arranged.nodes) if degrees.tp > 1 else split
    divisions: dict[str, ChipDivision] = {}
    if degrees.dp > 1:
        divisions["dp"] = batch_dealt(local, degrees.dp, arranged.common)
        local = divisions["dp"].graph_of(local, 0)
    wishes, local = wishes_of(arranged, split, divisions.get("dp")), part_of(local)
    for kind in EXCHANGING:
        if getattr(degrees, kind) > 1:
            groups = ChipGroups(machine, degrees.groups(arranged.rings, kind), bytes_each, tiles)
            share = _DEALT.get(kind) or partial(_products_shared, wishes=wishes)
            divisions[kind] = share(local, groups)
            local = divisions[kind].graph_of(local, 0)
    return SpreadGraph(graph, degrees, places_in(arranged.rings), divisions, split)


def _check_graph(graph: Graph) -> None:
    """GraphError for a graph that only one chip can compute."""
    if graph.replaceable:
        raise GraphError(["--parallel: programs with replaceable constants are for one chip"])
    flow = next((node for node in graph.nodes if node.bodies), None)
    if flow is not None:
        raise GraphError([f"--parallel: {flow} is decided by the program, which is for one chip"])
    for output in sized_outputs(graph):
        raise GraphError([f"--parallel: data decides the size of output '{output}', which is for one chip"])


def batch_dealt(graph: Graph, count: int, whole: frozenset[str] = frozenset()) -> ChipDivision:
    """The batch in ``count`` parts; chips exchange nothing.

    Inputs without a batch, and the ``whole`` ones, are the same on all chips.
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
            raise GraphError([f"dp={count}: {error}, so the batch cannot be divided among chips"]) from None
        except StateToDivide as error:
            raise GraphError([f"dp={count}: {error}, which has no batch"]) from None
    for past, present in graph.states:
        if parts.division(past) != parts.division(present):
            raise GraphError(
                [f"dp={count}: state {past}={present} is divided among chips only before or after a step"]
            )
    return ChipDivision(parts, tuple(nodes))


def _products_shared(graph: Graph, groups: ChipGroups, wishes: Sequence[Wish]) -> ChipDivision:
    """Divide as many products as possible into ``groups.members`` parts; every chip computes the others
    whole.

    A divided value that is needed whole is gathered if that takes less time than computing it everywhere. The
    sharding written in the model is followed in any case.
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
