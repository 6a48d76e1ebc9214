"""Normalizations of a sharded sequence: every tile of a mesh row normalizes all columns of its rows."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.aligned import channel_vector, load_vector, narrowed_slice, per_channel
from compiler.codegen.slices.tensors import DdrTensor
from compiler.graph import Array
from compiler.lowering.rows.lane_normalization import AFFINE
from compiler.lowering.rows.normalization import RowSums, normalized
from tx8isa.numbers.formats import Format

from .centring import MOST_COLUMNS, CentringMatrix
from .layers import Layers, NormalizationLayer
from .mesh import Gathered


class Normalizer:
    """The normalizations of a sequence, and their constants in the scratchpad."""

    def __init__(self, kernel: Kernel, layers: Layers) -> None:
        self.kernel = kernel
        self.layers = [layer for layer in layers.order if isinstance(layer, NormalizationLayer)]
        self.sums: dict[int, RowSums] = {}
        self.centring: dict[int, CentringMatrix] = {}
        self.vectors: dict[str, list[tuple[str, Value]]] = {}

    def load(self) -> None:
        """Load the constants of all of them."""
        for layer in self.layers:
            work = layer.work
            if layer.columns not in self.sums:
                self.sums[layer.columns] = RowSums(self.kernel, layer.columns, work.arithmetic)
            if layer.quantised is None:
                self._load(layer)
            elif layer.columns not in self.centring and _is_centred_at_once(layer):
                self.centring[layer.columns] = CentringMatrix(self.kernel, layer.columns, work.arithmetic)
        self._load_together([layer for layer in self.layers if layer.quantised is not None])

    def _load(self, layer: NormalizationLayer) -> None:
        kernel, work = self.kernel, layer.work
        loaded = self.vectors[layer.result.symbol] = []
        for at, name in ((1, "scale"), (2, "shift")):
            if work.has(at):
                vector = channel_vector(kernel, f"{name}_data", work.input(at).viewed(layer.columns))
                loaded.append((AFFINE[name], load_vector(kernel, name, vector, 0, layer.columns)))

    def _load_together(self, layers: Sequence[NormalizationLayer]) -> None:
        """Load the parameters of layers whose results become bytes at once."""
        if not layers:
            return
        data = np.concatenate([_parameter(layer, at) for layer in layers for at in (1, 2)])
        symbol = self.kernel.constant("parameter_data", Format.FP32, data.astype(np.float32)).symbol
        base = self.kernel.buffer("parameters", 4 * data.size)
        source = DdrTensor(symbol, Format.FP32, (data.size,)).at(0)
        self.kernel.emit("rdma.fp32", dst=base, src=source, n=data.size)
        for layer in layers:
            scale, shift, base = base, base + 4 * layer.columns, base + 8 * layer.columns
            self.vectors[layer.result.symbol] = [(AFFINE["scale"], scale), (AFFINE["shift"], shift)]

    def normalize(self, layer: NormalizationLayer, source: Gathered) -> Gathered:
        """All columns of the rows; the source stays as it is."""
        kernel, work = self.kernel, layer.work
        centred = work.op == "LayerNormalization"
        sums, epsilon = self.sums[layer.columns], work.spec.number("epsilon")
        if layer.quantised is None:
            wide = normalized(kernel, sums, source.slice, epsilon, centred)
        else:
            rows = self.centring[layer.columns].centred(source.slice) if _is_centred_at_once(layer) else None
            wide = normalized(kernel, sums, source.slice, epsilon, centred, of_sum=True, shifted=rows)
        for name, vector in self.vectors[layer.result.symbol]:
            per_channel(kernel, name, wide, vector)
        result = narrowed_slice(kernel, wide, layer.result.fmt)
        return Gathered(result.base, result.fmt, source.rows, source.channels)


def _is_centred_at_once(layer: NormalizationLayer) -> bool:
    """Whether a layer is one of rows that a product brings to mean 0."""
    centred = layer.work.op == "LayerNormalization" and layer.source.fmt.bits == layer.work.arithmetic.bits
    return centred and layer.columns <= MOST_COLUMNS


def _parameter(layer: NormalizationLayer, at: int) -> Array:
    """Scale (1) or shift (2) of a layer whose result becomes bytes at once, in the unit of these.

    The scale also brings rows from a sum of squares of 1 to a mean of 1.
    """
    how = layer.quantised
    assert how is not None
    given = np.asarray(layer.work.input(at).value, np.float64) if layer.work.has(at) else float(at == 1)
    if at == 1:
        changed = np.asarray(given) * math.sqrt(layer.columns) / how.scale
    else:
        changed = np.asarray(given) / how.scale + how.zero
    return np.broadcast_to(changed.reshape(-1), (layer.columns,))
