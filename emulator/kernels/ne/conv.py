"""Convolution of aligned NHWC tensors (docs/isa.md, Convolution), without unfolding the input.

The input rows for a band of the result are copied into scratch with their borders. Then a tap has a fixed
offset from every result position. The sums of a position run over ky, kx, i in ascending order.

Inputs outside the image are +0, and their products are added like all others. So an infinite or NaN weight
gives NaN there, and a start value of -0 becomes +0 (proposed; the literal reading of "inputs outside the
image are 0"). In INT8 they are the zero point. Padding lanes are never added.
"""

from __future__ import annotations

from collections.abc import Callable

from emulator.native.primitives.memory import get, put
from tx8isa.numbers.layouts import batch_bytes

from . import problem as word
from .arithmetic import MatrixArithmetic, steps
from .elements import BLOCK, panel_width, planes
from .gathered import gathered_bytes, make_gathered
from .groups import FIXED, GROUP, SLACK, panel_bytes
from .image import band_rows, extent, make_fetch, positions, step_down, step_right, width_of_rows
from .problem import choose_result, clear_gap, deliver, image_bytes, result_bytes, set_product


def conv_scratch_bytes(arithmetic: MatrixArithmetic, problem: int) -> int:
    """Return the bytes of working memory with which a convolution keeps bands of input."""
    _describe(problem)
    return _bands_bytes(arithmetic.grain, arithmetic.extra, problem) + _all_results(problem)


def small_scratch_bytes(arithmetic: MatrixArithmetic, problem: int) -> int:
    """Return a convolution's least bytes of working memory: panels, the inputs of a group, the result."""
    _describe(problem)
    return _small_bytes(arithmetic.grain, arithmetic.extra, problem) + _all_results(problem)


def _describe(problem: int) -> None:
    """Describe a convolution as the product of [results, channels] and [channels, maps] for every tap."""
    results = get(problem, word.OH) * get(problem, word.OW)
    taps = get(problem, word.KY) * get(problem, word.KX)
    set_product(problem, results, get(problem, word.C), get(problem, word.MAPS), taps)


def _all_results(problem: int) -> int:
    return get(problem, word.BATCH) * result_bytes(problem, word.OUT_FORMAT)


def _panels_bytes(grain: int, extra: int, problem: int) -> int:
    """Return the bytes of scratch up to the end of all panels of the weights."""
    rows = get(problem, word.TAPS) * steps(get(problem, word.K), grain)
    return FIXED + panel_bytes(rows + extra, get(problem, word.N))


def _bands_bytes(grain: int, extra: int, problem: int) -> int:
    """Return the bytes of panels of the weights and a band of input, without staged results."""
    ky, sy, dy = (get(problem, word.KY), step_down(problem), get(problem, word.DY))
    row = 4 * width_of_rows(problem) * steps(get(problem, word.K), grain)
    rows = extent(band_rows(get(problem, word.OH), row, ky, sy, dy), sy, ky, dy)
    return _panels_bytes(grain, extra, problem) + row * rows + SLACK


def _small_bytes(grain: int, extra: int, problem: int) -> int:
    """Return the bytes as ``_bands_bytes``, with the inputs of one group instead of a band of input."""
    return _panels_bytes(grain, extra, problem) + gathered_bytes(steps(get(problem, word.K), grain))


def make_conv(arithmetic: MatrixArithmetic) -> Callable[[int], int]:
    """Make the convolution of one input format: ``conv(problem) -> 0``.

    A [BATCH, H, W, C] and the result [BATCH, OH, OW, MAPS] are NCx, B [KY, KX, MAPS, C] one Cx volume,
    partial sums like the result. All of the result is written, zeros in padding lanes and up to the next
    256-byte line. With less working memory than ``conv_scratch_bytes`` it collects the input of one tap at a
    time, in ``small_scratch_bytes``.
    """
    images, gathered, bits = _make_images(arithmetic), make_gathered(arithmetic), arithmetic.bits
    grain, extra = arithmetic.grain, arithmetic.extra

    def conv(problem: int) -> int:
        _describe(problem)
        put(problem, word.IN_PLACE, 1)
        batch, size = get(problem, word.BATCH), _all_results(problem)
        weights = batch_bytes(get(problem, word.TAPS) * get(problem, word.N), get(problem, word.C), bits)
        needed = _bands_bytes(grain, extra, problem)
        fits = needed + size <= get(problem, word.WORK_BYTES)
        if not fits:
            needed = _small_bytes(grain, extra, problem)
        spare = get(problem, word.WORK) + needed
        choose_result(problem, size, batch * image_bytes(problem, bits), weights, spare)
        for i in range(batch):
            clear_gap(problem, i)
        if fits:
            images(problem)
        else:
            gathered(problem)
        deliver(problem, size)
        return 0

    return conv


def _make_images(arithmetic: MatrixArithmetic) -> Callable[[int], None]:
    """Compute all images, band after band; the weights are widened once.

    With a single band each panel is widened just before it is used, so that it is still in the cache.
    """
    band, widen_panel = _make_band(arithmetic), arithmetic.panel
    grain, extra = arithmetic.grain, arithmetic.extra

    def images(problem: int) -> None:
        batch, oh = get(problem, word.BATCH), get(problem, word.OH)
        words, w = steps(get(problem, word.K), grain), get(problem, word.B)
        row = 4 * width_of_rows(problem) * words
        ky, sy, dy = get(problem, word.KY), step_down(problem), get(problem, word.DY)
        step = band_rows(oh, row, ky, sy, dy)
        if batch > 1 or step < oh:
            panel = get(problem, word.WORK) + FIXED
            for p in range(planes(get(problem, word.N))):
                widen_panel(w, panel + 4 * p * BLOCK * (get(problem, word.TAPS) * words + extra), p, problem)
            w = 0
        for i in range(batch):
            for first in range(0, oh, step):
                band(i, first, min(step, oh - first), w, problem)

    return images


def _make_band(arithmetic: MatrixArithmetic) -> Callable[[int, int, int, int, int], None]:
    """Compute ``count`` result rows from ``first`` of image ``i``; w is 0 if all panels are widened."""
    fetch, results = make_fetch(arithmetic), _make_results(arithmetic)
    widen_panel, bits, grain, extra = arithmetic.panel, arithmetic.bits, arithmetic.grain, arithmetic.extra

    def band(i: int, first: int, count: int, w: int, problem: int) -> None:
        sy, n = get(problem, word.SY), get(problem, word.N)
        words = get(problem, word.TAPS) * steps(get(problem, word.K), grain)
        weights = get(problem, word.WORK) + FIXED
        rows = weights + panel_bytes(words + extra, n)
        x = get(problem, word.A) + i * image_bytes(problem, bits)
        high = extent(count, step_down(problem), get(problem, word.KY), get(problem, word.DY))
        fetch(x, rows, first * sy - get(problem, word.TOP), high, problem)
        for p in range(planes(n)):
            panel = weights
            if w != 0:
                widen_panel(w, panel, p, problem)
            else:
                panel += 4 * p * BLOCK * (words + extra)
            results(i, first, count, p, panel, rows, problem)

    return band


def _make_results(arithmetic: MatrixArithmetic) -> Callable[[int, int, int, int, int, int, int], None]:
    """Compute one plane of a band, whose input is at ``rows``."""
    start, finish, taps, grain = arithmetic.start, arithmetic.finish, _make_taps(arithmetic), arithmetic.grain

    def results(i: int, first: int, count: int, p: int, panel: int, rows: int, problem: int) -> None:
        group, columns = get(problem, word.WORK), panel_width(get(problem, word.N), p)
        ow, sy, sx = get(problem, word.OW), step_down(problem), step_right(problem)
        high = extent(count, sy, get(problem, word.KY), get(problem, word.DY))
        words = get(problem, word.TAPS) * steps(get(problem, word.K), grain)
        down = sy * width_of_rows(problem)
        for position in range(0, count * ow, GROUP):
            here, at = min(GROUP, count * ow - position), first * ow + position
            positions(group, here, position, ow, down, sx)
            start(group, here, i, at, p, panel + 4 * words * columns, problem)
            taps(group, here, rows, high, panel, columns, problem)
            finish(group, here, i, at, p, problem)

    return results


def _make_taps(arithmetic: MatrixArithmetic) -> Callable[[int, int, int, int, int, int, int], None]:
    """Add all products of a group, over ky, kx, then input channels; one call per window row if possible."""
    multiply, grain, block = arithmetic.multiply, arithmetic.grain, arithmetic.block

    def taps(group: int, count: int, rows: int, high: int, panel: int, columns: int, problem: int) -> None:
        words, wide = steps(get(problem, word.K), grain), width_of_rows(problem)
        ky, kx = get(problem, word.KY), get(problem, word.KX)
        dy, dx = get(problem, word.DY), get(problem, word.DX)
        merged = kx if words <= block and dx == 1 else 1
        for y in range(ky):
            for x in range(0, kx, merged):
                for q in range((words + block - 1) // block):
                    pitch = min(block, words - q * block)
                    of = rows + 4 * (q * block * high * wide + (y * dy * wide + x * dx) * pitch)
                    weights = panel + 4 * ((y * kx + x) * words + q * block) * columns
                    multiply(group, count, pitch, of, 1, weights, columns, merged * pitch)

    return taps
