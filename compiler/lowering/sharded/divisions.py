"""The meshes over which the layers of a sharded sequence can be divided."""

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
"""Largest ratio of the axes of a mesh that is tried early."""


def meshes(layers: Layers, target: Target) -> Iterator[Mesh]:
    """The meshes over which the layers can be divided: first large ones that are nearly square."""
    tiles = target.tiles
    sizes = [(rows, columns) for rows in range(1, tiles + 1) for columns in range(1, tiles // rows + 1)]
    found = [mesh_on(target, *size) for size in sizes if 2 * math.prod(size) > tiles]
    fitting = [mesh for mesh in found if fits(layers, mesh)]
    yield from sorted(fitting, key=_order)


def _order(mesh: Mesh) -> tuple[bool, int, float]:
    """Sort key: meshes far from a square last, whose copies go to many tiles; then large ones first."""
    longer, shorter = max(mesh.rows, mesh.columns), min(mesh.rows, mesh.columns)
    return longer > _LONGEST * shorter, -mesh.size, longer / shorter


def fits(layers: Layers, mesh: Mesh) -> bool:
    """True if every layer can be divided over a mesh."""
    if layers.rows > LARGEST_EXTENT:
        return False
    if not _overlap(layers) and layers.rows % mesh.rows:
        return False
    rows = layers.rows // mesh.rows
    return all(_layer_fits(layers, layer, mesh, rows) for layer in layers.order)


def _overlap(layers: Layers) -> bool:
    """True if shares may overlap: the number of rows is dynamic, and no row needs another."""
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
    """True if heads are whole lines, and the queries of a tile fill lanes without padding."""
    lanes = (*TAIL_WIDTHS, BLOCK)
    sizes = rows * layer.depth * 2, layer.rows * rows * 2
    return (
        layer.heads % mesh.columns == 0
        and layer.depth in lanes
        and (rows in lanes or (rows % BLOCK == 0 and layer.depth == BLOCK))
        and whole_planes(layer.columns, mesh.columns)
        and all(map(whole_lines, sizes))
    )
