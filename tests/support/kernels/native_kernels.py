"""Plain functions that the tests of the native layer compile to kernels."""

from __future__ import annotations

import numpy as np

from emulator import native
from emulator.native.direct.compile import compile_directly
from emulator.native.primitives import interpreted
from emulator.native.primitives.memory import view_u64
from machine_code import compiled_by
from tx8isa.numbers.primitives import u64

COUNT = 4000
EDGES64 = [0, 1, 2, 0x7F, 0x80, 0xFFFF, 1 << 31, (1 << 31) - 1, 1 << 32, (1 << 32) - 1, 1 << 52, 1 << 63]


def singles(seed: int, count: int = COUNT) -> np.ndarray:
    """32-bit patterns: special values, values of similar size with few significant bits, random patterns."""
    rng = np.random.default_rng(seed)
    special = [
        0,
        0x80000000,
        1,
        0x80000001,
        0x7FFFFF,
        0x800000,
        0x7F7FFFFF,
        0x7F800000,
        0xFF800000,
        0x7FC00000,
    ]
    special += [
        0xFFC00001,
        0x7F800001,
        0x7FA12345,
        0x3F800000,
        0x3F800001,
        0x33000000,
        0x33000001,
        0x477FEFFF,
    ]
    special += [
        0x477FF000,
        0x387FC000,
        0x387FE000,
        0x387FF000,
        0x38800000,
        0x00001000,
        0x00003000,
        0x7F7FF000,
    ]
    near = (rng.integers(-(1 << 24), 1 << 24, count) * 2.0 ** rng.integers(-30, 8, count)).astype(np.float32)
    patterns = near.view(np.uint32)
    raw = rng.integers(0, 1 << 32, count, np.uint32)
    patterns[count // 2 :] = raw[count // 2 :]
    patterns[: len(special)] = special
    return patterns.astype(np.uint64)


def over(primitive, decode, encode, operands):
    """A kernel that applies a primitive to arrays of patterns."""
    if operands == 1:

        def kernel(a, b, c, out, n):
            x, result = view_u64(a, n), view_u64(out, n)
            for i in range(u64(n)):
                result[i] = encode(primitive(decode(x[i])))
            return 0

    elif operands == 2:

        def kernel(a, b, c, out, n):
            x, y, result = view_u64(a, n), view_u64(b, n), view_u64(out, n)
            for i in range(u64(n)):
                result[i] = encode(primitive(decode(x[i]), decode(y[i])))
            return 0

    else:

        def kernel(a, b, c, out, n):
            x, y, z, result = view_u64(a, n), view_u64(b, n), view_u64(c, n), view_u64(out, n)
            for i in range(u64(n)):
                result[i] = encode(primitive(decode(x[i]), decode(y[i]), decode(z[i])))
            return 0

    return kernel


def run_both(kernel, name, inputs, engine="direct"):
    """Results of the kernel that an engine compiles, and of the plain function on the same."""
    n = inputs[0].size
    results = []
    if engine == "direct":
        compile_directly(kernel, 5)  # which compile_kernel would leave to Numba if it failed
    with compiled_by(engine):
        compiled = native.compile_kernel(kernel, name, 5)
    for run in (compiled, interpreted.register(kernel)):
        out = np.zeros(n, np.uint64)
        pointers = [array.ctypes.data for array in (*inputs, *[inputs[0]] * (3 - len(inputs)), out)]
        assert native.call(run, *pointers, n) == 0
        results.append(out)
    return results


def closure(constant, pair=(1, 2), default=5):
    def kernel(x, y=default):
        return x * constant + pair[1] + y

    return kernel


def words(seed: int, count: int = COUNT) -> np.ndarray:
    """Edge values, then random 64-bit patterns of random magnitude."""
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 1 << 64, count, np.uint64) >> rng.integers(0, 64, count, np.uint64)
    raw = rng.integers(0, 1 << 64, count, np.uint64)
    values[count // 2 :] = raw[count // 2 :]
    edges = np.array(EDGES64, np.uint64)
    values[: edges.size] = edges
    return values
