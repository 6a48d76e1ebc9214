"""Matrix engine: every bit of GEMM and convolution against sums in the defined order."""

from __future__ import annotations

from functools import cache

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator import native
from emulator.kernels.ne import make_kernel
from emulator.kernels.ne.arithmetic import MatrixArithmetic
from emulator.kernels.ne.conv import conv_scratch_bytes, make_conv, small_scratch_bytes
from emulator.kernels.ne.gemm import gemm_scratch_bytes, make_gemm
from emulator.kernels.ne.groups import GROUP, SUMS, make_multiply_narrow, make_multiply_wide
from emulator.kernels.ne.problem import NO_PSUM, WORK_BYTES, make_problem
from emulator.kernels.ne.sums.floats import make_float
from emulator.memory import state
from emulator.native.primitives.interpreted import register
from emulator.native.primitives.tile import TILES, tile_name, transpose_16x16
from matrix_bench import run_problem
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import Layout, place
from tx8isa.numbers.primitives import fma32
from tx8isa.table.registry import by_mnemonic

FP16, BF16, TF32, FP32 = Format.FP16, Format.BF16, Format.TF32, Format.FP32
INPUTS = (FP16, BF16, TF32)

needs_jit = pytest.mark.skipif(not native.jit_enabled(), reason="the JIT is off: too slow in plain Python")


# --- stored numbers, independent of the emulator ------------------------------------------------------------


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


# --- the defined sums ---------------------------------------------------------------------------------------


def ascending(a: np.ndarray, b: np.ndarray, start: np.ndarray) -> np.ndarray:
    """start + a @ b in float32, k ascending; a product of two FP16 numbers is exact in float32."""
    total = start.astype(np.float32).copy()
    with np.errstate(all="ignore"):
        for k in range(a.shape[1]):
            total = total + a[:, k : k + 1] * b[k : k + 1, :]
    return total


def fused(a: np.ndarray, b: np.ndarray, start: np.ndarray) -> np.ndarray:
    """The same by the definition of the fused multiply-add, for formats whose products round."""
    total = start.astype(np.float32).copy()
    for i, j in np.ndindex(*total.shape):
        cell = float(total[i, j])
        for k in range(a.shape[1]):
            cell = fma32(float(a[i, k]), float(b[k, j]), cell)
        total[i, j] = cell
    return total


# --- running GEMM -------------------------------------------------------------------------------------------

CANARY = 0xA5


@cache
def arithmetic(fmt: Format) -> MatrixArithmetic:
    return make_float(fmt, post=False)


@cache
def gemm(fmt: Format) -> int:
    return native.compile_kernel(make_gemm(arithmetic(fmt)), f"gemm.{fmt.token}", 1)


def scratch(size: int) -> np.ndarray:
    """Exactly ``size`` bytes of NaN, then a guard."""
    area = np.full(size + 64, 0xFF, np.uint8)
    area[size:] = CANARY
    return area


def run_gemm(
    fmt, a, b, m, k, n, lt=0, rt=1, lb=1, rb=1, out=None, out_format=None, psum=None, psum_format=NO_PSUM
):
    """Run on packed memories; ``out`` None: a memory of its own."""
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


SMALL = [(1, 1, 1), (2, 3, 5), (5, 70, 20), (3, 129, 31), (7, 4, 33)]
LARGE = [(64, 64, 64), (65, 33, 97), (GROUP + 5, 40, 100), (1, 200, 300), (130, 65, 36), (128, 100, 16)]


@pytest.mark.parametrize("transposed", [(0, 1), (0, 0), (1, 1), (1, 0)])
@pytest.mark.parametrize("shape", [*SMALL, *(pytest.param(s, marks=needs_jit) for s in LARGE)], ids=str)
def test_gemm_adds_in_ascending_order(shape, transposed):
    m, k, n = shape
    lt, rt = transposed
    rng = np.random.default_rng(m * n + k)
    a, b = small_numbers(rng, (m, k), FP16), small_numbers(rng, (k, n), FP16)
    out = run_gemm(FP16, left(a, FP16, lt), right(b, FP16, rt), m, k, n, lt, rt)
    check_result(out, ascending(decode(a, FP16), decode(b, FP16), np.zeros((m, n))), FP16)


@pytest.mark.parametrize("numbers", [small_numbers, tame_numbers, any_numbers])
@pytest.mark.parametrize("out_format", [None, FP32])
@pytest.mark.parametrize("fmt", INPUTS)
def test_gemm_is_fused_and_rounds_once(fmt, out_format, numbers):
    m, k, n = 6, 37, 20
    rng = np.random.default_rng(int(fmt))
    a, b = numbers(rng, (m, k), fmt), numbers(rng, (k, n), fmt)
    out = run_gemm(fmt, pack(a, fmt), pack(b, fmt), m, k, n, out_format=out_format)
    check_result(out, fused(decode(a, fmt), decode(b, fmt), np.zeros((m, n))), out_format or fmt)


def test_a_sum_is_not_rounded_between_product_and_addition():
    x = np.float32(1 + 2.0**-10)  # x * x needs 21 bits, and 24 more below 1.0 for the sum with -1
    a, b = encode(np.array([[x, 1.0]]), TF32), encode(np.array([[x], [-1.0]]), TF32)
    out = run_gemm(TF32, pack(a, TF32), pack(b, TF32), 1, 2, 1, out_format=FP32)
    check_result(out, np.array([[2.0**-9 + 2.0**-20]], np.float32), FP32)


@pytest.mark.parametrize("batches", [(1, 1), (2, 2), (1, 3), (3, 1)])
@pytest.mark.parametrize("transposed", [(0, 1), (1, 0)])
def test_batches_broadcast(batches, transposed):
    (lb, rb), (lt, rt) = batches, transposed
    m, k, n = 5, 67, 9
    rng = np.random.default_rng(lb * 10 + rb)
    a, b = small_numbers(rng, (lb, m, k), FP16), small_numbers(rng, (rb, k, n), FP16)
    out = run_gemm(FP16, left(a, FP16, lt), right(b, FP16, rt), m, k, n, lt, rt, lb, rb)
    x, y = decode(a, FP16), decode(b, FP16)
    want = [ascending(x[i % lb], y[i % rb], np.zeros((m, n))) for i in range(max(lb, rb))]
    check_result(out, np.array(want), FP16)


@pytest.mark.parametrize("out_format", [FP16, FP32])
@pytest.mark.parametrize("psum_format", [FP16, BF16, TF32, FP32])
@pytest.mark.parametrize(
    "shape", [(6, 10, 20), (3, 5, 70), pytest.param((GROUP + 3, 9, 64), marks=needs_jit)]
)
def test_partial_sums_are_the_start_value(psum_format, out_format, shape):
    m, k, n = shape
    rng = np.random.default_rng(int(psum_format))
    a, b = small_numbers(rng, (m, k), FP16), small_numbers(rng, (k, n), FP16)
    psum = small_numbers(rng, (m, n), psum_format)
    want = ascending(decode(a, FP16), decode(b, FP16), decode(psum, psum_format))
    packed = pack(psum, psum_format)
    out = run_gemm(
        FP16,
        pack(a, FP16),
        pack(b, FP16),
        m,
        k,
        n,
        out_format=out_format,
        psum=packed,
        psum_format=psum_format,
    )
    check_result(out, want, out_format)


@pytest.mark.parametrize("out_format", [FP16, FP32])
def test_partial_sums_in_place(out_format):
    psum_format = out_format
    m, k, n = 40, 10, 100
    rng = np.random.default_rng(3)
    a, b = small_numbers(rng, (m, k), FP16), small_numbers(rng, (k, n), FP16)
    psum = small_numbers(rng, (m, n), psum_format)
    memory = np.full(1 << 15, 0xFF, np.uint8)  # holds either tensor
    packed = pack(psum, psum_format).view(np.uint8)
    memory[: packed.size] = packed
    run_gemm(
        FP16,
        pack(a, FP16),
        pack(b, FP16),
        m,
        k,
        n,
        out=memory,
        out_format=out_format,
        psum=memory,
        psum_format=psum_format,
    )
    size = place(out_format, (m, n), Layout.CX).total_bytes
    want = ascending(decode(a, FP16), decode(b, FP16), decode(psum, psum_format))
    check_result(memory[:size].view(word(out_format)), want, out_format)
    assert (memory[max(size, packed.size) :] == 0xFF).all()


@pytest.mark.parametrize("victim", ["a", "b"])
def test_a_result_may_overlap_an_input(victim):
    """Inputs are read before anything is written."""
    m, k, n = 70, 64, 64
    rng = np.random.default_rng(5)
    a, b = small_numbers(rng, (m, k), FP16), small_numbers(rng, (k, n), FP16)
    packed = {"a": pack(a, FP16), "b": pack(b, FP16)}
    memory = np.zeros(1 << 14, np.uint16)
    memory[: packed[victim].size] = packed[victim]
    packed[victim] = memory
    out = memory[256:]
    run_gemm(FP16, packed["a"], packed["b"], m, k, n, out=out)
    size = place(FP16, (m, n), Layout.CX).total_bytes // 2
    want = ascending(decode(a, FP16), decode(b, FP16), np.zeros((m, n)))
    check_result(out[:size], want, FP16)


def test_minus_zero_starts_and_stays():
    zeros = encode(np.array([[-0.0]]), FP16)
    one = encode(np.array([[1.0]]), FP16)
    psum = pack(encode(np.array([[-0.0]]), FP16), FP16)
    out = run_gemm(FP16, pack(zeros, FP16), pack(one, FP16), 1, 1, 1, psum=psum, psum_format=FP16)
    check_result(out, np.array([[-0.0]], np.float32), FP16)
    out = run_gemm(FP16, pack(zeros, FP16), pack(one, FP16), 1, 1, 1)
    check_result(out, np.array([[0.0]], np.float32), FP16)


extents = st.integers(1, 80)


@needs_jit
@settings(max_examples=40)
@given(extents, extents, extents, st.integers(0, 1), st.integers(0, 1), st.integers(0, 1 << 30))
def test_gemm_of_any_shape(m, k, n, lt, rt, seed):
    rng = np.random.default_rng(seed)
    a, b = any_numbers(rng, (m, k), FP16), any_numbers(rng, (k, n), FP16)
    out = run_gemm(FP16, left(a, FP16, lt), right(b, FP16, rt), m, k, n, lt, rt)
    check_result(out, ascending(decode(a, FP16), decode(b, FP16), np.zeros((m, n))), FP16)


# --- tiles --------------------------------------------------------------------------------------------------


def tile_inputs(rows: int, columns: int, k: int, ka: int):
    rng = np.random.default_rng(columns)
    lda = k * ka + 3
    a, b = (
        rng.standard_normal(count).astype(np.float32) for count in (rows * lda + k * ka, k * (columns + 5))
    )
    index = rng.permutation(rows).astype(np.int64)
    return index, lda, a, b, rng.standard_normal(rows * (columns + 7)).astype(np.float32)


@pytest.mark.parametrize("ka", [1, 3])
@pytest.mark.parametrize("shape", TILES, ids=lambda shape: tile_name(*shape))
def test_tiles(shape, ka):
    rows, columns = shape
    k = 6
    index, lda, a, b, c = tile_inputs(rows, columns, k, ka)
    ldb, ldc = columns + 5, columns + 7
    want = c.copy().reshape(rows, ldc)
    steps = np.array([[a[index[i] * lda + p * ka] for p in range(k)] for i in range(rows)])
    want[:, :columns] = fused(steps, b.reshape(k, ldb)[:, :columns], want[:, :columns])
    tile = TILES[shape]

    def kernel(index, lda, a, ka, b, ldb, c, ldc, k):
        return tile(index, lda, a, ka, b, ldb, c, ldc, k)

    address = native.compile_kernel(kernel, tile_name(*shape), 9)
    pointers = [x.ctypes.data for x in (index, a, b, c)]
    native.call(address, pointers[0], lda, pointers[1], ka, pointers[2], ldb, pointers[3], ldc, k)
    assert c.tobytes() == want.tobytes()


@needs_jit
@pytest.mark.parametrize("width", [16, 32, 48, 64])
@pytest.mark.parametrize("multiply", [make_multiply_wide(TILES), make_multiply_narrow(TILES)], ids=["4", "6"])
@pytest.mark.parametrize("rows", [1, 13])
def test_both_groups_of_tiles_give_the_same_bits(multiply, width, rows):
    k, lda = 11, 20
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(n).astype(np.float32) for n in (rows * lda, k * width))
    index, area = np.minimum(np.arange(rows + 6), rows - 1), np.zeros(SUMS + 4 * (rows + 6) * width, np.uint8)
    area[: index.nbytes] = index.view(np.uint8)

    def kernel(group, a, b, width):
        multiply(group, rows, 20, a, 1, b, width, 11)
        return 0

    address = native.compile_kernel(kernel, "multiply", 4)
    native.call(address, *(x.ctypes.data for x in (area, a, b)), width)
    want = fused(a.reshape(rows, lda)[:, :k], b.reshape(k, width), np.zeros((rows, width)))
    assert area[SUMS:][: 4 * rows * width].tobytes() == want.tobytes()


def test_transpose():
    source = np.arange(16 * 20, dtype=np.float32)
    target = np.full(16 * 18, -1, np.float32)

    def kernel(source, target):
        return transpose_16x16(source, 20, target, 18)

    native.call(native.compile_kernel(kernel, "transpose", 2), source.ctypes.data, target.ctypes.data)
    want = np.full((16, 18), -1, np.float32)
    want[:, :16] = source.reshape(16, 20)[:, :16].T
    assert target.tobytes() == want.tobytes()


# --- convolution --------------------------------------------------------------------------------------------


@cache
def conv(fmt: Format) -> int:
    return native.compile_kernel(make_conv(arithmetic(fmt)), f"conv.{fmt.token}", 1)


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


SMALL_CONVS = {
    "padded": {},
    "one by one": {"k": (1, 1), "pads": (0, 0, 0, 0)},
    "strides": {"s": (2, 3), "h": 9, "w": 11},
    "dilations": {"d": (2, 3), "h": 9, "w": 9},
    "unpads": {"unpads": (1, 0, 2, 1), "s": (1, 2), "w": 15},
    "unpads beyond pads": {"unpads": (2, 1, 1, 1), "h": 9},
    "batch": {"n": 2},
    "one channel": {"c": 1, "o": 1},
    "wide padding": {"pads": (5, 4, 6, 7), "k": (2, 2), "h": 2, "w": 1},
    "oblong": {"k": (1, 4), "pads": (0, 0, 2, 1)},
    "two planes": {"c": 66, "o": 70, "h": 3, "w": 2},
}
LARGE_CONVS = {
    "folded channels": {"c": 100, "o": 97, "h": 8, "w": 8},
    "several groups": {"h": 20, "w": 21, "c": 5, "o": 64},
    "several bands": {"h": 70, "w": 70, "c": 64, "o": 20},
    "first layer": {"h": 40, "w": 40, "c": 3, "o": 64, "k": (7, 7), "s": (2, 2), "pads": (3, 3, 3, 3)},
}
CONVS = [pytest.param(v, id=k) for k, v in SMALL_CONVS.items()]
CONVS += [pytest.param(v, id=k, marks=needs_jit) for k, v in LARGE_CONVS.items()]


@pytest.mark.parametrize("shape", CONVS)
def test_conv_adds_in_ascending_order(shape):
    case = Conv(**shape)
    check_result(case.run(), case.want(), FP16)


@pytest.mark.parametrize("shape", [v for k, v in SMALL_CONVS.items() if k not in ("one channel", "oblong")])
def test_conv_element_by_element_gives_the_same_bits(shape):
    case = Conv(**shape, numbers=tame_numbers)
    check_result(case.run(small=True), case.want(), FP16)


@pytest.mark.parametrize("numbers", [small_numbers, tame_numbers, any_numbers])
@pytest.mark.parametrize("out_format", [None, FP32])
@pytest.mark.parametrize("fmt", INPUTS)
def test_conv_is_fused_and_rounds_once(fmt, out_format, numbers):
    case = Conv(h=4, w=3, c=5, o=6, fmt=fmt, numbers=numbers)
    check_result(case.run(out_format), case.want(fused), out_format or fmt)


@pytest.mark.parametrize("psum_format", [FP16, BF16, TF32, FP32])
@pytest.mark.parametrize("small", [False, True])
def test_conv_partial_sums(psum_format, small):
    case = Conv(n=2, o=70)
    psum = small_numbers(np.random.default_rng(9), case.result, psum_format)
    want = case.want(start=decode(psum, psum_format))
    out = case.run(FP32, pack(psum, psum_format), psum_format, small=small)
    check_result(out, want, FP32)


@pytest.mark.parametrize("small", [False, True])
def test_conv_partial_sums_in_place(small):
    case = Conv(n=2, o=70)
    psum = small_numbers(np.random.default_rng(9), case.result, FP16)
    memory = pack(psum, FP16)
    case.run(FP16, memory, FP16, out=memory, small=small)
    check_result(memory, case.want(start=decode(psum, FP16)), FP16)


@pytest.mark.parametrize("small", [False, True])
def test_inputs_outside_the_image_are_plus_zero(small):
    """An infinite weight makes NaN where it meets the border; a start value of -0 becomes +0."""
    case = Conv(h=1, w=2, c=1, o=2, k=(1, 2), pads=(0, 0, 1, 0))
    case.x[:] = 0
    case.weights[:] = encode(np.array([[[[np.inf], [0.0]], [[0.0], [0.0]]]]), FP16)
    psum = pack(encode(np.full(case.result, -0.0), FP16), FP16)
    out = case.run(FP16, psum, FP16, small=small)
    check_result(out, np.array([[[[np.nan, 0.0], [np.nan, 0.0]]]], np.float32), FP16)


@pytest.mark.parametrize("small", [False, True])
def test_conv_result_may_overlap_its_input(small):
    case = Conv(h=6, w=6, c=64, o=64)
    memory = pack(case.x, FP16)
    rows = pack(case.weights.reshape(-1, case.c), FP16, Layout.CX)
    problem = case.problem(FP16)
    needed = small_scratch_bytes(arithmetic(FP16), problem.ctypes.data) if small else 1 << 22
    problem[WORK_BYTES] = 0 if small else needed
    run_problem(conv(FP16), problem, memory, rows, memory, scratch(needed))
    check_result(memory, case.want(), FP16)


@needs_jit
@settings(max_examples=40)
@given(st.data())
def test_conv_of_any_shape(data):
    draw = data.draw
    h, w, c, o = (draw(st.integers(1, high)) for high in (12, 12, 70, 70))
    k, s, d = ((draw(st.integers(1, 3)), draw(st.integers(1, 3))) for _ in range(3))
    pads = tuple(draw(st.integers(0, 4)) for _ in range(4))
    if result_extent(h, *pads[:2], k[0], d[0], s[0]) < 1 or result_extent(w, *pads[2:], k[1], d[1], s[1]) < 1:
        return
    case = Conv(1, h, w, c, o, k, s, pads, d, numbers=any_numbers)
    small = draw(st.booleans())
    check_result(case.run(small=small), case.want(), FP16)


# --- the instructions ---------------------------------------------------------------------------------------


def tile_state(spm: np.ndarray, area: np.ndarray) -> np.ndarray:
    words = np.zeros(state.SIZE, np.int64)
    words[state.SPM], words[state.SPM_BYTES] = spm.ctypes.data, spm.size
    words[state.SCRATCH], words[state.SCRATCH_BYTES] = area.ctypes.data, area.size
    return words


def fields_of(record, **values: int) -> np.ndarray:
    fields = np.zeros(len(record.operands) + 1, np.int64)
    for name, value in values.items():
        fields[record.index(name)] = value
    return fields


def packed(*lanes: int) -> int:
    total = 0
    for lane in lanes:
        total = total << 16 | lane
    return total


def run_instruction(mnemonic: str, memories: dict[int, np.ndarray], **values: int) -> np.ndarray:
    """The SPM after one instruction; ``memories`` are placed at their addresses before."""
    record = by_mnemonic()[mnemonic]
    spm = np.full(1 << 16, 0xFF, np.uint8)
    for address, content in memories.items():
        spm[address : address + content.nbytes] = content.view(np.uint8)
    area = np.zeros(1 << 22, np.uint8)
    words, fields = tile_state(spm, area), fields_of(record, **values)
    kernel = native.compile_kernel(make_kernel(record, FP16), mnemonic, 2)
    assert native.call(kernel, fields.ctypes.data, words.ctypes.data) == 0
    return spm


@pytest.mark.parametrize("enabled", [0, 1])
def test_the_gemm_instruction_reads_its_operands(enabled):
    m, k, n = 3, 8, 5
    rng = np.random.default_rng(11)
    a, b = small_numbers(rng, (2, m, k), FP16), small_numbers(rng, (1, n, k), FP16)
    psum = small_numbers(rng, (2, m, n), BF16)
    spm = run_instruction(
        "ne.gemm",
        {0x1000: pack(a.swapaxes(1, 2), FP16), 0x2000: pack(b, FP16), 0x4000: pack(psum, BF16)},
        a=0x1000,
        b=0x2000,
        out=0x3000,
        psum=0x4000,
        m=m,
        k=k,
        n=n,
        lb=2,
        rb=1,
        lt=1,
        rt=0,
        format=int(FP16),
        out_format=int(FP32),
        psum_format=int(BF16),
        inpsum_en=enabled,
    )
    x, y = decode(a, FP16), decode(b, FP16)[0].T
    start = decode(psum, BF16) * enabled
    want = np.array([ascending(x[i], y, start[i]) for i in range(2)])
    size = place(FP32, (2, m, n), Layout.NCX).total_bytes
    check_result(spm[0x3000 : 0x3000 + size].view(np.uint32), want, FP32)


def test_the_conv_instruction_reads_its_operands():
    case = Conv(n=2, h=7, w=9, c=5, o=6, k=(2, 3), s=(2, 1), pads=(3, 2, 1, 4), d=(2, 3), unpads=(1, 0, 2, 1))
    weights = pack(case.weights.reshape(-1, case.c), FP16, Layout.CX)
    spm = run_instruction(
        "ne.conv",
        {0x1000: pack(case.x, FP16), 0x4000: weights},
        a=0x1000,
        w=0x4000,
        out=0x8000,
        shape=packed(2, 7, 9, 5),
        dst_shape=packed(*case.result),
        window=packed(3, 2, 1, 2),
        pad=packed(*case.pads),
        unpad=packed(*case.unpads),
        dilation=packed(3, 2),
        format=int(FP16),
        out_format=int(FP16),
        psum_format=int(FP32),
        inpsum_en=0,
    )
    size = place(FP16, case.result, Layout.NCX).total_bytes
    check_result(spm[0x8000 : 0x8000 + size].view(np.uint16), case.want(), FP16)


def test_other_instructions_are_refused():
    with pytest.raises(ValueError, match=r"ct\.add\.vv is no instruction of the matrix engine"):
        make_kernel(by_mnemonic()["ct.add.vv"], FP16)
    with pytest.raises(ValueError, match=r"ne\.gemm is no instruction of the matrix engine"):
        make_kernel(by_mnemonic()["ne.gemm"], None)


@needs_jit
def test_compiled_and_plain_kernels_agree():
    m, k, n = 5, 66, 20
    rng = np.random.default_rng(2)
    a, b = (pack(any_numbers(rng, shape, BF16), BF16) for shape in ((m, k), (k, n)))
    outputs = []
    for address in (gemm(BF16), register(make_gemm(arithmetic(BF16)))):
        out = np.full(place(BF16, (m, n), Layout.CX).total_bytes // 2, 7, np.uint16)
        area = scratch(gemm_scratch_bytes(arithmetic(BF16), m, k, n, 1, 1, BF16))
        run_problem(address, make_problem(m=m, k=k, n=n, rt=1, lb=1, rb=1, out_format=BF16), a, b, out, area)
        outputs.append(out.tobytes())
    assert outputs[0] == outputs[1]
