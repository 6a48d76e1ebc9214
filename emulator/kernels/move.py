"""Mould of the moves given by shapes (docs/isa.md, Moves): the record says where each element comes from."""

from __future__ import annotations

from collections.abc import Callable

from emulator.native.memory import view_i64
from emulator.state import SCRATCH, SIZE, SPM
from tx8isa.formats import Format
from tx8isa.layouts import block_channels
from tx8isa.meaning import Move
from tx8isa.primitives import u64
from tx8isa.record import Instruction

from .access import VIEWS
from .planes import LANE, C, H, N, W, batch_size, planes, stored_lanes
from .rows import apart, clear

Kernel = Callable[[int, int], int]

_TILE = 32
"""Extent of a tile of a transposition: lines that are read across stay in the first-level cache."""


def make_move(instruction: Instruction, fmt: Format) -> Kernel:
    """The kernel of one move."""
    meaning: Move = instruction.meaning
    return _by_rows(instruction, fmt) if meaning.aligned_result else _by_elements(instruction, fmt)


def _by_rows(instruction: Instruction, fmt: Format) -> Kernel:
    """An aligned result: the channels of a block come from one place, so rows of lanes are copied."""
    index, aligned = instruction.meaning.source, instruction.meaning.aligned_source
    block, size, view = block_channels(fmt.bits), fmt.bits // 8, VIEWS[fmt.bits // 8]
    target_at, source_at, shape_at, result_at, pad_at, operands = _places(instruction)

    def kernel(fields: int, state: int) -> int:
        words, memory = view_i64(fields, operands), view_i64(state, SIZE)
        shape, result, pad = words[shape_at], words[result_at], words[pad_at] if pad_at >= 0 else 0
        n, h, w, c = shape >> N & LANE, shape >> H & LANE, shape >> W & LANE, shape >> C & LANE
        rows, columns = result >> H & LANE, result >> W & LANE
        read = batch_size(h * w, c, block, size) if aligned else h * w * c * size
        written = batch_size(rows * columns, c, block, size)
        target, source = memory[SPM] + words[target_at], memory[SPM] + words[source_at]
        source = apart(source, n * read, target, n * written, memory[SCRATCH])
        clear(target, n * written)
        for b in range(planes(c, block)):
            stored = stored_lanes(c, block, b)
            run = min(c - b * block, stored)
            for i in range(n):
                place = target + i * written + b * rows * columns * block * size
                for j in range(rows):
                    for k in range(columns):
                        flat = index(i, j, k, b * block, n, h, w, c, pad >> N & LANE, pad >> W & LANE)
                        if flat >= 0:
                            of = source + flat * size
                            if aligned:
                                p = flat // c
                                of = source + p // (h * w) * read
                                of += (b * h * w * block + p % (h * w) * stored) * size
                            to, lanes = view(place, run), view(of, run)
                            for m in range(u64(run)):
                                to[m] = lanes[m]
                        place += stored * size
        return 0

    return kernel


def _by_elements(instruction: Instruction, fmt: Format) -> Kernel:
    """Compact to compact: tiles of the three inner extents, element by element."""
    index, channels_first = instruction.meaning.source, instruction.meaning.channels_first
    size, view = fmt.bits // 8, VIEWS[fmt.bits // 8]
    target_at, source_at, shape_at, result_at, pad_at, operands = _places(instruction)

    def kernel(fields: int, state: int) -> int:
        words, memory = view_i64(fields, operands), view_i64(state, SIZE)
        shape, result, pad = words[shape_at], words[result_at], words[pad_at] if pad_at >= 0 else 0
        n, h, w, c = shape >> N & LANE, shape >> H & LANE, shape >> W & LANE, shape >> C & LANE
        e, f, g = result >> H & LANE, result >> W & LANE, result >> C & LANE
        if channels_first:
            e, f, g = g, e, f
        target, source = memory[SPM] + words[target_at], memory[SPM] + words[source_at]
        source = apart(source, n * h * w * c * size, target, n * e * f * g * size, memory[SCRATCH])
        to, of = view(target, n * e * f * g), view(source, n * h * w * c)
        tiles_f, tiles_g = (f + _TILE - 1) // _TILE, (g + _TILE - 1) // _TILE
        for tile in range(n * ((e + _TILE - 1) // _TILE) * tiles_f * tiles_g):
            tile_m, tile_k = tile % tiles_g * _TILE, tile // tiles_g % tiles_f * _TILE
            outer = tile // (tiles_g * tiles_f)
            i, tile_j = outer // ((e + _TILE - 1) // _TILE), outer % ((e + _TILE - 1) // _TILE) * _TILE
            for j in range(tile_j, min(tile_j + _TILE, e)):
                for k in range(tile_k, min(tile_k + _TILE, f)):
                    row = ((i * e + j) * f + k) * g
                    for m in range(tile_m, min(tile_m + _TILE, g)):
                        flat = index(i, j, k, m, n, h, w, c, pad >> N & LANE, pad >> W & LANE)
                        to[u64(row + m)] = of[u64(flat)] if flat >= 0 else 0
        return 0

    return kernel


def _places(instruction: Instruction) -> tuple[int, int, int, int, int, int]:
    """Positions of dst, src0, shape, dst_shape and pad (-1 without one), and the number of operands."""
    names = [o.name for o in instruction.operands]
    pad = names.index("pad") if "pad" in names else -1
    at = names.index
    return at("dst"), at("src0"), at("shape"), at("dst_shape"), pad, len(names)
