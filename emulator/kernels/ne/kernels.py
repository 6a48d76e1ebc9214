"""The matrix engine's records as kernels ``(fields, state) -> 0``; conventions as in ``emulator.kernels``."""

from __future__ import annotations

from collections.abc import Callable

from emulator.kernels.ne.sums.floats import make_float
from emulator.kernels.ne.sums.integers import make_integer
from emulator.memory.state import SCRATCH, SCRATCH_BYTES, SIZE, SPM
from emulator.native.primitives.memory import copy_bytes, view_i64
from tx8isa.numbers.formats import Format
from tx8isa.records.meaning import Convolution, Direction, Matrix
from tx8isa.records.record import Instruction

from . import options as o
from .arithmetic import Arithmetic, Function
from .backward import make_backward
from .channels import make_channels
from .conv import make_conv
from .depthwise import make_depthwise
from .gemm import make_gemm

Kernel = Callable[[int, int], int]


def make_kernel(instruction: Instruction, fmt: Format | None, post: bool = False) -> Kernel:
    """The kernel of a record of the matrix engine for one input format; ValueError for any other record.

    ``post``: bias, scale and activation of float formats take part (proposed); else they are ignored (board).
    """
    meaning = instruction.meaning
    if isinstance(meaning, Matrix) and fmt in instruction.formats:
        return _make_gemm(instruction, make_gemm(make_arithmetic(fmt, post)))
    if isinstance(meaning, Convolution) and fmt in instruction.formats:
        if meaning.direction is Direction.FORWARD:
            return _make_conv(instruction, make_conv(make_arithmetic(fmt, post)))
        if meaning.direction is Direction.DEPTHWISE:
            return _make_depthwise(instruction, make_depthwise(make_channels(fmt, post)))
        return _make_backward(instruction, make_backward(make_float(fmt, False)))
    raise ValueError(f"{instruction.mnemonic} is no instruction of the matrix engine")


def make_arithmetic(fmt: Format, post: bool) -> Arithmetic:
    """Products and sums of an input format on this processor."""
    return make_integer() if fmt is Format.INT8 else make_float(fmt, post)


# --- options ------------------------------------------------------------------------------------------------


def signed_byte(value: int) -> int:
    """A zero point as the packet's 8 bits hold it: two's complement (proposed)."""
    return (value ^ 128) - 128


def _make_vector(instruction: Instruction, name: str, enable: str, option: int, at: int) -> Function:
    """Copy a vector of one number per channel behind the options, so that a result may overlap it."""
    operand, enabled, operands = instruction.index(name), instruction.index(enable), len(instruction.operands)

    def vector(fields: int, spm: int, options: int, size: int) -> None:
        f, words = view_i64(fields, operands), view_i64(options, o.WORDS)
        words[option] = 0
        if f[enabled] != 0:
            words[option] = options + at
            copy_bytes(options + at, spm + f[operand], size)

    return vector


def _make_options(instruction: Instruction) -> Function:
    """``(fields, spm, target, channels)``: write the options; so many channels has the result."""
    bias = _make_vector(instruction, "bias", "bias_en", o.BIAS, o.BIAS_AT)
    above = _make_vector(instruction, "scale_p", "scale_en", o.SCALE_P, o.SCALE_P_AT)
    below = _make_vector(instruction, "scale_n", "scale_en", o.SCALE_N, o.SCALE_N_AT)
    names = [operand.name for operand in instruction.operands]
    known = {"relu": o.RELU, "lrelu": o.LRELU, "q1": o.Q1, "q0": o.Q0}
    zeros = {"zp_a": o.ZERO_A, "zp_b": o.ZERO_B, "zp_out": o.ZERO_OUT}
    relu, lrelu, q1, q0 = (names.index(name) for name in known)
    zero_a, zero_b, zero_out = (names.index(name) if name in names else -1 for name in zeros)
    fmt, operands = names.index("format"), len(names)

    def write(fields: int, spm: int, target: int, channels: int) -> None:
        f, words = view_i64(fields, operands), view_i64(target, o.WORDS)
        scale = 2 if f[fmt] == Format.INT8 else 4
        bias(fields, spm, target, 4 * channels)
        above(fields, spm, target, scale * channels)
        below(fields, spm, target, scale * channels)
        words[o.RELU] = f[relu]
        words[o.LRELU] = f[lrelu]
        words[o.Q1] = f[q1]
        words[o.Q0] = f[q0]
        words[o.ZERO_A] = signed_byte(f[zero_a])
        words[o.ZERO_B] = signed_byte(f[zero_b]) if zero_b >= 0 else 0
        words[o.ZERO_OUT] = signed_byte(f[zero_out]) if zero_out >= 0 else 0

    return write


# --- instructions -------------------------------------------------------------------------------------------


def _make_gemm(instruction: Instruction, gemm: Function) -> Kernel:
    names = ("a", "b", "out", "psum", "m", "k", "n", "lt", "rt", "lb", "rb", "out_format", "psum_format")
    at = tuple(instruction.index(name) for name in names)
    a, b, out, psum, m, k, n, lt, rt, lb, rb, out_format, psum_format = at
    used, operands = instruction.index("inpsum_en"), len(instruction.operands)
    options = _make_options(instruction)

    def kernel(fields: int, state: int) -> int:
        f, words = view_i64(fields, operands), view_i64(state, SIZE)
        spm, scratch = words[SPM], words[SCRATCH]
        options(fields, spm, scratch, f[n])
        done: int = gemm(
            spm + f[a],
            spm + f[b],
            spm + f[out],
            spm + f[psum],
            scratch + o.OPTIONS_BYTES,
            f[m],
            f[k],
            f[n],
            f[lt],
            f[rt],
            f[lb],
            f[rb],
            f[out_format],
            f[psum_format] if f[used] != 0 else -1,
            scratch,
        )
        return done

    return kernel


def _lane(word: int, lane: int) -> int:
    """16-bit lane of a packed operand, 0 the highest of four."""
    return word >> (48 - 16 * lane) & 0xFFFF


def _make_conv(instruction: Instruction, convolve: Function) -> Kernel:
    names = ("a", "w", "out", "psum", "shape", "dst_shape", "window", "pad", "unpad", "dilation")
    at = tuple(instruction.index(name) for name in (*names, "out_format", "psum_format", "inpsum_en"))
    a, w, out, psum, shape, result, window, pad, unpad, dilation, out_format, psum_format, used = at
    operands, options = len(instruction.operands), _make_options(instruction)

    def kernel(fields: int, state: int) -> int:
        f, words = view_i64(fields, operands), view_i64(state, SIZE)
        spm, scratch, source, target, taps = words[SPM], words[SCRATCH], f[shape], f[result], f[window]
        sx, sy, d1, d0 = _lane(taps, 2), _lane(taps, 3), _lane(f[dilation], 3), _lane(f[dilation], 2)
        options(fields, spm, scratch, _lane(target, 3))
        done: int = convolve(
            spm + f[a],
            spm + f[w],
            spm + f[out],
            spm + f[psum],
            scratch + o.OPTIONS_BYTES,
            words[SCRATCH_BYTES] - o.OPTIONS_BYTES,
            _lane(source, 0),
            _lane(source, 1),
            _lane(source, 2),
            _lane(source, 3),
            _lane(target, 1),
            _lane(target, 2),
            _lane(target, 3),
            _lane(taps, 1),
            _lane(taps, 0),
            sy,
            sx,
            _lane(f[pad], 0) - _lane(f[unpad], 0) * sy,
            _lane(f[pad], 2) - _lane(f[unpad], 2) * sx,
            d1,
            d0,
            f[out_format],
            f[psum_format] if f[used] != 0 else -1,
            scratch,
        )
        return done

    return kernel


def _make_depthwise(instruction: Instruction, depthwise: Function) -> Kernel:
    names = ("a", "w", "out", "psum", "shape", "dst_shape", "window", "pad", "unpad")
    at = tuple(instruction.index(name) for name in (*names, "out_format", "psum_format", "inpsum_en"))
    a, w, out, psum, shape, result, window, pad, unpad, out_format, psum_format, used = at
    operands, options = len(instruction.operands), _make_options(instruction)

    def kernel(fields: int, state: int) -> int:
        f, words = view_i64(fields, operands), view_i64(state, SIZE)
        spm, scratch, source, target, taps = words[SPM], words[SCRATCH], f[shape], f[result], f[window]
        sx, sy = _lane(taps, 2), _lane(taps, 3)
        options(fields, spm, scratch, _lane(target, 3))
        done: int = depthwise(
            spm + f[a],
            spm + f[w],
            spm + f[out],
            spm + f[psum],
            scratch + o.OPTIONS_BYTES,
            _lane(source, 0),
            _lane(source, 1),
            _lane(source, 2),
            _lane(source, 3),
            _lane(target, 1),
            _lane(target, 2),
            _lane(taps, 1),
            _lane(taps, 0),
            sy,
            sx,
            _lane(f[pad], 0) - _lane(f[unpad], 0) * sy,
            _lane(f[pad], 2) - _lane(f[unpad], 2) * sx,
            f[out_format],
            f[psum_format] if f[used] != 0 else -1,
            scratch,
        )
        return done

    return kernel


def result_extent(size: int, before: int, after: int, k: int, d: int, s: int, unpads: int) -> int:
    """Result positions of a convolution along one dimension (docs/isa.md, Convolution)."""
    return (size + before + after - (k - 1) * d - 1) // s + 1 - unpads


def _make_backward(instruction: Instruction, backward: Function) -> Kernel:
    names = ("a", "dy", "out", "psum", "shape", "dst_shape", "window", "pad", "unpad", "dilation")
    at = tuple(instruction.index(name) for name in (*names, "out_format", "psum_format", "inpsum_en"))
    a, gradient, out, psum, shape, result, window, pad, unpad, dilation, out_format, psum_format, used = at
    operands = len(instruction.operands)

    def kernel(fields: int, state: int) -> int:
        f, words = view_i64(fields, operands), view_i64(state, SIZE)
        spm, scratch, source, taps, p, u = words[SPM], words[SCRATCH], f[shape], f[window], f[pad], f[unpad]
        kx, ky, sx, sy = _lane(taps, 0), _lane(taps, 1), _lane(taps, 2), _lane(taps, 3)
        d1, d0, h, width = _lane(f[dilation], 3), _lane(f[dilation], 2), _lane(source, 1), _lane(source, 2)
        oh = result_extent(h, _lane(p, 0), _lane(p, 1), ky, d1, sy, _lane(u, 0) + _lane(u, 1))
        ow = result_extent(width, _lane(p, 2), _lane(p, 3), kx, d0, sx, _lane(u, 2) + _lane(u, 3))
        done: int = backward(
            spm + f[a],
            spm + f[gradient],
            spm + f[out],
            spm + f[psum],
            scratch,
            _lane(source, 0),
            h,
            width,
            _lane(source, 3),
            oh,
            ow,
            _lane(f[result], 2),
            ky,
            kx,
            sy,
            sx,
            _lane(p, 0) - _lane(u, 0) * sy,
            _lane(p, 2) - _lane(u, 2) * sx,
            d1,
            d0,
            f[out_format],
            f[psum_format] if f[used] != 0 else -1,
            scratch,
        )
        return done

    return kernel
