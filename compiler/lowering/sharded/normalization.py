"""Normalizations of a sharded sequence: every tile of a mesh row normalizes all columns of its rows."""

from __future__ import annotations

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.aligned import channel_vector, load_vector, narrowed_slice, per_channel
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
        loaded = self.vectors[work.output.symbol] = []
        for at, name in ((1, "scale"), (2, "shift")):
            if work.has(at):
                vector = channel_vector(kernel, f"{name}_data", work.input(at).viewed(layer.columns))
                loaded.append((AFFINE[name], load_vector(kernel, name, vector, 0, layer.columns)))

    def normalize(self, layer: NormalizationLayer, source: Gathered) -> Gathered:
        """All columns of the rows; the source stays as it is."""
        kernel, work = self.kernel, layer.work
        centred = work.op == "LayerNormalization"
        sums, epsilon = self.sums[layer.columns], work.spec.number("epsilon")
        wide = normalized(kernel, sums, source.slice, epsilon, centred)
        for name, vector in self.vectors[work.output.symbol]:
            per_channel(kernel, name, wide, vector)
        result = narrowed_slice(kernel, wide, work.output.fmt)
        return Gathered(result.base, result.fmt, source.rows, source.channels)
