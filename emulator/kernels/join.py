"""Mould of concat (semantics.md 9.1): two aligned tensors joined along C, W or H."""

from __future__ import annotations

from collections.abc import Callable

from emulator.native.memory import view_i64
from emulator.state import SCRATCH, SIZE, SPM
from tx8isa.aligned import tensor
from tx8isa.formats import Format
from tx8isa.layouts import batch_bytes, block_channels
from tx8isa.record import Instruction

from .access import VIEWS
from .planes import C, H, N, W, lane, planes, stored_lanes, valid_lanes
from .rows import SECOND, apart, clear

Kernel = Callable[[int, int], int]


def make_join(instruction: Instruction, fmt: Format) -> Kernel:
    """The kernel of concat: the result is cleared, then each source copied to its place."""
    bits, part = fmt.bits, _part(fmt.bits)
    names = [o.name for o in instruction.operands]
    target_at, first_at, second_at = (names.index(k) for k in ("dst", "src0", "src1"))
    shape_at, result_at, dims_at = (names.index(k) for k in ("shape", "dst_shape", "dims"))
    operands = len(names)

    def kernel(fields: int, state: int) -> int:
        words, memory = view_i64(fields, operands), view_i64(state, SIZE)
        shape, result, dims = words[shape_at], words[result_at], words[dims_at]
        n, h, w, c = lane(shape, N), lane(shape, H), lane(shape, W), lane(shape, C)
        rows, columns, channels = lane(result, H), lane(result, W), lane(result, C)
        more_c = channels - c if dims == 0 else c
        more_w = columns - w if dims == 1 else w
        more_h = rows - h if dims == 2 else h
        target, size = memory[SPM] + words[target_at], tensor(bits, n, rows, columns, channels)
        first, second = memory[SPM] + words[first_at], memory[SPM] + words[second_at]
        first = apart(first, tensor(bits, n, h, w, c), target, size, memory[SCRATCH])
        second = apart(
            second, tensor(bits, n, more_h, more_w, more_c), target, size, memory[SCRATCH] + SECOND
        )
        clear(target, size)
        from_c, from_w, from_h = (c if dims == 0 else 0), (w if dims == 1 else 0), (h if dims == 2 else 0)
        for i in range(n):
            to = target + i * (size // n)
            part(to, columns, channels, rows, first + i * batch_bytes(h * w, c, bits), h, w, c, 0, 0, 0)
            part(
                to, columns, channels, rows, second + i * batch_bytes(more_h * more_w, more_c, bits),
                more_h, more_w, more_c, from_h, from_w, from_c,
            )  # fmt: skip
        return 0

    return kernel


def _part(bits: int) -> Callable[..., None]:
    """One batch of one source at (from_h, from_w, from_c) of the result.

    The channels of a source plane lie in at most two planes of the result, a run of lanes in each.
    """
    block, size, view = block_channels(bits), bits // 8, VIEWS[bits // 8]

    def copy_part(
        target: int, columns: int, channels: int, rows: int, source: int, h: int, w: int, c: int,
        from_h: int, from_w: int, from_c: int,
    ) -> None:  # fmt: skip
        for b in range(planes(c, bits)):
            stored, valid = stored_lanes(c, bits, b), valid_lanes(c, bits, b)
            done = 0
            while done < valid:
                channel = from_c + b * block + done
                plane = min(channel // block, planes(channels, bits) - 1)
                start = channel - plane * block
                wide = stored_lanes(channels, bits, plane)
                run = min(valid - done, wide - start)
                for p in range(h * w):
                    at = (from_h + p // w) * columns + from_w + p % w
                    to = view(target + (plane * rows * columns * block + at * wide + start) * size, run)
                    of = view(source + (b * h * w * block + p * stored + done) * size, run)
                    for k in range(run):
                        to[k] = of[k]
                done += run

    return copy_part
