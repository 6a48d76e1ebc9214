"""The elementary functions: the errors of the definitions, and fast kernels against the definitions."""

from __future__ import annotations

import struct
from collections.abc import Callable
from random import Random
from typing import Any

import mpmath
import numpy as np
import pytest

from emulator.kernels import make_kernel
from exact_bench import run
from kernel_bench import RECORDS, Tile
from machine_code import needs_jit
from native_kernels import over, run_both, singles
from tx8isa.numbers import elementary as e
from tx8isa.numbers.formats import Format, sum_error
from tx8isa.numbers.primitives import add32, bits32, bits64, f32, from_bits32, mul32, s64
from tx8isa.records.meaning import Elementwise

MPMATH: dict[str, Callable[[Any], Any]] = {
    "ln": mpmath.log,
    "log2": lambda x: mpmath.log(x, 2),
    "tanh": mpmath.tanh,
    "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
    "softplus": lambda x: mpmath.log1p(mpmath.exp(x)),
    "sin": mpmath.sin,
    "cos": mpmath.cos,
}
IN_BINARY32: dict[str, Callable[[Any], Any]] = {"exp": mpmath.exp, "pow2": lambda x: mpmath.power(2, x)}


def sources(name: str, n: int) -> list[float]:
    """Binary32 numbers: of every size, of ordinary size, and next to multiples of a quarter turn."""
    rng = Random(name)
    wide = [rng.choice((1, -1)) * 2.0 ** rng.uniform(-140, 120) for _ in range(n)]
    turns = [rng.randint(1, 10 ** rng.randint(1, 9)) * 1.5707963267948966 for _ in range(n)]
    found = [f32(x) for x in (*wide, *(rng.uniform(-20, 20) for _ in range(n)), *turns)]
    if name in ("ln", "log2"):
        return [abs(x) for x in found]
    return [x for x in found if name in ("sin", "cos") or abs(x) < 87.0]


@pytest.mark.parametrize("name", MPMATH)
def test_definitions_in_binary64_are_within_two_to_the_minus_31(name: str) -> None:
    worst = 0.0
    with mpmath.workprec(300):
        for x in sources(name, 1000):
            true = MPMATH[name](mpmath.mpf(x))
            if true != 0:
                worst = max(worst, float(abs((mpmath.mpf(getattr(e, name)(x)) - true) / true)))
    print(f"{name}: worst 2**{float(mpmath.log(worst, 2)):.1f}")
    assert 2.0**-60 < worst < 2.0**-31


def ulps(found: float, true: Any) -> float:
    """Distance in units of the last place of binary32."""
    exponent = max(int(mpmath.floor(mpmath.log(abs(true), 2))) - 23, -149)
    return float(abs(mpmath.mpf(found) - true) / mpmath.mpf(2) ** exponent)


@pytest.mark.parametrize("name", IN_BINARY32)
def test_definitions_in_binary32_are_within_one_ulp(name: str) -> None:
    rng = Random(name)
    values = [f32(rng.uniform(-149, 128) * (1.0 if name == "pow2" else 0.69)) for _ in range(4000)]
    with mpmath.workprec(120):
        found = [(x, ulps(getattr(e, name)(x), IN_BINARY32[name](mpmath.mpf(x)))) for x in values]
    worst = max(found, key=lambda pair: pair[1])
    print(f"{name}: worst {worst[1]:.4f} ulp at {worst[0]!r}")
    assert worst[1] < 0.95
    assert all(f32(getattr(e, name)(x)) == getattr(e, name)(x) for x in values)


@pytest.mark.long
@needs_jit
@pytest.mark.parametrize("name", IN_BINARY32)
def test_kernels_in_binary32_are_within_one_ulp_of_all_numbers(name: str) -> None:
    """Every pattern whose result is not 1 or beyond the range, against NumPy's binary64 function."""
    reference = {"exp": np.exp, "pow2": np.exp2}[name]
    worst, step = (0.0, 0), 1 << 22
    for first in (*range(0x32000000, 0x43200000, step), *range(0xB2000000, 0xC3200000, step)):
        patterns = np.arange(first, first + step, dtype=np.uint32)
        found = run(f"ct.{name}.v", Format.FP32, (patterns,), Format.FP32, True).view(np.float32)
        with np.errstate(over="ignore"):
            true = reference(patterns.view(np.float32).astype(np.float64))
            unit = np.ldexp(1.0, np.maximum(np.frexp(true)[1] - 24, -149))
            errors = np.abs(found.astype(np.float64) - true) / unit
        inside = true < 2.0**128 - 2.0**103
        assert np.isfinite(found[inside]).all() and np.isinf(found[~inside & (true >= 2.0**128)]).all()
        errors[~inside] = 0.0
        at = int(errors.argmax())
        worst = max(worst, (float(errors[at]), int(patterns[at])))
    print(f"{name}: worst {worst[0]:.4f} ulp at {worst[1]:#x}")
    assert worst[0] <= 1.0


LIMITS = {
    "exp": (0.0, 2.0**128, 1.0),
    "pow2": (0.0, 2.0**128, 1.0),
    "tanh": (-1.0, 1.0, 0.0),
    "sigmoid": (0.0, 1.0, 0.5),
    "sin": ("nan", "nan", 0.0),
    "cos": ("nan", "nan", 1.0),
    "ln": ("nan", float("inf"), float("-inf")),
    "log2": ("nan", float("inf"), float("-inf")),
}


@pytest.mark.parametrize("name", LIMITS)
def test_limits_of_definitions(name: str) -> None:
    """Results at -inf, +inf and 0, after one rounding to binary32; a NaN remains NaN."""
    function = getattr(e, name)
    for x, expected in zip((float("-inf"), float("inf"), 0.0), LIMITS[name], strict=True):
        value = function(x)
        assert value != value if expected == "nan" else f32(value) == f32(expected)  # type: ignore[arg-type]
    assert function(float("nan")) != function(float("nan"))


@pytest.mark.parametrize("name", ["sin", "tanh"])
def test_odd_functions_keep_the_sign_of_zero(name: str) -> None:
    assert struct.pack("<d", getattr(e, name)(-0.0)) == struct.pack("<d", -0.0)


# --- the rare operands ----------------------------------------------------------------------


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("fmt", [Format.FP32, Format.TF32])
@pytest.mark.parametrize("name", ["sin", "cos"])
@pytest.mark.parametrize("shift", [0, -8, 8, 0x4000])
def test_rare_operands_among_usual_ones(name: str, fmt: Format, compiled: bool, shift: int) -> None:
    """Pieces with none, one and many of them, in place and overlapping, give the reference's bytes."""
    n, tile = 2048 + 700, Tile(3)
    numbers = np.sin(np.arange(n, dtype=np.float64)).astype(np.float32)
    numbers[[5, 2047, 2048 + 3]] = [e.NEAR, -3e38, np.inf]
    numbers[2100:2200] = np.float32(1e9) * np.arange(100, dtype=np.float32)
    numbers[2300] = np.nextafter(np.float32(e.NEAR), np.float32(0))
    tile.spm[0x1000 : 0x1000 + 4 * n] = numbers.view(np.uint8)
    tile.check(f"ct.{name}.v", fmt, compiled, dst=0x1000 + shift, src0=0x1000, n=n)


def test_usual_parts_are_the_definitions_below_their_limit() -> None:
    for record in RECORDS.values():
        meaning = record.meaning
        if isinstance(meaning, Elementwise) and meaning.usual is not None:
            for x in sources("sin", 300):
                if abs(x) < meaning.seldom:
                    assert meaning.usual(x) == meaning.body(x)
            assert meaning.usual(float("nan")) != meaning.body(float("nan"))


def test_directed_kernels_read_the_mode_of_the_operand() -> None:
    """1/3 in FP16 is between two neighbours; the four kernels of one record give them as the mode says."""
    one, three = (np.array([p], np.uint16) for p in (0x3C00, 0x4200))
    found = [run("ct.div.vv", Format.FP16, (one, three), Format.FP16, False, rnd=m)[0] for m in range(4)]
    minus = [
        run("ct.div.vv", Format.FP16, (one ^ 0x8000, three), Format.FP16, False, rnd=m)[0] for m in range(4)
    ]
    assert found == [0x3555, 0x3555, 0x3556, 0x3555]
    assert minus == [0xB555, 0xB555, 0xB555, 0xB556]


def test_a_format_the_function_lacks_is_refused() -> None:
    with pytest.raises(ValueError, match=r"ct\.exp\.v has no format"):
        make_kernel(RECORDS["ct.exp.v"], Format.INT8, True)


# --- primitives -------------------------------------------------------------------------------


def canonical(x: float) -> int:
    """Replace every NaN by one, because its payload is unspecified."""
    return bits64(f32(x))


@needs_jit
@pytest.mark.parametrize("operation", [add32, mul32], ids=lambda f: f.__name__)
def test_binary32_operations_are_the_machine_s(operation: Callable[..., float]) -> None:
    inputs = [singles(seed) for seed in range(2)]
    machine, plain = run_both(over(operation, from_bits32, canonical, 2), operation.__name__, inputs)
    assert (machine == plain).all()
    numpy = {add32: np.add, mul32: np.multiply}[operation]
    a, b = (i.astype(np.uint32).view(np.float32) for i in inputs)
    with np.errstate(all="ignore"):
        want = numpy(a, b)
    found = plain.view(np.float64).astype(np.float32)
    assert (np.isnan(want) == np.isnan(found)).all()
    assert (found[~np.isnan(want)] == want[~np.isnan(want)]).all()


@needs_jit
def test_binary32_patterns_are_the_machine_s() -> None:
    patterns = singles(4)
    usual = patterns[(patterns & 0x7FFFFFFF) <= 0x7F800000]

    def there_and_back(x: float) -> int:
        return s64(bits32(x))

    machine, plain = run_both(over(there_and_back, from_bits32, s64, 1), "bits32", [usual])
    assert (machine == plain).all() and (plain == usual).all()


def test_sum_error_is_what_a_sum_leaves_out() -> None:
    rng = Random(5)
    with mpmath.workprec(2000):
        for _ in range(500):
            a, b = (rng.uniform(-1, 1) * 2.0 ** rng.randint(-100, 100) for _ in range(2))
            assert mpmath.mpf(a) + mpmath.mpf(b) == mpmath.mpf(a + b) + mpmath.mpf(sum_error(a, b, a + b))
