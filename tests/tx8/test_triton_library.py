"""Functions of Triton's library, where it is installed, on blocks of any shape, against NumPy."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from extras import needs_triton

LIBRARY = """\
import random
import sys

import ml_dtypes
import numpy as np
import triton
import triton.language as tl
import tx8


@triton.jit
def larger(a, b):
    return tl.maximum(a, b)


@triton.jit
def apply(x, out, FUNCTION: tl.constexpr, AXIS: tl.constexpr, SHAPE: tl.constexpr, SIZE: tl.constexpr,
          RESULT: tl.constexpr):
    v = tl.reshape(tl.load(x + tl.arange(0, SIZE)), SHAPE)
    if FUNCTION == "sum":
        r = tl.sum(v, AXIS, keep_dims=True)
    elif FUNCTION == "max":
        r = tl.max(v, AXIS, keep_dims=True)
    elif FUNCTION == "min":
        r = tl.min(v, AXIS, keep_dims=True)
    elif FUNCTION == "argmax":
        r = tl.argmax(v, AXIS, keep_dims=True)
    elif FUNCTION == "argmin":
        r = tl.argmin(v, AXIS, keep_dims=True)
    elif FUNCTION == "cumsum":
        r = tl.cumsum(v, AXIS)
    elif FUNCTION == "backwards":
        r = tl.cumsum(v, AXIS, reverse=True)
    elif FUNCTION == "largest":
        r = tl.associative_scan(v, AXIS, larger)
    elif FUNCTION == "flip":
        r = tl.flip(v, AXIS)
    elif FUNCTION == "sort":
        r = tl.sort(v)
    elif FUNCTION == "descending":
        r = tl.sort(v, descending=True)
    else:
        r = tl.topk(v, 2)
    tl.store(out + tl.arange(0, RESULT), tl.reshape(r, (RESULT,)).to(out.dtype.element_ty))


def down(x, axis):
    return np.flip(np.sort(x, -1), -1)


WANTED = {
    "sum": lambda x, axis: x.sum(axis, keepdims=True, dtype=x.dtype),
    "max": lambda x, axis: x.max(axis, keepdims=True),
    "min": lambda x, axis: x.min(axis, keepdims=True),
    "argmax": lambda x, axis: x.argmax(axis, keepdims=True),
    "argmin": lambda x, axis: x.argmin(axis, keepdims=True),
    "cumsum": lambda x, axis: np.cumsum(x, axis, dtype=x.dtype),
    "backwards": lambda x, axis: np.flip(np.cumsum(np.flip(x, axis), axis, dtype=x.dtype), axis),
    "largest": lambda x, axis: np.maximum.accumulate(x, axis),
    "flip": np.flip,
    "sort": lambda x, axis: np.sort(x, -1),
    "descending": down,
    "topk": lambda x, axis: down(x, axis)[..., :2],
}


def draw(chosen, numbers):
    shape = [chosen.choice((1, 2, 4, 4, 8, 16, 64)) for _ in range(chosen.randint(1, 4))]
    while np.prod(shape) > 512:
        shape[shape.index(max(shape))] //= 2
    dtype = np.dtype(chosen.choice((np.float32, np.float16, ml_dtypes.bfloat16, np.int32, np.int8, np.int64)))
    return numbers.integers(-3, 4, shape).astype(dtype)


count = 0
for seed in range(int(sys.argv[1]), int(sys.argv[2])):
    chosen, numbers = random.Random(seed), np.random.default_rng(seed)
    x, name = draw(chosen, numbers), chosen.choice(list(WANTED))
    axis = chosen.randrange(x.ndim)
    if x.shape[axis] == 1 and name in ("flip", "largest") or name in ("sort", "descending", "topk"):
        axis = x.ndim - 1
    if x.shape[axis] < 2:
        continue
    wide = x.astype(np.float64) if x.dtype.kind not in "iu" else x
    want = np.asarray(WANTED[name](wide, axis))
    out = np.full(want.shape, 77, np.int32 if name.startswith("arg") else x.dtype)
    apply[(1,)](x, out, name, axis, tuple(x.shape), x.size, out.size)
    equal = np.array_equal(out.astype(np.float64), want.astype(np.float64))
    assert equal, (seed, name, x.dtype, x.shape, axis)
    count += 1
print(count)
"""


def _run(folder: Path, first: int, end: int) -> int:
    """Return the number of compared cases."""
    script = folder / "library.py"
    script.write_text(LIBRARY)
    own = {**os.environ, "TRITON_CACHE_DIR": str(folder)}
    done = subprocess.run(
        [sys.executable, script, str(first), str(end)], capture_output=True, text=True, check=False, env=own
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@needs_triton
def test_functions_along_any_axis(tmp_path: Path) -> None:
    assert _run(tmp_path, 0, 30) > 20


@needs_triton
@pytest.mark.long
def test_many_functions_along_any_axis(tmp_path: Path) -> None:
    assert _run(tmp_path, 1000, 1600) > 400
