"""The twin of a graph: the same nodes with constants that every format has exactly.

Programs store a constant rounded to one format or another, and multiply factors into it. In a field the
rounded number is another one. So a proof is about the twin, whose constants and products are never rounded;
its program has the same instructions.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from compiler.graph import FLOATS, Array, AttrValue, Graph, Node
from tx8isa.numbers.formats import MANTISSA_BITS, Format

_LARGEST = 2.0**12
"""Constants with larger numbers are masks."""
_FACTORS = ("scale",)
"""Attributes that lowerings multiply into constants."""


def twin_of(graph: Graph, compute: Format) -> Graph:
    """The graph with short constants, and with powers of two as factors; ``compute`` is its format."""
    bits = MANTISSA_BITS[Format.TF32 if compute is Format.FP32 else compute]
    constants = {name: _shortened(each, bits) for name, each in graph.constants.items()}
    return replace(graph, constants=constants, nodes=tuple(map(_with_short_factors, graph.nodes)))


def _shortened(array: Array, bits: int) -> Array:
    """Round a constant to whole multiples of a power of two, at most 2**bits of them.

    A single number stays: instructions hold it, and it stands for the simplest fraction beside it.
    """
    if array.dtype.name not in FLOATS or array.size < 2:
        return array
    values = array.astype(np.float64)
    largest = float(np.abs(values).max())
    if not 0.0 < largest < _LARGEST:
        return array
    unit = math.ldexp(1.0, math.frexp(largest)[1] - bits)
    return np.asarray(np.rint(values / unit) * unit).astype(array.dtype)


def _with_short_factors(node: Node) -> Node:
    short: dict[str, AttrValue] = {}
    for name in _FACTORS:
        value = node.attrs.get(name)
        if isinstance(value, int | float) and value > 0:
            short[name] = math.ldexp(1.0, round(math.log2(value)))
    return replace(node, attrs={**node.attrs, **short}) if short else node
