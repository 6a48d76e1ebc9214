"""Twelve small networks in JAX with seeded weights, as inference code writes them.

``NETWORKS`` has, by name, a function and its arguments. ``make.py`` writes what they become.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

RNG = np.random.default_rng(12)


def weights(*shape: int) -> Any:
    """Seeded weights, scaled by the number of terms that are summed."""
    return (RNG.standard_normal(shape) / np.sqrt(np.prod(shape[:-1]))).astype(np.float32)


def sample(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def layer_norm(x: Any, scale: Any, shift: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    variance = jnp.mean(jnp.square(x - mean), -1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * scale + shift


def rms_norm(x: Any, scale: Any) -> Any:
    return x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * scale


def convolved(x: Any, w: Any, stride: int = 1, **rest: Any) -> Any:
    axes = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=axes, **rest)


def attended(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
    if mask is not None:
        scores = jnp.where(mask, scores, -1e9)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, axis=-1), v)


def mlp() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Three dense layers and a softmax."""
    layers = [(weights(12, 32), weights(32)), (weights(32, 16), weights(16)), (weights(16, 5), weights(5))]

    def network(x: Any) -> Any:
        for w, b in layers[:-1]:
            x = jax.nn.relu(x @ w + b)
        w, b = layers[-1]
        return jax.nn.softmax(x @ w + b)

    return network, (sample(6, 12),)


def cnn() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Convolutions with channels last, pools, a dense layer."""
    first, second = weights(3, 3, 3, 8), weights(3, 3, 8, 8)
    b1, b2, dense = weights(8), weights(8), weights(8 * 3 * 3, 10)

    def network(image: Any) -> Any:
        x = jax.nn.relu(convolved(image, first) + b1)
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        x = jax.nn.relu(convolved(x, second) + b2)
        x = lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4
        return jax.nn.log_softmax(x.reshape(x.shape[0], -1) @ dense)

    return network, (sample(2, 12, 12, 3),)


def attention() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Attention of four heads to another sequence, with a residual sum and a normalization."""
    q, k, v, out = (weights(24, 4, 6), weights(24, 4, 6), weights(24, 4, 6), weights(4, 6, 24))
    scale, shift = 1 + weights(24), weights(24)

    def network(x: Any, memory: Any) -> Any:
        heads = [jnp.einsum("bsf,fhd->bshd", a, w) for a, w in ((x, q), (memory, k), (memory, v))]
        return layer_norm(x + jnp.einsum("bshd,hdf->bsf", attended(*heads), out), scale, shift)

    return network, (sample(2, 7, 24), sample(2, 9, 24))


def decoder() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A block of a decoder: rotary positions, a causal mask, gated units, tokens from a table."""
    table, norms = weights(30, 16) * 4, [1 + weights(16), 1 + weights(16), 1 + weights(16)]
    qkv, out = weights(16, 3, 2, 8), weights(2, 8, 16)
    gate, up, down = weights(16, 32), weights(16, 32), weights(32, 16)
    angles = np.arange(10)[:, None] / 100.0 ** (np.arange(4) / 4)
    cosines, sines = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)

    def turned(x: Any) -> Any:
        a, b = jnp.split(x, 2, axis=-1)
        c, s = cosines[None, :, None], sines[None, :, None]
        return jnp.concatenate([a * c - b * s, b * c + a * s], -1)

    def network(tokens: Any) -> Any:
        x = jnp.take(table, tokens, axis=0)
        q, k, v = jnp.moveaxis(jnp.einsum("bsf,fthd->bsthd", rms_norm(x, norms[0]), qkv), 2, 0)
        mask = jnp.tril(jnp.ones((10, 10), bool))
        x = x + jnp.einsum("bshd,hdf->bsf", attended(turned(q), turned(k), v, mask), out)
        y = rms_norm(x, norms[1])
        x = x + (jax.nn.silu(y @ gate) * (y @ up)) @ down
        return rms_norm(x, norms[2]) @ table.T

    return network, (RNG.integers(0, 30, (2, 10)).astype(np.int32),)


def cached_step() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """One step of a decoder with a cache of keys and values, written at a place that is computed."""
    qkv, out = weights(16, 3, 2, 8), weights(2, 8, 16)

    def network(x: Any, keys: Any, values: Any, at: Any) -> Any:
        q, k, v = jnp.moveaxis(jnp.einsum("bsf,fthd->bsthd", x, qkv), 2, 0)
        keys = lax.dynamic_update_slice(keys, k, (0, at, 0, 0))
        values = lax.dynamic_update_slice(values, v, (0, at, 0, 0))
        mask = jnp.arange(12)[None, None, None] <= at
        return x + jnp.einsum("bshd,hdf->bsf", attended(q, keys, values, mask), out), keys, values

    return network, (sample(1, 1, 16), sample(1, 12, 2, 8), sample(1, 12, 2, 8), np.int32(5))


def recurrent() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A gated recurrent cell over a sequence: a scan, which is a while loop."""
    wide, recurrent_weights, bias = weights(6, 3 * 8), weights(8, 3 * 8), weights(3 * 8)

    def cell(state: Any, x: Any) -> tuple[Any, Any]:
        a, b = x @ wide + bias, state @ recurrent_weights
        update, reset = (jax.nn.sigmoid(a[:, at : at + 8] + b[:, at : at + 8]) for at in (0, 8))
        new = jnp.tanh(a[:, 16:] + reset * b[:, 16:])
        state = update * state + (1 - update) * new
        return state, state

    def network(sequence: Any) -> Any:
        return lax.scan(cell, jnp.zeros((3, 8), np.float32), sequence)

    return network, (sample(9, 3, 6),)


def mobile() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Strided, depthwise, dilated and grouped convolutions with normalizations of known statistics."""
    first, deep, point = weights(3, 3, 3, 8), weights(3, 3, 1, 8), weights(1, 1, 8, 12)
    wide, grouped = weights(3, 3, 12, 12), weights(3, 3, 3, 12)
    mean, variance = weights(12), np.abs(weights(12)) + 0.5

    def network(image: Any) -> Any:
        x = jax.nn.relu6(convolved(image, first, 2))
        x = jax.nn.relu6(convolved(x, deep, feature_group_count=8))
        x = (convolved(x, point) - mean) * lax.rsqrt(variance + 1e-3)
        x = jax.nn.hard_swish(convolved(x, wide, rhs_dilation=(2, 2)))
        x = x + convolved(x, grouped, feature_group_count=4)
        return x.mean((1, 2))

    return network, (sample(1, 14, 14, 3),)


def generator() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Transposed convolutions from a vector to an image, as a generator has them."""
    dense, first, second = weights(8, 4 * 4 * 6), weights(4, 4, 6, 5), weights(3, 3, 5, 3)

    def network(z: Any) -> Any:
        x = jax.nn.leaky_relu((z @ dense).reshape(-1, 4, 4, 6))
        x = jax.nn.elu(lax.conv_transpose(x, first, (2, 2), "SAME"))
        return jnp.tanh(lax.conv_transpose(x, second, (2, 2), "SAME"))

    return network, (sample(2, 8),)


def ranking() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Scores against a table, the best entries and their data, in the order of the scores."""
    table, facts = weights(20, 8) * 3, jnp.asarray(sample(20, 4))

    def network(queries: Any) -> Any:
        scores = queries @ table.T
        best, at = lax.top_k(scores, 5)
        order = jnp.argsort(scores, axis=1)
        rows = jnp.take_along_axis(scores, order, axis=1)
        return best, facts[at] * best[..., None], jnp.argmax(scores, axis=1), rows

    return network, (sample(4, 8),)


def updates() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Messages along the edges of a graph: rows are gathered, computed with, and added up by scatters."""
    own, other = weights(6, 6), weights(6, 6)
    sources, targets = RNG.integers(0, 8, (2, 20)).astype(np.int32)

    def network(nodes: Any, edges: Any) -> Any:
        for _ in range(2):
            messages = jax.nn.gelu(nodes[sources] @ other) * edges
            sums = jnp.zeros_like(nodes).at[targets].add(messages)
            nodes = jnp.tanh(nodes @ own + sums)
        return nodes, nodes.at[np.array([0, 3])].set(0.0).max(axis=0)

    return network, (sample(8, 6), np.abs(sample(20, 1)))


def spectrum() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A line filtered by convolutions, cumulated, clipped, its windows compared; exact error functions."""
    taps, mix = weights(5, 2, 6), weights(6, 4)

    def network(signal: Any) -> Any:
        axes = ("NWC", "WIO", "NWC")
        x = lax.conv_general_dilated(signal, taps, (1,), "SAME", dimension_numbers=axes)
        x = jax.nn.gelu(x, approximate=False)
        x = jnp.clip(lax.cumsum(x, axis=1) / jnp.arange(1, 17, dtype=np.float32)[None, :, None], -1, 1)
        peaks = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 1), (1, 1, 1), "SAME")
        return jnp.where(x >= peaks, x, 0.0) @ mix, jnp.sum(x == peaks, axis=1)

    return network, (sample(2, 16, 2),)


def mixture() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Experts, two of them for each row, in bfloat16 except for the routing weights."""
    choice = weights(10, 4)
    up, down = weights(4, 10, 16).astype(jnp.bfloat16), weights(4, 16, 10).astype(jnp.bfloat16)

    def network(x: Any) -> Any:
        best, at = lax.top_k(jax.nn.softmax(x @ choice), 2)
        shares = (jax.nn.one_hot(at, 4) * best[..., None]).sum(1)
        hidden = jax.nn.silu(jnp.einsum("bf,efh->ebh", x.astype(jnp.bfloat16), up))
        results = jnp.einsum("ebh,ehf->ebf", hidden, down).astype(np.float32)
        return jnp.einsum("ebf,be->bf", results, shares)

    return network, (sample(5, 10),)


NETWORKS: dict[str, Callable[[], tuple[Callable[..., Any], tuple[Any, ...]]]] = {
    network.__name__: network
    for network in (
        *(mlp, cnn, attention, decoder, cached_step, recurrent),
        *(mobile, generator, ranking, updates, spectrum, mixture),
    )
}
