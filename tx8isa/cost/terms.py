"""The cost functions of engine instructions: ticks or operations from operands and prices.

They are plain Python over integers, like the kernels of the emulator; ``instructions.py`` assigns functions
and arguments to instructions. A price is for ``UNITS`` lines, bytes or steps, in ticks.
"""

from __future__ import annotations

from collections.abc import Callable

from tx8isa.families.aligned import tensor
from tx8isa.families.nest import element_stream
from tx8isa.insns.ne.bwconv import forward_columns, forward_rows
from tx8isa.numbers.layouts import block_channels
from tx8isa.numbers.limits import TILE_SET_BITS

UNITS = 1024
"""The number of units in a price."""
_SHIFT = UNITS.bit_length() - 1

MOST_TICKS = 1 << 58
"""Limit of a cost, nine years: longer than the largest legal operands take on the slowest machine."""


def priced(units: int, price: int) -> int:
    """Ticks of ``units`` if ``UNITS`` of them cost ``price``, rounded down, at most ``MOST_TICKS``."""
    whole = units >> _SHIFT
    if whole > MOST_TICKS // max(price, 1):
        return MOST_TICKS
    return whole * price + ((units & (UNITS - 1)) * price >> _SHIFT)


def nothing() -> int:
    """Ticks or operations of an instruction without data."""
    return 0


def skew(line: int, more: int, a: int, b: int, c: int, d: int, e: int) -> int:
    """``more`` if one of the addresses is not a multiple of the line; absent addresses are 0."""
    return more if a % line + b % line + c % line + d % line + e % line != 0 else 0


def vector_ticks(
    bits: int, n: int, price: int, line: int, more: int, a: int, b: int, c: int, d: int, e: int
) -> int:
    """Ticks of n packed elements, in whole lines of ``line`` bytes."""
    lines = (((bits * n + 7) >> 3) + line - 1) // line
    return priced(lines, price) + skew(line, more, a, b, c, d, e)


def tensor_ticks(
    bits: int,
    n: int,
    h: int,
    w: int,
    c: int,
    kx: int,
    ky: int,
    price: int,
    line: int,
    more: int,
    first: int,
    second: int,
    third: int,
) -> int:
    """Ticks of an aligned tensor, kx * ky times."""
    lines = (tensor(bits, n, h, w, c) + line - 1) // line
    return priced(lines * kx * ky, price) + skew(line, more, first, second, third, 0, 0)


def elements(n: int) -> int:
    """Operations of a vector instruction."""
    return n


def tensor_elements(n: int, h: int, w: int, c: int, kx: int, ky: int) -> int:
    """Operations on every place of a window for each element of a tensor."""
    return n * h * w * c * kx * ky


_WIDE = 32
"""Bits of results and partial sums wider than 16 bits."""


def array_ticks(
    count: int,
    m: int,
    k: int,
    n: int,
    rows: int,
    step_k: int,
    step_n: int,
    price: int,
    weights: int,
    wide: int,
    bits: int,
    sums: int,
    adds: int,
    added: int,
) -> int:
    """``count`` products [m, k] by [k, n], in blocks of step_k x step_n weights, one after another.

    The arrays multiply ``rows`` rows by a block at a time at ``price``. If the results (``sums``) or the
    added partial sums (``added``) have 32 bits, each ``UNITS`` ticks become ``wide``. The block's bytes are
    loaded at the price ``weights``. The longer of computing and loading counts.
    """
    blocks = count * ((k + step_k - 1) // step_k) * ((n + step_n - 1) // step_n)
    steps = priced(blocks * ((m + rows - 1) // rows), price)
    if sums == _WIDE or (adds != 0 and added == _WIDE):
        steps = priced(steps, wide)
    return max(steps, priced(blocks * (step_k * step_n * bits >> 3), weights))


def gemm_ticks(
    lb: int,
    rb: int,
    m: int,
    k: int,
    n: int,
    rows: int,
    step_k: int,
    step_n: int,
    price: int,
    weights: int,
    wide: int,
    bits: int,
    sums: int,
    adds: int,
    added: int,
) -> int:
    """Ticks of a batch of products."""
    return array_ticks(
        max(lb, rb), m, k, n, rows, step_k, step_n, price, weights, wide, bits, sums, adds, added
    )


def gemm_operations(lb: int, rb: int, m: int, k: int, n: int) -> int:
    """Multiply-adds times 2."""
    return 2 * max(lb, rb) * m * k * n


def convolution_ticks(
    n: int,
    h: int,
    w: int,
    c: int,
    kx: int,
    ky: int,
    channels: int,
    rows: int,
    step_k: int,
    step_n: int,
    price: int,
    weights: int,
    wide: int,
    bits: int,
    sums: int,
    adds: int,
    added: int,
) -> int:
    """One product: a row for each result position, kx * ky * channels deep."""
    return array_ticks(
        1,
        n * h * w,
        kx * ky * channels,
        c,
        rows,
        step_k,
        step_n,
        price,
        weights,
        wide,
        bits,
        sums,
        adds,
        added,
    )


def convolution_operations(n: int, h: int, w: int, c: int, kx: int, ky: int, channels: int) -> int:
    """Multiply-adds times 2."""
    return 2 * n * h * w * c * kx * ky * channels


def depthwise_ticks(
    n: int,
    h: int,
    w: int,
    c: int,
    kx: int,
    ky: int,
    rows: int,
    step_k: int,
    step_n: int,
    price: int,
    weights: int,
    wide: int,
    bits: int,
    sums: int,
    adds: int,
    added: int,
) -> int:
    """A product for each channel: a row for each result position, kx * ky deep, and one column."""
    return array_ticks(
        c, n * h * w, kx * ky, 1, rows, step_k, step_n, price, weights, wide, bits, sums, adds, added
    )


def gradient_ticks(
    shape: int,
    pad: int,
    window: int,
    dilation: int,
    unpad: int,
    kx: int,
    ky: int,
    maps: int,
    channels: int,
    rows: int,
    step_k: int,
    step_n: int,
    price: int,
    weights: int,
    wide: int,
    bits: int,
    sums: int,
    adds: int,
    added: int,
) -> int:
    """A product for each place of the window: [maps, positions] by [positions, channels]."""
    height = forward_rows(shape, pad, window, dilation, unpad)
    positions = (shape >> 48) * height * forward_columns(shape, pad, window, dilation, unpad)
    return array_ticks(
        kx * ky,
        maps,
        positions,
        channels,
        rows,
        step_k,
        step_n,
        price,
        weights,
        wide,
        bits,
        sums,
        adds,
        added,
    )


def gradient_operations(
    shape: int, pad: int, window: int, dilation: int, unpad: int, kx: int, ky: int, maps: int, channels: int
) -> int:
    """Multiply-adds times 2."""
    rows = forward_rows(shape, pad, window, dilation, unpad)
    positions = (shape >> 48) * rows * forward_columns(shape, pad, window, dilation, unpad)
    return 2 * kx * ky * maps * channels * positions


def run_bytes(block: int, s0: int, i0: int, s1: int, i1: int, s2: int, i2: int) -> int:
    """Bytes of a contiguous run in a nest of blocks; strides in bytes."""
    run = block
    if i0 > 1 and s0 != run:
        return run
    run *= i0
    if i1 > 1 and s1 != run:
        return run
    run *= i1
    if i2 > 1 and s2 != run:
        return run
    return run * i2


def dma_ticks(
    bits: int, n: int, s0: int, i0: int, s1: int, i1: int, s2: int, i2: int, price: int, more: int
) -> int:
    """Ticks of contiguous runs of DDR: the price of their bytes, and ``more`` for each run after the first.

    The fixed time of the command includes the wait for the first run. Strides are in elements.
    """
    runs = ddr_runs(bits, n, s0, i0, s1, i1, s2, i2)
    run = priced(((bits * n + 7) >> 3) * i0 * i1 * i2 // max(runs, 1), price)
    return runs * run + max(runs - 1, 0) * more


def ddr_runs(bits: int, n: int, s0: int, i0: int, s1: int, i1: int, s2: int, i2: int) -> int:
    """Contiguous runs of DDR of a nest of blocks; strides in elements."""
    block = (bits * n + 7) >> 3
    run = run_bytes(block, bits * s0 >> 3, i0, bits * s1 >> 3, i1, bits * s2 >> 3, i2)
    return block * i0 * i1 * i2 // max(run, 1)


def ddr_ticks(size: int, runs: int, byte: int, run: int) -> int:
    """Ticks of the card's DDR for ``size`` bytes in ``runs`` runs; ``byte`` is the price of bytes."""
    return priced(size, byte) + runs * run


def fill_ticks(
    bits: int, n: int, s0: int, i0: int, s1: int, i1: int, s2: int, i2: int, price: int, line: int
) -> int:
    """Ticks of a fill: each contiguous run costs whole lines of ``line`` bytes; strides in bytes."""
    block = (bits * n + 7) >> 3
    run = run_bytes(block, s0, i0, s1, i1, s2, i2)
    runs = block * i0 * i1 * i2 // max(run, 1)
    return priced(runs * ((run + line - 1) // line), price)


def transfer_ticks(rows: int, count: int, block: int, row: int, least: int, price: int) -> int:
    """Ticks of ``rows`` steps of the outer loops and ``count`` blocks of ``block`` bytes."""
    return rows * row + count * max(priced(block, price), least)


def nest_ticks(
    n: int, s0: int, s1: int, s2: int, d0: int, d1: int, d2: int, row: int, least: int, price: int
) -> int:
    """Ticks of blocks of n bytes through two nests; the nest with more rows determines them."""
    return transfer_ticks(max(s1 * s2, d1 * d2), s0 * s1 * s2, n, row, least, price)


def move_ticks(
    bits: int, n: int, h: int, w: int, run: int, inner: int, row: int, least: int, price: int
) -> int:
    """Ticks of n * h rows of w positions, each with ``inner`` blocks of ``run`` elements."""
    return transfer_ticks(n * h, n * h * w * inner, (bits * run + 7) >> 3, row, least, price)


def unfold_ticks(bits: int, n: int, h: int, w: int, c: int, row: int, least: int, price: int) -> int:
    """Ticks of n * h rows of w positions of an aligned tensor, each with a block from every channel plane."""
    width = block_channels(bits)
    planes = (c + width - 1) // width
    return transfer_ticks(n * h, n * h * w * planes, bits * min(c, width) >> 3, row, least, price)


def copy_ticks(n: int, i0: int, i1: int, i2: int, price: int) -> int:
    """Ticks of copying pieces of n bytes between tiles."""
    return priced(n * i0 * i1 * i2, price)


def scatter_ticks(n: int, tiles: int, price: int) -> int:
    """Ticks of sending n bytes to each tile of a set."""
    count = 0
    for tile in range(TILE_SET_BITS):
        count += (tiles >> tile) & 1
    return priced(n * count, price)


FUNCTIONS: tuple[Callable[..., int], ...] = (
    nothing,
    vector_ticks,
    elements,
    tensor_ticks,
    tensor_elements,
    gemm_ticks,
    gemm_operations,
    convolution_ticks,
    convolution_operations,
    depthwise_ticks,
    gradient_ticks,
    gradient_operations,
    dma_ticks,
    ddr_runs,
    fill_ticks,
    nest_ticks,
    move_ticks,
    unfold_ticks,
    copy_ticks,
    scatter_ticks,
    element_stream,
)
"""Every function of a ``Term``; compiled code identifies a function by its position here."""
