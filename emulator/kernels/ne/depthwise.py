"""Depthwise convolution (docs/isa.md, Depthwise convolution): 64 channels at a time, vectors over channels.

The input for a block of results is copied into scratch with its borders, as in ``conv``. Every result channel
has sums over ky, kx in ascending order. INT8 numbers become 32-bit integers less the zero point.
"""

from __future__ import annotations

from collections.abc import Callable

from emulator.kernels.ne.sums.channels import Channels
from emulator.native.primitives.memory import get, view_i64
from emulator.native.primitives.products import TAP_LANES, TAP_ROWS
from tx8isa.families.aligned import tensor
from tx8isa.numbers.layouts import batch_bytes
from tx8isa.numbers.limits import LARGEST_KERNEL

from . import problem as word
from .elements import BLOCK, element_bytes, lanes, panel_width, planes, stored
from .groups import FIXED as GROUPS
from .groups import GROUP, SLACK, SUMS
from .image import band_rows, every_column, extent, make_image_row, make_whole_rows, positions
from .problem import choose_result, clear_gap, deliver, image_bytes, result_bytes, set_product

RECTANGLE_BYTES = 32 << 20
"""Input of one block; a single result of the largest window takes half of it."""
MAX_TAPS = LARGEST_KERNEL * LARGEST_KERNEL
OFFSETS = GROUPS
WEIGHTS = OFFSETS + 8 * MAX_TAPS
INPUT = WEIGHTS + 4 * MAX_TAPS * BLOCK + SLACK
FIXED = INPUT + RECTANGLE_BYTES + SLACK


def depthwise_scratch_bytes(batch: int, oh: int, ow: int, c: int, out_format: int) -> int:
    """Return the bytes of working memory that a depthwise convolution needs."""
    return FIXED + tensor(8 * element_bytes(out_format), batch, oh, ow, c)


def block_columns(ow: int, ky: int, kx: int, sx: int) -> int:
    """Return the result columns of a block: all, unless the input of one row of results does not fit."""
    columns = ow
    while columns > 1 and 4 * BLOCK * ky * extent(columns, sx, kx, 1) > RECTANGLE_BYTES:
        columns = (columns + 1) // 2
    return columns


def make_depthwise(channels: Channels) -> Callable[[int], int]:
    """Make the depthwise convolution of one input format: ``depthwise(problem) -> 0``.

    As ``conv``; B is [KY, KX, C] as one Cx volume.
    """
    weights, blocks, bits = _make_weights(channels), _make_blocks(channels), channels.arithmetic.bits

    def depthwise(problem: int) -> int:
        batch, c = get(problem, word.BATCH), get(problem, word.C)
        taps = get(problem, word.KY) * get(problem, word.KX)
        set_product(problem, get(problem, word.OH) * get(problem, word.OW), 1, c, taps)
        size = batch * result_bytes(problem, word.OUT_FORMAT)
        spare = get(problem, word.WORK) + FIXED
        choose_result(problem, size, batch * image_bytes(problem, bits), batch_bytes(taps, c, bits), spare)
        for i in range(batch):
            clear_gap(problem, i)
            for p in range(planes(c)):
                weights(p, problem)
                blocks(i, p, problem)
        deliver(problem, size)
        return 0

    return depthwise


def _make_weights(channels: Channels) -> Callable[[int, int], None]:
    """Make the weights of plane ``p`` as words [taps, panel width], and the start values of its columns."""
    widen, begin = channels.weights, channels.begin
    whole_lanes, size = channels.block, channels.arithmetic.bits // 8

    def weights(p: int, problem: int) -> None:
        c, taps = get(problem, word.C), get(problem, word.TAPS)
        whole, lane, kept = p * BLOCK // whole_lanes, p * BLOCK % whole_lanes, lanes(c, p)
        pitch, columns = stored(c, whole, whole_lanes), panel_width(c, p)
        w = get(problem, word.B) + size * (whole * whole_lanes * taps + lane)
        target = get(problem, word.WORK) + WEIGHTS
        for t in range(taps):
            widen(w + size * t * pitch, pitch, target + 4 * t * columns, kept, 1, problem)
        begin(target + 4 * taps * columns, columns, kept, p * BLOCK, problem)

    return weights


def _make_blocks(channels: Channels) -> Callable[[int, int, int], None]:
    """Compute 64 channels of image ``i``, block after block of the result."""
    fetch, block = _make_fetch(channels), _make_block(channels)

    def blocks(i: int, p: int, problem: int) -> None:
        oh, ow = get(problem, word.OH), get(problem, word.OW)
        ky, kx = get(problem, word.KY), get(problem, word.KX)
        sy, sx = get(problem, word.SY), get(problem, word.SX)
        right = block_columns(ow, ky, kx, sx)
        for column in range(0, ow, right):
            across = min(right, ow - column)
            wide = extent(across, sx, kx, 1)
            down = band_rows(oh, 4 * lanes(get(problem, word.C), p) * wide, ky, sy, 1)
            for row in range(0, oh, down):
                count = min(down, oh - row)
                fetch(i, p, row, column, extent(count, sy, ky, 1), wide, problem)
                block(i, p, row, column, count, across, problem)

    return blocks


def _make_fetch(channels: Channels) -> Callable[[int, int, int, int, int, int, int], None]:
    """Fetch the input, ``high`` by ``wide``, of the results from (row, column)."""
    image_row, bits = make_image_row(channels.arithmetic, every_column), channels.arithmetic.bits
    whole_rows, whole_lanes = make_whole_rows(channels.arithmetic), channels.block

    def fetch(i: int, p: int, row: int, column: int, high: int, wide: int, problem: int) -> None:
        c, whole, lane = get(problem, word.C), p * BLOCK // whole_lanes, p * BLOCK % whole_lanes
        first = whole * whole_lanes * get(problem, word.H) * get(problem, word.W) + lane
        x = get(problem, word.A) + i * image_bytes(problem, bits) + bits // 8 * first
        top = row * get(problem, word.SY) - get(problem, word.TOP)
        left = column * get(problem, word.SX) - get(problem, word.LEFT)
        kept, pitch = lanes(c, p), stored(c, whole, whole_lanes)
        target = get(problem, word.WORK) + INPUT
        if left == 0 and wide == get(problem, word.W):
            whole_rows(x, pitch, target, kept, top, high, problem)
        else:
            for r in range(high):
                image_row(x, pitch, target + 4 * r * wide * kept, kept, top + r, left, wide, problem)

    return fetch


def _make_block(channels: Channels) -> Callable[[int, int, int, int, int, int, int], None]:
    """Compute ``count`` by ``across`` results, row after row if the block is narrower than the result."""
    group = _make_group(channels)

    def block(i: int, p: int, row: int, column: int, count: int, across: int, problem: int) -> None:
        ow, kx, taps = get(problem, word.OW), get(problem, word.KX), get(problem, word.TAPS)
        wide, kept = extent(across, get(problem, word.SX), kx, 1), lanes(get(problem, word.C), p)
        work = get(problem, word.WORK)
        down, right = get(problem, word.SY) * wide * kept, get(problem, word.SX) * kept
        offsets = view_i64(work + OFFSETS, taps)
        for t in range(taps):
            offsets[t] = (t // kx * wide + t % kx) * kept
        run = count * across if across == ow else across
        for first in range(0, count * across, run):
            for position in range(first, first + run, GROUP):
                here = min(GROUP, first + run - position)
                positions(work, here, position, across, down, right)
                at = (row + position // across) * ow + column + position % across
                group(i, p, at, here, problem)

    return block


def _make_group(channels: Channels) -> Callable[[int, int, int, int, int], None]:
    """Compute ``count`` results from number ``first``, whose places in the input are in the index."""
    start, finish, taps = channels.arithmetic.start, channels.arithmetic.finish, channels.taps

    def group(i: int, p: int, first: int, count: int, problem: int) -> None:
        work, number = get(problem, word.WORK), get(problem, word.TAPS)
        columns, weights, x = panel_width(get(problem, word.C), p), work + WEIGHTS, work + INPUT
        start(work, count, i, first, p, weights + 4 * number * columns, problem)
        for j in range(0, columns, TAP_LANES):
            for r in range(0, count, TAP_ROWS):
                sums = work + SUMS + 4 * (r * columns + j)
                index, offsets = work + 8 * r, work + OFFSETS
                taps(index, x + 4 * j, offsets, weights + 4 * j, columns, sums, columns, number)
        finish(work, count, i, first, p, problem)

    return group
