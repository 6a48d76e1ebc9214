"""Functions that become machine code without Numba have the same results as in plain Python."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy import float64

from emulator import native
from emulator.engines import tables
from emulator.engines.expected import all_slots
from emulator.engines.slots import Slots
from emulator.native.direct.compile import compile_directly
from emulator.native.direct.functions import Functions
from emulator.native.direct.values import Untranslatable
from emulator.native.inline import with_constants
from emulator.native.loader import load_object
from emulator.native.primitives.float32 import bits_f32, f32_bits, f32_to_fp16, fp16_to_f32, single
from emulator.native.primitives.memory import (
    copy_bytes,
    get,
    put,
    view_f32,
    view_f64,
    view_i64,
    view_u8,
    view_u16,
    view_u32,
)
from emulator.native.primitives.threads import atomic_add, atomic_load, relax
from machine_code import needs_jit
from paths import ROOT
from tx8isa.numbers.primitives import bits64, from_bits64, s64, u64

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


def steps(a: int, b: int) -> int:
    total, step = 0, (b & 3) - 4
    for i in range(0, a & 31, 3):
        total = 5 * total + i
    for i in range(a & 31, -2, -2):
        total = 7 * total + i
    for i in range(20, a & 7, step):
        total = 3 * total + i
    for k in range(u64(1), u64(a & 15), u64(2)):
        total += s64(k)
    return s64(u64(total))


def floats(a: int, b: int) -> int:
    x, y = float(a), from_bits64(b)
    scaled = 2.0**-3 * x - y if y == y else abs(x) / 3.0
    chosen = 1.0 if a > b else 0.0
    either = -0.0 if a > b else 0.0
    branched = float(adds(a & 15)) if b > 3 else -0.0
    return bits64(scaled) ^ bits64(chosen) ^ bits64(either) << 1 ^ bits64(branched) ^ int(bool(x < y))


def narrow_floats(a: int, b: int) -> int:
    x, y = bits_f32(a & 0x7F7FFFFF), single(b & 0x3FF)
    total = x * single(0.5) + y
    wide = float64(total) + 1.5
    return f32_bits(total) ^ f32_to_fp16(-y) << 32 ^ bits64(float(fp16_to_f32(a))) ^ bits64(wide)


FUNCTIONS: dict[str, Callable[[int, int], int]] = {
    function.__name__: function
    for function in (
        *(collatz, rounds_down, compares, extremes, several, turns, widens),
        *(steps, floats, narrow_floats),
    )
}
FUNCTIONS |= {"closure": make_closure(adds, 3), "other closure": make_closure(adds, 1)}


def compiled(function: Callable[..., int], arguments: int) -> Callable[..., int]:
    prototype = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * arguments)
    return prototype(load_object(compile_directly(function, arguments), function.__name__))


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


def converts(address: int, count: int) -> int:
    """Views of both float types, and integers that are read from narrow views."""
    halves, singles, doubles = (
        view_u16(address, count),
        view_f32(address, count),
        view_f64(address + 64, count),
    )
    for i in range(u64(count)):
        doubles[i] = float64(singles[i]) * 0.1
    for i in range(u64(count)):
        singles[i] = single(0.5) if s64(halves[i]) & 1 else single(doubles[i])
    largest = 0
    for k in range(count):
        value = halves[k]
        largest = max(largest, s64(value)) if value > 5 else largest
    return largest


def test_views_of_floats_and_narrow_integers() -> None:
    start = np.random.default_rng(3).integers(0, 1 << 30, 32, np.int64)
    expected, found = start.copy(), start.copy()
    assert compiled(converts, 2)(found.ctypes.data, 7) == converts(expected.ctypes.data, 7)
    assert found.tobytes() == expected.tobytes() != start.tobytes()


def make_choice(function: Callable[[int], int]) -> Callable[[int, int], int]:
    def choice(a: int, b: int) -> int:
        return function(a) if b > 3 else 0

    return choice


def stores(address: int) -> int:
    put(address, 0, 7)
    return 1


def test_what_is_harmless_in_one_closure_is_executed_only_where_it_is_chosen_in_another() -> None:
    word = np.zeros(1, np.int64)
    assert compiled(make_choice(s64), 2)(word.ctypes.data, 4) == word.ctypes.data
    assert compiled(make_choice(stores), 2)(word.ctypes.data, 3) == 0
    assert word[0] == 0
    assert compiled(make_choice(stores), 2)(word.ctypes.data, 4) == 1
    assert word[0] == 7


def halved(x: float) -> float:
    """Half of a number."""
    return x * 0.5


def test_a_copy_with_other_constants_is_translated_with_them() -> None:
    body: Any = with_constants(halved, lambda value: np.float32(0.25) if value == 0.5 else value, {})

    def quarter(bits: int) -> int:
        return f32_bits(body(bits_f32(bits)))

    machine = compiled(quarter, 1)
    assert [machine(f32_bits(np.float32(x))) for x in (8, -3)] == [
        f32_bits(np.float32(x)) for x in (2, -0.75)
    ]


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


def mixes(a: int) -> int:
    return int(single(a) * 2.0)


def rounds_into_a_view(a: int) -> int:
    view_f32(a, 1)[0] = 0.1
    return 0


def adds_narrow(a: int) -> int:
    halves = view_u16(a, 2)
    first, second = halves[0], halves[1]
    return s64(first - second)


def stands_still(a: int) -> int:
    for i in range(3, a, 0):
        a += i
    return a


def remainder(a: int) -> int:
    return divmod(a, 3)[1]


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (endless, "'endless' calls itself; use a loop"),
        (rounded, "'f32_to_fp16' with operands of kinds i"),
        (mixes, "a number with a fraction where an integer is expected"),
        (rounds_into_a_view, "a number of kind d in a view of kind f"),
        (adds_narrow, "arithmetic on a value from a narrow view"),
        (stands_still, "a range whose numbers are all the same"),
        (changes, "'value' is of kind d and i"),
        (unsigned_or_not, "'value' is of kind u and i"),
        (remainder, "the text of <built-in function divmod> is not known"),
        (abs, "the text of <built-in function abs> is not known"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_is_not_known_is_refused(function: Callable[..., int], reason: str) -> None:
    with pytest.raises(Untranslatable) as refused:
        compile_directly(function, 1)
    assert str(refused.value).startswith(reason)


def test_numba_compiles_what_is_not_known() -> None:
    for number in (10, -10):
        kernel = native.compile_kernel(remainder, "remainder", 1)
        assert native.call(kernel, number) == remainder(number)


def translate(slots: Sequence[int], monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Write the kernels of some slots as LLVM text; their names."""
    written: set[str] = set()

    def write(function: Callable[..., int], name: str, arguments: int, **_: bool) -> int:
        if name not in written:
            Functions().module(function, arguments)
        written.add(name)
        return 0

    monkeypatch.setattr(native, "compile_kernel", write)
    for slot in slots:
        Slots().compile(slot)
    return written


def test_kernels_are_known_without_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(translate(all_slots()[::9], monkeypatch)) > 50


@pytest.mark.long
def test_all_kernels_are_known_without_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    slots = all_slots()
    others = [slot + tables.ROUNDED for slot in slots] + [slot + tables.CHECKED for slot in slots]
    assert len(translate([*slots, *others], monkeypatch)) > 1000


PROGRAM = """
import sys
from emulator.cli import main
assert main(sys.argv[1:]) == 0
print("numba" in sys.modules)
"""


ENGINES = """
_start: td.memset.fp16 dst=0x10000, value=0x3c00, n=0x2000
    ncc.wait
    ne.gemm.fp16 a=0x10000, b=0x12000, out=0x14000, m=8, k=16, n=8
    ncc.wait
    ct.exp.v.fp16 dst=0x16000, src0=0x14000, n=64
    ncc.wait
    li a0, 0
    li a7, 93
    ecall
"""


@pytest.mark.long
@needs_jit
@pytest.mark.parametrize("option", [(), ("--strict",), ("--stats",), ("--ne-post", "proposed")], ids=str)
def test_a_first_run_needs_no_numba(tmp_path: Path, option: tuple[str, ...]) -> None:
    source, image = tmp_path / "engines.s", tmp_path / "engines.bin"
    source.write_text(ENGINES)
    environment: dict[str, Any] = {**os.environ, "TX8_CACHE_DIR": str(tmp_path / "cache")}
    made = "import sys; from asm.cli import assemble_main; sys.exit(assemble_main())"
    subprocess.run([sys.executable, "-c", made, "-q", source, "-o", image], check=True, cwd=ROOT)
    run = [sys.executable, "-c", PROGRAM, str(image), *option]
    done = subprocess.run(run, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1:] == ["False"], done.stderr
    assert len(list((tmp_path / "cache").rglob("*.o"))) > 3
