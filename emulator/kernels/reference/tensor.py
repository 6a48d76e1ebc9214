"""Reference of the instructions over aligned and compact tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np

from tx8isa.numbers.formats import Format
from tx8isa.numbers.primitives import f32
from tx8isa.records.meaning import Join, Move, Pool, Reduce, Reduction, Resize, Unfold, Unpool

from .run import Run, element_at, float_of, pattern_of


def _fold(fold: Reduction, numbers: Iterator[float], fmt: Format, count: int) -> int:
    total = fold.start
    for x in numbers:
        total = f32(fold.step(total, x))
    return pattern_of(fold.finish(total, float(count)) if fold.finish else total, fmt)


def _reduce(run: Run) -> None:
    fmt, bits, shape = run.form, run.form.bits, run.shape("shape")
    axes = {0: (3,), 1: (2,), 2: (1,), 4: (1, 2)}[run.values["dims"]]
    result: Any = tuple(1 if axis in axes else extent for axis, extent in enumerate(shape))
    run.clear("dst")
    for index in product(*map(range, result)):
        inner: Any = product(*(range(shape[a]) if a in axes else (index[a],) for a in range(4)))
        elements = [
            float_of(run.read(element_at(run.values["src0"], shape, bits, i), bits // 8), fmt) for i in inner
        ]
        pattern = _fold(run.meaning.fold, iter(elements), fmt, len(elements))
        place: Any = index
        run.write(element_at(run.values["dst"], result, bits, place), pattern, bits // 8)


def _pool(run: Run) -> None:
    fmt, bits, shape, result = run.form, run.form.bits, run.shape("shape"), run.shape("dst_shape")
    top, _, left, _ = run.lanes("pad")
    kx, ky, sx, sy = run.lanes("window")

    def window(n: int, row: int, column: int, c: int) -> Iterator[tuple[int, float]]:
        for place, (y, x) in enumerate(product(range(ky), range(kx))):
            at = (n, row * sy - top + y, column * sx - left + x, c)
            if 0 <= at[1] < shape[1] and 0 <= at[2] < shape[2]:
                of = element_at(run.values["src0"], shape, bits, at)
                yield place, float_of(run.read(of, bits // 8), fmt)
            elif run.meaning.outside:
                yield place, 0.0

    results = [name for name in ("dst", "dst1") if name in run.values]
    for name in results:
        run.clear(name)
    for index in product(*map(range, result)):
        n, y, x, c = index
        elements = list(window(n, y, x, c))
        pattern = _fold(run.meaning.fold, (value for _, value in elements), fmt, kx * ky)
        for name, word in zip(results, (pattern, _found(run.meaning.fold, elements)), strict=False):
            run.write(element_at(run.values[name], result, bits, (n, y, x, c)), word, bits // 8)


def _found(fold: Reduction, elements: list[tuple[int, float]]) -> int:
    """Return the place of an extreme: the first element that equals it, 0 without a number."""
    total = fold.start
    for _, value in elements:
        total = fold.step(total, value)
    return next((place for place, value in elements if value == total), 0)


def _unpool(run: Run) -> None:
    fmt, size, result = run.form, run.form.bits // 8, run.shape("dst_shape")
    n, h, w, c = result
    kx, ky, sx, sy = run.lanes("window")
    source = (n, (h - ky) // sy + 1, (w - kx) // sx + 1, c)
    covering: dict[tuple[int, ...], list[float]] = {}
    run.clear("dst")
    for i, y, x, m in product(*map(range, source)):
        pattern = run.read(element_at(run.values["src0"], source, fmt.bits, (i, y, x, m)), size)
        if run.meaning.spread is not None:
            for dy, dx in product(range(ky), range(kx)):
                covering.setdefault((i, y * sy + dy, x * sx + dx, m), []).append(float_of(pattern, fmt))
            continue
        place = run.read(element_at(run.values["src1"], source, 16, (i, y, x, m)), 2)
        if place < kx * ky:
            at = (i, y * sy + place // kx, x * sx + place % kx, m)
            run.write(element_at(run.values["dst"], result, fmt.bits, at), pattern, size)
    for (i, y, x, m), values in covering.items():
        pattern = _fold(run.meaning.spread, iter(values), fmt, kx * ky)
        run.write(element_at(run.values["dst"], result, fmt.bits, (i, y, x, m)), pattern, size)


def _resize(run: Run) -> None:
    meaning: Resize = run.meaning
    fmt, bits, shape, result = run.form, run.form.bits, run.shape("shape"), run.shape("dst_shape")
    run.clear("dst")

    def value(i: int, y: int, x: int, m: int) -> np.float32:
        at = (i, min(y, shape[1] - 1), min(x, shape[2] - 1), m)
        return np.float32(float_of(run.read(element_at(run.values["src0"], shape, bits, at), bits // 8), fmt))

    def blend(a: np.float32, b: np.float32, weight: int) -> np.float32:
        body: Any = meaning.blend
        with np.errstate(all="ignore"):
            return np.float32(body(a, b, np.float32(weight / 65536)))

    for i, row, column, m in product(*map(range, result)):
        y = meaning.sample(row, run.values["scale_y"], shape[1])
        x = meaning.sample(column, run.values["scale_x"], shape[2])
        above, below = (
            blend(value(i, at, x >> 16, m), value(i, at, (x >> 16) + 1, m), x & 0xFFFF)
            for at in (y >> 16, (y >> 16) + 1)
        )
        pattern = pattern_of(float(blend(above, below, y & 0xFFFF)), fmt)
        run.write(element_at(run.values["dst"], result, bits, (i, row, column, m)), pattern, bits // 8)


def _move(run: Run) -> None:
    meaning: Move = run.meaning
    size, shape = run.form.bits // 8, run.shape("shape")
    n, h, w, c = run.shape("dst_shape")
    extents = (n, c, h, w) if meaning.channels_first else (n, h, w, c)
    for flat, index in enumerate(product(*map(range, extents))):
        of = run.values["src0"] + meaning.source(*index, *shape) * size
        run.write(run.values["dst"] + flat * size, run.read(of, size), size)


def _unfold(run: Run) -> None:
    bits, shape = run.form.bits, run.shape("shape")
    n, h, w, c = shape
    top, bottom, left, right = run.lanes("pad") if "pad" in run.values else (0, 0, 0, 0)
    kx, ky, sx, sy = run.lanes("window") if "window" in run.values else (1, 1, 1, 1)
    rows, columns = (h + top + bottom - ky) // sy + 1, (w + left + right - kx) // sx + 1
    result = (n, kx * ky, rows * columns, c)
    run.clear("dst")
    for i, place, row, column, m in product(*map(range, (n, kx * ky, rows, columns, c))):
        y, x = row * sy + place // kx - top, column * sx + place % kx - left
        if 0 <= y < h and 0 <= x < w:
            of = run.values["src0"] + (((i * h + y) * w + x) * c + m) * bits // 8
            if run.meaning.aligned_source:
                of = element_at(run.values["src0"], shape, bits, (i, y, x, m))
            to = element_at(run.values["dst"], result, bits, (i, place, row * columns + column, m))
            run.write(to, run.read(of, bits // 8), bits // 8)


def _join(run: Run) -> None:
    bits, first, result = run.form.bits, run.shape("shape"), run.shape("dst_shape")
    axis = {0: 3, 1: 2, 2: 1}[run.values["dims"]]
    rest: Any = tuple(r - f if a == axis else f for a, (f, r) in enumerate(zip(first, result, strict=True)))
    run.clear("dst")
    for index in product(*map(range, result)):
        place: Any = index
        of = element_at(run.values["src0"], first, bits, place)
        if index[axis] >= first[axis]:
            back: Any = tuple(k - first[axis] if a == axis else k for a, k in enumerate(index))
            of = element_at(run.values["src1"], rest, bits, back)
        run.write(element_at(run.values["dst"], result, bits, place), run.read(of, bits // 8), bits // 8)


RULES: dict[type, Callable[[Run], None]] = {
    Reduce: _reduce,
    Pool: _pool,
    Unpool: _unpool,
    Resize: _resize,
    Move: _move,
    Unfold: _unfold,
    Join: _join,
}
