"""Normalizations of a sharded sequence: every tile of a mesh row normalizes all columns of its rows."""

from __future__ import annotations

import math

import numpy as np

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.aligned import (
    ChannelVector,
    channel_vector,
    load_vector,
    narrowed_slice,
    per_channel,
)
from compiler.codegen.slices.tensors import DdrTensor
from compiler.lowering.rows.lane_normalization import AFFINE
from compiler.lowering.rows.normalization import RowSums, normalized

from .layers import Layers, NormalizationLayer
from .mesh import Gathered


class Normalizer:
    """The normalizations of a sequence, and their constants in the scratchpad."""

    def __init__(self, kernel: Kernel, layers: Layers) -> None:
        self.kernel = kernel
        self.layers = [layer for layer in layers.order if isinstance(layer, NormalizationLayer)]
        self.sums: dict[int, RowSums] = {}
        self.vectors: dict[str, list[tuple[str, Value]]] = {}

    def load(self) -> None:
        """Load the constants of all of them."""
        for layer in self.layers:
            self._load(layer)

    def _load(self, layer: NormalizationLayer) -> None:
        kernel, work = self.kernel, layer.work
        if layer.columns not in self.sums:
            self.sums[layer.columns] = RowSums(kernel, layer.columns, work.arithmetic)
        loaded = self.vectors[layer.result.symbol] = []
        for at, name in ((1, "scale"), (2, "shift")):
            if work.has(at) or layer.quantised is not None:
                vector = self._parameter(layer, at, name)
                loaded.append((AFFINE[name], load_vector(kernel, name, vector, 0, layer.columns)))

    def _parameter(self, layer: NormalizationLayer, at: int, name: str) -> ChannelVector:
        """A parameter of a layer; of one whose result becomes bytes at once, in the unit of these.

        There the scale also brings rows from a sum of squares of 1 to a mean of 1.
        """
        work, how = layer.work, layer.quantised
        given = work.input(at).viewed(layer.columns) if work.has(at) else None
        if how is not None:
            known = np.asarray(given.value, np.float64) if given is not None else np.asarray(float(at == 1))
            factor = math.sqrt(layer.columns) if at == 1 else 1.0
            changed = known.reshape(-1) * factor / how.scale + (how.zero if at == 2 else 0.0)
            values = np.broadcast_to(changed, (layer.columns,))
            given = DdrTensor(layer.result.symbol, work.output.fmt, (layer.columns,), values)
        assert given is not None
        return channel_vector(self.kernel, f"{name}_data", given)

    def normalize(self, layer: NormalizationLayer, source: Gathered) -> Gathered:
        """All columns of the rows; the source stays as it is."""
        kernel, work = self.kernel, layer.work
        centred = work.op == "LayerNormalization"
        sums, epsilon = self.sums[layer.columns], work.spec.number("epsilon")
        at_once = layer.quantised is not None
        wide = normalized(kernel, sums, source.slice, epsilon, centred, of_sum=at_once)
        for name, vector in self.vectors[layer.result.symbol]:
            per_channel(kernel, name, wide, vector)
        result = narrowed_slice(kernel, wide, layer.result.fmt)
        return Gathered(result.base, result.fmt, source.rows, source.channels)
