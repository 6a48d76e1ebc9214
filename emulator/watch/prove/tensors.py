"""Instructions over whole tensors in the field: folds, pools, moves."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np

from tx8isa.numbers.prime_field import Elements, PrimeField
from tx8isa.records.meaning import Join, Move, Pool, Reduce, Unfold

from .memory import Places
from .step import FieldStep, NotFollowed

_AXES = {0: (3,), 1: (2,), 2: (1,), 4: (1, 2)}


def _fold_name(step: FieldStep) -> str:
    """``sum``, ``avg``, ``max`` or ``min``."""
    return step.instruction.mnemonic.split(".")[2]


def folded(field: PrimeField, name: str, x: Elements, axes: tuple[int, ...], count: int) -> Elements:
    """Fold over axes, which stay with extent 1; a mean divides by ``count``."""
    if name in ("sum", "avg"):
        total = field.sum(x, axes)
        if name == "sum":
            return total
        return field.multiply(
            total, field.inverse(np.full((field.residues, *(1,) * (x.ndim - 1)), float(count)))
        )
    for axis in axes:
        x = field.extreme(x, axis + 1, 1 if name == "max" else -1)
    return x


def reduce(step: FieldStep) -> None:
    shape = step.shape("shape")
    axes = _AXES[step.values["dims"]]
    source = step.tensor("src0", shape)
    target = step.tensor("dst", _reduced(shape, axes))
    literal = step.literal(source)
    elements = None if literal and not step.form.is_float else step.read(source)
    clear(step, "dst")
    if elements is None:
        return
    count = int(np.prod([shape[axis] for axis in axes]))
    found = folded(step.field, _fold_name(step), elements, axes, count)
    if literal:
        step.computed = target, found, step.form
    else:
        step.write(target, found)


def _reduced(shape: tuple[int, int, int, int], axes: tuple[int, ...]) -> tuple[int, int, int, int]:
    n, h, w, c = (1 if axis in axes else extent for axis, extent in enumerate(shape))
    return n, h, w, c


def clear(step: FieldStep, name: str) -> None:
    """Make the whole extent of a result literals."""
    step.spm.clear(step.values[name], step.length(name))


def pool(step: FieldStep) -> None:
    shape, result = step.shape("shape"), step.shape("dst_shape")
    top, _, left, _ = step.lanes("pad")
    kx, ky, sx, sy = step.lanes("window")
    source = step.tensor("src0", shape)
    literal = step.literal(source)
    elements = None if literal else step.read(source)
    for name in ("dst", "dst1"):
        if name in step.values:
            clear(step, name)
    if elements is None:
        return
    if step.meaning.indexed:
        raise NotFollowed("the places of the largest elements of windows")
    name = _fold_name(step)
    outside = 0.0 if step.meaning.outside else (-np.inf if name == "max" else np.inf)
    rows = np.arange(result[1]) * sy - top
    columns = np.arange(result[2]) * sx - left
    taps = []
    for y, x in product(range(ky), range(kx)):
        taps.append(_tap(elements, rows + y, columns + x, outside))
    found = folded(step.field, name, np.stack(taps, -1), (4,), kx * ky)[..., 0]
    if not step.meaning.outside:
        found[found == outside] = np.nan  # a window without any number
    step.write(step.tensor("dst", result), found)


def _tap(x: Elements, rows: Places, columns: Places, outside: float) -> Elements:
    """Return an image at rows and columns, which may be outside."""
    inside_rows = (rows >= 0) & (rows < x.shape[2])
    inside_columns = (columns >= 0) & (columns < x.shape[3])
    found = x[:, :, np.clip(rows, 0, x.shape[2] - 1)][:, :, :, np.clip(columns, 0, x.shape[3] - 1)]
    inside = inside_rows.reshape(-1, 1, 1) & inside_columns.reshape(-1, 1)
    return np.where(inside, found, outside)


def moved(step: FieldStep) -> None:
    meaning, shape = step.meaning, step.shape("shape")
    n, h, w, c = step.shape("dst_shape")
    extents = (n, c, h, w) if meaning.channels_first else (n, h, w, c)
    i, j, k, m = np.indices(extents)
    sources = step.values["src0"] + np.asarray(meaning.source(i, j, k, m, *shape)).ravel() * step.size
    step.spm.move(sources, step.vector("dst", sources.size), step.size)


def unfold(step: FieldStep) -> None:
    n, h, w, c = shape = step.shape("shape")
    top, bottom, left, right = step.lanes("pad") if "pad" in step.values else (0, 0, 0, 0)
    kx, ky, sx, sy = step.lanes("window") if "window" in step.values else (1, 1, 1, 1)
    rows, columns = (h + top + bottom - ky) // sy + 1, (w + left + right - kx) // sx + 1
    compact = step.values["src0"] + np.arange(n * h * w * c).reshape(shape) * step.size
    source = step.tensor("src0", shape) if step.meaning.aligned_source else compact
    target = step.tensor("dst", (n, kx * ky, rows * columns, c))
    pairs = []
    for place, (y, x) in enumerate(product(range(ky), range(kx))):
        row, column = np.arange(rows) * sy + y - top, np.arange(columns) * sx + x - left
        good_rows, good_columns = (row >= 0) & (row < h), (column >= 0) & (column < w)
        of = source[:, row[good_rows]][:, :, column[good_columns]]
        to = target[:, place].reshape(n, rows, columns, c)[:, good_rows][:, :, good_columns]
        pairs.append((of.ravel(), to.ravel()))
    of, to = (np.concatenate(each) for each in zip(*pairs, strict=True))
    taken = step.spm.taken(of, step.size)
    clear(step, "dst")
    step.spm.put(to, step.size, taken)


def join(step: FieldStep) -> None:
    first, result = step.shape("shape"), step.shape("dst_shape")
    axis = {0: 3, 1: 2, 2: 1}[step.values["dims"]]
    second = [r - f if a == axis else f for a, (f, r) in enumerate(zip(first, result, strict=True))]
    n, h, w, c = second
    places = [step.tensor("src0", first), step.tensor("src1", (n, h, w, c))]
    of = np.concatenate(places, axis).ravel()
    taken = step.spm.taken(of, step.size)
    clear(step, "dst")
    step.spm.put(step.tensor("dst", result).ravel(), step.size, taken)


RULES: dict[type, Callable[[FieldStep], None]] = {
    Reduce: reduce,
    Pool: pool,
    Move: moved,
    Unfold: unfold,
    Join: join,
}
