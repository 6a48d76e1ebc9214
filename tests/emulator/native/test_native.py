"""From plain functions to cached machine code: both executions agree, the cache, what is refused."""

from __future__ import annotations

import importlib
import io
import logging
import math
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from types import ModuleType

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import tx8isa.numbers.primitives as isa
from emulator import native
from emulator.native import keys, store
from emulator.native.primitives import float32, interpreted, memory
from emulator.native.primitives.float32 import bits_f32, f32_bits, single
from emulator.native.primitives.memory import call_kernel, view_f32, view_i64, view_u8, view_u16, view_u32
from emulator.native.vocabulary import FLOAT32, MEMORY, PRIMITIVES, SCALAR
from native_kernels import COUNT, needs_jit, over, run_both, singles
from paths import ROOT
from tx8isa.numbers.formats import Rounding, narrow, widen
from tx8isa.numbers.primitives import bits64, fma32, from_bits64, s64, u64


@pytest.fixture(scope="module", autouse=True)
def module_cache(tmp_path_factory):
    """All kernels of this file share one fresh cache, so nothing depends on earlier runs."""
    before = os.environ.get("TX8_CACHE_DIR")
    os.environ["TX8_CACHE_DIR"] = str(tmp_path_factory.mktemp("kernels"))
    yield
    if before is None:
        del os.environ["TX8_CACHE_DIR"]
    else:
        os.environ["TX8_CACHE_DIR"] = before


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """An empty cache folder and no kernel loaded."""
    monkeypatch.setenv("TX8_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(native, "_loaded", {})
    return tmp_path / "cache" / "kernels-v1"


# --- agreement of the plain and the machine version --------------------------------------------------------

EDGES64 = [0, 1, 2, 0x7F, 0x80, 0xFFFF, 1 << 31, (1 << 31) - 1, 1 << 32, (1 << 32) - 1, 1 << 52, 1 << 63]
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


def words(seed: int, count: int = COUNT) -> np.ndarray:
    """Edge values, then random 64-bit patterns of random magnitude."""
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 1 << 64, count, np.uint64) >> rng.integers(0, 64, count, np.uint64)
    raw = rng.integers(0, 1 << 64, count, np.uint64)
    values[count // 2 :] = raw[count // 2 :]
    edges = np.array(EDGES64, np.uint64)
    values[: edges.size] = edges
    return values


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
@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].__name__)
def test_machine_version_equals_plain_version(case):
    primitive, decode, encode, operands, values = case
    inputs = [values(seed)[np.random.default_rng(seed).permutation(COUNT)] for seed in range(operands)]
    if operands == 1:
        inputs = [values(0)]
    if primitive is single:  # a binary64 NaN has no defined payload after the conversion
        inputs = [inputs[0][~np.isnan(inputs[0].view(np.float64))]]
    machine, plain = run_both(over(primitive, decode, encode, operands), primitive.__name__, inputs)
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
    numba = importlib.import_module("numba")
    if not machine.HARDWARE_FP16:
        pytest.skip("this CPU has no F16C: the integer route is the only one")
    routes = [
        numba.njit(lambda x, f=f: f(x)) for f in (machine.BY_INTEGERS[name], machine.BY_INSTRUCTION[name])
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
    """What bodies do with signed and unsigned words; each line once went wrong in some compiler."""
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


MOVE_SCRIPT = """
import ctypes
import sys
sys.path.insert(0, "tests/support/kernels")
from emulator import native
from native_kernels import move_down
buffer = ctypes.create_string_buffer(b"abcdefgh", 8)
native.call(native.compile_kernel(move_down, "move", 2), ctypes.addressof(buffer), 8)
print(buffer.raw.decode(), "numba" in sys.modules)
"""


@needs_jit
def test_overlapping_slices_with_and_without_numba(tmp_path):
    cache = {"TX8_CACHE_DIR": str(tmp_path / "c")}
    assert run_python(MOVE_SCRIPT, cache, cwd=ROOT).stdout.split() == ["aabcdefg", "True"]
    assert run_python(MOVE_SCRIPT, cache, cwd=ROOT).stdout.split() == ["aabcdefg", "False"]


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


@pytest.mark.parametrize("jit", [pytest.param("1", marks=needs_jit), "0"])
def test_kernels_call_kernels_through_addresses(jit, monkeypatch):
    monkeypatch.setenv("TX8_JIT", jit)
    inner = native.compile_kernel(add_fields, "add", 2)
    outer = native.compile_kernel(call_many, "many", 4)
    assert (inner > 0) == (outer > 0) == (jit == "1")
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


# --- keys -------------------------------------------------------------------------------------------------

HELPER = "SCALE = 3\n\ndef scaled(x):\n    return x * SCALE\n"
USER = "from {helper} import scaled\n\ndef kernel(x):\n    return scaled(x) + 1\n"


@pytest.fixture
def edited(tmp_path, monkeypatch):
    """``edited(helper_source)`` writes and imports a helper module and a kernel that calls it."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def load(source: str, user: str = USER):
        for name, text in (("tx8_test_helper", source), ("tx8_test_user", user)):
            (tmp_path / f"{name}.py").write_text(text.format(helper="tx8_test_helper"))
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        return importlib.import_module("tx8_test_user").kernel

    yield load
    for name in ("tx8_test_helper", "tx8_test_user"):
        sys.modules.pop(name, None)


@needs_jit
@pytest.mark.parametrize("change", [("x * SCALE", "x + SCALE"), ("SCALE = 3", "SCALE = 4")])
def test_an_edit_of_an_imported_function_reaches_its_callers(edited, own_cache, change):
    before = edited(HELPER)
    assert native.call(native.compile_kernel(before, "k", 1), 5) == before(5) == 16
    after = edited(HELPER.replace(*change))
    assert keys.kernel_key(after, "k", 1) != keys.kernel_key(before, "k", 1)
    assert native.call(native.compile_kernel(after, "k", 1), 5) == after(5) != 16


def read_module(x):
    return x * memory_map.SCALE + memory_map.OFFSET  # noqa: F821


def test_integers_of_a_module_are_part_of_the_key(monkeypatch, own_cache):
    constants = ModuleType("constants")
    constants.SCALE, constants.OFFSET, constants.unused = 3, 4, {}
    monkeypatch.setitem(globals(), "memory_map", constants)
    assert native.call(native.compile_kernel(read_module, "k", 1), 5) == 19
    constants.SCALE = 7
    assert native.call(native.compile_kernel(read_module, "k", 1), 5) == 39


@pytest.mark.parametrize(
    "same", ["# a comment\n\n\n" + HELPER, HELPER.replace("(x)", "(value)").replace("x *", "value *")]
)
def test_comments_lines_and_local_names_do_not_change_the_key(edited, same):
    assert keys.kernel_key(edited(HELPER), "k", 1) == keys.kernel_key(edited(same), "k", 1)


def closure(constant, pair=(1, 2), default=5):
    def kernel(x, y=default):
        return x * constant + pair[1] + y

    return kernel


@pytest.mark.parametrize(
    "other",
    [
        closure(3),
        closure(2.0),
        closure(2, (1, 3)),
        closure(2, (1, (2,))),
        closure(2, default=6),
        closure(True),
    ],
)
def test_captured_values_are_part_of_the_key(other):
    assert keys.kernel_key(other, "k", 2) != keys.kernel_key(closure(2), "k", 2)
    assert keys.kernel_key(closure(2), "k", 2) == keys.kernel_key(closure(2), "k", 2)


def test_name_and_arity_are_part_of_the_key():
    base = keys.kernel_key(closure(2), "k", 2)
    assert len({base, keys.kernel_key(closure(2), "l", 2), keys.kernel_key(closure(2), "k", 1)}) == 3


def test_the_processor_is_part_of_the_key():
    code = "from emulator.native.keys import environment; print(hash(environment()) and environment())"
    outputs = set()
    for extra in ({"NUMBA_CPU_NAME": "haswell"}, {"NUMBA_CPU_NAME": "skylake"}, {"NUMBA_OPT": "1"}):
        outputs.add(run_python(code, extra).stdout)
    assert len(outputs) == 3


def test_generated_kernels_are_keyed_by_their_meaning(own_cache):
    made = []

    def times(factor):
        def generate():
            made.append(factor)
            return lambda x: factor * x

        return native.compile_generated(generate, (factor,), "times", 1)

    assert [native.call(times(factor), 5) for factor in (3, 4)] == [15, 20]
    if native.jit_enabled():
        native._loaded.clear()
        assert native.call(times(3), 5) == 15
        assert made == [3, 4]


# --- the cache --------------------------------------------------------------------------------------------

SCRIPT = """
import sys
from emulator import native
from emulator.native.primitives.memory import view_i64
from tx8isa.numbers.primitives import s64

def kernel(address, n):
    total = 0
    values = view_i64(address, n)
    for i in range(n):
        total += values[i]
    return total

def main():
    import ctypes
    values = (ctypes.c_int64 * 100)(*range(100))
    print(native.call(native.compile_kernel(kernel, "sum", 2), ctypes.addressof(values), 100))
    print("numba" in sys.modules)

if __name__ == "__main__":
    main()
"""


def run_python(code: str, extra: dict[str, str], **options) -> subprocess.CompletedProcess:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **extra}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True, **options)


@needs_jit
def test_a_warm_start_does_not_import_numba(tmp_path):
    cache = {"TX8_CACHE_DIR": str(tmp_path / "c")}
    assert run_python(SCRIPT, cache).stdout.split() == ["4950", "True"]
    assert run_python(SCRIPT, cache).stdout.split() == ["4950", "False"]


def test_with_the_jit_off_nothing_is_compiled(tmp_path):
    result = run_python(SCRIPT, {"TX8_CACHE_DIR": str(tmp_path / "c"), "TX8_JIT": "0"})
    assert result.stdout.split() == ["4950", "False"]
    assert not (tmp_path / "c").exists()


@needs_jit
def test_two_processes_at_once(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TX8_CACHE_DIR": str(tmp_path / "c")}
    started = [
        subprocess.Popen([sys.executable, "-c", SCRIPT], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    assert [process.communicate()[0].split()[0] for process in started] == ["4950", "4950"]
    assert [path.suffix for path in (tmp_path / "c" / "kernels-v1").iterdir()] == [".o"]


def triple(x):
    return 3 * x


@needs_jit
@pytest.mark.parametrize("damage", ["flip", "truncate", "empty", "text"])
def test_a_damaged_file_is_recompiled(own_cache, damage, caplog, monkeypatch):
    native.compile_kernel(triple, "triple", 1)
    (path,) = own_cache.iterdir()
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    broken = {"flip": bytes(data), "truncate": bytes(data[:-100]), "empty": b"", "text": b"no kernel"}
    path.write_bytes(broken[damage])
    monkeypatch.setattr(native, "_loaded", {})
    assert native.call(native.compile_kernel(triple, "triple", 1), 14) == 42
    assert "is damaged; compiling the kernel again" in caplog.text
    assert store.Compiled.from_bytes(path.read_bytes()) is not None


@given(st.binary(max_size=200), st.integers(0, 250), st.integers(1, 255))
def test_no_altered_file_is_trusted(code, where, change):
    data = bytearray(store.Compiled("entry", ("a", "b"), code).to_bytes())
    assert store.Compiled.from_bytes(bytes(data)) == store.Compiled("entry", ("a", "b"), code)
    data[where % len(data)] ^= change
    assert store.Compiled.from_bytes(bytes(data)) is None


@needs_jit
def test_without_a_writable_folder_kernels_still_run(tmp_path, monkeypatch, caplog):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("TX8_CACHE_DIR", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr(native, "_loaded", {})
    caplog.set_level(logging.INFO)
    assert native.call(native.compile_kernel(triple, "triple", 1), 14) == 42
    assert "kernel cache: cannot write to" in caplog.text


@needs_jit
def test_the_progress_hook_sees_compilations_and_no_loads(own_cache, monkeypatch):
    seen = []
    monkeypatch.setattr(native, "on_compile", lambda name, seconds: seen.append((name, seconds)))
    native.compile_kernel(triple, "ct.triple", 1)
    assert [name for name, _ in seen] == ["ct.triple"] * 2
    assert seen[0][1] is None
    assert seen[1][1] > 0
    monkeypatch.setattr(native, "_loaded", {})
    native.compile_kernel(triple, "ct.triple", 1)
    assert len(seen) == 2


@needs_jit
def test_the_same_kernel_is_loaded_once(own_cache):
    assert native.compile_kernel(closure(9), "k", 2) == native.compile_kernel(closure(9), "k", 2)


def test_the_default_folder_is_the_users(monkeypatch):
    monkeypatch.delenv("TX8_CACHE_DIR")
    assert store.folder().name == "kernels-v1"
    assert "tx8" in store.folder().parts


@needs_jit
def test_undefined_symbols_against_pyelftools(own_cache):
    elffile = pytest.importorskip("elftools.elf.elffile")
    native.compile_kernel(triple, "triple", 1)
    (path,) = own_cache.iterdir()
    kernel = store.Compiled.from_bytes(path.read_bytes())
    table = elffile.ELFFile(io.BytesIO(kernel.code)).get_section_by_name(".symtab")
    names = [s.name for s in table.iter_symbols() if s["st_shndx"] == "SHN_UNDEF" and s.name]
    assert list(kernel.runtime) == names
    assert kernel.entry in [s.name for s in table.iter_symbols()]


_NUMBA_AFTERWARDS = """
from emulator import native
from tests_kernel import sums
native.compile_kernel(sums, "sums", 2)
import numba, numpy as np, sys
square = numba.njit(lambda x: x * x)
assert square(3) == 9 and square(np.arange(3.0))[2] == 4.0
first = numba.vectorize(["float32(uint16)"])(lambda x: np.float32(x))
assert first(np.arange(3, dtype=np.uint16)).sum() == 3
"""
_KERNEL_MODULE = """
from emulator.native.primitives.memory import view_i64
def sums(a, n):
    v = view_i64(a, n)
    v[:n] = v
    return n
"""


@needs_jit
def test_numba_still_works_in_a_process_that_loaded_kernels(own_cache, tmp_path):
    """The helpers supplied to kernels must not stand in for those that Numba supplies to its own code."""
    (tmp_path / "tests_kernel.py").write_text(_KERNEL_MODULE)
    path = os.pathsep.join([str(tmp_path), str(Path(native.__file__).parents[2])])
    environment = {**os.environ, "PYTHONPATH": path}
    for _ in ("compiled here", "loaded from the cache"):
        subprocess.run([sys.executable, "-c", _NUMBA_AFTERWARDS], check=True, env=environment)


@needs_jit
@pytest.mark.parametrize("usable", [True, False])
def test_compiling_in_one_pass_leaves_numba_as_it_was(own_cache, monkeypatch, usable):
    """Without a private method of Numba the plain way is taken."""
    codegen = importlib.import_module("numba.core.codegen")
    one_pass = importlib.import_module("emulator.native.one_pass")
    before = vars(codegen.JITCodeLibrary).copy()
    if not usable:
        absent = (codegen.JITCodeLibrary, "a_method_of_another_release", None)
        monkeypatch.setattr(one_pass, "PATCHES", (*one_pass.PATCHES, absent))
    kernel = over(isa.u64, s64, u64, 1)
    machine, plain = run_both(kernel, f"pass.{usable}", [words(1)])
    assert (machine == plain).all()
    assert vars(codegen.JITCodeLibrary) == before


# --- what is refused --------------------------------------------------------------------------------------

TABLE = {1: 2}


def uses_dictionary(x):
    return TABLE[x]


def uses_module(x):
    return isa.s64(x)


def uses_unknown(x):
    return missing(x)  # noqa: F821


def calls_itself(x):
    return calls_itself(x - 1) if x > 0 else 0


def mixes_floats(x):
    return int(single(x) * 2.0)


def mixes_integer(x):
    return int(single(x) * x)


def adds_narrow(x):
    halves = view_u16(x, 2)
    return s64(halves[0] - halves[1])


def two_types(x):
    value = x
    if x > 3:
        value = 0.5
    return int(value)


def uses_text(x):
    return len(str(x))


def allocates(x):
    table = np.zeros(x, np.int64)
    return table[x - 1]


def raises(x):
    if x < 3:
        raise ValueError
    return x


def uses_method(x):
    return x.bit_length()


REFUSED = [
    (uses_dictionary, "a value of type dict cannot become machine code"),
    (uses_module, "'isa.s64' is not an integer constant; import functions and other values by name"),
    (uses_unknown, "'uses_unknown' uses 'missing', which is not defined"),
    (calls_itself, "'calls_itself' calls itself; use a loop"),
    (mixes_floats, "arithmetic between float32 and float64; wrap constants in single()"),
    (mixes_integer, "arithmetic between float32 and int64"),
    (adds_narrow, "arithmetic on uint16; wrap what is read from a view in s64() or u64()"),
    (two_types, "a variable or result is int64 on one path and float64 on another"),
    (uses_text, "a kernel has no strings"),
    (allocates, "allocates ('NRT_MemInfo_alloc_aligned'); no arrays, lists or dictionaries"),
    (raises, "a kernel cannot raise; check before it is called"),
    (uses_method, "bit_length"),
]


@needs_jit
@pytest.mark.parametrize(("function", "message"), REFUSED, ids=[f.__name__ for f, _ in REFUSED])
def test_refused_kernels(own_cache, function, message):
    with pytest.raises(native.KernelError) as caught:
        native.compile_kernel(function, "refused", 1)
    assert message in str(caught.value)
    assert str(caught.value).startswith("kernel refused:")
    assert not own_cache.exists()


def product(x, y):
    return x * y


def multiplies_integers(x):
    return product(x, x)


def multiplies_floats(x):
    return int(product(float(x), float(x)))


def multiplies_a_mixture(x):
    return int(product(single(x), float(x)))


@needs_jit
def test_functions_compiled_for_one_kernel_serve_the_next(own_cache):
    build = importlib.import_module("emulator.native.build")
    native.compile_kernel(multiplies_integers, "integers", 1)
    meaning = keys.describe(product, "k")
    shared = build._parts[meaning]
    other = native.compile_kernel(multiplies_floats, "floats", 1)
    assert build._parts[meaning] is shared
    assert len(shared.overloads) == 2
    assert native.call(other, 7) == 49


@needs_jit
def test_a_refused_kernel_leaves_nothing_to_the_next(own_cache):
    """Refused every time, whether or not its parts served good kernels before; and these stay good."""
    for turn in range(2):
        native.compile_kernel(multiplies_floats, f"floats {turn}", 1)
        with pytest.raises(native.KernelError, match=r"(?s)kernel mixture: .*between float32 and float64"):
            native.compile_kernel(multiplies_a_mixture, "mixture", 1)
        with pytest.raises(native.KernelError, match="kernel recursive: 'calls_itself' calls itself"):
            native.compile_kernel(calls_itself, "recursive", 1)
        assert native.call(native.compile_kernel(multiplies_integers, f"integers {turn}", 1), 9) == 81


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
    """Against NumPy's copy of a copy, for ranges that overlap either way and ranges apart."""
    memory = np.random.default_rng(size).integers(0, 256, 500_000, dtype=np.uint8)
    expected = memory.copy()
    expected[50_000 + shift : 50_000 + shift + size] = memory[50_000 : 50_000 + size].copy()
    base = memory.ctypes.data + 50_000
    arguments = np.array([base + shift, base], np.int64)
    kernel = native.compile_kernel(_copier(), "copier", 2)
    assert native.call(kernel, arguments.ctypes.data, size) == size
    assert (memory == expected).all()
