"""Functions that become machine code without Numba do what they do in plain Python."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from emulator import native
from emulator.native.direct.compile import compile_directly
from emulator.native.direct.values import Untranslatable
from emulator.native.loader import load_object
from emulator.native.primitives.float32 import f32_to_fp16
from emulator.native.primitives.memory import copy_bytes, get, put, view_i64, view_u8, view_u32
from emulator.native.primitives.threads import atomic_add, atomic_load, relax
from paths import ROOT
from tx8isa.numbers.primitives import s64, u64

NUMBERS = (0, 1, 2, 3, 7, 255, 1 << 31, (1 << 62) + 5, -1, -2, -7, -(1 << 31), -(1 << 63))
SIZES = (3, 5, 8, 13)


def collatz(a: int, b: int) -> int:
    steps = 0
    a = a & 0xFFFF
    while a > 1:
        if a % 2 == 0:
            a //= 2
        else:
            a = 3 * a + 1
        steps += 1
        if steps == 100:
            break
    return steps


def rounds_down(a: int, b: int) -> int:
    divisor = (b | 1) & 0xFFFF
    return a // divisor ^ a % divisor ^ (a >> 1) // -divisor


def compares(a: int, b: int) -> int:
    found = a < b or (a == 7 and b != 2)
    if u64(a) < u64(b):
        found = not found
    return 2 * int(found) + (1 if a in (0, 7, 255) else 0)


def extremes(a: int, b: int) -> int:
    return min(a, b, 5) ^ max(a, 3) ^ abs(b & 0xFFFF) ^ len(SIZES)


def pair(a: int, b: int = 4) -> tuple[int, int]:
    return (a & 255, b) if a > 3 else (b, 9)


def several(a: int, b: int) -> int:
    first, second = pair(a)
    both = pair(b, a)
    first, second = second, first
    return s64(u64(first * 3) ^ u64(second)) ^ both[0] ^ SIZES[b & 3]


def turns(a: int, b: int) -> int:
    total, last = 0, 0
    for i in range(a & 7):
        if i == 2:
            continue
        for k in range(u64(1), u64(b & 3)):
            total += s64(k) * i
            i = 0
        last = i
    for i in range(3):
        if b == i:
            return total
    return 8 * total + last


def widens(a: int, b: int) -> int:
    found = a == b
    if a > b:
        found = 5  # type: ignore[assignment]
    return is_small(found)


def is_small(value: int) -> bool:
    return value < 3


def make_closure(step: Callable[[int], int], amount: int) -> Callable[[int, int], int]:
    def closure(a: int, b: int) -> int:
        return step(a) if amount > 2 else step(b)

    return closure


def adds(value: int) -> int:
    return s64(u64(value + 5))


FUNCTIONS: dict[str, Callable[[int, int], int]] = {
    function.__name__: function
    for function in (collatz, rounds_down, compares, extremes, several, turns, widens)
}
FUNCTIONS |= {"closure": make_closure(adds, 3), "other closure": make_closure(adds, 1)}


def compiled(function: Callable[..., int], arguments: int) -> Callable[..., int]:
    prototype = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * arguments)
    return prototype(load_object(compile_directly(function, arguments)))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_same_numbers_as_plain_python(name: str) -> None:
    machine = compiled(FUNCTIONS[name], 2)
    for a in NUMBERS:
        for b in NUMBERS:
            assert machine(a, b) == s64(int(FUNCTIONS[name](a, b))), (a, b)


def edits(address: int, count: int) -> int:
    words, narrow = view_i64(address, count), view_u32(address, 2 * count)
    for i in range(u64(count)):
        words[i] = s64(words[i]) + s64(i)
    narrow[u64(1)] = s64(narrow[u64(0)]) + (1 << 32)
    view_u8(address + 8, 1)[u64(0)] = 0x1FF
    put(address, 2, get(address, 0) - 1)
    copy_bytes(address + 24, address, 16)
    relax(2000)
    return atomic_add(address, 3) * 1000 + atomic_load(address)


def test_memory_and_threads() -> None:
    start = np.arange(100, 106, dtype=np.int64)
    expected, found = start.copy(), start.copy()
    result = edits(expected.ctypes.data, 6)
    assert compiled(edits, 2)(found.ctypes.data, 6) == result
    assert found.tolist() == expected.tolist()
    assert found.tolist() != start.tolist()


def endless(a: int) -> int:
    return endless(a) + 1


def rounded(a: int) -> int:
    return f32_to_fp16(a)


def changes(a: int) -> int:
    value = 1.5
    if a > 2:
        value = a
    return int(value)


def unsigned_or_not(a: int) -> int:
    value = u64(a)
    if a > 2:
        value = a
    return s64(value)


def halves(a: int) -> int:
    for i in range(0, a, 2):
        a += i
    return a


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (endless, "'endless' calls itself; use a loop"),
        (rounded, "the text of <function f32_to_fp16"),
        (changes, "'value' is of kind d and i"),
        (unsigned_or_not, "'value' is of kind u and i"),
        (halves, "a range with steps"),
        (abs, "the text of <built-in function abs> is not known"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_is_not_known_is_refused(function: Callable[..., int], reason: str) -> None:
    with pytest.raises(Untranslatable) as refused:
        compile_directly(function, 1)
    assert str(refused.value).startswith(reason)


def test_numba_compiles_what_is_not_known() -> None:
    native.compile_kernel(halves, "halves", 1, directly=True)
    assert native.call(native.compile_kernel(halves, "halves", 1, directly=True), 10) == halves(10)


PROGRAM = """
import sys
from emulator.cli import main
assert main(sys.argv[1:]) == 0
print("numba" in sys.modules)
"""


@pytest.mark.parametrize("option", [(), ("--strict",), ("--stats",)], ids=str)
def test_a_first_run_without_vector_instructions_needs_no_numba(
    tmp_path: Path, option: tuple[str, ...]
) -> None:
    image = tmp_path / "hello.bin"
    environment: dict[str, Any] = {**os.environ, "TX8_CACHE_DIR": str(tmp_path / "cache")}
    source = ROOT / "examples" / "assembly" / "hello.s"
    made = "import sys; from asm.cli import assemble_main; sys.exit(assemble_main())"
    subprocess.run([sys.executable, "-c", made, "-q", source, "-o", image], check=True, cwd=ROOT)
    run = [sys.executable, "-c", PROGRAM, str(image), *option]
    done = subprocess.run(run, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1:] == ["False"], done.stderr
    assert "hello from tile 15" in done.stdout
    assert list((tmp_path / "cache").rglob("*.o"))
