"""Launches of the operators of examples/triton/operators.py, with their references in NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from paths import ROOT
from triton_launches import DTYPES, PRODUCTS, ROUNDING, Array, Case, case_in, draw, poison, wide

OPERATORS = ROOT / "examples/triton/operators"

_PHILOX = (0xD2511F53, 0xCD9E8D57, 0x9E3779B9, 0xBB67AE85)
"""The factors and the steps of the key of Philox 4x32."""


def philox(seed: int, offset: Array) -> list[Array]:
    """The four words of ten rounds of Philox 4x32 for counters (offset, 0, 0, 0), as signed numbers."""
    words = [offset.astype(np.uint64), *(np.zeros(offset.shape, np.uint64) for _ in range(3))]
    keys, low = [seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF], np.uint64(0xFFFFFFFF)
    for _ in range(10):
        first, second = (
            words[at] * np.uint64(factor) for at, factor in zip((0, 2), _PHILOX[:2], strict=True)
        )
        high = np.uint64(32)
        words = [
            (second >> high) ^ words[1] ^ np.uint64(keys[0]),
            second & low,
            (first >> high) ^ words[3] ^ np.uint64(keys[1]),
            first & low,
        ]
        keys = [(key + step) & 0xFFFFFFFF for key, step in zip(keys, _PHILOX[2:], strict=True)]
    return [word.astype(np.uint32).view(np.int32) for word in words]


def uniform_floats(words: Array) -> Array:
    """Numbers in [0, 1) of the first word, in FP32."""
    return np.where(words < 0, ~words, words).astype(np.float32) * np.float32(4.6566127342e-10)


_case = partial(case_in, OPERATORS)


def _silu_and_mul(fmt: str) -> Case:
    x = draw(fmt, 5, 2, 301)
    a, b = wide(x[:, 0]), wide(x[:, 1])
    arguments = {"x": x, "out": poison(fmt, 5, 301), "columns": 301}
    return _case(
        "silu_and_mul", fmt, (5, 2, 1), arguments, {"out": a / (1 + np.exp(-a)) * b}, {"out": ROUNDING[fmt]}
    )


def _masked_fill(fmt: str) -> Case:
    x, where = draw(fmt, 701), np.random.default_rng(2).integers(0, 2, 701).astype(np.int8)
    arguments = {"x": x, "where": where, "out": poison(fmt, 701), "n": 701, "value": -2.5}
    return _case(
        "masked_fill", fmt, (3, 1, 1), arguments, {"out": np.where(where, DTYPES[fmt].type(-2.5), x)}
    )


def _dropout(fmt: str) -> Case:
    x, seed = draw(fmt, 701), 12345
    kept = uniform_floats(philox(seed, np.arange(701))[0]) > np.float32(0.3)
    want = np.where(kept, wide(x) / np.float32(1 - np.float32(0.3)), 0)
    arguments = {"x": x, "out": poison(fmt, 701), "n": 701, "p": 0.3, "seed": seed}
    return _case("dropout", fmt, (3, 1, 1), arguments, {"out": want}, {"out": ROUNDING[fmt]})


def _lower_triangle(fmt: str) -> Case:
    x = draw(fmt, 37, 101)
    arguments = {"x": x, "out": poison(fmt, 37, 101), "rows": 37, "columns": 101, "diagonal": 3}
    return _case("lower_triangle", fmt, (3, 2, 1), arguments, {"out": np.tril(wide(x), 3)})


def _flip(fmt: str) -> Case:
    x = draw(fmt, 701)
    arguments = {"x": x, "out": poison(fmt, 701), "n": 701}
    return _case("flip", fmt, (3, 1, 1), arguments, {"out": x[::-1]})


def _rotary(fmt: str) -> Case:
    tokens, heads, half = 7, 3, 32
    x = draw(fmt, tokens, heads, 2, half)
    position = np.random.default_rng(4).integers(0, 50, tokens)
    angles = np.arange(50)[:, None] / 10000 ** (np.arange(half) / half)
    cosines, sines = np.cos(angles).astype(DTYPES[fmt]), np.sin(angles).astype(DTYPES[fmt])
    c, s = (wide(table)[position][:, None, :] for table in (cosines, sines))
    a, b = wide(x[:, :, 0]), wide(x[:, :, 1])
    want = np.stack([a * c - b * s, b * c + a * s], axis=2)
    arguments = {
        **{"x": x, "position": position, "cosines": cosines, "sines": sines},
        **{"out": poison(fmt, tokens, heads, 2, half), "heads": heads},
    }
    return _case("rotary", fmt, (tokens, heads, 1), arguments, {"out": want}, {"out": ROUNDING[fmt]})


def _log_of_softmax(x: Array) -> Array:
    v = wide(x) - wide(x).max(-1, keepdims=True)
    return np.asarray(v - np.log(np.exp(v).sum(-1, keepdims=True)))


def _log_softmax(fmt: str) -> Case:
    x = draw(fmt, 5, 301)
    arguments = {"x": x, "out": poison(fmt, 5, 301), "columns": 301}
    return _case(
        "log_softmax", fmt, (5, 1, 1), arguments, {"out": _log_of_softmax(x)}, {"out": ROUNDING[fmt]}
    )


def _cross_entropy(fmt: str) -> Case:
    x, label = draw(fmt, 9, 301), np.random.default_rng(5).integers(0, 301, 9)
    label[4] = -100
    want = np.array([-row[at] if at >= 0 else 0 for row, at in zip(_log_of_softmax(x), label, strict=True)])
    arguments = {"x": x, "label": label, "loss": poison("fp32", 9), "columns": 301, "ignored": -100}
    return _case("cross_entropy", fmt, (9, 1, 1), arguments, {"loss": want}, {"loss": ROUNDING["fp32"]})


def _rms_norm(fmt: str) -> Case:
    x, scale = draw(fmt, 5, 301), draw(fmt, 301, seed=2)
    want = wide(x) / np.sqrt((wide(x) ** 2).mean(1, keepdims=True) + 1e-5) * wide(scale)
    arguments = {"x": x, "scale": scale, "out": poison(fmt, 5, 301), "columns": 301, "eps": 1e-5}
    return _case("rms_norm", fmt, (5, 1, 1), arguments, {"out": want}, {"out": ROUNDING[fmt]})


def _layer_norm_backward(fmt: str) -> Case:
    x, scale, dy = draw(fmt, 6, 203), draw(fmt, 203, seed=2), draw(fmt, 6, 203, seed=3)
    mean, rstd = wide(x).mean(1, keepdims=True), 1 / np.sqrt(wide(x).var(1, keepdims=True) + 1e-5)
    normal, g = (wide(x) - mean) * rstd, wide(dy)
    weighted = g * wide(scale)
    dx = (
        weighted - normal * (normal * weighted).mean(1, keepdims=True) - weighted.mean(1, keepdims=True)
    ) * rstd
    arguments = {
        **{"x": x, "scale": scale, "dy": dy, "mean": mean[:, 0].astype(np.float32)},
        **{"rstd": rstd[:, 0].astype(np.float32), "dx": poison(fmt, 6, 203)},
        **{"dscale": np.zeros(203, np.float32), "dshift": np.zeros(203, np.float32), "columns": 203},
    }
    expected = {"dx": dx, "dscale": (g * normal).sum(0), "dshift": g.sum(0)}
    allowed = {"dx": ROUNDING[fmt], "dscale": ROUNDING["fp32"], "dshift": ROUNDING["fp32"]}
    return _case("layer_norm_backward", fmt, (6, 1, 1), arguments, expected, allowed)


def _argmax(fmt: str) -> Case:
    x = draw(fmt, 7, 203).round(1).astype(DTYPES[fmt])  # numbers occur more than once
    arguments = {
        **{"x": x, "largest": np.full(7, -1, np.int32), "smallest": np.full(7, -1, np.int32)},
        "columns": 203,
    }
    expected = {"largest": wide(x).argmax(1), "smallest": wide(x).argmin(1)}
    return _case("argmax", fmt, (7, 1, 1), arguments, expected)


def _topk(fmt: str) -> Case:
    x = draw(fmt, 5, 101)
    order = np.argsort(-wide(x), axis=1, kind="stable")[:, :3]
    arguments = {"x": x, "values": poison(fmt, 5, 3), "places": np.full((5, 3), -1, np.int32), "columns": 101}
    return _case(
        "topk", fmt, (5, 1, 1), arguments, {"values": np.take_along_axis(x, order, 1), "places": order}
    )


def _cumsum(fmt: str) -> Case:
    x = draw(fmt, 5, 301)
    arguments = {"x": x, "out": poison(fmt, 5, 301), "columns": 301}
    return _case("cumsum", fmt, (5, 1, 1), arguments, {"out": wide(x).cumsum(1)}, {"out": ROUNDING[fmt]})


def _embedding(fmt: str) -> Case:
    table, ids = draw(fmt, 50, 101), np.random.default_rng(6).integers(0, 50, 21)
    arguments = {"ids": ids, "table": table, "out": poison(fmt, 21, 101), "n": 21, "columns": 101}
    return _case("embedding", fmt, (3, 2, 1), arguments, {"out": table[ids]})


def _gather(fmt: str) -> Case:
    x, index = draw(fmt, 10, 101), np.random.default_rng(7).integers(0, 101, (10, 29))
    arguments = {
        **{"x": x, "index": index, "out": poison(fmt, 10, 29)},
        **{"rows": 10, "columns": 101, "width": 29},
    }
    return _case("gather", fmt, (3, 1, 1), arguments, {"out": np.take_along_axis(x, index, 1)})


def _scatter(fmt: str) -> Case:
    x, random = draw(fmt, 10, 29), np.random.default_rng(8)
    index = random.integers(0, 35, (10, 29))  # some more than once: the last one remains
    want = poison(fmt, 10, 101)
    for row in range(10):
        for at, value in zip(index[row], x[row], strict=True):
            want[row, at] = value
    arguments = {
        **{"x": x, "index": index, "out": poison(fmt, 10, 101)},
        **{"rows": 10, "columns": 101, "width": 29},
    }
    return _case("scatter", fmt, (3, 1, 1), arguments, {"out": want})


def _index_select(fmt: str) -> Case:
    x, index = draw(fmt, 10, 101), np.random.default_rng(9).integers(0, 101, 29).astype(np.int32)
    arguments = {
        **{"x": x, "index": index, "out": poison(fmt, 10, 29)},
        **{"rows": 10, "columns": 101, "count": 29},
    }
    return _case("index_select", fmt, (3, 1, 1), arguments, {"out": x[:, index]})


def _cache_write(fmt: str) -> Case:
    keys, slots = draw(fmt, 9, 101), np.random.default_rng(10).permutation(20)[:9]
    slots[3] = -1
    want = poison(fmt, 20, 101)
    for token, slot in enumerate(slots):
        if slot >= 0:
            want[slot] = keys[token]
    arguments = {"keys": keys, "slots": slots, "cache": poison(fmt, 20, 101), "width": 101}
    return _case("cache_write", fmt, (9, 1, 1), arguments, {"cache": want})


def _nearest(fmt: str) -> Case:
    x = draw(fmt, 11, 13)
    rows, columns = np.arange(23) * 11 // 23, np.arange(17) * 13 // 17
    arguments = {
        **{"x": x, "out": poison(fmt, 23, 17), "height": 11, "width": 13},
        **{"new_height": 23, "new_width": 17},
    }
    return _case("nearest", fmt, (4, 1, 1), arguments, {"out": x[rows][:, columns]})


def _nonzero(fmt: str) -> Case:
    x = draw(fmt, 301) * (np.random.default_rng(11).random(301) < 0.4).astype(DTYPES[fmt])
    found = np.flatnonzero(x)
    want = np.full(301, -1, np.int32)
    want[: found.size] = found
    arguments = {
        **{"x": x.astype(DTYPES[fmt]), "places": np.full(301, -1, np.int32)},
        **{"count": np.zeros(1, np.int32), "n": 301},
    }
    return _case("nonzero", fmt, (1, 1, 1), arguments, {"places": want, "count": np.array([found.size])})


def _search(fmt: str) -> Case:
    edges, x = np.sort(draw(fmt, 45)), draw(fmt, 301, seed=2, scale=1.5)
    arguments = {"x": x, "edges": edges, "out": np.full(301, -1, np.int32), "n": 301, "count": 45}
    return _case("search", fmt, (3, 1, 1), arguments, {"out": np.searchsorted(wide(edges), wide(x), "right")})


def _histogram(fmt: str) -> Case:
    x = draw(fmt, 301)
    number = np.floor((x.astype(np.float32) - np.float32(-1.5)) / np.float32(0.25)).astype(int)
    want = np.array([(number == at).sum() for at in range(12)])
    arguments = {"x": x, "out": np.zeros(12, np.int32), "n": 301, "bins": 12, "low": -1.5, "width": 0.25}
    return _case("histogram", fmt, (3, 1, 1), arguments, {"out": want})


def _grouped_gemm(fmt: str) -> Case:
    sizes, n, k = np.array([45, 0, 7, 64], np.int32), 75, 50
    starts = (np.cumsum(sizes) - sizes).astype(np.int32)
    a, b = draw(fmt, int(sizes.sum()), k), draw(fmt, len(sizes), k, n, seed=2)
    want = np.concatenate(
        [
            wide(a[start : start + size]) @ wide(b[group])
            for group, (start, size) in enumerate(zip(starts, sizes, strict=True))
        ]
    )
    arguments = {
        **{"a": a, "b": b, "c": poison(fmt, int(sizes.sum()), n), "sizes": sizes, "starts": starts},
        **{"groups": len(sizes), "n": n, "k": k},
    }
    return _case("grouped_gemm", fmt, (5, 1, 1), arguments, {"c": want}, {"c": PRODUCTS[fmt]})


def _addmm(fmt: str) -> Case:
    bias, a, b = draw(fmt, 75), draw(fmt, 45, 50, seed=2), draw(fmt, 50, 75, seed=3)
    arguments = {"bias": bias, "a": a, "b": b, "c": poison(fmt, 45, 75), "m": 45, "n": 75, "k": 50}
    want = {"c": wide(bias) + wide(a) @ wide(b)}
    return _case("addmm", fmt, (2, 2, 1), arguments, want, {"c": PRODUCTS[fmt]})


def _routed(fmt: str) -> Case:
    a, b = draw(fmt, 40, 50), draw(fmt, 50, 29, seed=2)
    ids = np.random.default_rng(19).integers(-1, 40, 21).astype(np.int32)
    ids[5] = -1
    want = np.where(ids[:, None] >= 0, wide(a)[ids] @ wide(b), 0)
    arguments = {"a": a, "ids": ids, "b": b, "c": poison(fmt, 21, 29), "m": 21, "n": 29, "k": 50}
    return _case("routed", fmt, (2, 1, 1), arguments, {"c": want}, {"c": PRODUCTS[fmt]})


_INTEGERS = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64}


def _integers(fmt: str) -> Case:
    dtype, random, n = _INTEGERS[fmt], np.random.default_rng(12), 301
    limits = np.iinfo(dtype)
    x = random.integers(limits.min, limits.max, n, dtype, endpoint=True)
    y = random.integers(-40, 40, n).astype(dtype)
    y[y == 0] = 3
    x[0], y[0] = limits.max, limits.max
    place = np.arange(n)
    with np.errstate(over="ignore"):
        common = np.int64 if fmt == "i64" else np.int32  # the positions have 32 bits
        a, b = x.astype(common), y.astype(common)
        low_product = (x * y).astype(common)
        bits = (x << dtype(3)).astype(common) & (b >> common(2))
        mixed = (low_product + place.astype(common)) ^ bits | (x - y).astype(common)
        quotient = np.array([_toward_zero(int(p), int(q)) for p, q in zip(x, y, strict=True)], dtype)
        rest = np.array([int(p) - int(q) * _toward_zero(int(p), int(q)) for p, q in zip(x, y, strict=True)])
        chosen = np.where(x > y, np.maximum(x, -y), np.minimum(y, dtype(7)))
    del a
    want = np.stack([mixed.astype(dtype), quotient, rest.astype(dtype), chosen.astype(dtype)])
    arguments = {"x": x, "y": y, "out": np.zeros((4, n), dtype), "n": n}
    return _case("integers", fmt, (3, 1, 1), arguments, {"out": want})


def _toward_zero(dividend: int, divisor: int) -> int:
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


def _random_integers(fmt: str) -> Case:
    seed = 0x123456789ABCD
    arguments = {"out": np.zeros((4, 301), np.int32), "n": 301, "seed": seed}
    want = np.stack(philox(seed, np.arange(301)))
    return _case("random_integers", fmt, (3, 1, 1), arguments, {"out": want})


def _collatz(fmt: str) -> Case:
    x = np.array([1, 2, 27, 97, 6171, 7], np.int32)
    want = np.zeros(6, np.int32)
    for at, number in enumerate(map(int, x)):
        while number != 1:
            number = number // 2 if number % 2 == 0 else 3 * number + 1
            want[at] += 1
    return _case("collatz", fmt, (6, 1, 1), {"x": x, "steps": np.zeros(6, np.int32)}, {"steps": want})


def _typed(fmt: str, *shape: int, seed: int = 1) -> Array:
    """Numbers of a format, of floats or integers."""
    if fmt in DTYPES:
        return draw(fmt, *shape, seed=seed)
    return np.random.default_rng(seed).integers(-9, 9, shape).astype(_INTEGERS[fmt])


def _rearrange(fmt: str) -> Case:
    x, index = _typed(fmt, 64), np.random.default_rng(13).integers(0, 64, 64).astype(np.int32)
    even, odd = x[::2], x[1::2]
    arguments = {
        **{"x": x, "index": index, "pairs": np.zeros_like(x), "sums": np.zeros_like(even)},
        **{"both": np.zeros((2, 64), x.dtype), "picked": np.zeros_like(x)},
    }
    expected = {
        **{"pairs": np.stack([odd, even], 1), "sums": even + odd},
        **{"both": np.stack([x, x + x]), "picked": x[index]},
    }
    expected["pairs"] = expected["pairs"].reshape(64)
    return _case("rearrange", fmt, (1, 1, 1), arguments, expected)


def _rounded(fmt: str) -> Case:
    x = draw(fmt, 301, scale=3.0)
    arguments = {
        **{"x": x, "down": poison(fmt, 301), "up": poison(fmt, 301), "error": poison(fmt, 301), "n": 301}
    }
    expected = {
        **{"down": np.floor(wide(x)), "up": np.ceil(wide(x))},
        "error": np.array([math.erf(number) for number in wide(x)]),
    }
    return _case("rounded", fmt, (3, 1, 1), arguments, expected, {"error": ROUNDING[fmt]})


def _running(fmt: str) -> Case:
    x = _typed(fmt, 8, 32)
    sums, products = x[:, ::-1].cumsum(1, dtype=np.float64)[:, ::-1], x.cumprod(0, dtype=x.dtype)
    arguments = {"x": x, **{name: np.zeros_like(x) for name in ("sums", "products", "largest")}}
    expected = {"sums": sums, "products": products, "largest": np.maximum.accumulate(x, 1)}
    allowed = {"sums": ROUNDING[fmt], "products": ROUNDING[fmt]} if fmt in DTYPES else {}
    return _case("running", fmt, (1, 1, 1), arguments, expected, allowed)


def _sort(fmt: str) -> Case:
    x = draw(fmt, 4, 51)
    arguments = {"x": x, "out": poison(fmt, 4, 51), "columns": 51}
    return _case("sort", fmt, (4, 1, 1), arguments, {"out": np.sort(x, 1)[:, ::-1]})


def _count(fmt: str) -> Case:
    x = np.random.default_rng(14).integers(-3, 20, 201).astype(np.int32)
    want = np.array([(x == number).sum() for number in range(16)])
    return _case("count", fmt, (1, 1, 1), {"x": x, "out": np.zeros(16, np.int32), "n": 201}, {"out": want})


def _atomics(fmt: str) -> Case:
    random = np.random.default_rng(15)
    x, index = random.integers(-99, 99, 201).astype(np.int32), random.integers(0, 9, 201).astype(np.int32)
    lowest = np.iinfo(np.int32)
    starts = {
        **{"largest": np.full(9, lowest.min, np.int32), "smallest": np.full(9, lowest.max, np.int32)},
        **{"last": np.zeros(9, np.int32), "total": np.zeros(9, np.int32), "winner": np.full(1, -1, np.int32)},
    }
    want = {name: array.copy() for name, array in starts.items()}
    before = x.copy()
    for at, (value, place) in enumerate(zip(x, index, strict=True)):
        want["largest"][place] = max(want["largest"][place], value)
        want["smallest"][place] = min(want["smallest"][place], value)
        want["last"][place] = value
        before[at] = want["total"][place]
        want["total"][place] += value
    want["winner"][0] = 0
    arguments = {"x": x, "index": index, **starts, "n": 201}
    return _case("atomics", fmt, (4, 1, 1), arguments, {**want, "x": before})


def _fibonacci(fmt: str) -> Case:
    want = [0, 1]
    while len(want) < 60:  # beyond the 47th they wrap
        want.append(want[-1] + want[-2])
    numbers = np.array(want, np.int64).astype(np.int32)
    arguments = {"out": np.zeros(60, np.int32), "swapped": np.zeros(60, np.int32), "n": 60}
    expected = {"out": numbers, "swapped": np.tile(np.array([5, 7]), 30)}
    return _case("fibonacci", fmt, (1, 1, 1), arguments, expected)


def _windows(fmt: str) -> Case:
    x = draw("fp32", 64).round(1)
    want = np.zeros(64, np.float32)
    for turn in range(7):
        want += np.where(np.arange(64) < 3 * turn, x, np.float32(-1))
    return _case("windows", fmt, (1, 1, 1), {"x": x, "out": poison("fp32", 64), "turns": 7}, {"out": want})


def _unsigned(fmt: str) -> Case:
    x = np.random.default_rng(16).integers(0, 256, 201).astype(np.uint8)
    arguments = {
        **{"x": x.view(np.int8), "below": np.zeros(201, np.int8), "quotients": np.zeros(201, np.int8)},
        **{"shifted": np.zeros(201, np.int8), "numbers": poison("fp32", 201), "n": 201},
    }
    expected = {
        **{"below": x < 200, "quotients": (x // 7).view(np.int8), "shifted": (x >> 2).view(np.int8)},
        "numbers": x,
    }
    return _case("unsigned", fmt, (1, 1, 1), arguments, expected)


def _branches(fmt: str) -> Case:
    x, index = draw("fp32", 64), np.random.default_rng(17).permutation(64).astype(np.int32)
    want = poison("fp32", 3, 64)
    for program in range(3):
        chosen, values = (index // 2, x + x) if program % 2 == 0 else (index, x - np.float32(1))
        for place, value in zip(chosen, values, strict=True):
            want[program, place] = value
    arguments = {"x": x, "index": index, "out": poison("fp32", 3, 64)}
    return _case("branches", fmt, (3, 1, 1), arguments, {"out": want})


def _generator(fmt: str) -> Case:
    x = np.random.default_rng(18).integers(0, 256, 64).astype(np.uint8)
    state, sums = x.copy(), np.zeros(64, np.uint8)
    for _ in range(5):
        sums = sums + (state >> 3)
        state = state * np.uint8(77) + state // np.uint8(5)
    arguments = {"x": x.view(np.int8), "out": np.zeros(64, np.int8), "turns": 5}
    expected = {"out": sums.view(np.int8), "x": state.view(np.int8)}
    return _case("generator", fmt, (1, 1, 1), arguments, expected)


def _early(fmt: str) -> Case:
    x = draw(fmt, 301)
    want = np.concatenate(
        [block * (2 if block[0] > 0 else 1) for block in np.split(wide(x), range(64, 301, 64))]
    )
    arguments = {"x": x, "out": poison(fmt, 301), "n": 301}
    return _case("early", fmt, (7, 1, 1), arguments, {"out": want})


def _ahead(fmt: str) -> Case:
    x, y = draw(fmt, 32, 16), draw(fmt, 4, 16, 128, seed=2)
    products = wide(x) @ wide(y)
    low = np.where(np.arange(128) < 100, products, -1).astype(DTYPES[fmt])
    arguments = {"x": x, "y": y, "out": poison("fp32", 5, 32, 128), "sums": poison("fp32", 32, 32), "n": 4}
    high = products.astype(DTYPES[fmt])
    expected = {
        "out": np.concatenate([np.zeros((1, 32, 128)), products]),
        "sums": (wide(low) @ wide(high).transpose(0, 2, 1)).sum(0),
    }
    return _case("ahead", fmt, (1, 1, 1), arguments, expected, {"out": 2.0**-20, "sums": ROUNDING[fmt]})


_OF_FLOATS: dict[str, Callable[[str], Case]] = {
    "silu_and_mul": _silu_and_mul,
    "masked_fill": _masked_fill,
    "dropout": _dropout,
    "lower_triangle": _lower_triangle,
    "flip": _flip,
    "rotary": _rotary,
    "log_softmax": _log_softmax,
    "cross_entropy": _cross_entropy,
    "rms_norm": _rms_norm,
    "layer_norm_backward": _layer_norm_backward,
    "argmax": _argmax,
    "topk": _topk,
    "cumsum": _cumsum,
    "embedding": _embedding,
    "gather": _gather,
    "scatter": _scatter,
    "index_select": _index_select,
    "cache_write": _cache_write,
    "nearest": _nearest,
    "nonzero": _nonzero,
    "search": _search,
    "histogram": _histogram,
    "grouped_gemm": _grouped_gemm,
    "addmm": _addmm,
    "rounded": _rounded,
    "routed": _routed,
}
_OF_SOME: dict[str, tuple[Callable[[str], Case], tuple[str, ...]]] = {
    "integers": (_integers, tuple(_INTEGERS)),
    "rearrange": (_rearrange, ("fp16", "fp32", "i32")),
    "running": (_running, ("fp32", "i32")),
    "sort": (_sort, ("fp16", "fp32")),
    "random_integers": (_random_integers, ("",)),
    "collatz": (_collatz, ("",)),
    "generator": (_generator, ("",)),
    "early": (_early, ("fp16", "fp32")),
    "ahead": (_ahead, ("fp16", "bf16")),
    "fibonacci": (_fibonacci, ("",)),
    "windows": (_windows, ("",)),
    "unsigned": (_unsigned, ("",)),
    "branches": (_branches, ("",)),
    "count": (_count, ("",)),
    "atomics": (_atomics, ("",)),
}

CASES = [
    *((name, fmt) for name in _OF_FLOATS for fmt in DTYPES),
    *((name, fmt) for name, (_, formats) in _OF_SOME.items() for fmt in formats),
]
"""Names and formats of all cases; operators without floats have no format."""


def case(name: str, fmt: str) -> Case:
    """The case of an operator in a format."""
    maker = _OF_FLOATS[name] if name in _OF_FLOATS else _OF_SOME[name][0]
    return maker(fmt)
