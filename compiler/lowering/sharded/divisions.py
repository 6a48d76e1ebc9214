"""Which meshes the layers of a sharded sequence can be divided over."""

from __future__ import annotations

import math
from collections.abc import Iterator

from compiler.codegen.phase import Target
from compiler.codegen.slices.aligned import TAIL_WIDTHS
from compiler.codegen.slices.tensors import BLOCK
from compiler.evaluation.sizes import Size
from tx8isa.numbers.limits import LARGEST_EXTENT

from .layers import AttentionLayer, Layer, Layers, ProductLayer, QuantiseLayer
from .mesh import Mesh, mesh_on, whole_lines, whole_planes

_LONGEST = 4
"""How many times as long as the other an axis of a mesh may be that is tried early."""


def meshes(layers: Layers, target: Target) -> Iterator[Mesh]:
    """The meshes that the layers can be divided over: first large ones that are not far from a square."""
    tiles = target.tiles
    sizes = [(rows, columns) for rows in range(1, tiles + 1) for columns in range(1, tiles // rows + 1)]
    found = [mesh_on(target, *size) for size in sizes if 2 * math.prod(size) > tiles]
    fitting = [mesh for mesh in found if fits(layers, mesh)]
    yield from sorted(fitting, key=_order)


def _order(mesh: Mesh) -> tuple[bool, int, float]:
    """Long copies go to many tiles in a mesh far from a square."""
    longer, shorter = max(mesh.rows, mesh.columns), min(mesh.rows, mesh.columns)
    return longer > _LONGEST * shorter, -mesh.size, longer / shorter


def fits(layers: Layers, mesh: Mesh) -> bool:
    """Whether every layer can be divided over a mesh."""
    if layers.rows > LARGEST_EXTENT:
        return False
    if not _overlap(layers) and layers.rows % mesh.rows:
        return False
    rows = layers.rows // mesh.rows
    return all(_layer_fits(layers, layer, mesh, rows) for layer in layers.order)


def _overlap(layers: Layers) -> bool:
    """Whether shares may overlap: where a run decides how many rows there are, and none needs another."""
    attention = any(isinstance(layer, AttentionLayer) for layer in layers.order)
    return isinstance(layers.rows, Size) and not attention


def _layer_fits(layers: Layers, layer: Layer, mesh: Mesh, rows: int) -> bool:
    if isinstance(layer, AttentionLayer):
        return _attention_fits(layer, mesh, rows)
    if isinstance(layer, QuantiseLayer):
        return whole_planes(layer.columns, mesh.columns)
    if isinstance(layer, ProductLayer) and layers.user_of_heads(layer) is not None:
        return whole_planes(layer.inner, 1)
    columns = [layer.columns, *([layer.inner] if isinstance(layer, ProductLayer) else [])]
    return all(whole_planes(count, mesh.columns) and count <= LARGEST_EXTENT for count in columns)


def _attention_fits(layer: AttentionLayer, mesh: Mesh, rows: int) -> bool:
    """Heads in whole lines, and lanes for the queries of a tile without padding."""
    lanes = (*TAIL_WIDTHS, BLOCK)
    sizes = rows * layer.depth * 2, layer.rows * rows * 2
    return (
        layer.heads % mesh.columns == 0
        and layer.depth in lanes
        and (rows in lanes or (rows % BLOCK == 0 and layer.depth == BLOCK))
        and whole_planes(layer.columns, mesh.columns)
        and all(map(whole_lines, sizes))
    )
