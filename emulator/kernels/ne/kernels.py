"""The matrix engine's records as kernels ``(fields, state) -> 0``; conventions as in ``emulator.kernels``."""

from __future__ import annotations

from collections.abc import Callable

from emulator.kernels.ne.sums.channels import make_channels
from emulator.kernels.ne.sums.floats import make_float
from emulator.kernels.ne.sums.integers import make_integer
from emulator.kernels.shared import Kernel
from emulator.memory.state import SCRATCH, SCRATCH_BYTES, SIZE, SPM
from emulator.native.primitives.memory import copy_bytes, get, put, view_i64
from tx8isa.numbers.formats import Format
from tx8isa.numbers.limits import LANE_BITS, LANE_MASK
from tx8isa.numbers.primitives import s64
from tx8isa.records.meaning import Convolution, Direction, Matrix
from tx8isa.records.record import Instruction

from . import problem as word
from .arithmetic import MatrixArithmetic
from .backward import make_backward
from .conv import make_conv
from .depthwise import make_depthwise
from .gemm import make_gemm

Compute = Callable[[int], int]
"""(problem) -> 0."""


def make_kernel(instruction: Instruction, fmt: Format | None, post: bool = False) -> Kernel:
    """Make the kernel of a record of the matrix engine for one input format; ValueError for any other record.

    ``post``: bias, scale and activation of float formats are applied (proposed); else ignored (board).
    """
    meaning = instruction.meaning
    if isinstance(meaning, Matrix) and fmt in instruction.formats:
        return _make_gemm(instruction, make_gemm(make_arithmetic(fmt, post)))
    if isinstance(meaning, Convolution) and fmt in instruction.formats:
        if meaning.direction is Direction.FORWARD:
            return _make_conv(instruction, make_conv(make_arithmetic(fmt, post)))
        if meaning.direction is Direction.DEPTHWISE:
            return _make_conv(instruction, make_depthwise(make_channels(fmt, post)))
        return _make_backward(instruction, make_backward(make_float(fmt, False)))
    raise ValueError(f"{instruction.mnemonic} is not an instruction of the matrix engine")


def make_arithmetic(fmt: Format, post: bool) -> MatrixArithmetic:
    """Make the products and sums of an input format on this processor."""
    return make_integer() if fmt is Format.INT8 else make_float(fmt, post)


# --- operands -----------------------------------------------------------------------------------------------


def _make_operands(instruction: Instruction, right: str) -> Callable[[int, int], int]:
    """``(fields, state) -> problem``: write addresses and formats to the beginning of the scratch."""
    a, b, out, psum = (instruction.index(name) for name in ("a", right, "out", "psum"))
    formats = ("out_format", "psum_format", "inpsum_en")
    out_format, psum_format, used = (instruction.index(name) for name in formats)
    operands = len(instruction.operands)

    def write(fields: int, state: int) -> int:
        f, tile = view_i64(fields, operands), view_i64(state, SIZE)
        spm, problem = tile[SPM], tile[SCRATCH]
        words = view_i64(problem, word.WORDS)
        words[word.A] = spm + f[a]
        words[word.B] = spm + f[b]
        words[word.OUT] = spm + f[out]
        words[word.PSUM] = spm + f[psum]
        words[word.WORK] = problem + word.PROBLEM_BYTES
        words[word.WORK_BYTES] = tile[SCRATCH_BYTES] - word.PROBLEM_BYTES
        words[word.OUT_FORMAT] = f[out_format]
        words[word.PSUM_FORMAT] = f[psum_format] if f[used] != 0 else word.NO_PSUM
        return s64(problem)

    return write


def _lane(packed: int, lane: int) -> int:
    """16-bit lane of a packed operand, 0 the highest of four."""
    return packed >> LANE_BITS * (3 - lane) & LANE_MASK


def _make_window(instruction: Instruction) -> Callable[[int, int], None]:
    """``(fields, problem)``: write images, window and pads; without an operand ``dilation`` it is 1."""
    names = ("shape", "window", "pad", "unpad")
    shape, window, pad, unpad = (instruction.index(name) for name in names)
    operands = [operand.name for operand in instruction.operands]
    dilation = operands.index("dilation") if "dilation" in operands else -1
    count = len(operands)

    def write(fields: int, problem: int) -> None:
        f, words = view_i64(fields, count), view_i64(problem, word.WORDS)
        image, taps = s64(f[shape]), s64(f[window])
        words[word.BATCH] = _lane(image, 0)
        words[word.H] = _lane(image, 1)
        words[word.W] = _lane(image, 2)
        words[word.C] = _lane(image, 3)
        words[word.KX] = _lane(taps, 0)
        words[word.KY] = _lane(taps, 1)
        words[word.SX] = _lane(taps, 2)
        words[word.SY] = _lane(taps, 3)
        words[word.TOP] = _lane(f[pad], 0) - _lane(f[unpad], 0) * _lane(taps, 3)
        words[word.LEFT] = _lane(f[pad], 2) - _lane(f[unpad], 2) * _lane(taps, 2)
        words[word.DX] = _lane(f[dilation], 2) if dilation >= 0 else 1
        words[word.DY] = _lane(f[dilation], 3) if dilation >= 0 else 1

    return write


# --- post-processing of sums --------------------------------------------------------------------------------


def signed_byte(value: int) -> int:
    """Return a zero point from the packet's 8 bits, in two's complement (proposed)."""
    return (value ^ 128) - 128


def _make_vector(
    instruction: Instruction, name: str, enable: str, position: int, at: int
) -> Callable[[int, int, int, int], None]:
    """Copy a vector of one number per channel to ``at`` in the problem, so that a result may overlap it."""
    operand, enabled, operands = instruction.index(name), instruction.index(enable), len(instruction.operands)

    def vector(fields: int, spm: int, problem: int, size: int) -> None:
        f = view_i64(fields, operands)
        put(problem, position, 0)
        if f[enabled] != 0:
            put(problem, position, problem + at)
            copy_bytes(problem + at, spm + f[operand], size)

    return vector


def _make_options(instruction: Instruction) -> Callable[[int, int, int, int], None]:
    """``(fields, state, problem, channels)``: write the post-processing of the sums of so many channels."""
    bias = _make_vector(instruction, "bias", "bias_en", word.BIAS, word.BIAS_AT)
    above = _make_vector(instruction, "scale_p", "scale_en", word.SCALE_P, word.SCALE_P_AT)
    below = _make_vector(instruction, "scale_n", "scale_en", word.SCALE_N, word.SCALE_N_AT)
    names = [operand.name for operand in instruction.operands]
    relu, lrelu, q1, q0, fmt = (names.index(name) for name in ("relu", "lrelu", "q1", "q0", "format"))
    zeros = ("zp_a", "zp_b", "zp_out")
    zero_a, zero_b, zero_out = (names.index(name) if name in names else -1 for name in zeros)
    operands = len(names)

    def write(fields: int, state: int, problem: int, channels: int) -> None:
        f, words, spm = view_i64(fields, operands), view_i64(problem, word.WORDS), get(state, SPM)
        scale = 2 if f[fmt] == Format.INT8 else 4
        bias(fields, spm, problem, 4 * channels)
        above(fields, spm, problem, scale * channels)
        below(fields, spm, problem, scale * channels)
        words[word.RELU] = f[relu]
        words[word.LRELU] = f[lrelu]
        words[word.Q1] = f[q1]
        words[word.Q0] = f[q0]
        words[word.ZERO_A] = signed_byte(f[zero_a])
        words[word.ZERO_B] = signed_byte(f[zero_b]) if zero_b >= 0 else 0
        words[word.ZERO_OUT] = signed_byte(f[zero_out]) if zero_out >= 0 else 0

    return write


# --- instructions -------------------------------------------------------------------------------------------


def _make_gemm(instruction: Instruction, gemm: Compute) -> Kernel:
    names = ("m", "k", "n", "lt", "rt", "lb", "rb")
    m, k, n, lt, rt, lb, rb = (instruction.index(name) for name in names)
    write, options = _make_operands(instruction, "b"), _make_options(instruction)
    operands = len(instruction.operands)

    def kernel(fields: int, state: int) -> int:
        problem = write(fields, state)
        f, words = view_i64(fields, operands), view_i64(problem, word.WORDS)
        words[word.M] = f[m]
        words[word.K] = f[k]
        words[word.N] = f[n]
        words[word.LT] = f[lt]
        words[word.RT] = f[rt]
        words[word.LB] = f[lb]
        words[word.RB] = f[rb]
        options(fields, state, problem, f[n])
        return gemm(problem)

    return kernel


def _make_conv(instruction: Instruction, convolve: Compute) -> Kernel:
    """Make a forward or depthwise convolution, whose result is an image."""
    write, window = _make_operands(instruction, "w"), _make_window(instruction)
    options, result = _make_options(instruction), instruction.index("dst_shape")

    def kernel(fields: int, state: int) -> int:
        problem, shape = write(fields, state), get(fields, result)
        window(fields, problem)
        put(problem, word.OH, _lane(shape, 1))
        put(problem, word.OW, _lane(shape, 2))
        put(problem, word.MAPS, _lane(shape, 3))
        options(fields, state, problem, _lane(shape, 3))
        return convolve(problem)

    return kernel


def result_extent(size: int, before: int, after: int, k: int, d: int, s: int, unpads: int) -> int:
    """Result positions of a convolution along one dimension (docs/isa.md, Convolution)."""
    return (size + before + after - (k - 1) * d - 1) // s + 1 - unpads


def _make_backward(instruction: Instruction, backward: Compute) -> Kernel:
    """Make a weight gradient: its result is weights; the forward result's shape follows from the window."""
    write, window = _make_operands(instruction, "dy"), _make_window(instruction)
    result, pad, unpad = (instruction.index(name) for name in ("dst_shape", "pad", "unpad"))

    def kernel(fields: int, state: int) -> int:
        problem, p, u = write(fields, state), get(fields, pad), get(fields, unpad)
        window(fields, problem)
        words = view_i64(problem, word.WORDS)
        up, left = _lane(u, 0) + _lane(u, 1), _lane(u, 2) + _lane(u, 3)
        words[word.OH] = result_extent(
            words[word.H], _lane(p, 0), _lane(p, 1), words[word.KY], words[word.DY], words[word.SY], up
        )
        words[word.OW] = result_extent(
            words[word.W], _lane(p, 2), _lane(p, 3), words[word.KX], words[word.DX], words[word.SX], left
        )
        words[word.MAPS] = _lane(get(fields, result), 2)
        return backward(problem)

    return kernel
