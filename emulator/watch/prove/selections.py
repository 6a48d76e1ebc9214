"""Products of bytes with matrices of ones and zeros, by which programs move bytes through the matrix engine.

Every byte of the result is one byte of an operand, or zero; its element or mark moves with it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tx8isa.numbers.formats import Format

from .memory import Places
from .step import FieldStep

Numbers = npt.NDArray[np.int64]


def is_plain(step: FieldStep) -> bool:
    """Return True if an instruction multiplies bytes, and its results are the sums as bytes."""
    v = step.values
    steps = ("q1", "q0", "scale_en", "bias_en", "relu", "inpsum_en", "zp_a", "zp_b", "zp_out")
    bytes_ = step.form is Format.INT8 and v["out_format"] == Format.INT8
    return bytes_ and not any(v.get(name, 0) for name in steps)


def selected(weights: Numbers) -> Numbers | None:
    """Return, for each column of [..., k, n], the row with a 1, or -1; None if there are other numbers."""
    ones, others = (weights == 1).sum(-2), (weights > 1).sum()
    if others or (ones > 1).any():
        return None
    return np.where(ones == 1, weights.argmax(-2), -1)


def put(step: FieldStep, targets: Places, sources: Places, chosen: npt.NDArray[np.bool_]) -> None:
    """Move elements and marks from source bytes to targets; zeros where nothing is chosen."""
    targets, sources, chosen = np.broadcast_arrays(targets, sources, chosen)
    taken = step.spm.taken(sources[chosen], 1)
    step.spm.clear_places(targets, 1)
    step.spm.put(targets[chosen], 1, taken)


def product(step: FieldStep, a: Places, b: Places, out: Places) -> bool:
    """Execute a product [batch, m, k] by [batch, k, n] if one is a selecting literal; else return False."""
    if not is_plain(step):
        return False
    if step.literal(b):
        rows = selected(step.spm.patterns(b, Format.INT8))
        if rows is None:
            return False
        rows = np.broadcast_to(rows[:, None, :], (rows.shape[0], a.shape[1], rows.shape[1]))
        a, rows = _batches(a, rows)
        put(step, out, np.take_along_axis(a, np.maximum(rows, 0), 2), rows >= 0)
        return True
    if step.literal(a):
        rows = selected(step.spm.patterns(a, Format.INT8).swapaxes(1, 2))
        if rows is None:
            return False
        rows = np.broadcast_to(rows[:, :, None], (*rows.shape, b.shape[2]))
        b, rows = _batches(b, rows)
        put(step, out, np.take_along_axis(b, np.maximum(rows, 0), 1), rows >= 0)
        return True
    return False


def _batches(a: Places, b: Places) -> tuple[Places, Places]:
    """Broadcast both to the same number of batches."""
    count = max(a.shape[0], b.shape[0])
    return np.broadcast_to(a, (count, *a.shape[1:])), np.broadcast_to(b, (count, *b.shape[1:]))


def depthwise(step: FieldStep, taps: Places, weights: Places, out: Places) -> bool:
    """Execute a convolution per channel: ``taps`` [taps, n, h, w, c], -1 outside; ``weights`` [taps, c]."""
    if not is_plain(step) or not step.literal(weights):
        return False
    rows = selected(step.spm.patterns(weights, Format.INT8))
    if rows is None:
        return False
    index = np.broadcast_to(np.maximum(rows, 0), taps.shape[1:])[None]
    sources = np.take_along_axis(taps, index, 0)[0]
    put(step, out, np.maximum(sources, 0), (sources >= 0) & (rows >= 0))
    return True


def windows(step: FieldStep, taps: Places, weights: Places, out: Places) -> bool:
    """Execute a convolution over all channels: ``taps`` as above; ``weights`` [taps * maps, c]."""
    if not is_plain(step) or not step.literal(weights):
        return False
    maps, channels = out.shape[3], taps.shape[4]
    numbers = step.spm.patterns(weights, Format.INT8).reshape(taps.shape[0], maps, channels)
    rows = selected(numbers.transpose(0, 2, 1).reshape(-1, maps))
    if rows is None:
        return False
    tap, channel = np.divmod(np.maximum(rows, 0), channels)
    sources = np.moveaxis(taps, 4, 1)[tap, channel]  # [maps, n, h, w]
    sources = np.moveaxis(sources, 0, 3)
    put(step, out, np.maximum(sources, 0), (sources >= 0) & (rows >= 0))
    return True
