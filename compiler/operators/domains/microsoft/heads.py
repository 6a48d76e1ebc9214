"""Parts that the operators of attention share: masks, biases, pairs of keys and values, Attention's call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce

import numpy as np

from compiler.graph import AttrValue
from compiler.operators.elements.casting import CAST_NUMBERS
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.parts import permuted, reshaped, sliced
from compiler.operators.record import Attribute, Call, Types

MASK = Types("M", ("int32",))
FILTER = Attribute("mask_filter_value", "float", default=None)
SCALE = Attribute("scale", "float", default=None)
CAUSAL = Attribute("unidirectional", "int", 0, allowed=(0, 1))
HEADS = Attribute("num_heads", "int", required=True, minimum=1)
_FILTER_VALUE = -10000.0
"""The addend to the scores of hidden keys, unless mask_filter_value gives another."""


@dataclass(frozen=True)
class AttentionOperands:
    """Q, K and V in Attention's form, each with its number of heads; ``masks`` are added to the scores."""

    q: str
    k: str
    v: str
    heads: int
    masks: tuple[str, ...] = ()
    past: tuple[str, str] = ("", "")

    def result(self, build: Builder, results: int, **attrs: AttrValue) -> tuple[str, ...]:
        """Add Attention and return its first ``results`` results: the rows, all keys and all values."""
        if len(build.shape(self.q)) == 3:
            attrs |= {"q_num_heads": self.heads, "kv_num_heads": self.heads}
        mask = reduce(partial(build, "Add"), self.masks) if self.masks else ""
        operands = [self.q, self.k, self.v, mask, *self.past]
        while not operands[-1]:
            operands.pop()
        return build.several("Attention", results, *operands, **attrs)


def scale_of(call: Call) -> dict[str, AttrValue]:
    """Return the attribute scale of Attention; onnxruntime takes 0 for an absent scale."""
    scale = call.attrs.get("scale")
    return {"scale": scale} if scale else {}


def hidden(build: Builder, call: Call, seen: str, dtype: str) -> str:
    """Return the addend of the scores for truth values: 0, or the filter value for a key that is not seen."""
    value = call.attrs.get("mask_filter_value")
    least = float(value) if isinstance(value, int | float) else _FILTER_VALUE
    return build("Where", seen, build.constant(np.array(0.0), dtype), build.constant(np.array(least), dtype))


def is_positive(build: Builder, mask: str) -> str:
    """Return truth values: True where a mask of integers is above 0."""
    floats = build("Cast", mask, to=CAST_NUMBERS["float32"])
    return build("Greater", floats, build.like(floats, 0.0))


def before(build: Builder, ends: str, keys: int) -> str:
    """Return truth values [batch, 1, 1, keys]: True for keys before the end of their batch."""
    places = build.constant(np.arange(keys), "float32")
    floats = build("Cast", reshaped(build, ends, -1, 1, 1, 1), to=CAST_NUMBERS["float32"])
    return build("Less", places, floats)


def as_rows(build: Builder, x: str, heads: int) -> str:
    """Reshape [batch, rows, heads * size] to [batch, heads, rows, size]."""
    batch, rows, width = build.shape(x)
    return permuted(build, reshaped(build, x, batch, rows, heads, width // heads), 0, 2, 1, 3)


def columns(build: Builder, x: str, widths: Sequence[int]) -> list[str]:
    """Split the last axis of a value into parts of these widths."""
    axis, at, parts = len(build.shape(x)) - 1, 0, []
    for width in widths:
        parts.append(sliced(build, x, axis, at, at + width))
        at += width
    return parts


def halves_of(build: Builder, past: str) -> tuple[str, str]:
    """Split a pair [2, batch, ...] into keys and values."""
    shape = build.shape(past)[1:]
    first, second = (reshaped(build, sliced(build, past, 0, at, at + 1), *shape) for at in range(2))
    return first, second


def together(build: Builder, k: str, v: str) -> str:
    """Join keys and values to [2, batch, ...]."""
    return build("Concat", *(reshaped(build, x, 1, *build.shape(x)) for x in (k, v)), axis=0)
