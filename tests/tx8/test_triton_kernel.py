"""Kernels of Triton from Python: launched from their text, and by Triton itself if it is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tx8
from emulator import Fault
from emulator.chip.memories import Memories
from emulator.session import runs
from extras import needs_torch, needs_triton
from triton_functions import FUNCTIONS
from triton_launches import TEXTS
from triton_operators import OPERATORS

LARGE = TEXTS.parent / "large"


def printed(script: Path, text: str, **environment: str) -> str:
    """Return the output of a Python program, which must end with status 0."""
    script.write_text(text)
    own = {**os.environ, **environment}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, env=own)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_launch_gives_arrays_and_cycles() -> None:
    kernel = tx8.triton_kernel(TEXTS / "add_bf16.ttir")
    x, y = (np.arange(2500).astype(ml_dtypes.bfloat16) for _ in range(2))
    out = np.full(3000, -1, ml_dtypes.bfloat16)
    run = kernel.launch(3, x, y, out, 2500, threads=2)
    assert np.array_equal(out[:2500], x + y)
    assert (out[2500:] == -1).all()
    assert run.cycles > 0 and run.hazards == ()
    assert repr(kernel).startswith("<tx8.TritonKernel add(x: !tt.ptr<bf16>")


def test_a_kernel_is_compiled_once_for_each_launch() -> None:
    kernel = tx8.triton_kernel((TEXTS / "add_fp32.ttir").read_text())
    arrays = [np.zeros(64, np.float32) for _ in range(3)]
    first = kernel.program(1, *arrays, 64)
    assert kernel.program((1,), *arrays, 64) is first
    assert kernel.program((1, 1), *arrays, 63) is not first
    assert [buffer.name for buffer in first.inputs] == ["x", "y", "out"]
    assert [buffer.name for buffer in first.outputs] == ["out"]


def test_a_launch_begins_with_the_chip_of_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The memories of a program are made once; every launch finds them as they were after loading."""
    made: list[Memories] = []

    def make(*given: Any) -> Memories:
        made.append(Memories(*given))
        return made[-1]

    monkeypatch.setattr(runs, "Memories", make)
    kernel = tx8.triton_kernel(TEXTS / "add_fp32.ttir")
    cycles = set()
    for seed in range(3):
        x, y, out = np.random.default_rng(seed).standard_normal((3, 64)).astype(np.float32)
        cycles.add(kernel.launch(1, x, y, out, 64).cycles)
        assert np.array_equal(out, x + y)
    assert len(made) == len(cycles) == 1


def test_arrays_without_a_sign_are_taken() -> None:
    kernel = tx8.triton_kernel(OPERATORS / "unsigned.ttir")
    x = np.array([0, 6, 7, 199, 200, 255], np.uint8)
    below, numbers = np.zeros(6, np.int8), np.zeros(6, np.float32)
    quotients, shifted = np.zeros(6, np.uint8), np.zeros(6, np.uint8)
    kernel.launch(1, x, below, quotients, shifted, numbers, 6)
    assert below.tolist() == [1, 1, 1, 1, 0, 0]
    assert quotients.tolist() == [0, 0, 1, 28, 28, 36]
    assert shifted.tolist() == [0, 1, 1, 49, 50, 63]
    assert numbers.tolist() == x.tolist()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({0: [1.0, 2.0]}, "argument 'x' is a list: expected an array of NumPy or a tensor"),
        ({1: np.zeros(64, np.float16)}, "argument 'y' is an array of float16: expected float32"),
        ({1: np.zeros(64)}, "argument 'y' is an array of float64: expected float32"),
        ({2: np.zeros(128, np.float32)[::2]}, "argument 'out' has gaps or is read-only: give a copy"),
        ({3: "64"}, "argument 'n' is a str: expected a number"),
        ({3: 6.4}, "argument 'n' is 6.4: expected an integer of i32"),
    ],
)
def test_arguments_that_do_not_fit(changes: dict[int, object], message: str) -> None:
    kernel = tx8.triton_kernel(TEXTS / "add_fp32.ttir")
    arguments: list[object] = [*(np.zeros(64, np.float32) for _ in range(3)), 64]
    for place, value in changes.items():
        arguments[place] = value
    with pytest.raises(tx8.Error) as error:
        kernel.launch(1, *arguments)
    assert str(error.value) == f"add: {message}"


def test_float64_is_not_computed() -> None:
    text = (TEXTS / "add_fp32.ttir").read_text().replace("!tt.ptr<f32>", "!tt.ptr<f64>")
    arrays = [np.zeros(64) for _ in range(3)]
    with pytest.raises(tx8.Error) as error:
        tx8.triton_kernel(text).launch(1, *arrays, 64)
    assert str(error.value) == (
        "add: argument 'x' is an array of float64, which the chip does not compute with: pass one of "
        "float16, bfloat16, float32, int8, int16, int32, int64, bool, such as x.astype('float32')"
    )


def test_an_array_without_elements_or_without_axes() -> None:
    kernel = tx8.triton_kernel(TEXTS / "add_fp32.ttir")
    empty = [np.zeros(0, np.float32) for _ in range(3)]
    kernel.launch(2, *empty, 0)
    single = [np.array(2.5, np.float32), np.array(1, np.float32), np.zeros((), np.float32)]
    kernel.launch(1, *single, 1)
    assert single[2] == 3.5
    with pytest.raises(Fault, match=r"ebreak: pid \(0, 0, 0\): element 1 of 'x', which has 1$"):
        kernel.launch(1, *single, 2)


def test_launches_and_texts_that_do_not_fit(tmp_path: Path) -> None:
    kernel = tx8.triton_kernel(TEXTS / "add_fp32.ttir")
    with pytest.raises(tx8.Error, match=r"^add: 1 arguments, expected 4: x, y, out, n$"):
        kernel.launch(1, 5)
    arrays = [np.zeros(64, np.float32) for _ in range(3)]
    with pytest.raises(tx8.Error, match=r"^add: grid \(1, 1, 1, 1\): expected one to three extents$"):
        kernel.launch((1, 1, 1, 1), *arrays, 64)
    with pytest.raises(tx8.Error, match=r"nothing\.ttir: No such file or directory"):
        tx8.triton_kernel(tmp_path / "nothing.ttir")
    with pytest.raises(tx8.Error, match=r"^no kernel 'ad'; did you mean 'add'\?; there are add$"):
        tx8.triton_kernel(TEXTS / "add_fp32.ttir", "ad")


@needs_torch
@pytest.mark.parametrize(("fmt", "kind"), [("fp16", "float16"), ("bf16", "bfloat16"), ("fp32", "float32")])
def test_tensors_of_pytorch_get_what_is_stored(fmt: str, kind: str) -> None:
    import torch

    x, y = (torch.arange(2500).to(getattr(torch, kind)) for _ in range(2))
    out = torch.full((3000,), -1.0, dtype=x.dtype)
    tx8.triton_kernel(TEXTS / f"add_{fmt}.ttir").launch(3, x, y, out, 2500)
    assert torch.equal(out[:2500], x + y) and bool((out[2500:] == -1).all())
    with pytest.raises(tx8.Error, match="argument 'x' has gaps or is read-only: give a copy"):
        tx8.triton_kernel(TEXTS / f"add_{fmt}.ttir").launch(3, x[::2], y, out, 1250)


WITH_TENSORS = """\
import torch
import triton
import triton.language as tl


@triton.jit
def scale(x, out, n, factor, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) * factor, mask=at < n)


x = torch.arange(1000, dtype=torch.bfloat16)
out = torch.zeros_like(x)
scale[(4,)](x, out, x.numel(), 2.0, BLOCK=256)
assert torch.equal(out, x * 2)
"""


@needs_torch
@needs_triton
def test_a_function_of_triton_takes_tensors(tmp_path: Path) -> None:
    printed(tmp_path / "tensors.py", WITH_TENSORS)


PLUGIN = """\
import numpy as np
import triton
import triton.language as tl
from tx8.triton.driver import last_run


@triton.jit
def scale(x, out, n, factor, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) * factor, mask=at < n)


@triton.jit
def running(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.exp(tl.load(x + at).to(tl.float64)))


x = np.arange(1000, dtype="float32")
out = np.zeros_like(x)
scale[lambda constants: (triton.cdiv(x.size, constants["BLOCK"]),)](x, out, x.size, 2.5, BLOCK=256)
assert np.array_equal(out, x * np.float32(2.5))
assert last_run().cycles > 0
try:
    running[(1,)](x, out, BLOCK=64)
except Exception as error:
    print(error)
for kind in ("float64", "complex64", "U3", "object"):
    try:
        scale[(4,)](np.zeros(1000, kind), out, x.size, 2.5, BLOCK=256)
    except Exception as error:
        print(type(error).__name__, error)
scale[(4,)](x, out, np.int64(x.size), np.float32(0.5), BLOCK=256)
assert np.array_equal(out, x / 2)
total = np.zeros((), "float32")
scale[(1,)](x[1:2].copy(), total, 1, 3.0, BLOCK=1)
assert total == 3
"""


@needs_triton
def test_a_function_of_triton_runs_with_arrays_of_numpy(tmp_path: Path) -> None:
    said = printed(tmp_path / "plugin.py", PLUGIN)
    first, *others = said.splitlines()
    assert "(plugin.py:16): arith.extf: floats of type f64; supported are f16, bf16, f32" in first
    allowed = "float16, bfloat16, float32, int8, int16, int32, int64, bool, such as x.astype('float32')"
    for kind, line in zip(("float64", "complex64", "str96", "object"), others, strict=True):
        what = f"argument 'x' is an array of {kind}, which the chip does not compute with"
        assert line == f"TtirError {what}: pass one of {allowed}"


SAYING = """\
import numpy as np
import triton
import triton.language as tl
import tx8
from emulator import Fault


@triton.jit
def check(x, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n, other=0)
    tl.device_print("total", tl.sum(v, 0))
    tl.device_assert(v < 7, "too large")
    tl.store(x + at, v + 1, mask=at < n)


x = np.arange(7, dtype="int32")
made = check[(1,)](x, x.size, BLOCK=8, debug=True)
assert x.tolist() == list(range(1, 8))
program = tx8.triton_kernel(made.asm["ttir"]).program(1, x, x.size)
assert (__file__, 13) in program.image.lines.values()
try:
    check[(1,)](x, x.size, BLOCK=8, debug=True)
except Fault as fault:
    print(fault)
"""


@needs_triton
def test_messages_and_lines_of_a_function_of_triton(tmp_path: Path) -> None:
    """Its output is printed; a program made of its text has its lines, with the whole path."""
    script = tmp_path / "saying.py"
    # Triton keeps the text with the path that it had first.
    first, second, fault = printed(script, SAYING, TRITON_CACHE_DIR=str(tmp_path)).splitlines()
    assert (first, second) == ("tile 0 pid (0, 0, 0) total: 21", "tile 0 pid (0, 0, 0) total: 28")
    ended = f"({script}:13): ebreak: pid (0, 0, 0) idx (6): assertion failed: too large"
    assert fault.startswith("tile 0 at 0x") and fault.endswith(ended)


TUNED = """\
import numpy as np
import triton
import triton.language as tl
from tx8.triton.driver import last_run


@triton.autotune([triton.Config({"BLOCK": block}) for block in (64, 4096, 1 << 20)], key=["n"])
@triton.jit
def double(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)


x = np.arange(50000, dtype="float32")
out = np.zeros_like(x)
grid = lambda constants: (triton.cdiv(x.size, constants["BLOCK"]),)
double[grid](x, out, x.size)
assert np.array_equal(out, x * 2)
print(double.best_config.kwargs["BLOCK"])
"""


@needs_triton
def test_autotune_measures_simulated_time(tmp_path: Path) -> None:
    """Small blocks take longer, and none of the largest ones fits the scratchpad."""
    assert printed(tmp_path / "tuned.py", TUNED) == "4096\n"


MEASURED = """\
import numpy as np
import triton
import triton.language as tl
from tx8.triton.driver import last_run


@triton.jit
def double(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)


x = np.arange(50000, dtype="float32")
out = np.zeros_like(x)


def launch():
    double[(13,)](x, out, x.size, BLOCK=4096)


def twice():
    launch()
    launch()


first = triton.testing.do_bench(launch, warmup=1e-3, rep=1e-3)  # by events, as Triton measures
again = triton.testing.do_bench(launch)  # one run
assert abs(first - again) < 1e-9
assert triton.testing.do_bench(launch, quantiles=[0.2, 0.8]) == [again, again]
assert triton.testing.do_bench(launch, return_mode="all") == [again]
assert abs(triton.testing.do_bench(twice) - 2 * again) < 1e-9
report = last_run().stats.report
assert report.bound == "DDR" and 0 < report.reached < 1
assert abs(report.milliseconds - again) < 1e-9
"""


@needs_triton
def test_triton_measures_simulated_time(tmp_path: Path) -> None:
    printed(tmp_path / "measured.py", MEASURED)


@needs_triton
@pytest.mark.parametrize("folder", [TEXTS, OPERATORS, LARGE, FUNCTIONS], ids=lambda folder: folder.name)
def test_the_texts_are_those_of_triton(folder: Path, tmp_path: Path) -> None:
    """The examples' texts equal the installed Triton's output for their functions."""
    script = "kernels.py" if folder == TEXTS else f"{folder.name}.py"
    for name in ("kernels.py", "operators.py", "large.py", "functions.py"):
        (tmp_path / name).write_text((folder.parent / name).read_text())
    (tmp_path / folder.name).mkdir()
    subprocess.run([sys.executable, tmp_path / script], check=True, capture_output=True)
    made = {path.name: path.read_text() for path in (tmp_path / folder.name).iterdir()}
    assert made == {path.name: path.read_text() for path in folder.iterdir()}


JUDGED = """\
import sys
import triton
import triton.language as tl


@triton.jit
def twice(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)


if __name__ == "__main__":
    from tx8.judge.judge import judge
    from tx8.judge.spec import Spec
    import numpy as np

    inputs = {"x": ("float16", 700), "out": np.zeros(700, "float16"), "n": 700, "BLOCK": 256}
    for factor in (2, 3):
        spec = Spec("spec.py", lambda x: {"out": x * factor}, inputs, grid=3)
        print(judge(sys.argv[0], spec).outcome)
"""


@needs_triton
def test_the_judge_takes_a_function_of_triton(tmp_path: Path) -> None:
    assert printed(tmp_path / "judged.py", JUDGED).split() == ["passed", "wrong"]
