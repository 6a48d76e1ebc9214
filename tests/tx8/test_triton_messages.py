"""Lines that kernels of Triton write, and messages when they stop: program, element and line of Python."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tx8
from emulator import Fault
from triton_launches import DTYPES
from triton_operators import OPERATORS

Array = np.ndarray[Any, Any]


def _printing(kind: str, values: Array) -> list[str]:
    """Return a kernel's output for the numbers of an array, without the prefix."""
    n, block = values.size, f"tensor<{values.size}x{kind}>"
    pointers = f"tensor<{n}x!tt.ptr<{kind}>>"
    text = f"""module {{
  tt.func public @show(%x: !tt.ptr<{kind}>) {{
    %at = tt.make_range {{end = {n} : i32, start = 0 : i32}} : tensor<{n}xi32>
    %xs = tt.splat %x : !tt.ptr<{kind}> -> {pointers}
    %xat = tt.addptr %xs, %at : {pointers}, tensor<{n}xi32>
    %v = tt.load %xat : {pointers}
    tt.print " x: " {{hex = false, isSigned = array<i32: 1>}} : %v : {block}
    tt.return
  }}
}}
"""
    run = tx8.triton_kernel(text).launch(1, values, timed=False)
    lines = run.printed.splitlines()
    begins = [f"tile 0 pid (0, 0, 0) idx ({index}) x: " for index in range(n)]
    assert [line[: len(begin)] for line, begin in zip(lines, begins, strict=True)] == begins
    return [line[len(begin) :] for line, begin in zip(lines, begins, strict=True)]


def test_floats_are_shown_with_nine_correct_digits() -> None:
    """Numbers of all magnitudes, halves of the last digit, infinities and NaN, against Python."""
    bits = np.random.default_rng(1).integers(0, 1 << 32, 1000, np.uint32).view(np.float32)
    powers = np.float32(2.0) ** np.arange(-149, 128, dtype=np.float32)
    halves = np.arange(33554431, 33554431 - 200, -2).astype(np.float32) / np.float32(2)
    edges = [0.0, -0.0, np.inf, -np.inf, np.nan, 999999999.9, 9.9999999e8, 1e9, 3.4028235e38, 1e-45]
    numbers = np.concatenate([bits, powers, -powers, halves, np.array(edges, np.float32)])
    numbers = np.resize(numbers, 2048)
    assert _printing("f32", numbers) == [f"{float(number):.8e}" for number in numbers]


@pytest.mark.parametrize("fmt", ["fp16", "bf16"])
def test_short_floats_are_shown_as_what_they_are(fmt: str) -> None:
    numbers = (np.random.default_rng(2).standard_normal(64) * 100).astype(DTYPES[fmt])
    kind = {"fp16": "f16", "bf16": "bf16"}[fmt]
    assert _printing(kind, numbers) == [f"{float(number):.8e}" for number in numbers]


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_integers_are_shown(bits: int) -> None:
    least, most = -(1 << bits - 1), (1 << bits - 1) - 1
    if bits == 64:
        least, most = -(1 << 46), (1 << 46) - 1
    numbers = np.array([0, 1, -1, 9, 10, 99, -100, 101, least, least + 1, most, most - 1, 5, 6, 7, 8])
    assert _printing(f"i{bits}", numbers.astype(f"int{bits}")) == [str(number) for number in numbers]


def _expected(x: Array, n: int, tile: int) -> list[str]:
    """Return the expected output of the kernel ``messages`` for eight numbers."""
    places = range(8 * tile, 8 * tile + 8)
    v = [float(x[at]) if at < n else 0.0 for at in places]
    lines = ["begin"]
    lines += [f"idx ({i}) v: {number:.8e}" for i, number in enumerate(v)]
    total = float(np.array(v).sum())
    lines += [f"total, n: (operand 0) {total:.8e}", f"total, n: (operand 1) {n}"]
    lines += [f"idx (0, {i}) at: {at:#x}" for i, at in enumerate(places)]
    lines += [f"idx ({i}) small: (operand 0) {at - 4}" for i, at in enumerate(places)]
    lines += [f"idx ({i}) small: (operand 1) {(at - 4) % 256}" for i, at in enumerate(places)]
    lines += [f"idx ({i}) small: (operand 2) {int(at < 3)}" for i, at in enumerate(places)]
    return [f"tile {tile} pid ({tile}, 0, 0) {line}" for line in lines]


@pytest.mark.parametrize("fmt", list(DTYPES))
@pytest.mark.parametrize("threads", [1, 2])
def test_lines_name_tile_program_and_index(fmt: str, threads: int) -> None:
    kernel = tx8.triton_kernel(OPERATORS / f"messages_{fmt}.ttir")
    x = (np.arange(20) / 8).astype(DTYPES[fmt])
    run = kernel.launch(3, x, 20, threads=threads)
    wanted = [line for tile in range(3) for line in _expected(x, 20, tile)]
    assert run.printed.splitlines() == wanted
    assert run.hazards == ()


def test_an_assertion_stops_the_program_with_its_message(capsys: pytest.CaptureFixture[str]) -> None:
    kernel = tx8.triton_kernel(OPERATORS / "messages_fp32.ttir")
    x = np.zeros(24, np.float32)
    x[13] = 3
    with pytest.raises(Fault) as error:
        kernel.launch((3, 1), x, 24)
    line = 1 + next(
        number
        for number, text in enumerate((OPERATORS.parent / "operators.py").read_text().splitlines())
        if "device_assert" in text
    )
    wanted = r"ebreak: pid \(1, 0, 0\) idx \(5\): assertion failed: too large$"
    error.match(rf"^tile 1 at 0x\w+ \(operators\.py:{line}\): {wanted}")
    printed = capsys.readouterr()
    assert "tile 1 pid (1, 0, 0) idx (5) v: 3.00000000e+00\n" in printed.out  # its earlier output is shown
    assert "assertion" not in printed.out + printed.err


def test_an_element_outside_of_its_array_is_named() -> None:
    kernel = tx8.triton_kernel(OPERATORS / "embedding_bf16.ttir")
    ids, table = np.arange(20), np.zeros((30, 60), ml_dtypes.bfloat16)
    ids[13] = 30
    with pytest.raises(Fault) as error:
        kernel.launch((3, 1), ids, table, np.zeros((20, 60), ml_dtypes.bfloat16), 20, 60)
    error.match(r"operators\.py:\d+\): ebreak: pid \(1, 0, 0\): element 1800 of 'table', which has 1800$")


def _refused(lines: str) -> str:
    text = f"module {{\n  tt.func public @f(%x: !tt.ptr<f32>) {{\n{lines}\n    tt.return\n  }}\n}}\n"
    with pytest.raises(tx8.Error) as error:
        tx8.triton_kernel(text).program(1, np.zeros(8, np.float32))
    return str(error.value)


def test_what_is_not_shown() -> None:
    pointer = '    tt.print " x: " {hex = false, isSigned = array<i32: 0>} : %x : !tt.ptr<f32>'
    assert _refused(pointer).endswith("tt.print: shows numbers and truth values, not !tt.ptr<f32>")
    digits = (
        "    %c = arith.constant 1.5 : f32\n"
        '    tt.print " c: " {hex = true, isSigned = array<i32: 0>} : %c : f32'
    )
    assert _refused(digits).endswith(
        "tt.print: hexadecimal digits of floats; supported are those of integers"
    )


def test_texts_of_the_user_stay_one_line() -> None:
    text = (
        "module {\n  tt.func public @f(%x: !tt.ptr<f32>) {\n"
        '    tt.print "a\\01b\\0A\\22c\\22\\5C \\C3\\A9" {hex = false, isSigned = array<i32>}\n'
        f'    tt.print "{"z" * 2000}" {{hex = false, isSigned = array<i32>}}\n'
        "    %c = arith.constant 1.5 : f32\n    tt.store %x, %c : !tt.ptr<f32>\n"
        "    tt.return\n  }\n}\n"
    )
    first, second = tx8.triton_kernel(text).launch(1, np.zeros(8, np.float32)).printed.splitlines()
    assert first == 'tile 0 pid (0, 0, 0)a?b?"c"\\ é'
    assert second == f"tile 0 pid (0, 0, 0){'z' * 300}"
