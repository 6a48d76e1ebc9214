"""Products of matrices with sums in the defined order, by NumPy; kernels that are called directly."""

from __future__ import annotations

from functools import cache

import ml_dtypes
import numpy as np

from emulator import native
from emulator.kernels.ne.arithmetic import MatrixArithmetic
from emulator.kernels.ne.conv import conv_scratch_bytes, make_conv, small_scratch_bytes
from emulator.kernels.ne.gemm import gemm_scratch_bytes, make_gemm
from emulator.kernels.ne.problem import NO_PSUM, WORK_BYTES, make_problem
from emulator.kernels.ne.sums.floats import make_float
from matrix_bench import run_problem
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import Layout, place
from tx8isa.numbers.primitives import fma32

FP16, BF16, TF32, FP32 = Format.FP16, Format.BF16, Format.TF32, Format.FP32
INPUTS = (FP16, BF16, TF32)


def decode(bits: np.ndarray, fmt: Format) -> np.ndarray:
    """float32 values of stored patterns."""
    if fmt is FP16:
        return bits.astype(np.uint16).view(np.float16).astype(np.float32)
    if fmt is BF16:
        return bits.astype(np.uint16).view(ml_dtypes.bfloat16).astype(np.float32)
    return (bits.astype(np.uint32) & (0xFFFFE000 if fmt is TF32 else 0xFFFFFFFF)).view(np.float32)


def encode(values: np.ndarray, fmt: Format) -> np.ndarray:
    """Stored patterns of float32 values, nearest even, NaN canonical."""
    values = np.asarray(values, np.float32)
    with np.errstate(all="ignore"):
        if fmt is FP16:
            bits, nan = values.astype(np.float16).view(np.uint16), 0x7E00
        elif fmt is BF16:
            bits, nan = values.astype(ml_dtypes.bfloat16).view(np.uint16), 0x7FC0
        elif fmt is FP32:
            bits, nan = values.view(np.uint32), 0x7FC00000
        else:
            low = values.view(np.uint32).astype(np.uint64)
            bits, nan = ((low + 0xFFF + (low >> 13 & 1)) & 0xFFFFE000).astype(np.uint32), 0x7FC00000
    return np.where(np.isnan(values), bits.dtype.type(nan), bits)


def word(fmt: Format) -> type:
    return np.uint16 if fmt.bits == 16 else np.uint32


@cache
def offsets(fmt: Format, shape: tuple[int, ...], layout: Layout) -> tuple[np.ndarray, int]:
    """Element number in memory of every logical element, and the words of the whole tensor."""
    placement = place(fmt, shape, layout)
    size = fmt.bits // 8
    numbers = np.array([placement.offset(index) // size for index in np.ndindex(*shape)])
    return numbers.reshape(shape), placement.total_bytes // size


def layout_of(shape: tuple[int, ...]) -> Layout:
    return Layout.CX if len(shape) == 2 else Layout.NCX


def pack(patterns: np.ndarray, fmt: Format, layout: Layout | None = None) -> np.ndarray:
    """A tensor in memory; padding lanes and gaps are NaN, which must not matter."""
    numbers, words = offsets(fmt, patterns.shape, layout or layout_of(patterns.shape))
    memory = np.full(words, -1, np.int64).astype(word(fmt))
    memory[numbers] = patterns
    return memory


def check_result(memory: np.ndarray, want: np.ndarray, fmt: Format) -> None:
    """Every element has the bits of ``want``; padding lanes and gaps are zero."""
    numbers, _ = offsets(fmt, want.shape, layout_of(want.shape))
    np.testing.assert_array_equal(memory[numbers], encode(want, fmt))
    rest = np.ones(memory.size, bool)
    rest[numbers] = False
    assert not memory[rest].any()


def small_numbers(rng: np.random.Generator, shape: tuple[int, ...], fmt: Format) -> np.ndarray:
    """Patterns of normally distributed values: sums round at nearly every step."""
    return encode(rng.standard_normal(shape).astype(np.float32), fmt)


def any_numbers(rng: np.random.Generator, shape: tuple[int, ...], fmt: Format) -> np.ndarray:
    """Patterns of all kinds: subnormals, huge values, both zeros, infinities, NaNs."""
    bits = rng.integers(0, 1 << fmt.bits, shape, np.uint64).astype(word(fmt))
    special = encode(np.array([0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 1e-7, 65504], np.float32), fmt)
    return np.where(rng.random(shape) < 0.3, rng.choice(special, shape), bits)


def tame_numbers(rng: np.random.Generator, shape: tuple[int, ...], fmt: Format) -> np.ndarray:
    """Patterns of all finite kinds, biased to zeros and subnormals."""
    bits = any_numbers(rng, shape, fmt)
    return np.where(np.isfinite(decode(bits, fmt)), bits, np.zeros(1, word(fmt)))


def ascending(a: np.ndarray, b: np.ndarray, start: np.ndarray) -> np.ndarray:
    """start + a @ b in float32, k ascending; a product of two FP16 numbers is exact in float32."""
    total = start.astype(np.float32).copy()
    with np.errstate(all="ignore"):
        for k in range(a.shape[1]):
            total = total + a[:, k : k + 1] * b[k : k + 1, :]
    return total


def fused(a: np.ndarray, b: np.ndarray, start: np.ndarray) -> np.ndarray:
    """The same by the definition of the fused multiply-add, for formats whose products are rounded."""
    total = start.astype(np.float32).copy()
    for i, j in np.ndindex(*total.shape):
        cell = float(total[i, j])
        for k in range(a.shape[1]):
            cell = fma32(float(a[i, k]), float(b[k, j]), cell)
        total[i, j] = cell
    return total


CANARY = 0xA5


@cache
def arithmetic(fmt: Format) -> MatrixArithmetic:
    return make_float(fmt, post=False)


@cache
def gemm(fmt: Format) -> int:
    return native.compile_kernel(make_gemm(arithmetic(fmt)), f"gemm.{fmt.token}", 1, compact=True)


def scratch(size: int) -> np.ndarray:
    """Exactly ``size`` bytes of NaN, then a guard."""
    area = np.full(size + 64, 0xFF, np.uint8)
    area[size:] = CANARY
    return area


def run_gemm(
    fmt, a, b, m, k, n, lt=0, rt=1, lb=1, rb=1, out=None, out_format=None, psum=None, psum_format=NO_PSUM
):
    """Run on packed memories; ``out`` None is a separate memory."""
    out_format = out_format or fmt
    if out is None:
        words = place(out_format, (max(lb, rb), m, n), Layout.NCX).total_bytes * 8 // out_format.bits
        out = np.full(words, -1, np.int64).astype(word(out_format))
    area = scratch(gemm_scratch_bytes(arithmetic(fmt), m, k, n, lb, rb, out_format))
    shape = {"m": m, "k": k, "n": n, "lt": lt, "rt": rt, "lb": lb, "rb": rb}
    problem = make_problem(**shape, out_format=out_format, psum_format=psum_format)
    run_problem(gemm(fmt), problem, a, b, out, area, psum)
    assert (area[-64:] == CANARY).all()
    return out


def left(patterns, fmt, transposed):
    return pack(patterns.swapaxes(-1, -2) if transposed else patterns, fmt)


def right(patterns, fmt, transposed):
    return pack(patterns if transposed else patterns.swapaxes(-1, -2), fmt)


@cache
def conv(fmt: Format) -> int:
    return native.compile_kernel(make_conv(arithmetic(fmt)), f"conv.{fmt.token}", 1, compact=True)


def result_extent(size, before, after, k, d, s):
    return (size + before + after - (k - 1) * d - 1) // s + 1


class Conv:
    """One convolution: shapes as in the instruction, patterns of its operands."""

    def __init__(
        self,
        n=1,
        h=5,
        w=6,
        c=7,
        o=9,
        k=(3, 3),
        s=(1, 1),
        pads=(1, 1, 1, 1),
        d=(1, 1),
        unpads=(0, 0, 0, 0),
        fmt=FP16,
        numbers=small_numbers,
    ):
        rng = np.random.default_rng(n * h * w + c)
        self.fmt, self.n, self.h, self.w, self.c, self.o = fmt, n, h, w, c, o
        self.k, self.s, self.d, self.pads, self.unpads = k, s, d, pads, unpads
        self.oh = result_extent(h, pads[0], pads[1], k[0], d[0], s[0]) - unpads[0] - unpads[1]
        self.ow = result_extent(w, pads[2], pads[3], k[1], d[1], s[1]) - unpads[2] - unpads[3]
        self.x = numbers(rng, (n, h, w, c), fmt)
        self.weights = numbers(rng, (k[0], k[1], o, c), fmt)
        self.top, self.left = pads[0] - unpads[0] * s[0], pads[2] - unpads[2] * s[1]

    @property
    def result(self):
        return (self.n, self.oh, self.ow, self.o)

    def tap(self, x, ky, kx):
        """The input of one tap for every result position, +0 outside the image: [positions, c]."""
        y = np.arange(self.oh) * self.s[0] - self.top + ky * self.d[0]
        z = np.arange(self.ow) * self.s[1] - self.left + kx * self.d[1]
        inside = np.logical_and.outer((y >= 0) & (y < self.h), (z >= 0) & (z < self.w))
        values = x[:, np.clip(y, 0, self.h - 1)][:, :, np.clip(z, 0, self.w - 1)]
        return np.where(inside[None, :, :, None], values, np.float32(0)).reshape(-1, self.c)

    def want(self, add=ascending, start=None):
        """Sums over ky, kx, i in ascending order, start values first."""
        x, weights = decode(self.x, self.fmt), decode(self.weights, self.fmt)
        total = np.zeros(self.result, np.float32) if start is None else start
        total = total.reshape(-1, self.o)
        for ky, kx in np.ndindex(*self.k):
            total = add(self.tap(x, ky, kx), weights[ky, kx].T, total)
        return total.reshape(self.result)

    def problem(self, out_format, psum_format=NO_PSUM):
        image = {"batch": self.n, "h": self.h, "w": self.w, "c": self.c}
        result = {"oh": self.oh, "ow": self.ow, "maps": self.o, "top": self.top, "left": self.left}
        (ky, kx), (sy, sx), (dy, dx) = self.k, self.s, self.d
        window = {"ky": ky, "kx": kx, "sy": sy, "sx": sx, "dy": dy, "dx": dx}
        return make_problem(**image, **result, **window, out_format=out_format, psum_format=psum_format)

    def run(self, out_format=None, psum=None, psum_format=NO_PSUM, out=None, small=False):
        out_format = out_format or self.fmt
        if out is None:
            words = offsets(out_format, self.result, Layout.NCX)[1]
            out = np.full(words, -1, np.int64).astype(word(out_format))
        problem = self.problem(out_format, psum_format)
        needed = small_scratch_bytes if small else conv_scratch_bytes
        area = scratch(needed(arithmetic(self.fmt), problem.ctypes.data))
        problem[WORK_BYTES] = 0 if small else area.size - 64
        rows = pack(self.weights.reshape(-1, self.c), self.fmt, Layout.CX)
        run_problem(conv(self.fmt), problem, pack(self.x, self.fmt), rows, out, area, psum)
        assert (area[-64:] == CANARY).all()
        return out
