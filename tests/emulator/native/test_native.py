"""From plain functions to cached machine code: both executions agree; the cache; refusals."""

from __future__ import annotations

import importlib
import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import tx8isa.numbers.primitives as isa
from emulator import native
from emulator.native.primitives import float32, interpreted, memory
from emulator.native.primitives.float32 import bits_f32, f32_bits, single
from emulator.native.primitives.memory import call_kernel, view_f32, view_i64, view_u8, view_u16, view_u32
from emulator.native.primitives.names import FLOAT32, MEMORY, PRIMITIVES, SCALAR
from machine_code import needs_jit
from native_kernels import COUNT, EDGES64, over, run_both, singles, words
from processes import run_python
from tx8isa.numbers.formats import Rounding, narrow, widen
from tx8isa.numbers.primitives import bits64, fma32, from_bits64, s64, u64

# --- agreement of the plain and the machine version --------------------------------------------------------

EDGES64 += [(1 << 63) - 1, (1 << 64) - 1, 0xFFFFFFFF80000000, 0x0010000000000000, 0x000FFFFFFFFFFFFF]
FLOATS64 = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    1.5,
    -2.5,
    3.0,
    1e308,
    -1e308,
    5e-324,
    2.2250738585072014e-308,
    math.inf,
]
FLOATS64 += [-math.inf, math.nan, 2.0**52 + 0.5, 2.0**53, 3.4028235677973366e38, 1e-46, 1.401298464324817e-45]
EDGES64 += [u64(bits64(x)) for x in FLOATS64] + [0xFFF8000000000001, 0x7FF0000000000001]

CASES = [
    *((f, s64, u64, 1, words) for f in (isa.u64, isa.s64, isa.u32, isa.s32)),
    *((f, s64, u64, 2, words) for f in (isa.mulh, isa.mulhu, isa.mulhsu)),
    *((f, from_bits64, bits64, 1, words) for f in (isa.sqrt, isa.f32)),
    (isa.divide, from_bits64, bits64, 2, words),
    (fma32, bits_f32, f32_bits, 3, singles),
    *((getattr(float32, f"{f}_to_f32"), s64, f32_bits, 1, singles) for f in ("fp16", "bf16", "tf32")),
    *((getattr(float32, f"f32_to_{f}"), bits_f32, u64, 1, singles) for f in ("fp16", "bf16", "tf32", "fp32")),
    (single, from_bits64, f32_bits, 1, words),
]


@needs_jit
@pytest.mark.parametrize("engine", ["numba", "direct"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].__name__)
def test_machine_version_equals_plain_version(case, engine):
    primitive, decode, encode, operands, values = case
    inputs = [values(seed)[np.random.default_rng(seed).permutation(COUNT)] for seed in range(operands)]
    if operands == 1:
        inputs = [values(0)]
    if primitive is single:  # a binary64 NaN has no defined payload after the conversion
        inputs = [inputs[0][~np.isnan(inputs[0].view(np.float64))]]
    kernel = over(primitive, decode, encode, operands)
    machine, plain = run_both(kernel, primitive.__name__, inputs, engine)
    wrong = np.flatnonzero(machine != plain)
    shown = [hex(int(array[wrong[0]])) for array in (*inputs, machine, plain)] if wrong.size else []
    assert not wrong.size, f"{wrong.size} differ, first: {shown}"


def test_every_primitive_has_a_machine_version():
    machine = importlib.import_module("emulator.native.machine")
    assert set(machine.MACHINE) == set(PRIMITIVES.values())
    assert len(PRIMITIVES) >= len(SCALAR) + len(FLOAT32) + len(MEMORY)


@needs_jit
@pytest.mark.parametrize("name", ["fp16_to_f32", "bf16_to_f32", "tf32_to_f32"])
def test_widening_of_every_upper_pattern(name):
    patterns = np.arange(65536, dtype=np.uint64) << (16 if name == "tf32_to_f32" else 0)
    machine, plain = run_both(over(getattr(float32, name), s64, f32_bits, 1), f"all.{name}", [patterns])
    assert (machine == plain).all()


@needs_jit
@pytest.mark.parametrize("name", ["fp16_to_f32", "f32_to_fp16"])
def test_integer_route_equals_the_instruction_route(name):
    machine = importlib.import_module("emulator.native.machine.float32")
    numba, build = (
        importlib.import_module("numba"),
        importlib.import_module("emulator.native.by_numba.intrinsics"),
    )
    if not machine.HARDWARE_FP16:
        pytest.skip("this CPU has no F16C: the integer route is the only one")
    routes = [
        numba.njit(lambda x, f=route: f(x))
        for route in (
            build.intrinsic(versions[name]) for versions in (machine.BY_INTEGERS, machine.BY_INSTRUCTION)
        )
    ]
    values = range(65536) if name == "fp16_to_f32" else singles(7, 20000).astype(np.uint32).view(np.float32)
    first, second = ([route(value) for value in values] for route in routes)
    assert np.array(first).tobytes() == np.array(second).tobytes()


ORACLES = {"fp16": np.float16, "bf16": ml_dtypes.bfloat16}


@pytest.mark.parametrize("name", ORACLES)
def test_sixteen_bit_formats_against_ml_dtypes(name):
    patterns = np.arange(65536, dtype=np.uint16)
    want = patterns.view(ORACLES[name]).astype(np.float32)
    widened = [getattr(float32, f"{name}_to_f32")(int(p)) for p in patterns]
    nan = np.isnan(want)
    assert (np.isnan(widened) == nan).all()
    assert np.array(widened)[~nan].tobytes() == want[~nan].tobytes()
    back = [getattr(float32, f"f32_to_{name}")(x) for x in widened]
    canonical = 0x7E00 if name == "fp16" else 0x7FC0
    assert back == [canonical if n else int(p) for p, n in zip(patterns, nan, strict=True)]


@pytest.mark.parametrize("name", ORACLES)
def test_sixteen_bit_rounding_against_ml_dtypes(name):
    values = singles(3).astype(np.uint32).view(np.float32)
    values = values[~np.isnan(values)]
    with np.errstate(over="ignore"):
        want = values.astype(ORACLES[name]).view(np.uint16)
        got = [getattr(float32, f"f32_to_{name}")(x) for x in values]
    assert got == want.tolist()


def nearest_single(exact: Fraction) -> float:
    """Binary32 nearest to a rational, ties to even, by integer arithmetic alone."""
    magnitude, exponent = abs(exact), -149
    while magnitude / Fraction(2) ** exponent >= 1 << 24:
        exponent += 1
    steps = round(magnitude / Fraction(2) ** exponent)  # Python rounds a Fraction's half to even
    value = math.inf if steps * Fraction(2) ** exponent >= 2**128 else math.ldexp(steps, exponent)
    return -value if exact < 0 else value


finite = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(finite, finite, finite)
@example(1.0 + 2.0**-23, 1.0 + 2.0**-23, -1.0)
@example(1.0 + 2.0**-12, 1.0 + 2.0**-12, 2.0**-60)
@example(2.0**-75, 2.0**-75, 2.0**-149)
def test_fused_multiply_add_against_rationals(a, b, c):
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact:
        assert fma32(a, b, c) == nearest_single(exact)
        assert fma32(*np.array([a, b, c], np.float32)) == np.float32(nearest_single(exact))


def test_fused_multiply_add_keeps_the_type_of_its_operands():
    assert type(fma32(1.0, 2.0, 3.0)) is float
    assert type(fma32(single(1), single(2), single(3))) is np.float32


# --- machine words ----------------------------------------------------------------------------------------


def word_arithmetic(out, a, b, shift):
    """Operations of bodies on signed and unsigned words; each line was once miscompiled."""
    result = view_i64(out, 12)
    result[0] = s64(u64(a) >> u64(shift))
    result[1] = s64(u64(a) + u64(b))
    result[2] = a >> shift
    result[3] = s64(u64(a) // u64(b | 1))
    result[4] = s64(u64(a) % u64(b | 1))
    result[5] = 1 if u64(a) < u64(b) else 0
    result[6] = 1 if a < b else 0
    result[7] = s64(u64(a) << u64(shift))
    result[8] = (a // 3) % 7
    result[9] = s64(u64(a) * u64(b))
    result[10] = (u64(a) >> 63) & 1
    result[11] = s64(u64(a) ^ b)
    return 0


signed = st.integers(-(1 << 63), (1 << 63) - 1) | st.sampled_from(
    [0, 1, -1, 1 << 62, -(1 << 63), (1 << 63) - 1]
)


@needs_jit
@given(signed, signed, st.integers(0, 63))
def test_words_agree(a, b, shift):
    machine, plain = np.zeros(12, np.int64), np.zeros(12, np.int64)
    native.call(native.compile_kernel(word_arithmetic, "words", 4), machine.ctypes.data, a, b, shift)
    word_arithmetic(plain.ctypes.data, a, b, shift)
    assert machine.tolist() == plain.tolist()


def store_words(source, out, n):
    """Stores keep the low bits of a value, whatever the width."""
    x = view_i64(source, n)
    bytes_, halves, single_words = view_u8(out, n), view_u16(out + n, n), view_u32(out + 3 * n, n)
    for i in range(u64(n)):
        bytes_[i] = x[i]
        halves[i] = x[i] * 3
        single_words[i] = s64(bytes_[i]) - s64(halves[i])
    return s64(halves[n - 1])


@needs_jit
def test_stores_wrap_in_both_modes():
    values = words(5, 64).view(np.int64) % (1 << 60)
    outputs, returned = [], []
    for address in (native.compile_kernel(store_words, "stores", 3), interpreted.register(store_words)):
        outputs.append(np.zeros(7 * 64, np.uint8))
        returned.append(native.call(address, values.ctypes.data, outputs[-1].ctypes.data, 64))
    assert outputs[0].tobytes() == outputs[1].tobytes()
    assert returned[0] == returned[1]


def convert_fp16(bits, mode, random):
    return narrow(widen(bits, 5, 10) * 1.7, 8, 7, mode, random)


@needs_jit
@given(st.integers(0, 65535), st.sampled_from(list(Rounding)), st.integers(0, (1 << 52) - 1))
def test_the_definitions_of_the_formats_compile_unchanged(bits, mode, random):
    address = native.compile_kernel(convert_fp16, "convert", 3)
    assert native.call(address, bits, mode, random) == convert_fp16(bits, mode, random)


# --- calls ------------------------------------------------------------------------------------------------


def add_fields(fields, state):
    view_i64(state, 1)[0] += view_i64(fields, 2)[0] + view_i64(fields, 2)[1]
    return 7


def call_many(address, fields, state, times):
    total = 0
    for _ in range(times):
        total += call_kernel(address, fields, state)
    return total


@pytest.mark.parametrize("jit", [*(pytest.param(name, marks=needs_jit) for name in ("direct", "numba")), "0"])
def test_kernels_call_kernels_through_addresses(jit, monkeypatch):
    monkeypatch.setenv("TX8_JIT", jit)
    inner = native.compile_kernel(add_fields, "add", 2)
    outer = native.compile_kernel(call_many, "many", 4)
    assert (inner > 0) == (outer > 0) == (jit != "0")
    fields, state = np.array([3, -5], np.int64), np.zeros(1, np.int64)
    assert native.call(outer, inner, fields.ctypes.data, state.ctypes.data, 10) == 70
    assert state[0] == -20


def test_pseudo_addresses_are_stable_and_distinct(monkeypatch):
    monkeypatch.setenv("TX8_JIT", "0")
    first, second = (native.compile_kernel(f, "f", 2) for f in (add_fields, call_many))
    assert first != second
    assert native.compile_kernel(add_fields, "f", 2) == first
    assert first < 0


@pytest.mark.parametrize("address", [0, -(1 << 40)])
def test_a_call_of_nothing_is_refused(address):
    with pytest.raises(ValueError, match=f"no kernel at address {address}"):
        native.call(address, 1)


def test_numba_disable_jit_is_honoured(monkeypatch):
    monkeypatch.delenv("TX8_JIT", raising=False)
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    assert not native.jit_enabled()
    assert native.compile_kernel(add_fields, "f", 2) < 0


def test_settings_of_the_current_folder_do_not_reach_numba(tmp_path):
    (tmp_path / ".numba_config.yaml").write_text("disable_jit: 1\nboundscheck: 1\ncpu_name: generic\n")
    settings = "int(c.DISABLE_JIT), c.BOUNDSCHECK, c.CPU_NAME"
    code = f"import emulator.native.by_numba.build; from numba.core import config as c; print({settings})"
    found = run_python(code, {"NUMBA_DISABLE_JIT": "0"}, cwd=tmp_path)
    assert found.stdout.split() == ["0", "None", "None"]


def test_views_reach_exactly_their_length():
    buffer = np.arange(4, dtype=np.uint32)
    view = memory.view_u32(buffer.ctypes.data, 3)
    assert [view[i] for i in range(3)] == [0, 1, 2]
    with pytest.raises(IndexError):
        view[3]
    view_f32(buffer.ctypes.data, 4)[3] = 1.0
    assert buffer[3] == 0x3F800000


def _copier():
    from emulator.native.primitives.memory import copy_bytes

    def copier(arguments, size):
        a = view_i64(arguments, 2)
        copy_bytes(a[0], a[1], size)
        return size

    return copier


@pytest.mark.parametrize("size", [0, 1, 7, 63, 64, 65, 4096, 100_003])
@pytest.mark.parametrize("shift", [-33, 0, 33, 200_000])
def test_copy_bytes_reads_everything_before_it_writes(size, shift):
    """Compared with NumPy's copy of a copy, for ranges that overlap either way and separate ranges."""
    memory = np.random.default_rng(size).integers(0, 256, 500_000, dtype=np.uint8)
    expected = memory.copy()
    expected[50_000 + shift : 50_000 + shift + size] = memory[50_000 : 50_000 + size].copy()
    base = memory.ctypes.data + 50_000
    arguments = np.array([base + shift, base], np.int64)
    kernel = native.compile_kernel(_copier(), "copier", 2)
    assert native.call(kernel, arguments.ctypes.data, size) == size
    assert (memory == expected).all()
