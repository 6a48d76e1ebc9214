"""Normalizations of a sharded sequence: every tile of a mesh row normalizes all columns of its rows.

If only products read the rows, scale and shift become part of these: diag(scale) W takes the place of W,
and shift W is a bias. That is exact in real numbers; weights are computed in binary64 and rounded once, as
for any product.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.aligned import narrowed_slice, per_channel
from compiler.codegen.slices.tensors import BLOCK, DdrTensor
from compiler.evaluation.sizes import always
from compiler.graph import Array
from compiler.lowering.rows.lane_normalization import AFFINE
from compiler.lowering.rows.moments import RowMoments, lanes_of_sums
from compiler.operators.norms.normalization import normalization_of
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import aligned_channels
from tx8isa.numbers.rounding import rounded

from .layers import Layer, Layers, NormalizationLayer, ProductLayer, RowAffine, read_by
from .mesh import Gathered
from .placement import gathered_format

_MOST_KEPT = 512
"""Most columns for which the ones stay in the scratchpad for the biases of later products."""


@dataclass(frozen=True)
class Ones:
    """Equal numbers in TF32, by which rows of a length and format are multiplied to sum them.

    They are in the scratchpad when ``Normalizer.load`` has stored them.
    """

    normalizer: Normalizer
    key: tuple[int, Format]

    @property
    def kernel(self) -> Kernel:
        return self.normalizer.kernel

    @property
    def unit(self) -> float:
        """The common value of the ones."""
        return _unit(self.key[0])

    @property
    def base(self) -> Value:
        """Address of the ones."""
        return self.normalizer.moments[self.key].sums.ones[Format.TF32]

    def count(self, rows: int) -> int:
        """Number of ones for ``rows`` rows."""
        columns, fmt = self.key
        return columns * lanes_of_sums(self.kernel.target.machine, rows, columns, fmt)


class Normalizer:
    """The normalizations of a sequence, and their constants in the scratchpad; a tile has ``rows`` rows."""

    def __init__(self, kernel: Kernel, layers: Layers, rows: int) -> None:
        self.kernel, self.sequence, self.rows = kernel, layers, rows
        self.layers = [layer for layer in layers.order if isinstance(layer, NormalizationLayer)]
        self.moments: dict[tuple[int, Format], RowMoments] = {}
        self.vectors: dict[str, list[tuple[str, Value]]] = {}

    def load(self) -> None:
        """Load the constants of all of them."""
        centred = {self._key(layer) for layer in self.layers if _is_centred(layer)}
        for layer in self.layers:
            key = columns, fmt = self._key(layer)
            if key not in self.moments:
                unit = _unit(columns)
                self.moments[key] = RowMoments(self.kernel, self.rows, columns, fmt, key in centred, unit)
            self.moments[key].prepare(layer.work.spec.number("epsilon"))
        self._load_vectors()

    def ones(self, columns: int) -> Ones | None:
        """The ones with which normalizations sum rows, if they suffice for a matrix of ``columns``.

        None for long rows: ones would stay in the scratchpad up to the last bias, where weights need room.
        """
        for key in map(self._key, self.layers):
            found = Ones(self, key)
            enough = always(found.count(self.rows) >= self.rows * aligned_channels(columns, BLOCK))
            if enough and found.key[0] <= _MOST_KEPT:
                return found
        return None

    def _key(self, layer: NormalizationLayer) -> tuple[int, Format]:
        return layer.columns, gathered_format(self.sequence, layer.source)

    def _load_vectors(self) -> None:
        """Load scale and shift of all layers by one command, except where products contain them."""
        parameters = [_parameter(layer, at) for layer in self.layers for at in _parameters(layer)]
        if not parameters:
            return
        data = np.concatenate(parameters)
        symbol = self.kernel.constant("parameter_data", Format.FP32, data.astype(np.float32)).symbol
        base = self.kernel.buffer("parameters", 4 * data.size)
        source = DdrTensor(symbol, Format.FP32, (data.size,)).at(0)
        self.kernel.emit("rdma.fp32", dst=base, src=source, n=data.size)
        for layer in self.layers:
            vectors = self.vectors[layer.result.symbol] = []
            for at in _parameters(layer):
                vectors.append((AFFINE[_NAMES[at]], base))
                base = base + 4 * layer.columns

    def normalize(self, layer: NormalizationLayer, source: Gathered) -> Gathered:
        """Normalize all columns of the rows; the source stays unchanged."""
        kernel, epsilon = self.kernel, layer.work.spec.number("epsilon")
        wide = self.moments[self._key(layer)].normalized(source.slice, epsilon, _is_centred(layer))
        for name, vector in self.vectors.get(layer.result.symbol, ()):
            per_channel(kernel, name, wide, vector)
        result = narrowed_slice(kernel, wide, layer.result.fmt)
        return Gathered(result.base, result.fmt, source.rows, source.channels)


def _unit(columns: int) -> float:
    """The power of two next to 1 / ``columns``, so that squares and their sums are not far from 1."""
    return 2.0 ** -round(math.log2(columns))


def mean_square_factor(columns: int) -> float:
    """The factor that brings ``Normalizer``'s unscaled rows to a mean square of 1."""
    return math.sqrt(columns * _unit(columns))


_NAMES = {1: "scale", 2: "shift"}
"""The parameters of a normalization by the number of the input."""


def _is_centred(layer: NormalizationLayer) -> bool:
    return normalization_of(layer.work.op).centred


def _parameters(layer: NormalizationLayer) -> tuple[int, ...]:
    """The parameters that a layer applies: none, or a scale, which also brings rows to a mean square of 1."""
    if layer.folded:
        return ()
    shifted = layer.quantised is not None or layer.work.has(2)
    return (1, 2) if shifted else (1,)


def _parameter(layer: NormalizationLayer, at: int) -> Array:
    """Scale (1) or shift (2) of a layer; in units of bytes if its result becomes bytes at once.

    The scale also brings rows to a mean square of 1.
    """
    how = layer.quantised
    unit, zero = (how.scale, how.zero) if how is not None else (1.0, 0.0)
    given = layer.parameter(at)
    return given * mean_square_factor(layer.columns) / unit if at == 1 else given / unit + zero


def folded(layers: Layers) -> Layers:
    """The layers with the scales and shifts in products where that is possible."""
    found: list[Layer] = list(layers.order)
    for at, layer in enumerate(layers.order[:-1]):
        if not isinstance(layer, NormalizationLayer) or layer.quantised is not None:
            continue
        users = _users(layer, found)
        if users is not None:
            found[at] = replace(layer, folded=True)
            affine = RowAffine(_scale(layer), layer.parameter(2))
            for number, user in users.items():
                found[number] = replace(user, affine=affine)
    return Layers(tuple(found))


def _scale(layer: NormalizationLayer) -> Array:
    """The scale times the factor that brings the rows to a mean square of 1."""
    return layer.parameter(1) * mean_square_factor(layer.columns)


def _users(layer: NormalizationLayer, found: list[Layer]) -> dict[int, ProductLayer] | None:
    """The products that read the rows, by their numbers; None if others do, or weights would overflow."""
    users: dict[int, ProductLayer] = {}
    for number, each in enumerate(found):
        reads = [tensor.symbol for tensor in read_by(each)].count(layer.result.symbol)
        if not reads:
            continue
        whole = isinstance(each, ProductLayer) and each.source.symbol == layer.result.symbol
        if not isinstance(each, ProductLayer) or not whole or reads > 1 or each.of_bytes:
            return None
        if not _is_finite(layer, each):
            return None
        users[number] = each
    return users


def _is_finite(layer: NormalizationLayer, product: ProductLayer) -> bool:
    """True if weights and bias that include scale and shift are finite numbers of their formats."""
    weights, scale, shift = product.weights(), _scale(layer), layer.parameter(2)
    largest = np.max(np.abs(weights), axis=1) * np.abs(scale)
    finite = np.isfinite(rounded(largest, product.weight_fmt)).all()
    return bool(finite and np.isfinite((shift @ weights).astype(np.float32)).all())
