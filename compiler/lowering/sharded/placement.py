"""The homes of a sharded sequence's values on the tiles of a mesh, and the exchanges between tiles."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.codegen.phase import Target
from compiler.codegen.slices.tensors import DdrTensor
from compiler.dialect.homes import WHOLE, Home
from compiler.lowering.record import ALL_GATHER, Placement, SequenceWork, StageExchange
from tx8isa.numbers.formats import Format

from .layers import AttentionLayer, Layers, NormalizationLayer, ProductLayer, QuantiseLayer, earlier_weights
from .mesh import Mesh, mesh_of
from .reading import layers_of

ROWS, COLUMNS = "rows", "columns"
"""The axes of the mesh."""


def sharded_placement(target: Target, work: SequenceWork) -> Placement:
    """The homes and exchanges of a sequence with a cut."""
    assert work.cut is not None
    layers, mesh = layers_of(work), mesh_of(target, work.cut)
    exchanges = (*exchanges_of_values(layers, mesh), *exchanges_of_weights(layers, mesh))
    homes = {symbol: _on(mesh, home) for symbol, home in _homes(layers)}
    return Placement(homes, tuple(sorted(exchanges, key=lambda each: each.before)))


def _on(mesh: Mesh, home: Home) -> Home:
    """The home on a mesh, one of whose axes may be a single tile."""
    extents = {ROWS: mesh.rows, COLUMNS: mesh.columns}
    return Home(tuple(axis if extents.get(axis, 1) > 1 else WHOLE for axis in home.axes))


def _homes(layers: Layers) -> Iterator[tuple[str, Home]]:
    """Homes of the values on a mesh with several rows and columns; the last home of a symbol counts."""
    for layer in layers.order:
        if isinstance(layer, ProductLayer):
            for tensor in layer.sums:
                yield tensor.symbol, _matrix(tensor, COLUMNS, sharded=tensor.value is None)
    for layer in layers.order:
        yield layer.source.symbol, _matrix(layer.source, WHOLE)
        if isinstance(layer, ProductLayer):
            yield layer.matrix.symbol, Home((COLUMNS, ROWS) if layer.transposed else (ROWS, COLUMNS))
        elif isinstance(layer, NormalizationLayer):
            for tensor in layer.parameters:
                yield tensor.symbol, Home((WHOLE,) * len(tensor.shape))
        elif isinstance(layer, AttentionLayer) and layer.mask is not None:
            rows = WHOLE if layer.mask.shape[-2] == 1 else ROWS
            outer = len(layer.work.input(3).shape) - 2
            yield layer.mask.symbol, Home((*(WHOLE,) * outer, *[rows] * (outer >= 0), WHOLE))
    sharded = _sharded(layers)
    for layer in layers.order:
        for result in dict.fromkeys((layer.work.output, layer.result)):
            axes = 2 if isinstance(layer, AttentionLayer) else 1
            columns = COLUMNS if layer.result.symbol in sharded else WHOLE
            yield result.symbol, _matrix(result, columns, axes=axes)


def _sharded(layers: Layers) -> set[str]:
    """The results whose columns are divided; of the others every tile has all columns of its rows."""
    found: set[str] = set()
    for layer in layers.order:
        quantised = isinstance(layer, QuantiseLayer) and layer.source.symbol in found
        if quantised or isinstance(layer, ProductLayer | AttentionLayer):
            found.add(layer.result.symbol)
    return found


def _matrix(tensor: DdrTensor, columns: str, sharded: bool = True, axes: int = 1) -> Home:
    """The home of a value whose last ``axes`` are the columns together; the others are its rows."""
    inner = min(axes, len(tensor.shape))
    return Home((*[ROWS if sharded else WHOLE] * (len(tensor.shape) - inner), *[columns] * inner))


def exchanges_of_values(layers: Layers, mesh: Mesh) -> Iterator[StageExchange]:
    """The all-gathers that layers need, each just before the first one that does.

    Products and normalizations need all columns of a value, attention needs the keys and values of all rows.
    Values from outside and results of normalizations have all columns.
    """
    missing = _sharded(layers)
    for layer in layers.order:
        symbol = layer.source.symbol
        if isinstance(layer, AttentionLayer):
            if mesh.rows > 1:
                yield StageExchange(ALL_GATHER, symbol, ROWS, layer.stage)
        elif symbol in missing and not isinstance(layer, QuantiseLayer):
            if mesh.columns > 1:
                yield StageExchange(ALL_GATHER, symbol, COLUMNS, layer.stage)
            missing.discard(symbol)


def exchanges_of_weights(layers: Layers, mesh: Mesh) -> Iterator[StageExchange]:
    """The all-gathers of weights: each tile of a mesh column reads a part of them."""
    kept = earlier_weights(layers, mesh.columns)
    for layer in layers.order:
        if isinstance(layer, ProductLayer) and mesh.rows > 1 and layer.stage not in kept:
            yield StageExchange(ALL_GATHER, layer.matrix.symbol, ROWS, layer.stage)


def gathered_format(layers: Layers, source: DdrTensor) -> Format:
    """The format in which layers read all of a value: FP32 is rounded on arrival, unless it becomes bytes."""
    readers = [layer for layer in layers.order if layer.source.symbol == source.symbol]
    exact = any(isinstance(layer, QuantiseLayer) for layer in readers)
    if source.fmt is not Format.FP32 or source.symbol in layers.made or exact:
        return source.fmt
    return readers[-1].work.arithmetic
