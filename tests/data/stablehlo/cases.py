"""Small functions of JAX, by family: together they use every operation that the StableHLO front end reads.

``FAMILIES`` has, by family and name, a function and its arguments. ``make.py`` writes what they become.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Case = tuple[Callable[..., Any], tuple[Any, ...]]

RNG = np.random.default_rng(20)


def floats(*shape: int, low: float = -3, high: float = 3) -> Any:
    return RNG.uniform(low, high, shape).astype(np.float32)


def ints(*shape: int, low: int = -9, high: int = 9, dtype: Any = np.int32) -> Any:
    return RNG.integers(low, high, shape).astype(dtype)


def truths(*shape: int) -> Any:
    return RNG.integers(0, 2, shape).astype(bool)


X, Y = floats(3, 5), floats(3, 5)
POSITIVE = floats(3, 5, low=0.1, high=4)
UNIT = floats(3, 5, low=-0.9, high=0.9)
HALVES = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.2, -7.9], np.float32)
ODD = np.array([np.inf, -np.inf, np.nan, 0.0, -1.5], np.float32)
K, L = ints(3, 5), ints(3, 5, low=1)
P, Q = truths(3, 5), truths(3, 5)

ELEMENTWISE: dict[str, Case] = {
    **{
        name: (getattr(lax, name), (X,))
        for name in ("abs", "ceil", "cos", "sin", "tan", "tanh", "exp", "floor", "logistic", "neg", "sign")
    },
    **{name: (getattr(lax, name), (POSITIVE,)) for name in ("log", "sqrt", "rsqrt", "log1p", "expm1")},
    **{f"{name}_near_zero": (getattr(lax, name), (UNIT * 1e-3,)) for name in ("log1p", "expm1")},
    **{name: (getattr(lax, name), (UNIT,)) for name in ("asin", "acos", "atan", "atanh")},
    **{name: (getattr(lax, name), (X,)) for name in ("sinh", "cosh", "asinh", "cbrt", "square")},
    **{name: (getattr(lax, name), (X,)) for name in ("erf", "erfc")},
    "acosh": (lax.acosh, (POSITIVE + 1,)),
    **{name: (getattr(lax, name), (X, Y)) for name in ("add", "sub", "mul", "div", "max", "min", "atan2")},
    "pow": (lax.pow, (POSITIVE, Y)),
    "rem": (lax.rem, (X * 3, Y)),
    "round_even": (partial(lax.round, rounding_method=lax.RoundingMethod.TO_NEAREST_EVEN), (HALVES,)),
    "round_away": (partial(lax.round, rounding_method=lax.RoundingMethod.AWAY_FROM_ZERO), (HALVES,)),
    "is_finite": (lax.is_finite, (ODD,)),
    "isinf": (jnp.isinf, (ODD,)),
    "isnan": (jnp.isnan, (ODD,)),
    "clamp": (lambda x: lax.clamp(-1.0, x, 2.0), (X,)),
    "clamp_by_tensors": (lambda x, y: lax.clamp(y - 1, x, y + 1), (X, Y)),
    "bfloat16": (lambda x, y: (x.astype(jnp.bfloat16) * y.astype(jnp.bfloat16)).astype(np.float32), (X, Y)),
    "reduce_precision": (lambda x: lax.reduce_precision(x, 8, 7), (X,)),
    "reduce_precision_half": (lambda x: lax.reduce_precision(x, 5, 10), (X,)),
    "known_barrier": (lax.optimization_barrier, (X,)),
    "max_with_infinity": (lambda x: (lax.max(x, -np.inf), lax.min(x, np.inf)), (X,)),
}
INTEGERS: dict[str, Case] = {
    **{f"int_{name}": (getattr(lax, name), (K, L)) for name in ("add", "sub", "mul", "div", "rem", "max")},
    **{f"int_{name}": (getattr(lax, name), (K,)) for name in ("abs", "neg", "sign")},
    **{f"bitwise_{name}": (getattr(lax, f"bitwise_{name}"), (K, L)) for name in ("and", "or", "xor")},
    "bitwise_not": (lax.bitwise_not, (K,)),
    "shift_left": (lambda x: x << 3, (K,)),
    "shift_right": (lambda x: x >> 2, (K * 50,)),
    "shift_right_logical": (lambda x: lax.shift_right_logical(x, 5), (K * 50,)),
    **{f"logical_{name}": (getattr(jnp, f"logical_{name}"), (P, Q)) for name in ("and", "or", "xor")},
    "logical_not": (jnp.logical_not, (P,)),
    "truth_arithmetic": (lambda p, q: (lax.max(p, q), lax.min(p, q)), (P, Q)),
    **{name: (getattr(lax, name), (K, L)) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    "truth_compare": (lambda p, q: (lax.eq(p, q), lax.ne(p, q), lax.lt(p, q)), (P, Q)),
    "nan_compare": (lambda x: (x == x, x != x, x < 0, x >= 0), (ODD,)),
    "select": (jnp.where, (P, X, Y)),
    "select_by_scalar": (lambda x, y: lax.select(x[0, 0] > 0, x, y), (X, Y)),
    "select_n": (lambda p, x, y: lax.select_n(p, x, y), (P, X, Y)),
    "convert": (
        lambda x, i, p: (x.astype(np.int32), i.astype(np.float32), p.astype(np.float32), x.astype(bool)),
        (X, K, P),
    ),
    "bitcast": (lambda x: lax.bitcast_convert_type(x, np.int32), (X,)),
    "random_key": (lambda x: x + jax.random.uniform(jax.random.key(7), (3, 5)), (X,)),
}

A3 = floats(2, 3, 4)
SHAPES: dict[str, Case] = {
    "constants": (lambda x: x + np.arange(15, dtype=np.float32).reshape(3, 5), (X,)),
    "long_constant": (
        lambda x: x + np.linspace(-1, 1, 600, dtype=np.float32).reshape(8, 75),
        (floats(8, 75),),
    ),
    "long_truths": (lambda x: jnp.where(np.arange(600).reshape(8, 75) % 3 == 0, x, 0), (floats(8, 75),)),
    "integer_constant": (lambda i: i + np.arange(200, dtype=np.int32), (ints(200),)),
    "iota": (lambda x: x + lax.broadcasted_iota(np.float32, (3, 5), 0) * lax.iota(np.float32, 5), (X,)),
    "broadcast": (lambda x: (jnp.broadcast_to(x, (4, 3, 5)), jnp.broadcast_to(x[:, :1], (3, 5))), (X,)),
    "broadcast_moved": (lambda v: lax.broadcast_in_dim(v, (2, 3, 4), (1,)) + A3, (floats(3),)),
    "broadcast_twice": (lambda v: lax.broadcast_in_dim(v[:, None] * 2, (2, 3, 4), (1, 2)), (floats(3),)),
    "broadcast_then_reshape": (lambda v: jnp.broadcast_to(v, (4, 3)).reshape(2, 6), (floats(3),)),
    "broadcast_then_transpose": (lambda v: jnp.broadcast_to(v, (4, 3)).T, (floats(3),)),
    "reshape": (lambda x: x.reshape(2, 12) + 1, (A3,)),
    "transpose": (lambda x: x.transpose(2, 0, 1), (A3,)),
    "reverse": (lambda x: lax.rev(x, (0, 2)), (A3,)),
    "slice": (lambda x: x[:, 1:3, ::2], (A3,)),
    "concatenate": (lambda x, y: jnp.concatenate([x, y, x[:1]], 0), (X, Y)),
    "stack": (lambda x, y: jnp.stack([x, y], 1), (X, Y)),
    "split": (lambda x: jnp.split(x, 2, axis=2), (A3,)),
    "pad": (lambda x: lax.pad(x, 1.5, ((1, 2, 0), (0, 1, 0))), (X,)),
    "pad_negative": (lambda x: lax.pad(x, 0.0, ((-1, 2, 0), (1, -2, 0))), (X,)),
    "pad_interior": (lambda x: lax.pad(x, -1.0, ((1, 0, 2), (0, 1, 1))), (X,)),
    "pad_integers": (lambda i: lax.pad(i, np.int32(4), ((1, 2, 0), (0, 1, 0))), (K,)),
    "tile": (lambda x: jnp.tile(x, (2, 3)), (X,)),
    "roll": (lambda x: jnp.roll(x, 2, axis=1), (X,)),
    "tril": (lambda x: jnp.tril(x), (floats(4, 4),)),
    "scalar": (lambda s, x: s * x, (np.float32(1.5), X)),
}


def pooled(x: Any, op: Any, start: Any, window: Any, **rest: Any) -> Any:
    """A reduction over windows, with margins of none unless given."""
    settings = {"window_strides": (1,) * len(window), "padding": "VALID", **rest}
    return lax.reduce_window(x, start, op, window, **settings)


IMAGE = floats(2, 7, 6, 3)
REDUCTIONS: dict[str, Case] = {
    "sum": (lambda x: (x.sum(), x.sum(1), x.sum((0, 2))), (A3,)),
    "max": (lambda x: (x.max(), x.max(1), x.max((0, 2))), (A3,)),
    "min": (lambda x: (x.min(), x.min(2)), (A3,)),
    "prod": (lambda x: x.prod(1), (A3,)),
    "mean_var": (lambda x: (x.mean(-1), x.var(-1)), (A3,)),
    "all_any": (lambda p: (p.all(1), p.any(0), p.any()), (P,)),
    "integer_sums": (lambda i: (i.sum(1), i.max(0), i.min()), (K,)),
    "sum_with_start": (lambda x: lax.reduce(x, np.float32(2), lax.add, (1,)), (X,)),
    "argmax": (lambda x: (jnp.argmax(x, 1), jnp.argmax(x, 0), jnp.argmax(x)), (X,)),
    "argmin": (lambda x: (jnp.argmin(x, 1), jnp.argmin(x, 0)), (np.round(X),)),
    "argmax_of_ties": (lambda i: jnp.argmax(i % 3, 1), (K,)),
    "logsumexp": (lambda x: jax.nn.logsumexp(x, axis=-1), (X,)),
    "softmax": (lambda x: jax.nn.softmax(x, axis=-1), (X,)),
}
WINDOWS: dict[str, Case] = {
    "max_pool": (lambda x: pooled(x, lax.max, -np.inf, (1, 2, 2, 1), window_strides=(1, 2, 2, 1)), (IMAGE,)),
    "max_pool_same": (lambda x: pooled(x, lax.max, -np.inf, (1, 3, 3, 1), padding="SAME"), (IMAGE,)),
    "min_pool": (lambda x: pooled(x, lax.min, np.inf, (1, 2, 3, 1)), (IMAGE,)),
    "sum_pool": (lambda x: pooled(x, lax.add, 0.0, (1, 3, 2, 1), window_strides=(1, 2, 2, 1)), (IMAGE,)),
    "sum_pool_padded": (
        lambda x: pooled(x, lax.add, 0.0, (1, 3, 3, 1), padding=((0, 0), (2, 1), (3, 0), (0, 0))),
        (IMAGE,),
    ),
    "dilated_pool": (
        lambda x: pooled(x, lax.max, -np.inf, (1, 2, 2, 1), window_dilation=(1, 3, 2, 1)),
        (IMAGE,),
    ),
    "pool_of_a_line": (lambda x: pooled(x, lax.add, 0.0, (3,)), (floats(8),)),
    "pool_over_channels": (lambda x: pooled(x, lax.max, -np.inf, (1, 1, 1, 2)), (IMAGE,)),
    "pool_of_spread_elements": (lambda x: pooled(x, lax.add, 0.0, (1, 2), base_dilation=(1, 2)), (X,)),
    "any_pool": (lambda p: pooled(p, lax.bitwise_or, False, (2, 2)), (P,)),
    "cumsum": (lambda x: (lax.cumsum(x, 1), lax.cumsum(x, 0, reverse=True)), (X,)),
    "cumprod": (lambda x: lax.cumprod(x, 1), (X,)),
    "cummax": (lambda x: lax.cummax(x, 1), (X,)),
}
SORTING: dict[str, Case] = {
    "sort": (lambda x: (jnp.sort(x, 1), jnp.sort(x, 0, descending=True)), (X,)),
    "sort_integers": (lambda i: jnp.sort(i, 1), (K,)),
    "sort_truths": (lambda p: jnp.sort(p, 1), (P,)),
    "argsort": (lambda x: (jnp.argsort(x, 1), jnp.argsort(x, 1, descending=True)), (np.round(X),)),
    "sort_by_key": (lambda i, x: lax.sort((i % 4, x), dimension=1, num_keys=1, is_stable=True), (K, X)),
    "top_k": (lambda x: lax.top_k(x, 3), (np.round(X) + 0.0,)),
    "median": (lambda x: jnp.median(x, axis=1), (X,)),
}

M, N = floats(4, 6), floats(6, 3)


def convolved(x: Any, w: Any, strides: Any = (1, 1), padding: Any = "SAME", **rest: Any) -> Any:
    """A convolution with channels last, as Flax writes it."""
    settings = {"dimension_numbers": ("NHWC", "HWIO", "NHWC"), **rest}
    return lax.conv_general_dilated(x, w, strides, padding, **settings)


NCHW = ("NCHW", "OIHW", "NCHW")
LINEAR: dict[str, Case] = {
    "matmul": (lambda a, b: a @ b, (M, N)),
    "vectors": (lambda a, b: a @ b, (floats(6), floats(6))),
    "matrix_vector": (lambda a, v: (a @ v, v[:4] @ a), (M, floats(6))),
    "batch": (lambda a, b: a @ b, (floats(2, 3, 4), floats(2, 4, 5))),
    "three_axes_by_matrix": (lambda a, b: a @ b, (floats(2, 3, 6), N)),
    "heads": (lambda q, k: jnp.einsum("bqhd,bkhd->bhqk", q, k), (floats(2, 3, 2, 4), floats(2, 5, 2, 4))),
    "two_sums": (lambda a, b: jnp.einsum("abc,cbd->ad", a, b), (floats(2, 3, 4), floats(4, 3, 5))),
    "outer": (lambda a, b: jnp.einsum("i,j->ij", a, b), (floats(3), floats(4))),
    "matrix_by_three_axes": (lambda a, b: jnp.einsum("ij,jkl->ikl", a, b), (M, floats(6, 2, 3))),
    "integers": (lambda a, b: a @ b, (ints(3, 4), ints(4, 5))),
    "bytes": (
        lambda a, b: lax.dot(a, b, preferred_element_type=np.int32),
        (ints(3, 4, dtype=np.int8), ints(4, 5, dtype=np.int8)),
    ),
    "wider_result": (
        lambda a, b: lax.dot(
            a.astype(jnp.bfloat16), b.astype(jnp.bfloat16), preferred_element_type=np.float32
        ),
        (M, N),
    ),
}
CONVOLUTIONS: dict[str, Case] = {
    "convolution": (convolved, (IMAGE, floats(3, 3, 3, 4))),
    "channels_first": (
        lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "VALID", dimension_numbers=NCHW),
        (floats(2, 3, 6, 5), floats(4, 3, 3, 2)),
    ),
    "strided": (lambda x, w: convolved(x, w, (2, 3)), (IMAGE, floats(3, 3, 3, 4))),
    "dilated": (lambda x, w: convolved(x, w, rhs_dilation=(2, 1)), (IMAGE, floats(3, 2, 3, 4))),
    "grouped": (
        lambda x, w: convolved(x, w, feature_group_count=2),
        (floats(1, 5, 5, 4), floats(3, 3, 2, 6)),
    ),
    "depthwise": (lambda x, w: convolved(x, w, feature_group_count=3), (IMAGE, floats(3, 3, 1, 6))),
    "transposed": (lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME"), (IMAGE, floats(3, 3, 3, 4))),
    "transposed_mirrored": (
        lambda x, w: lax.conv_transpose(x, w, (2, 3), "VALID", transpose_kernel=True),
        (IMAGE, floats(3, 2, 4, 3)),
    ),
    "padded_unevenly": (lambda x, w: convolved(x, w, padding=((2, 0), (-1, 3))), (IMAGE, floats(3, 3, 3, 2))),
    "of_a_line": (
        lambda x, w: lax.conv_general_dilated(x, w, (2,), "SAME", dimension_numbers=("NWC", "WIO", "NWC")),
        (floats(2, 9, 3), floats(3, 3, 4)),
    ),
    "of_a_volume": (
        lambda x, w: lax.conv(x, w, (1, 1, 1), "VALID"),
        (floats(1, 2, 4, 4, 3), floats(3, 2, 2, 2, 2)),
    ),
    "images_side_by_side": (
        lambda x, w: jnp.concatenate([convolved(x, w), convolved(x, w, rhs_dilation=(2, 2))], -1),
        (IMAGE, floats(3, 3, 3, 2)),
    ),
    "image_and_its_convolution": (lambda x, w: x * 2 + convolved(x, w) * x[:1], (IMAGE, floats(3, 3, 3, 3))),
    "reduced_images": (
        lambda x, w: (convolved(x, w).mean((1, 2)), convolved(x, w).max(2), convolved(x, w).sum(3)),
        (IMAGE, floats(3, 3, 3, 2)),
    ),
    "moved_images": (
        lambda x, w: (
            convolved(x, w)[:, 1:3],
            convolved(x, w).transpose(0, 3, 2, 1),
            convolved(x, w)[..., None],
        ),
        (IMAGE, floats(3, 3, 3, 2)),
    ),
    "image_by_channels": (
        lambda x, w, s: jnp.where(s[None, None, None] > 0, convolved(x, w) * s, convolved(x, w)),
        (IMAGE, floats(3, 3, 3, 2), floats(2)),
    ),
    "of_a_point": (lambda x, w: lax.conv(x, w, (), "VALID"), (floats(2, 3), floats(4, 3))),
}

ROWS = np.array([3, 0, 0, 6, 2], np.int32)
TABLE = floats(7, 4)
PLACES = np.array([[1, 0, 2], [0, 3, 3]], np.int32)
GATHERING: dict[str, Case] = {
    "take": (lambda t, i: jnp.take(t, i, axis=0), (TABLE, ROWS)),
    "take_clipped": (
        lambda t, i: jnp.take(t, i, axis=1, mode="clip"),
        (TABLE, np.array([9, 0, 3], np.int32)),
    ),
    "take_outside": (lambda t, i: jnp.take(t, i, axis=0), (TABLE, np.array([-1, 9, -9, 2], np.int32))),
    "embedding": (lambda t, i: t[i], (TABLE, PLACES)),
    "known_rows": (lambda t: t[np.array([2, 0, 5])], (TABLE,)),
    "one_row": (lambda t, i: t[i], (TABLE, np.int32(4))),
    "column": (lambda t, i: t[:, i], (TABLE, ROWS[1:3])),
    "pairs": (lambda t, i, j: t[i, j], (TABLE, ROWS, ROWS % 4)),
    "take_along_axis": (lambda t, i: jnp.take_along_axis(t, i, axis=1), (floats(2, 4), PLACES)),
    "take_along_first": (lambda t, i: jnp.take_along_axis(t, i, axis=0), (floats(4, 3), PLACES)),
    "batched_rows": (lambda t, i: jax.vmap(lambda a, b: a[b])(t, i), (floats(2, 4, 3), PLACES)),
    "windows": (lambda t, i: jax.vmap(lambda at: lax.dynamic_slice(t, (at, 1), (2, 2)))(i), (TABLE, ROWS)),
    "batched_windows": (
        lambda t, i: jax.vmap(lambda a, at: lax.dynamic_slice(a, (at, 0), (2, 3)))(t, i),
        (floats(2, 4, 3), np.array([5, 1], np.int32)),
    ),
    "dynamic_slice": (lambda t, i: lax.dynamic_slice(t, (i, 0), (3, 4)), (TABLE, np.int32(2))),
    "dynamic_slice_outside": (lambda t, i: lax.dynamic_slice(t, (i, i), (3, 2)), (TABLE, np.int32(6))),
    "known_slice": (lambda t: lax.dynamic_slice(t, (9, 1), (3, 2)), (TABLE,)),
}
SCATTERING: dict[str, Case] = {
    "update_slice": (
        lambda t, u, i: lax.dynamic_update_slice(t, u, (i, 0)),
        (TABLE, floats(2, 4), np.int32(3)),
    ),
    "update_block": (
        lambda t, u, i: lax.dynamic_update_slice(t, u, (i, i)),
        (TABLE, floats(2, 2), np.int32(9)),
    ),
    "update_known": (lambda t, u: lax.dynamic_update_slice(t, u, (1, 2)), (TABLE, floats(3, 2))),
    "set_rows": (lambda t, i, u: t.at[i].set(u), (TABLE, np.array([5, 1, 9], np.int32), floats(3, 4))),
    "add_rows": (lambda t, i, u: t.at[i].add(u), (TABLE, ROWS, floats(5, 4))),
    "multiply_rows": (lambda t, i: t.at[i].multiply(2.0), (TABLE, ROWS)),
    "max_rows": (lambda t, i, u: (t.at[i].max(u), t.at[i].min(u)), (TABLE, ROWS, floats(5, 4))),
    "add_pairs": (lambda t, i, j: t.at[i, j].add(1.0), (TABLE, ROWS, ROWS % 4)),
    "set_columns": (lambda t, i, u: t.at[:, i].set(u), (TABLE, np.array([2, 0], np.int32), floats(7, 2))),
    "set_known_part": (lambda t, u: t.at[2:4, 1].set(u), (TABLE, floats(2))),
    "set_known_rows": (lambda t: t.at[np.array([1, 4])].set(0.5), (TABLE,)),
    "set_window": (lambda t, u, i: t.at[i, 1:3].set(u), (TABLE, floats(2), np.int32(4))),
    "batched_set": (
        lambda t, i, u: jax.vmap(lambda a, at, b: a.at[at].set(b))(t, i, u),
        (floats(2, 4, 3), np.array([3, 1], np.int32), floats(2, 3)),
    ),
    "one_hot": (lambda i: jax.nn.one_hot(i, 5), (ROWS,)),
    "bincount": (lambda i: jnp.bincount(i, length=7), (ROWS,)),
    "segment_sum": (
        lambda x, i: jax.ops.segment_sum(x, i, 4),
        (TABLE, np.array([0, 2, 1, 1, 3, 0, 2], np.int32)),
    ),
}


def branches(i: Any, x: Any) -> Any:
    return lax.switch(i, [lambda a: a + 1, lambda a: a * 2, lambda a: -a], x)


CONTROL: dict[str, Case] = {
    "call": (lambda x: jax.jit(jax.nn.relu)(x) + jax.nn.relu(x * 2), (X,)),
    "fori_loop": (lambda x: lax.fori_loop(0, 4, lambda k, c: c * 0.5 + k, x), (X,)),
    "while_loop": (
        lambda x: lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * 2), (0, x))[1],
        (X,),
    ),
    "scan": (lambda x: lax.scan(lambda c, r: (c + r, c * r), np.zeros(5, np.float32), x), (X,)),
    "reversed_scan": (
        lambda x: lax.scan(lambda c, r: (c * 0.5 + r, c), np.zeros(5, np.float32), x, reverse=True),
        (X,),
    ),
    "nested_loops": (
        lambda x: lax.fori_loop(0, 2, lambda i, c: lax.fori_loop(0, 3, lambda j, d: d + i * j, c), x),
        (X,),
    ),
    "no_steps": (lambda x: lax.fori_loop(3, 3, lambda k, c: c * 2, x), (X,)),
    "switch": (branches, (np.int32(1), X)),
    "switch_outside": (branches, (np.int32(9), X)),
    "cond": (lambda x: lax.cond(x[0, 0] > 0, lambda a: a + 1, lambda a: a - 1, x), (X,)),
    "map": (lambda x: lax.map(lambda r: jnp.tanh(r).sum(), x), (X,)),
    "composite": (lax.composite(lambda x: jnp.sin(x) * 2, "my.sine"), (X,)),
    "checkpoint": (jax.checkpoint(lambda x: jnp.sin(jnp.cos(x))), (X,)),
}

FAMILIES: dict[str, dict[str, Case]] = {
    "elementwise": ELEMENTWISE,
    "integers": INTEGERS,
    "shapes": SHAPES,
    "reductions": REDUCTIONS,
    "windows": WINDOWS,
    "sorting": SORTING,
    "linear": LINEAR,
    "convolutions": CONVOLUTIONS,
    "gathering": GATHERING,
    "scattering": SCATTERING,
    "control": CONTROL,
}
