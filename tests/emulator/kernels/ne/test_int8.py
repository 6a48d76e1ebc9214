"""INT8 in the matrix engine: sums and chain against exact integers, in both implementations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator import native
from emulator.kernels.ne.conv import conv_scratch_bytes, make_conv
from emulator.kernels.ne.gemm import gemm_scratch_bytes, make_gemm
from emulator.kernels.ne.problem import PROBLEM_BYTES, WORK_BYTES, make_problem
from emulator.kernels.ne.sums.integers import make_integer
from emulator.native.primitives.int8 import (
    BYTES,
    CHAIN_LANES,
    HALVES,
    bytes_name,
    halves_name,
    interleave_bytes,
    interleave_halves,
    requantise,
    requantise_row,
)
from emulator.native.primitives.products import taps_f32, taps_i32
from emulator.native.target import has_feature
from machine_code import needs_jit
from matrix_bench import Engine, run_problem, window_operands
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import Layout, place

INT8, INT32 = Format.INT8, Format.INT32
needs_vnni = pytest.mark.skipif(
    not has_feature("avx512vnni"), reason="the processor has no AVX-512 VNNI: the other way is used"
)
WAYS = [pytest.param(True, id="bytes", marks=needs_vnni), pytest.param(False, id="halves")]


def signed(byte: int) -> int:
    return byte - 256 if byte > 127 else byte


def chain(o32: np.ndarray, q1: int, scale: Any, q0: int, zero: int, relu: bool = False) -> np.ndarray:
    """The formulas of the chain on exact integers."""
    o16 = np.clip(o32.astype(np.int64) >> q1, -32768, 32767)
    o9 = np.clip(o16 * scale >> q0, -256, 255)
    return np.clip((np.maximum(o9, 0) if relu else o9) + zero, -128, 127)


def wrapped(total: np.ndarray) -> np.ndarray:
    """Modulo 2**32, signed."""
    return total.astype(np.int64).astype(np.uint32).view(np.int32)


# --- GEMM ---------------------------------------------------------------------------------------------------


class Gemm:
    """An ne.gemm on random matrices, and the result of the formulas."""

    def __init__(
        self,
        m: int,
        k: int,
        n: int,
        lt: int = 0,
        rt: int = 0,
        batches: tuple[int, int] = (1, 1),
        given: tuple[str, ...] = (),
        **operands: int,
    ) -> None:
        self.shape, (self.lb, self.rb) = (m, k, n), batches
        sizes = {"m": m, "k": k, "n": n, "lt": lt, "rt": rt, "lb": batches[0], "rb": batches[1]}
        self.engine = Engine("ne.gemm", INT8, given, **sizes, **operands)
        rng = self.engine.rng
        self.a, self.b = (rng.integers(-128, 128, s) for s in ((self.lb, m, k), (self.rb, k, n)))
        self.engine.write_tensor("a", (self.a.swapaxes(1, 2) if lt else self.a).astype(np.uint8), INT8)
        self.engine.write_tensor("b", (self.b if rt else self.b.swapaxes(1, 2)).astype(np.uint8), INT8)

    @property
    def o32(self) -> np.ndarray:
        values = self.engine.values
        a, b = self.a - signed(values["zp_a"]), self.b - signed(values["zp_b"])
        return np.array([a[i % self.lb] @ b[i % self.rb] for i in range(max(self.lb, self.rb))])

    def result(self, fmt: Format) -> np.ndarray:
        self.engine.run()
        m, _, n = self.shape
        found = self.engine.read_tensor("out", (max(self.lb, self.rb), m, n), fmt)
        return found.view(f"i{fmt.bits // 8}").astype(np.int64)


SHAPES = [(1, 1, 1), (3, 5, 7), (2, 130, 66), (70, 128, 128), (5, 257, 200), (300, 9, 20)]


@needs_jit
@pytest.mark.parametrize("zero_points", [(0, 0), (3, 0), (0, 250), (128, 127), (127, 128)], ids=str)
@pytest.mark.parametrize("transposed", [(0, 0), (0, 1), (1, 0), (1, 1)], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sums_are_exact(shape, transposed, zero_points):
    case = Gemm(*shape, *transposed, zp_a=zero_points[0], zp_b=zero_points[1], out_format=int(INT32))
    np.testing.assert_array_equal(case.result(INT32), case.o32)


@needs_jit
@pytest.mark.parametrize("shape", [(3, 5, 7), (9, 130, 190), (2, 65, 257)], ids=str)
def test_the_chain_is_the_documented_one(shape):
    case = Gemm(*shape, zp_a=5, zp_b=200, q1=4, q0=5, given=("scale_p", "scale_n"))
    engine, n = case.engine, shape[2]
    above, below = (
        engine.spm[engine.values[name] :][: 2 * n].view(np.int16).astype(np.int64)
        for name in ("scale_p", "scale_n")
    )
    want = chain(case.o32, 4, np.where(case.o32 >= 0, above, below), 5, 0)
    np.testing.assert_array_equal(case.result(INT8), want)


@needs_jit
@pytest.mark.parametrize(("q1", "q0", "relu"), [(0, 0, 0), (8, 0, 0), (31, 31, 0), (6, 2, 1), (0, 7, 1)])
@pytest.mark.parametrize("shape", [(20, 100, 40), (300, 3, 8), (270, 6, 32), (5, 9, 136), (261, 1, 4)])
def test_without_scales_the_factor_is_one(shape, q1, q0, relu):
    """Among the shapes are rows of few numbers, stored without gaps, in more than one group."""
    case = Gemm(*shape, q1=q1, q0=q0, relu=relu)
    np.testing.assert_array_equal(case.result(INT8), chain(case.o32, q1, 1, q0, 0, bool(relu)))


@needs_jit
@pytest.mark.parametrize("batches", [(2, 2), (1, 3), (3, 1)], ids=str)
def test_batches_broadcast(batches):
    case = Gemm(5, 67, 70, batches=batches, out_format=int(INT32), zp_b=9)
    np.testing.assert_array_equal(case.result(INT32), case.o32)


@needs_jit
def test_bias_and_partial_sums_add_modulo_two_to_the_32():
    case = Gemm(9, 33, 70, given=("psum", "bias"), out_format=int(INT32), zp_a=250)
    engine = case.engine
    bias = engine.spm[engine.values["bias"] :][: 4 * 70].view(np.int32).astype(np.int64)
    psum = engine.read_tensor("psum", (1, 9, 70), INT32).view(np.int32).astype(np.int64)
    want = wrapped(case.o32 + bias + psum)
    assert (want != case.o32 + bias + psum).any()  # some do overflow
    np.testing.assert_array_equal(case.result(INT32), want)


@needs_jit
def test_partial_sums_in_place_make_a_long_sum():
    case = Gemm(9, 33, 70, given=("psum",), out_format=int(INT32))
    engine = case.engine
    engine.values["psum"] = engine.values["out"]
    zero = np.zeros((1, 9, 70), np.uint32)
    engine.write_tensor("out", zero, INT32)
    for times in (1, 2, 3):
        np.testing.assert_array_equal(case.result(INT32), times * case.o32)


@needs_jit
@pytest.mark.parametrize("victim", ["a", "b", "bias", "scale_p"])
def test_a_result_may_overlap_what_it_is_made_of(victim):
    case = Gemm(12, 20, 130, given=("bias", "scale_p", "scale_n"), q1=3, q0=9, zp_b=7)
    case.engine.values["out"] = case.engine.values[victim]
    case.engine.check()


extents = st.integers(1, 150)


@needs_jit
@settings(max_examples=40)
@given(
    extents, extents, extents, st.integers(0, 1), st.integers(0, 1), st.integers(0, 255), st.integers(0, 255)
)
def test_gemm_of_any_shape(m, k, n, lt, rt, zero_a, zero_b):
    case = Gemm(m, k, n, lt, rt, zp_a=zero_a, zp_b=zero_b, q1=5)
    np.testing.assert_array_equal(case.result(INT8), chain(case.o32, 5, 1, 0, 0))


def test_the_plain_kernel_and_the_reference_agree():
    case = Gemm(2, 5, 3, given=("bias", "scale_p", "scale_n"), q1=2, q0=8, zp_a=1, zp_b=255)
    case.engine.check(compiled=False)


def test_the_longest_sums_of_the_largest_numbers_are_exact():
    """16384 products of 255 * 255 still fit 32 bits."""
    case = Gemm(1, 16384, 1, zp_a=127, zp_b=127, out_format=int(INT32))
    case.a[:], case.b[:] = -128, -128
    case.engine.write_tensor("a", case.a.astype(np.uint8), INT8)
    case.engine.write_tensor("b", case.b.swapaxes(1, 2).astype(np.uint8), INT8)
    assert case.o32[0, 0, 0] == 16384 * 255 * 255
    if native.jit_enabled():
        np.testing.assert_array_equal(case.result(INT32), case.o32)


# --- both methods of multiplying ---------------------------------------------------------------------------


@needs_jit
@pytest.mark.parametrize("vnni", WAYS)
@pytest.mark.parametrize("transposed", [(0, 0), (0, 1), (1, 0), (1, 1)], ids=str)
def test_each_way_gives_the_exact_sums(vnni, transposed):
    arithmetic, (lt, rt) = make_integer(vnni), transposed
    kernel = native.compile_kernel(make_gemm(arithmetic), f"gemm int8 {vnni}", 1, compact=True)
    for m, k, n in ((5, 131, 70), (3, 2, 5), (66, 64, 200)):
        rng = np.random.default_rng(m)
        a, b = rng.integers(-128, 128, (m, k)), rng.integers(-128, 128, (k, n))
        memories = []
        for matrix in (a.T if lt else a, b if rt else b.T):
            placement = place(INT8, matrix.shape, Layout.CX)
            memory = rng.integers(0, 256, placement.total_bytes).astype(np.uint8)
            for index in np.ndindex(*matrix.shape):
                memory[placement.offset(index)] = matrix[index] & 255
            memories.append(memory)
        placement = place(INT32, (m, n), Layout.CX)
        out, shape = (
            np.full(placement.total_bytes // 4, 7, np.int32),
            {"m": m, "k": k, "n": n, "lt": lt, "rt": rt},
        )
        problem = make_problem(**shape, lb=1, rb=1, zero_a=-100, zero_b=77, out_format=INT32)
        area = np.full(gemm_scratch_bytes(arithmetic, m, k, n, 1, 1, int(INT32)) + 64, 0xA5, np.uint8)
        run_problem(kernel, problem, *memories, out, area)
        assert (area[-64:] == 0xA5).all()
        found = [out[placement.offset(index) // 4] for index in np.ndindex(m, n)]
        np.testing.assert_array_equal(np.reshape(found, (m, n)), (a + 100) @ (b - 77))


@needs_jit
@pytest.mark.parametrize("vnni", WAYS)
@pytest.mark.parametrize("small", [False, True])
def test_convolution_by_each_way(vnni, small):
    arithmetic = make_integer(vnni)
    kernel = native.compile_kernel(make_conv(arithmetic), f"conv int8 {vnni}", 1, compact=True)
    for c, maps in ((3, 5), (70, 66), (130, 4)):
        rng = np.random.default_rng(c)
        x, w = rng.integers(-128, 128, (1, 5, 6, c)), rng.integers(-128, 128, (3, 2, maps, c))
        memories = []
        for tensor, layout in ((x, Layout.NCX), (w.reshape(-1, c), Layout.CX)):
            placement = place(INT8, tensor.shape, layout)
            memory = rng.integers(0, 256, placement.total_bytes).astype(np.uint8)
            for index in np.ndindex(*tensor.shape):
                memory[placement.offset(index)] = tensor[index] & 255
            memories.append(memory)
        placement = place(INT32, (1, 5, 5, maps), Layout.NCX)
        out, shape = np.full(placement.total_bytes // 4, 7, np.int32), {"batch": 1, "h": 5, "w": 6, "c": c}
        window = {"oh": 5, "ow": 5, "maps": maps, "ky": 3, "kx": 2, "sy": 1, "sx": 1, "dy": 1, "dx": 1}
        problem = make_problem(**shape, **window, top=1, left=0, zero_a=33, out_format=INT32)
        needed = 1 << 22
        assert conv_scratch_bytes(arithmetic, problem.ctypes.data) < needed
        problem[WORK_BYTES] = 0 if small else needed
        run_problem(kernel, problem, *memories, out, np.zeros(needed, np.uint8))
        padded = np.pad(x - 33, ((0, 0), (1, 1), (0, 0), (0, 0)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 2), axis=(1, 2))
        want = np.einsum("nyxcij,ijoc->nyxo", windows, w)
        found = [out[placement.offset(index) // 4] for index in np.ndindex(*want.shape)]
        np.testing.assert_array_equal(np.reshape(found, want.shape), want)


# --- convolutions -------------------------------------------------------------------------------------------

CONVS = {
    "one by one, strides": {"shape": [1, 6, 9, 70], "o": 20, "k": (1, 1), "s": (2, 3), "pad": (0, 1, 2, 1)},
    "first layer": {"shape": [1, 9, 9, 3], "o": 70, "k": (5, 5), "s": (2, 2), "pad": (2, 2, 2, 2)},
    "planes": {"shape": [2, 4, 3, 140], "o": 9, "k": (3, 3), "pad": (1, 1, 1, 1)},
    "dilation": {"shape": [1, 9, 7, 33], "o": 5, "k": (2, 3), "pad": (1, 0, 2, 2), "d": (3, 2)},
    "unpads": {"shape": [1, 6, 8, 5], "o": 140, "k": (2, 2), "pad": (1, 1, 1, 1), "unpad": (1, 0, 0, 2)},
    "point": {"shape": [1, 5, 5, 64], "o": 64, "k": (1, 1)},
}


@pytest.mark.long
@needs_jit
@pytest.mark.parametrize("out_format", [INT8, INT32], ids=lambda f: f.token)
@pytest.mark.parametrize("case", CONVS.values(), ids=CONVS)
def test_convolution(case, out_format):
    given = ("bias", "scale_p", "scale_n") if out_format is INT8 else ("bias", "psum")
    operands = {"zp_a": 200, "out_format": int(out_format)}
    if out_format is INT8:
        operands.update(q1=2, q0=14, zp_out=131, relu=1)
    Engine("ne.conv", INT8, given, **window_operands(**{"d": (1, 1), **case}), **operands).check()


@needs_jit
@pytest.mark.parametrize("c", [5, 130])
def test_convolution_with_little_scratch(c):
    operands = window_operands([1, 6, 7, c], 9, (3, 3), pad=(1, 1, 1, 1), d=(2, 1))
    engine = Engine("ne.conv", INT8, ("bias",), **operands, zp_a=7, q1=6, zp_out=3)
    engine.check(scratch_bytes=PROBLEM_BYTES)


@needs_jit
@pytest.mark.parametrize("c", [5, 70, 200])
def test_depthwise_chain(c):
    operands = window_operands([1, 5, 6, c], c, (3, 3), pad=(1, 1, 1, 1))
    more = {"zp_a": 9, "zp_out": 250, "q1": 1, "q0": 12}
    Engine("ne.dwconv", INT8, ("bias", "scale_p", "scale_n"), **operands, **more).check()


@needs_jit
def test_depthwise_sums():
    operands = window_operands([1, 5, 6, 70], 70, (3, 3), pad=(1, 1, 1, 1))
    engine = Engine("ne.dwconv", INT8, ("psum",), **operands, zp_a=130, out_format=int(INT32))
    engine.check()


# --- primitives ---------------------------------------------------------------------------------------------


@needs_jit
@pytest.mark.parametrize("shape", BYTES, ids=str)
@pytest.mark.parametrize(
    ("made", "name"), [pytest.param(BYTES, bytes_name, marks=needs_vnni, id="bytes"), (HALVES, halves_name)]
)
def test_products(made, name, shape):
    rows, columns = shape
    product, k = made[shape], 7
    assert name(*shape).endswith(f"{rows}x{columns}")

    def kernel(index, a, b, c, k):
        return product(index, k + 3, a, 1, b, 70, c, 66, k)

    rng, index = np.random.default_rng(columns), np.arange(rows)[::-1].copy()
    a, b, c = (rng.integers(0, 1 << 32, s, dtype=np.uint32) for s in (rows * (k + 3), k * 70, rows * 66))
    want, start = c.copy(), c.copy()
    kernel(*(x.ctypes.data for x in (index, a, b, want)), k)
    native.call(native.compile_kernel(kernel, "product", 5), *(x.ctypes.data for x in (index, a, b, c)), k)
    np.testing.assert_array_equal(c, want)
    numbers = "i1" if made is BYTES else "i2"
    left = a.reshape(rows, k + 3)[index, :k].copy().view("u1" if made is BYTES else numbers).astype(np.int64)
    right = b.reshape(k, 70)[:, :columns].copy().view(numbers).reshape(k, columns, -1).astype(np.int64)
    exact = np.einsum("rkg,kcg->rc", left.reshape(rows, k, -1), right)
    total = (start.reshape(rows, 66)[:, :columns] + exact).astype(np.uint32)
    np.testing.assert_array_equal(c.reshape(rows, 66)[:, :columns], total)


@needs_jit
@pytest.mark.parametrize("taps", [taps_f32, taps_i32])
def test_taps(taps):
    def kernel(index, x, offsets, w, c):
        return taps(index, x, offsets, w, 20, c, 18, 3)

    rng = np.random.default_rng(0)
    index, offsets = np.array([0, 5, 9, 2]), np.array([0, 7, 3])
    x, w, c = (rng.integers(-9, 9, s).astype(np.float32) for s in (40, 60, 72))
    if taps is taps_i32:
        x, w, c = (array.astype(np.int32) * 70001 for array in (x, w, c))
    want = c.copy().reshape(4, 18)
    for i, row in enumerate(index):
        for t, move in enumerate(offsets):
            want[i, :16] += x[row + move : row + move + 16] * w[20 * t : 20 * t + 16]
    plain, pointers = c.copy(), [a.ctypes.data for a in (index, x, offsets, w, c)]
    kernel(*pointers[:4], plain.ctypes.data)
    native.call(native.compile_kernel(kernel, "taps", 5), *pointers)
    np.testing.assert_array_equal(c.reshape(4, 18), want)
    np.testing.assert_array_equal(plain.reshape(4, 18), want)


def test_interleaving():
    def kernel(source, bytes_, halves):
        interleave_bytes(source, 20, bytes_, 0x80808080)
        return interleave_halves(source, 20, halves, -77)

    source = np.random.default_rng(0).integers(-128, 128, 80).astype(np.int8)
    words, halves = np.zeros((16, 4), np.uint8), np.zeros((16, 2), np.int16)
    address = native.compile_kernel(kernel, "interleave", 3)
    native.call(address, *(x.ctypes.data for x in (source, words, halves)))
    rows = source.reshape(4, 20)[:, :16].T
    np.testing.assert_array_equal(words, (rows.astype(np.int16) + 128).astype(np.uint8))
    np.testing.assert_array_equal(halves, rows[:, :2].astype(np.int16) + 77)


@needs_jit
@settings(max_examples=200)
@given(
    st.integers(-(1 << 31), (1 << 31) - 1),
    st.integers(0, 31),
    st.integers(-32768, 32767),
    st.integers(0, 31),
    st.integers(0, 1),
    st.integers(-128, 127),
)
def test_requantise_is_the_chain(o32, q1, scale, q0, relu, zero):
    def kernel(o32, q1, s16, q0, relu, zero):
        return requantise(o32, q1, s16, q0, relu, zero)

    arguments = (o32, q1, scale & 0xFFFF, q0, relu, zero)
    want = int(chain(np.array(o32), q1, scale, q0, zero, bool(relu)))
    assert requantise(*arguments) == want
    assert native.call(native.compile_kernel(kernel, "requantise", 6), *arguments) == want


@needs_jit
@pytest.mark.parametrize(
    ("q1", "q0", "relu", "zero"), [(0, 0, 0, 0), (3, 21, 1, -128), (17, 31, 0, 127), (31, 5, 1, 9)]
)
def test_rows_of_sums_go_through_the_chain_together(q1, q0, relu, zero):
    """Each of sixteen sums has its own factor, and another one if it is negative."""

    def kernel(sums, above, below, target):
        return requantise_row(sums, above, below, target, q1, q0, relu, zero)

    rng = np.random.default_rng(q1)
    sums = rng.integers(-(1 << 31), 1 << 31, CHAIN_LANES) >> rng.integers(0, 31, CHAIN_LANES)
    sums[:4] = -(1 << 31), (1 << 31) - 1, 0, -1
    sums = sums.astype(np.int32)
    above, below = rng.integers(-32768, 32768, (2, CHAIN_LANES)).astype(np.int16)
    found, plain = np.full((2, CHAIN_LANES + 1), 77, np.int8)
    operands = [each.ctypes.data for each in (sums, above, below)]
    kernel(*operands, plain.ctypes.data)
    name = f"requantise row {q1} {q0} {relu} {zero}"
    native.call(native.compile_kernel(kernel, name, 4), *operands, found.ctypes.data)
    factors = np.where(sums >= 0, above, below)
    want = [chain(np.array(o), q1, int(f), q0, zero, bool(relu)) for o, f in zip(sums, factors, strict=True)]
    np.testing.assert_array_equal(found, [*want, 77])
    np.testing.assert_array_equal(plain, found)


# --- what is refused ----------------------------------------------------------------------------------------

REFUSED = {
    "out_format must be the input format or fp32; with int8 inputs int8 or int32": {"out_format": 5},
    "psum_format must be int32 with int8 inputs": {"psum_format": 5, "inpsum_en": 1},
    "lrelu is for float formats": {"lrelu": 1},
    "relu and lrelu exclude each other": {"lrelu": 1, "relu": 1},
    "q1, q0, scale_p and relu are steps to an int8 result": {"out_format": 4, "q1": 1},
    "sparse must be 0": {"sparse": 1},
    "scale_n needs scale_p": {"scale_n": 256},
}


@pytest.mark.parametrize("mnemonic", ["ne.gemm", "ne.conv", "ne.dwconv"])
@pytest.mark.parametrize("text", REFUSED)
def test_what_is_refused(mnemonic, text):
    shapes: dict[str, Any] = {"m": 4, "k": 4, "n": 4}
    if mnemonic != "ne.gemm":
        shapes = window_operands([1, 4, 4, 8], 8, (3, 3), pad=(1, 1, 1, 1))
    engine = Engine(mnemonic, INT8, **shapes)
    assert not engine.broken_rules()
    engine.values.update(REFUSED[text])
    assert [broken for broken in engine.broken_rules() if broken.startswith(text)]


@pytest.mark.parametrize(
    ("mnemonic", "operand"),
    [("ne.gemm", "zp_b"), ("ne.gemm", "q1"), ("ne.conv", "zp_out"), ("ne.dwconv", "zp_a")],
)
def test_operands_of_int8_need_int8(mnemonic, operand):
    shapes: dict[str, Any] = {"m": 4, "k": 4, "n": 4}
    if mnemonic != "ne.gemm":
        shapes = window_operands([1, 4, 4, 8], 8, (3, 3), pad=(1, 1, 1, 1))
    engine = Engine(mnemonic, Format.FP16, **shapes, **{operand: 1})
    assert [text for text in engine.broken_rules() if text.endswith("are for int8 inputs")]


@pytest.mark.parametrize("field", ["q1", "q0", "zp_a"])
def test_ranges_of_the_operands(field):
    operand = Engine("ne.gemm", INT8, m=4, k=4, n=4).record.operand(field)
    assert (operand.low, operand.high) == (0, 255 if field.startswith("zp") else 31)
