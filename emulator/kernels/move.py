"""Mould of the moves given by shapes (semantics.md 9.1): the record's body says where each element comes from."""

from __future__ import annotations

from collections.abc import Callable

from emulator.native.memory import view_i64
from emulator.state import SCRATCH, SIZE, SPM
from tx8isa.aligned import compact, tensor
from tx8isa.formats import Format
from tx8isa.layouts import batch_bytes, block_channels
from tx8isa.meaning import Move
from tx8isa.primitives import u64
from tx8isa.record import Instruction

from .access import VIEWS
from .planes import C, H, N, W, lane, planes, stored_lanes, valid_lanes
from .rows import apart, clear

Kernel = Callable[[int, int], int]

_TILE = 32
"""Extent of a tile of a transposition: lines that are read across stay in the first-level cache."""


def make_move(instruction: Instruction, fmt: Format) -> Kernel:
    """The kernel of one move."""
    meaning: Move = instruction.meaning
    element, bits = fmt.bits // 8, fmt.bits
    names = [o.name for o in instruction.operands]
    target_at, source_at, shape_at, result_at = (
        names.index(k) for k in ("dst", "src0", "shape", "dst_shape")
    )
    pad_at = names.index("pad") if "pad" in names else -1
    operands = len(names)
    source_bytes = tensor if meaning.aligned_source else compact
    result_bytes = tensor if meaning.aligned_result else compact
    move = _by_rows(meaning, bits) if meaning.aligned_result else _by_elements(meaning, element)

    def kernel(fields: int, state: int) -> int:
        words, memory = view_i64(fields, operands), view_i64(state, SIZE)
        shape, result = words[shape_at], words[result_at]
        pad = words[pad_at] if pad_at >= 0 else 0
        target, source = memory[SPM] + words[target_at], memory[SPM] + words[source_at]
        read = source_bytes(bits, lane(shape, N), lane(shape, H), lane(shape, W), lane(shape, C))
        written = result_bytes(bits, lane(result, N), lane(result, H), lane(result, W), lane(result, C))
        source = apart(source, read, target, written, memory[SCRATCH])
        move(target, source, shape, result, lane(pad, N), lane(pad, W))
        return 0

    return kernel


def _by_rows(meaning: Move, bits: int) -> Callable[..., None]:
    """An aligned result: the channels of a block come from one place, so rows of lanes are copied."""
    index, aligned = meaning.source, meaning.aligned_source
    block, size, view = block_channels(bits), bits // 8, VIEWS[bits // 8]

    def place(source: int, flat: int, hw: int, c: int, b: int) -> int:
        """Address of the source element of that flat index, which lies in plane ``b``."""
        if not aligned:
            return source + flat * size
        position = flat // c
        row = b * hw * block + position % hw * stored_lanes(c, bits, b)
        return source + position // hw * batch_bytes(hw, c, bits) + row * size

    def move(target: int, source: int, shape: int, result: int, top: int, left: int) -> None:
        n, h, w, c = lane(shape, N), lane(shape, H), lane(shape, W), lane(shape, C)
        rows, columns = lane(result, H), lane(result, W)
        batch = batch_bytes(rows * columns, c, bits)
        clear(target, lane(result, N) * batch)
        for i in range(lane(result, N)):
            for b in range(planes(c, bits)):
                stored, valid = stored_lanes(c, bits, b), valid_lanes(c, bits, b)
                plane = target + i * batch + b * rows * columns * block * size
                for p in range(rows * columns):
                    flat = index(i, p // columns, p % columns, b * block, n, h, w, c, top, left)
                    if flat >= 0:
                        to = view(plane + p * stored * size, valid)
                        of = view(place(source, flat, h * w, c, b), valid)
                        for k in range(u64(valid)):
                            to[k] = of[k]

    return move


def _by_elements(meaning: Move, size: int) -> Callable[..., None]:
    """Compact to compact: tiles of all three inner extents, element by element."""
    index, channels_first, view = meaning.source, meaning.channels_first, VIEWS[size]

    def move(target: int, source: int, shape: int, result: int, top: int, left: int) -> None:
        n, h, w, c = lane(shape, N), lane(shape, H), lane(shape, W), lane(shape, C)
        e, f, g = lane(result, H), lane(result, W), lane(result, C)
        if channels_first:
            e, f, g = g, e, f
        to, of = view(target, n * e * f * g), view(source, n * h * w * c)
        for i in range(lane(result, N)):
            for tile_j in range(0, e, _TILE):
                for tile_k in range(0, f, _TILE):
                    for tile_m in range(0, g, _TILE):
                        for j in range(tile_j, min(tile_j + _TILE, e)):
                            for k in range(tile_k, min(tile_k + _TILE, f)):
                                row = ((i * e + j) * f + k) * g
                                for m in range(tile_m, min(tile_m + _TILE, g)):
                                    flat = index(i, j, k, m, n, h, w, c, top, left)
                                    to[u64(row + m)] = of[u64(flat)] if flat >= 0 else 0

    return move
