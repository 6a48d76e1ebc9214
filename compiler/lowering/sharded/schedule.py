"""When a sharded sequence exchanges what: each value before it is needed, weights together with values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from .layers import AttentionLayer, Layer, Layers, ProductLayer
from .mesh import Mesh


@dataclass
class Step:
    """An exchange, and the layers after it up to the next one.

    ``gathered``: the symbol of the value whose columns the tiles of a mesh row exchange; ``keys``: of the one
    whose keys and values those of a mesh column exchange. ``products``: the layers whose weights arrive here.
    """

    gathered: str | None = None
    keys: str | None = None
    layers: list[Layer] = field(default_factory=list)

    @property
    def products(self) -> Iterator[ProductLayer]:
        return (layer for layer in self.layers if isinstance(layer, ProductLayer))


def steps_of(layers: Layers, mesh: Mesh) -> list[Step]:
    """The steps of a sequence; values from outside are there from the beginning."""
    steps, made = [Step()], layers.made
    available: set[str] = set()
    for layer in layers.order:
        symbol = layer.source.symbol
        if isinstance(layer, ProductLayer) and len(steps) == 1 and steps[0].layers:
            steps.append(Step())  # its weights need not be there for what comes before
        if isinstance(layer, AttentionLayer):
            if mesh.rows > 1:
                steps.append(Step(keys=symbol))
        elif symbol in made and symbol not in available:
            if mesh.columns > 1:
                steps.append(Step(gathered=symbol))
            available.add(symbol)
        steps[-1].layers.append(layer)
        if not isinstance(layer, (AttentionLayer, ProductLayer)):
            available.add(layer.work.output.symbol)
    return steps
