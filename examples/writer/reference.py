"""The writer in float32 with NumPy, without a cache: every token is computed from all tokens before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from shape import SHAPE
from text import END, decode, encode

Array = NDArray[np.float32]


def norm(x: Array, weight: Array) -> Array:
    """RMS normalization of rows."""
    return np.float32(x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + SHAPE.epsilon) * weight)


def rotated(x: Array) -> Array:
    """Rotary embeddings of heads [count, length, head], whose positions count from 0."""
    half = SHAPE.head // 2
    angles = np.arange(x.shape[1])[:, None] * SHAPE.base ** -(np.arange(half) / half)
    cos, sin = np.float32(np.cos(angles)), np.float32(np.sin(angles))
    low, high = x[..., :half], x[..., half:]
    return np.concatenate([low * cos - high * sin, high * cos + low * sin], axis=-1)


def attention(x: Array, weights: Mapping[str, Array], layer: str) -> Array:
    """Causal attention of rows [length, width]; every head of keys serves some heads of queries."""
    q, k, v = (
        (x @ weights[f"{layer}.{part}.weight"].T).reshape(len(x), -1, SHAPE.head).swapaxes(0, 1)
        for part in "qkv"
    )
    q, k = rotated(q), rotated(k)
    k, v = (np.repeat(part, SHAPE.heads // SHAPE.groups, axis=0) for part in (k, v))
    scores = q @ k.swapaxes(1, 2) / np.float32(np.sqrt(SHAPE.head))
    scores = np.where(np.tri(len(x), dtype=bool), scores, np.float32(-np.inf))
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares /= shares.sum(axis=-1, keepdims=True)
    return np.asarray((shares @ v).swapaxes(0, 1).reshape(len(x), -1) @ weights[f"{layer}.o.weight"].T)


def swiglu(x: Array, weights: Mapping[str, Array], layer: str) -> Array:
    """The second half of a layer, of rows [length, width]."""
    gate, up = (x @ weights[f"{layer}.{part}.weight"].T for part in ("gate", "up"))
    return np.asarray(gate / (1 + np.exp(-gate)) * up @ weights[f"{layer}.down.weight"].T)


def logits(tokens: Sequence[int], weights: Mapping[str, Array]) -> Array:
    """Logits of the token after some tokens."""
    x = weights["embedding.weight"][list(tokens)]
    for number in range(SHAPE.layers):
        layer = f"layers.{number}"
        x = x + attention(norm(x, weights[f"{layer}.attention_norm.weight"]), weights, layer)
        x = x + swiglu(norm(x, weights[f"{layer}.mlp_norm.weight"]), weights, layer)
    return np.asarray(norm(x[-1:], weights["norm.weight"])[0] @ weights["embedding.weight"].T)


def as_floats(weights: Mapping[str, Any]) -> dict[str, Array]:
    """The weights of the file in float32."""
    return {name: np.float32(value) for name, value in weights.items()}


def answer(prompt: str, weights: Mapping[str, Array]) -> str:
    """The answer of the float32 writer."""
    tokens = encode(prompt)
    begin = len(tokens)
    while len(tokens) < SHAPE.room and tokens[-1] != END:
        tokens.append(int(logits(tokens, weights).argmax()))
    return decode(tokens[begin:])
