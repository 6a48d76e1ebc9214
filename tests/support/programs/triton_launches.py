"""Launches of kernels of Triton: the examples with their references in NumPy, and small texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

import emulator
from compiler.frontend.triton.kernels.launch import KernelLaunch
from compiler.frontend.triton.kernels.program import KernelProgram, compile_kernel
from compiler.frontend.triton.reader import parse_kernels, read_kernels
from paths import ROOT
from tx8isa.machine.description import Machine

Array = np.ndarray[Any, Any]

TEXTS = ROOT / "examples/triton/ttir"
DTYPES = {"fp16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16), "fp32": np.dtype(np.float32)}
"""Types of arrays by the formats in the names of the texts."""
ROUNDING = {"fp16": 2.0**-10, "bf16": 2.0**-7, "fp32": 2.0**-20}
"""Tolerance of a result after a few roundings, relative to the largest number."""
PRODUCTS = {"fp16": 2.0**-9, "bf16": 2.0**-6, "fp32": 2.0**-9}
"""The same for products of matrices, whose operands in FP32 are rounded to TF32."""


@dataclass(frozen=True)
class Case:
    """A launch of a text: its arguments in order, the expected arrays, and their tolerances."""

    text: str
    grid: tuple[int, int, int]
    arguments: Mapping[str, Any]
    expected: Mapping[str, Array]
    allowed: Mapping[str, float] = field(default_factory=dict)
    """By the names of arrays, of the largest number; exact without an entry."""
    folder: Path = TEXTS

    @property
    def arrays(self) -> dict[str, Array]:
        """The arguments that are arrays."""
        return {name: value for name, value in self.arguments.items() if isinstance(value, np.ndarray)}

    def program(self, tiles: int | None = None, machine: Machine | None = None) -> KernelProgram:
        """The compiled launch; arrays that are stored to are inputs as well."""
        (kernel,) = read_kernels(self.folder / f"{self.text}.ttir")
        numbers = {name: value for name, value in self.arguments.items() if name not in self.arrays}
        shapes = {name: array.shape for name, array in self.arrays.items()}
        return compile_kernel(kernel, KernelLaunch(self.grid, shapes, numbers, tiles, kept=True), machine)

    def check(self, results: Mapping[str, Array]) -> None:
        """Compare the results of a run with the expected ones."""
        assert set(results) == set(self.expected)
        for name, want in self.expected.items():
            got, want = (np.asarray(each, np.float64) for each in (results[name], want))
            off = float(np.abs(got - want).max())
            assert off <= self.allowed.get(name, 0.0) * float(np.abs(want).max()), (name, off)


def travelling(arrays: Mapping[str, Array], program: emulator.Program) -> dict[str, Array]:
    """The arrays that are inputs of a program, in the types in which they travel."""
    names = {buffer.name for buffer in program.inputs}
    return {
        name: array.astype(np.float32) if array.dtype == ml_dtypes.bfloat16 else array
        for name, array in arrays.items()
        if name in names
    }


def case_in(
    folder: Path,
    name: str,
    fmt: str,
    grid: tuple[int, int, int],
    arguments: Mapping[str, Any],
    expected: Mapping[str, Array],
    allowed: Mapping[str, float] | None = None,
) -> Case:
    """The case of a text of a folder, which is named after the kernel and its format, if that has one."""
    return Case(f"{name}_{fmt}" if fmt else name, grid, arguments, expected, allowed or {}, folder)


def run(case: Case, program: KernelProgram, **options: Any) -> dict[str, Array]:
    """Run and return the arrays; with ``strict`` it must have no hazard."""
    loaded = emulator.Program(program.image, program.machine)
    results = loaded.run(travelling(case.arrays, loaded), **options)
    assert loaded.hazards == ()
    return results


_BANK = 4096
_POISON = 0xFF
"""Bytes of NaN in every format of floats, and of -1."""


def run_among_poison(case: Case, program: KernelProgram, **options: Any) -> dict[str, Array]:
    """Run with NaN, or -1, in the bytes between the arrays, which must not change; return the arrays."""
    loaded = emulator.Program(program.image, program.machine)
    system = loaded.start(travelling(case.arrays, loaded), **options)
    gaps = []
    for key, array in list(case.arrays.items())[:-1]:
        end = program.addresses[key] + array.nbytes
        gaps.append(system.ddr_range(end, -end % _BANK))
        gaps[-1][:] = _POISON
    system.run()
    assert all((gap == _POISON).all() for gap in gaps)
    return loaded.results(system)


def run_twice(case: Case) -> dict[str, Array]:
    """Run and return the arrays: no hazard, the same bytes on two threads and with NaN around them."""
    program = case.program()
    results = run(case, program, strict=True)
    for key, other in run_among_poison(case, program, threads=2).items():
        assert other.tobytes() == results[key].tobytes(), key
    return results


def draw(fmt: str, *shape: int, seed: int = 1, scale: float = 1.0, middle: float = 0.0) -> Array:
    """Normally distributed numbers in a format."""
    numbers = np.random.default_rng(seed).standard_normal(shape) * scale + middle
    return numbers.astype(DTYPES[fmt])


def poison(fmt: str, *shape: int) -> Array:
    """An array of NaN, for results, so that untouched elements remain NaN."""
    return np.full(shape, np.nan, DTYPES[fmt])


def wide(array: Array) -> Array:
    """The numbers in binary64."""
    return array.astype(np.float64)


def launched(
    body: str, parameters: Sequence[str], grid: tuple[int, int, int] = (1, 1, 1), **arguments: Any
) -> dict[str, Array]:
    """Run a kernel whose operations are ``body`` and whose parameters are written as in TTIR."""
    program = compiled(body, parameters, grid, **arguments)
    loaded = emulator.Program(program.image, program.machine)
    arrays = {name: value for name, value in arguments.items() if isinstance(value, np.ndarray)}
    results = loaded.run(travelling(arrays, loaded), strict=True)
    assert loaded.hazards == ()
    return results


def compiled(
    body: str,
    parameters: Sequence[str],
    grid: tuple[int, int, int] = (1, 1, 1),
    machine: Machine | None = None,
    **arguments: Any,
) -> KernelProgram:
    """The program of such a kernel."""
    listed = ", ".join(f"%{parameter}" for parameter in parameters)
    text = f"module {{\n  tt.func public @kernel({listed}) {{\n{body}\n    tt.return\n  }}\n}}\n"
    (kernel,) = parse_kernels(text, "kernel.ttir")
    arrays = {name: value.shape for name, value in arguments.items() if isinstance(value, np.ndarray)}
    numbers = {name: value for name, value in arguments.items() if name not in arrays}
    return compile_kernel(kernel, KernelLaunch(grid, arrays, numbers, kept=True), machine)


# --- the examples -----------------------------------------------------------------------------------------


def _add(fmt: str) -> Case:
    x, y = draw(fmt, 3001, seed=1), draw(fmt, 3001, seed=2)
    arguments = {"x": x, "y": y, "out": poison(fmt, 3001), "n": 3001}
    return Case(f"add_{fmt}", (3, 1, 1), arguments, {"out": x + y})


def _gelu(fmt: str) -> Case:
    x = draw(fmt, 1501, scale=2.0)
    v = wide(x)
    want = 0.5 * v * (1 + np.tanh(0.7978845608 * (v + 0.044715 * v**3)))
    return Case(
        f"gelu_{fmt}", (3, 1, 1), {"x": x, "out": poison(fmt, 1501), "n": 1501}, {"out": want},
        {"out": ROUNDING[fmt]},
    )  # fmt: skip


def _choose(fmt: str) -> Case:
    x, y = draw(fmt, 1001, seed=1), draw(fmt, 1001, seed=2)
    picked = (wide(x) > 0.25) & (np.arange(1001) >= 500)
    want = np.where(picked, x, np.minimum(y, DTYPES[fmt].type(1)))
    arguments = {"x": x, "y": y, "out": poison(fmt, 1001), "n": 1001, "low": 0.25}
    return Case(f"choose_{fmt}", (4, 1, 1), arguments, {"out": want})


def _softmax_of(x: Array) -> Array:
    e = np.exp(wide(x) - wide(x).max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


def _softmax(fmt: str) -> Case:
    """Rows of a matrix with more columns, which hold NaN."""
    x, out = poison(fmt, 37, 800), poison(fmt, 37, 800)
    x[:, :781] = draw(fmt, 37, 781)
    want = wide(out)
    want[:, :781] = _softmax_of(x[:, :781])
    arguments = {"x": x, "out": out, "row_step": 800, "rows": 37, "columns": 781}
    return Case(f"softmax_{fmt}", (8, 1, 1), arguments, {"out": want}, {"out": ROUNDING[fmt]})


def _softmax_block(fmt: str, columns: int, suffix: str) -> Case:
    x = draw(fmt, 37, columns)
    arguments = {"x": x, "out": poison(fmt, 37, columns), "rows": 37, "columns": columns}
    want = {"out": _softmax_of(x)}
    return Case(f"softmax_block_{fmt}{suffix}", (3, 1, 1), arguments, want, {"out": ROUNDING[fmt]})


def _layer_norm(fmt: str) -> Case:
    x, scale, shift = draw(fmt, 11, 781), draw(fmt, 781, seed=2), draw(fmt, 781, seed=3)
    middle = wide(x).mean(1)
    factor = 1 / np.sqrt(wide(x).var(1) + 1e-5)
    want = (wide(x) - middle[:, None]) * factor[:, None] * wide(scale) + wide(shift)
    arguments = {
        **{"x": x, "scale": scale, "shift": shift, "out": poison(fmt, 11, 781)},
        **{"mean": poison("fp32", 11), "rstd": poison("fp32", 11), "columns": 781, "eps": 1e-5},
    }
    expected = {"out": want, "mean": middle, "rstd": factor}
    allowed = {"out": ROUNDING[fmt], "mean": ROUNDING["fp32"], "rstd": ROUNDING["fp32"]}
    return Case(f"layer_norm_{fmt}", (11, 1, 1), arguments, expected, allowed)


def _reduce_axes(fmt: str) -> Case:
    x = draw(fmt, 29, 101, scale=0.1, middle=1.0)
    arguments = {
        **{"x": x, "largest": poison(fmt, 29), "smallest": poison(fmt, 101), "products": poison(fmt, 101)},
        **{"rows": 29, "columns": 101},
    }
    expected = {"largest": x.max(1), "smallest": x.min(0), "products": wide(x).prod(0)}
    return Case(f"reduce_axes_{fmt}", (1, 1, 1), arguments, expected, {"products": 4 * ROUNDING[fmt]})


def _transpose(fmt: str) -> Case:
    x = draw(fmt, 100, 333)
    arguments = {"x": x, "out": poison(fmt, 333, 100), "rows": 100, "columns": 333}
    return Case(f"transpose_{fmt}", (2, 6, 1), arguments, {"out": x.T})


def _matmul(fmt: str, sizes: tuple[int, int, int], blocks: tuple[int, int], suffix: str) -> Case:
    m, n, k = sizes
    a, b = draw(fmt, m, k, seed=1), draw(fmt, k, n, seed=2)
    want = wide(a) @ wide(b)
    if suffix:
        want = np.where(want >= 0, want, 0.01 * want)
    arguments = {
        **{"a": a, "b": b, "c": poison(fmt, m, n), "m": m, "n": n, "k": k},
        **{"a_step": k, "b_step": n, "c_step": n},
    }
    programs = -(-m // blocks[0]) * -(-n // blocks[1])
    return Case(f"matmul_{fmt}{suffix}", (programs, 1, 1), arguments, {"c": want}, {"c": PRODUCTS[fmt]})


def _attention(fmt: str, suffix: str) -> Case:
    heads, length, width = 2, 150, 64
    q, k, v = (draw(fmt, heads, length, width, seed=seed) for seed in (1, 2, 3))
    scores = wide(q) @ wide(k).transpose(0, 2, 1) / 8
    if suffix:
        scores = np.where(np.tril(np.ones((length, length))), scores, -np.inf)
    arguments = {
        **{"q": q, "k": k, "v": v, "out": poison(fmt, heads, length, width)},
        **{"length": length, "scale": float(np.log2(np.e) / 8)},
    }
    expected = {"out": _softmax_of(scores) @ wide(v)}
    return Case(f"attention_{fmt}{suffix}", (3, heads, 1), arguments, expected, {"out": PRODUCTS[fmt]})


_MADE: dict[str, Callable[[str], Case]] = {
    "add": _add,
    "gelu": _gelu,
    "choose": _choose,
    "softmax": _softmax,
    "softmax_block": lambda fmt: _softmax_block(fmt, 101, ""),
    "softmax_block_narrow": lambda fmt: _softmax_block(fmt, 13, "_narrow"),
    "layer_norm": _layer_norm,
    "reduce_axes": _reduce_axes,
    "transpose": _transpose,
    "matmul": lambda fmt: _matmul(fmt, (150, 333, 203), (64, 128), ""),
    "matmul_even": lambda fmt: _matmul(fmt, (128, 256, 128), (64, 128), ""),
    "matmul_small": lambda fmt: _matmul(fmt, (17, 45, 99), (32, 32), "_leaky"),
    "attention": lambda fmt: _attention(fmt, ""),
    "attention_causal": lambda fmt: _attention(fmt, "_causal"),
}

CASES = [(name, fmt) for name in _MADE for fmt in DTYPES]
"""Names and formats of all cases."""


def case(name: str, fmt: str) -> Case:
    """The case of a name in a format."""
    return _MADE[name](fmt)
