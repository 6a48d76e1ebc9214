"""The sharding written in a model, as degrees of parallelism and as parts of tensors for each chip.

Device n of the model is chip n. A sharding of inputs along the first axis divides the batch. All other shards
belong to chips that share products, and stages to a pipeline.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from msgspec import UNSET

from compiler.graph import Graph, GraphError, NodeSharding, Sharding, TensorSharding
from tx8isa.machine.chips import Chips
from tx8isa.machine.description import Machine

from .degrees import Degrees, places_in, ring_order
from .rules import DividedAxis
from .stage import ChipDivision

Rings = tuple[tuple[int, ...], ...]
"""The chips that compute a part of the batch, in the order of their shards, or of the stages."""


@dataclass(frozen=True)
class Arrangement:
    """The groups of chips, and the sharding that the model of a graph defines; ``sharding`` may be empty."""

    sharding: Sharding
    degrees: Degrees
    rings: Rings
    common: frozenset[str]
    """Inputs that all chips have whole although the batch is divided; inputs without a batch are always
    whole."""

    @property
    def nodes(self) -> frozenset[str]:
        """The nodes of the graph with tensors that the model shards."""
        return frozenset(part for node in self.sharding.nodes if node.tensors for part in node.parts)

    @property
    def stages(self) -> dict[str, int]:
        """By node of the graph: the stage that the model says."""
        nodes = self.sharding.nodes
        return {part: node.stage for node in nodes if node.stage is not None for part in node.parts}


@dataclass(frozen=True)
class Wish:
    """The model's wish for a tensor at a node: its division over the chips of a group; None for whole."""

    node: NodeSharding
    tensor: str
    way: DividedAxis | None

    def refusal(self, found: str) -> GraphError:
        """The error for a wish that cannot be met."""
        wanted = "whole" if self.way is None else f"sharded along axis {self.way.axis}"
        return GraphError([f"{self.node.text}: tensor '{self.tensor}' is {wanted} in the model; {found}"])


def arrangement(graph: Graph, machine: Machine, degrees: Degrees) -> Arrangement:
    """The chips of a machine, arranged for degrees, as the model of the graph says it if it says something.

    GraphError as from ``said_degrees``, and for a machine with fewer chips.
    """
    chips = machine.chips
    if chips is UNSET:
        raise GraphError([f"machine {machine.name} has no links between chips"])
    degrees.check(chips)
    nothing = Arrangement(Sharding("", chips.count, ()), degrees, tuple(degrees.rings(chips)), frozenset())
    return _written(graph, machine, degrees) or nothing


def said_degrees(graphs: Mapping[str, Graph], machine: Machine, parallel: Degrees | None) -> Degrees | None:
    """The given degrees, or those that the model of a graph defines; None if there are neither.

    The keys of ``graphs`` are names of entries. GraphError for a model that says nothing about that number of
    chips, or contradicts itself or ``parallel``, and for several graphs one of which has a sharding.
    """
    for name, graph in graphs.items():
        if len(graphs) > 1 and graph.shardings and machine.chip_count > 1:
            text = "its model has a sharding, which a program of several networks cannot follow"
            raise GraphError([f"entry {name}: {text}: compile it alone"])
        found = _written(graph, machine, parallel)
        parallel = parallel if found is None else found.degrees
    return parallel


def _written(graph: Graph, machine: Machine, parallel: Degrees | None) -> Arrangement | None:
    """The arrangement that the model of a graph defines; None if there is none, and for one chip."""
    chips = machine.chips
    if chips is UNSET or chips.count == 1 or not graph.shardings:
        return None
    fitting = [each for each in graph.shardings if each.devices == chips.count]
    if not fitting:
        said = ", ".join(f"'{each.name}' for {each.devices}" for each in graph.shardings)
        mesh = f"{chips.x}x{chips.y} chips are {chips.count}"
        raise GraphError([f"the model has device configurations {said}; {mesh}: give --chips with as many"])
    found = _Reader(graph, fitting[0], chips).read()
    if parallel is not None and parallel != found.degrees:
        model = f"the model is sharded as {found.degrees} (configuration '{fitting[0].name}')"
        raise GraphError([f"--parallel {parallel}: {model}: give the same, or leave --parallel out"])
    return found


class _Reader:
    """Derives the degrees from a configuration."""

    def __init__(self, graph: Graph, sharding: Sharding, chips: Chips) -> None:
        self.graph, self.sharding, self.chips = graph, sharding, chips
        self.inputs = {tensor.name for tensor in graph.inputs}

    def read(self) -> Arrangement:
        self._check()
        stages = self._stages()
        count = len(stages) or 1
        batches = self._batches(self.chips.count // count)
        dp = max((math.prod(spec.shards) for _, spec in batches), default=1)
        if self.chips.count % (dp * count):
            node, spec = batches[0]
            raise _wrong(node, spec, f"{dp} parts of the batch; {self.chips.count} chips are no multiple")
        if count > 1:
            rings = self._pipelines(stages, dp)
            degrees = Degrees(dp, 1, count)
        else:
            degrees = Degrees(dp, self.chips.count // dp)
            rings = self._groups(degrees, [*batches][:1])
        degrees.check(self.chips)
        return Arrangement(self.sharding, degrees, rings, self._common({s.tensor for _, s in batches}))

    def _each(self) -> Iterator[tuple[NodeSharding, TensorSharding]]:
        return ((node, spec) for node in self.sharding.nodes for spec in node.tensors)

    def _check(self) -> None:
        for node, spec in self._each():
            if spec.problem:
                raise _wrong(node, spec, spec.problem)

    def _batches(self, most: int) -> list[tuple[NodeSharding, TensorSharding]]:
        """The shardings of inputs that cut only the first axis, which is the batch."""
        found: list[tuple[NodeSharding, TensorSharding]] = []
        for node, spec in self._each():
            if spec.tensor not in self.inputs or spec.shards[:1] in ((), (1,)):
                continue
            if max(spec.shards[1:], default=1) > 1:
                raise _wrong(node, spec, "an input in parts of two axes; expected parts of its batch alone")
            if spec.shards[0] > most:
                raise _wrong(node, spec, f"the batch in {spec.shards[0]} parts; expected at most {most}")
            if found and spec.shards[0] != found[0][1].shards[0]:
                other = f"'{found[0][1].tensor}' in {found[0][1].shards[0]}"
                raise _wrong(node, spec, f"the batch in {spec.shards[0]} parts; expected as {other}")
            found.append((node, spec))
        return found

    def _common(self, dealt: set[str]) -> frozenset[str]:
        """Inputs that are whole at every node that gives a sharding for them."""
        return frozenset(s.tensor for _, s in self._each() if s.tensor in self.inputs - dealt)

    # -- groups that share products ----------------------------------------------------------------------

    def _groups(self, degrees: Degrees, batch: list[tuple[NodeSharding, TensorSharding]]) -> Rings:
        """The chips of each part of the batch, in the order of the first tensor's shards."""
        for node, spec in self._each():
            if len(there := _devices(spec)) != self.chips.count:
                listed = ", ".join(map(str, there))
                raise _wrong(node, spec, f"on devices {listed} only; without stages all chips take part")
        if not batch:
            groups = [tuple(sorted(ring)) for ring in degrees.rings(self.chips)]
        else:
            groups = [tuple(sorted(group)) for group in batch[0][1].devices]
        uneven = next((group for group in groups if len(group) != degrees.tp), None)
        if uneven is not None:
            node, spec = batch[0]
            raise _wrong(node, spec, f"a shard on {len(uneven)} devices; expected {degrees.tp} for each")
        for _, spec in self._each():
            numbers = {device: at for at, group in enumerate(spec.devices) for device in group}
            if all(len({numbers[chip] for chip in group}) == len(group) > 1 for group in groups):
                return tuple(tuple(sorted(group, key=numbers.__getitem__)) for group in groups)
        return tuple(ring_order(self.chips, group) for group in groups)

    # -- stages of a pipeline ----------------------------------------------------------------------------

    def _stages(self) -> list[list[NodeSharding]]:
        """The nodes of each stage; empty for a model without several stages."""
        numbers = sorted({node.stage for node in self.sharding.nodes if node.stage is not None})
        if len(numbers) < 2:
            return []
        if numbers != [*range(len(numbers))]:
            listed = ", ".join(map(str, numbers))
            raise GraphError([f"the model has pipeline stages {listed}; expected 0 to {len(numbers) - 1}"])
        if self.chips.count % len(numbers):
            mesh = f"{self.chips.x}x{self.chips.y} chips"
            raise GraphError([f"the model has {len(numbers)} pipeline stages; {mesh} are no multiple"])
        return [[node for node in self.sharding.nodes if node.stage == number] for number in numbers]

    def _pipelines(self, stages: list[list[NodeSharding]], dp: int) -> Rings:
        """The chips of each pipeline, in the order of its stages."""
        places = Degrees(dp, 1, len(stages)).rings(self.chips)
        chips = [self._chips_of(nodes, dp) for nodes in stages]
        if not any(chips):
            return tuple(places)
        missing = next((stage for stage, own in enumerate(chips) if not own), None)
        if missing is not None:
            raise GraphError([f"no tensor of pipeline stage {missing} says its device; expected all or none"])
        every = [chip for own in chips for chip in own]
        twice = next((chip for chip in every if every.count(chip) > 1), None)
        if twice is not None:
            raise GraphError([f"device {twice} has several pipeline stages; expected one for each device"])
        return tuple(zip(*chips, strict=True))

    def _chips_of(self, nodes: list[NodeSharding], dp: int) -> list[int]:
        """The chips of a stage, in the order of the parts of the batch; empty if no tensor defines it."""
        found: tuple[int, ...] | None = None
        for node in nodes:
            for spec in node.tensors:
                there = _devices(spec)
                if len(there) != dp or (found is not None and sorted(found) != sorted(there)):
                    listed = ", ".join(map(str, there))
                    wanted = f"devices {', '.join(map(str, found))}" if found else f"{dp} of them"
                    text = f"on devices {listed}; expected {wanted}, those of stage {node.stage}"
                    raise _wrong(node, spec, text)
                if found is None or (len(spec.devices) == dp > 1 and [*found] == sorted(found)):
                    found = there
        return [*(found or ())]


def _devices(spec: TensorSharding) -> tuple[int, ...]:
    """The devices that have parts of a tensor, in the order of its shards."""
    return tuple(device for group in spec.devices for device in group)


def _wrong(node: NodeSharding, spec: TensorSharding, text: str) -> GraphError:
    return GraphError([f"{node.text}: sharding of tensor '{spec.tensor}': {text}"])


# -- shardings that a group needs ------------------------------------------------------------------------


def wishes_of(arranged: Arrangement, graph: Graph, batch: ChipDivision | None) -> list[Wish]:
    """The model's wishes for each tensor: its division over the chips of a group.

    ``batch`` is the division of the batch. GraphError for shards that chips cannot have.
    """
    places, found = places_in(arranged.rings), []
    read = {node.name: {*node.inputs, *node.outputs} for node in graph.nodes}
    for node in arranged.sharding.nodes:
        known = set[str]().union(*(read.get(part, ()) for part in node.parts))
        for spec in node.tensors:
            dealt = None if batch is None else batch.parts.division(spec.tensor)
            way = _wanted(node, spec, arranged.degrees, dealt)
            _check_places(node, spec, way, places, dealt)
            wish = Wish(node, spec.tensor, way)
            if way is not None and spec.tensor not in known:
                raise wish.refusal("it is computed or arranged when compiling, and whole on every chip")
            found.append(wish)
    return found


def _wanted(
    node: NodeSharding, spec: TensorSharding, degrees: Degrees, batch: DividedAxis | None
) -> DividedAxis | None:
    """The division within a group of a tensor that is already divided by batch."""
    rest = [*spec.shards]
    if batch is not None:
        if rest[batch.axis] % degrees.dp:
            text = f"{rest[batch.axis]} shards of axis {batch.axis}, along which the batch is divided"
            raise _wrong(node, spec, f"{text}; expected a multiple of {degrees.dp}")
        rest[batch.axis] //= degrees.dp
    axes = [axis for axis, count in enumerate(rest) if count > 1]
    if not axes:
        return None
    if len(axes) > 1:
        raise _wrong(node, spec, f"axes {axes[0]} and {axes[1]} are both sharded; expected one of them")
    count, group = rest[axes[0]], degrees.tp
    if group % count:
        raise _wrong(node, spec, f"{count} shards of axis {axes[0]}; expected a divisor of {group} chips")
    return DividedAxis(axes[0], group // count)


def _check_places(
    node: NodeSharding,
    spec: TensorSharding,
    way: DividedAxis | None,
    places: Sequence[tuple[int, int]],
    batch: DividedAxis | None,
) -> None:
    """GraphError for a shard on a device whose place has another shard of other tensors."""
    numbers = {device: at for at, group in enumerate(spec.devices) for device in group}
    dealt = len({pipe for pipe, _ in places})
    for device, found in sorted(numbers.items()):
        pipe, place = places[device]
        at, wanted = [0] * len(spec.shards), 0
        if way is not None:
            at[way.axis] = place // way.repeat
        if batch is not None:
            at[batch.axis] += pipe * spec.shards[batch.axis] // dealt
        for index, count in zip(at, spec.shards, strict=True):
            wanted = wanted * count + index
        if found != wanted:
            text = f"device {device} has shard {found}; by the other tensors it has shard {wanted}"
            raise _wrong(node, spec, f"{text}: expected one order of devices")
