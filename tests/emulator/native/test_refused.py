"""Constructs that kernels must not contain; a refused kernel leaves nothing."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import tx8isa.numbers.primitives as isa
from emulator import native
from emulator.native import keys
from emulator.native.primitives.float32 import single
from emulator.native.primitives.memory import view_u16
from machine_code import compiled_by, needs_jit
from tx8isa.numbers.primitives import s64

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


def uses_slice(x):
    halves = view_u16(x, 4)
    halves[1:3] = halves[0:2]
    return 0


REFUSED = [
    (uses_dictionary, "a value of type dict cannot become machine code"),
    (uses_module, "'isa.s64' is not an integer constant; import functions and other values by name"),
    (uses_unknown, "'uses_unknown' uses 'missing', which is not defined"),
    (calls_itself, "'calls_itself' calls itself; use a loop"),
    (mixes_floats, "arithmetic between float32 and float64; wrap constants in single()"),
    (mixes_integer, "arithmetic between float32 and int64"),
    (adds_narrow, "arithmetic on uint16; wrap values from a view in s64() or u64()"),
    (two_types, "a variable or result is int64 on one path and float64 on another"),
    (uses_text, "a kernel has no strings"),
    (allocates, "no arrays, lists or dictionaries"),
    (raises, "a kernel cannot raise; check before it is called"),
    (uses_method, "bit_length"),
    (uses_slice, "getitem"),
]


@needs_jit
@pytest.mark.parametrize("engine", ["numba", "direct"])
@pytest.mark.parametrize(("function", "message"), REFUSED, ids=[f.__name__ for f, _ in REFUSED])
def test_refused_kernels(own_cache, function, message, engine):
    with compiled_by(engine), pytest.raises(native.KernelError) as caught:
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
def test_functions_compiled_for_one_kernel_serve_the_next(own_cache, monkeypatch):
    monkeypatch.setenv("TX8_JIT", "numba")
    build = importlib.import_module("emulator.native.by_numba.build")
    native.compile_kernel(multiplies_integers, "integers", 1)
    meaning = keys.describe(product, "k")
    shared = build._parts[meaning]
    other = native.compile_kernel(multiplies_floats, "floats", 1)
    assert build._parts[meaning] is shared
    assert len(shared.overloads) == 2
    assert native.call(other, 7) == 49


@needs_jit
def test_a_refused_kernel_leaves_nothing_to_the_next(own_cache, monkeypatch):
    """They are refused every time, even if their parts served good kernels before; and these stay good."""
    monkeypatch.setenv("TX8_JIT", "numba")
    for turn in range(2):
        native.compile_kernel(multiplies_floats, f"floats {turn}", 1)
        with pytest.raises(native.KernelError, match=r"(?s)kernel mixture: .*between float32 and float64"):
            native.compile_kernel(multiplies_a_mixture, "mixture", 1)
        with pytest.raises(native.KernelError, match="kernel recursive: 'calls_itself' calls itself"):
            native.compile_kernel(calls_itself, "recursive", 1)
        integers = native.compile_kernel(multiplies_integers, f"integers {turn}", 1)
        assert native.call(integers, 9) == 81
