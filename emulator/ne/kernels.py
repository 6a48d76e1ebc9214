"""The matrix engine's records as kernels ``(fields, state) -> 0``; conventions as in ``emulator.kernels``."""

from __future__ import annotations

from collections.abc import Callable

from emulator.native.memory import view_i64
from emulator.state import SCRATCH, SCRATCH_BYTES, SIZE, SPM
from tx8isa.formats import Format
from tx8isa.meaning import Convolution, Matrix
from tx8isa.record import Instruction

from .conv import make_conv
from .gemm import make_gemm

Kernel = Callable[[int, int], int]


def make_kernel(instruction: Instruction, fmt: Format | None) -> Kernel:
    """The kernel of ``ne.gemm`` or ``ne.conv`` for one input format; ValueError for any other record."""
    if isinstance(instruction.meaning, Matrix) and fmt is not None:
        return _make_gemm(instruction, fmt)
    if isinstance(instruction.meaning, Convolution) and fmt is not None:
        return _make_conv(instruction, fmt)
    raise ValueError(f"{instruction.mnemonic} is no instruction of the matrix engine")


def _make_gemm(instruction: Instruction, fmt: Format) -> Kernel:
    names = ("a", "b", "out", "psum", "m", "k", "n", "lt", "rt", "lb", "rb", "out_format", "psum_format")
    at = tuple(instruction.index(name) for name in names)
    a, b, out, psum, m, k, n, lt, rt, lb, rb, out_format, psum_format = at
    used, operands, gemm = instruction.index("inpsum_en"), len(instruction.operands), make_gemm(fmt)

    def kernel(fields: int, state: int) -> int:
        f, words = view_i64(fields, operands), view_i64(state, SIZE)
        spm = words[SPM]
        return gemm(
            spm + f[a], spm + f[b], spm + f[out], spm + f[psum], words[SCRATCH], f[m], f[k], f[n],
            f[lt], f[rt], f[lb], f[rb], f[out_format], f[psum_format] if f[used] != 0 else -1,
        )  # fmt: skip

    return kernel


def _lane(word: int, lane: int) -> int:
    """16-bit lane of a packed operand, 0 the highest of four."""
    return word >> (48 - 16 * lane) & 0xFFFF


def _make_conv(instruction: Instruction, fmt: Format) -> Kernel:
    names = ("a", "w", "out", "psum", "shape", "dst_shape", "window", "pad", "unpad", "dilation")
    at = tuple(instruction.index(name) for name in (*names, "out_format", "psum_format", "inpsum_en"))
    a, w, out, psum, shape, result, window, pad, unpad, dilation, out_format, psum_format, used = at
    operands, convolve = len(instruction.operands), make_conv(fmt)

    def kernel(fields: int, state: int) -> int:
        f, words = view_i64(fields, operands), view_i64(state, SIZE)
        spm, source, target, taps = words[SPM], f[shape], f[result], f[window]
        sx, sy, d1, d0 = _lane(taps, 2), _lane(taps, 3), _lane(f[dilation], 3), _lane(f[dilation], 2)
        return convolve(
            spm + f[a], spm + f[w], spm + f[out], spm + f[psum], words[SCRATCH], words[SCRATCH_BYTES],
            _lane(source, 0), _lane(source, 1), _lane(source, 2), _lane(source, 3),
            _lane(target, 1), _lane(target, 2), _lane(target, 3), _lane(taps, 1), _lane(taps, 0), sy, sx,
            _lane(f[pad], 0) - _lane(f[unpad], 0) * sy, _lane(f[pad], 2) - _lane(f[unpad], 2) * sx, d1, d0,
            f[out_format], f[psum_format] if f[used] != 0 else -1,
        )  # fmt: skip

    return kernel
