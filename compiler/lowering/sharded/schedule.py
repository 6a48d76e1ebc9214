"""The schedule of a sharded sequence's exchanges: values as its work says, weights together with values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from compiler.codegen.slices.tensors import BLOCK
from compiler.lowering.record import StageExchange
from tx8isa.numbers.division import ceil_div, round_up

from .layers import AttentionLayer, Layers, NormalizationLayer, ProductLayer, ProductPart, QuantiseLayer
from .mesh import Mesh
from .placement import COLUMNS

_MOST_WEIGHTS = 1 << 18
"""Most bytes of a tile's weights that one step loads; the scratchpad holds the weights of two steps."""

Task = ProductPart | NormalizationLayer | AttentionLayer | QuantiseLayer


@dataclass
class Superstep:
    """An exchange, and the computation from it to the next one.

    ``gathered``: the symbol of the value whose columns the tiles of a mesh row exchange; ``keys``: of the
    value whose keys and values the tiles of a mesh column exchange. ``products``: the products whose weights
    arrive here.
    """

    gathered: str | None = None
    keys: str | None = None
    tasks: list[Task] = field(default_factory=list)

    @property
    def products(self) -> Iterator[ProductPart]:
        return (task for task in self.tasks if isinstance(task, ProductPart))


def steps_of(layers: Layers, mesh: Mesh, exchanges: Sequence[StageExchange]) -> list[Superstep]:
    """The steps of a sequence in which tiles exchange values, each where the work says."""
    steps, made, begun = [Superstep()], layers.made, -1
    for layer in layers.order:
        for exchange in exchanges:
            if begun < exchange.before <= layer.stage and exchange.symbol in made:
                columns = exchange.axis == COLUMNS
                found = Superstep(gathered=exchange.symbol) if columns else Superstep(keys=exchange.symbol)
                steps.append(found)
        begun = layer.stage
        if isinstance(layer, ProductLayer):
            _add_product(steps, layer, mesh)
        else:
            steps[-1].tasks.append(layer)
    return steps


def _add_product(steps: list[Superstep], layer: ProductLayer, mesh: Mesh) -> None:
    """A product, in parts if its weights are too many to arrive at once.

    Layers before the first product need no weights, so they are a step of their own.
    """
    parts = _parts(layer, mesh)
    if len(steps) == 1 and steps[0].tasks:
        steps.append(Superstep())
    steps[-1].tasks.append(parts[0])
    steps += [Superstep(tasks=[part]) for part in parts[1:]]


def _parts(layer: ProductLayer, mesh: Mesh) -> list[ProductPart]:
    row_bytes = layer.columns // mesh.columns * layer.weight_fmt.bits // 8
    count = ceil_div(layer.inner * row_bytes, _MOST_WEIGHTS)
    inner = round_up(ceil_div(layer.inner, count), BLOCK)
    firsts = range(0, layer.inner, inner)
    return [ProductPart(layer, first, min(inner, layer.inner - first)) for first in firsts]
