"""Python functions as machine code: the statements that bodies of instructions are written in."""

from __future__ import annotations

import ctypes
import importlib
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chip_bench import EDGES
from emulator.core.translate.frame import ENTRY
from emulator.core.translate.machine_code import MachineCode
from emulator.core.translate.statements import Statements
from emulator.native.direct.values import Untranslatable, Value, typed
from emulator.native.direct.vocabulary import DECLARATIONS, integer
from emulator.native.primitives.float32 import bits_f32, f32_bits
from machine_code import needs_jit
from tx8isa.numbers.primitives import (
    bits64,
    divide,
    fma32,
    fma64,
    from_bits64,
    mulh,
    mulhsu,
    mulhu,
    s32,
    s64,
    sqrt,
    u32,
    u64,
)

pytestmark = needs_jit


# -- the language of bodies ------------------------------------------------------------------------------


class Function(Statements):
    """One plain function of two words as an LLVM function, without a machine around it."""

    def load_word(self, place: int) -> Any:
        raise Untranslatable("no state here")

    def store_word(self, place: int, value: Any) -> None:
        raise Untranslatable("no state here")

    def call_kernel(self, address: Any, fields: Any, state: Any) -> Any:
        raise Untranslatable("no kernels here")

    def leave(self, names: Any) -> None:
        raise Untranslatable("no loop here")

    go_on = leave


def compiled(function: Callable[..., Any], *known: Any) -> Callable[[int, int], int]:
    """Machine code of a function of a and b; ``known`` are further arguments."""
    text = Function()
    result = integer(text.writer, text.inline(function, [Value("i", "%a"), Value("i", "%b"), *known]))
    lines = [
        f"define i64 @{ENTRY}(i64 %a, i64 %b) {{",
        "entry:",
        *text.writer.lines,
        f"  ret {typed(result)}",
        "}",
    ]
    code = MachineCode("\n".join([*lines, DECLARATIONS]))
    call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(code.address)
    call.code = code  # type: ignore[attr-defined]
    return call


def quotient(a: int, b: int) -> int:
    return 0 if b == 0 or b == -1 else a // b


def remainder(a: int, b: int) -> int:
    return 0 if b == 0 or b == -1 else a % b


def unsigned_quotient(a: int, b: int) -> int:
    return 5 if b == 0 else s64(u64(a) // u64(b))


def unsigned_remainder(a: int, b: int) -> int:
    return 5 if b == 0 else s64(u64(a) % u64(b))


def shifts(a: int, b: int) -> int:
    return s64((a >> (b & 63)) + s64(u64(a) >> u64(b & 63)) + s64(u64(a) << (b & 63)) + s64(1 << (b & 63)))


def chains(a: int, b: int) -> int:
    return 1 if -5 < a <= b < 1 << 40 else 2 if 0 <= u64(a) < u64(b) else 3


def logic(a: int, b: int) -> int:
    small = b != 0 and b != -1 and a // b > 1
    return s64((1 if small or not (a < b) else 0) + 2 * (1 if a or b else 0) + (a == b))


def branches(a: int, b: int) -> int:
    result = 7
    if a > b:
        result = a ^ b
        if b < 0:
            return ~a
    elif a == b:
        result += 1
    else:
        if a & 1:
            result -= b & 0xFF
    again = result * 3
    return s64(again - -a)


def words_of(a: int, b: int) -> int:
    pair = (s32(a), u32(b), a)
    return s64(pair[0] + pair[1] ^ mulh(a, b) ^ mulhu(a, b) ^ mulhsu(a, b))


def double_arithmetic(a: int, b: int) -> int:
    x = from_bits64(a)
    y = from_bits64(b)
    total = fma64(x, y, -x)
    rest = divide(total, sqrt(y))
    return bits64(rest) if x == x and y == y else (1 if x < y else 2 if x != y else 3)


def conversions(a: int, b: int) -> int:
    x = float(a)
    if -1e18 < from_bits64(b) < 1e18:
        return s64(int(from_bits64(b)) + bits64(x))
    return bits64(float(u64(b)))


def singles(a: int, b: int) -> int:
    x = bits_f32(a)
    y = bits_f32(b)
    z = fma32(x, y, y)
    if z != z:
        return 1 if x != x or y != y else 2
    return f32_bits(z) - (1 if x < y else 0)


VALUES = (
    *EDGES,
    -7,
    7,
    12,
    -12,
    0x3FF0000000000000,
    0x4008000000000000,
    -0x4010000000000000,
    0x7FF0000000000000,
    0x7FF8000000000001,
    0x3F800000,
    0x40490FDB,
    0x7F800000,
    0xFF800001,
    1 << 23,
    (1 << 62) + 12345,
)


@pytest.mark.parametrize(
    "function",
    [
        quotient,
        remainder,
        unsigned_quotient,
        unsigned_remainder,
        shifts,
        chains,
        logic,
        branches,
        words_of,
        double_arithmetic,
        conversions,
        singles,
    ],
    ids=lambda f: f.__name__,
)
def test_a_function_means_what_python_means(function: Callable[..., int]) -> None:
    """Both operands are unknown, or one of them is known when the text is written."""
    code = compiled(function)
    with np.errstate(all="ignore"):
        for a in VALUES:
            for b in VALUES:
                assert code(a, b) == s64(int(function(a, b))), (a, b)


@pytest.mark.parametrize(
    "function", [shifts, branches, unsigned_remainder, chains, words_of], ids=lambda f: f.__name__
)
@pytest.mark.parametrize("known", [0, -1, 5, -(1 << 63)])
def test_known_operands_are_calculated_at_once(function: Callable[..., int], known: int) -> None:
    lines = Function()
    value = lines.inline(function, [known, known])
    assert value == function(known, known) and not [line for line in lines.writer.lines if " = " in line]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("for i in range(3):\n  pass", "For"),
        ("while a:\n  a -= 1", "While"),
        ("return [a]", "List"),
        ("return u64(a) < b", "signed"),
        ("return u64(a) < -1", "signed"),
        ("return 'text'", "constant"),
        ("return f(a)", "call"),
        ("return len(a)", "call"),
        ("return a / b", "Div"),
        ("return from_bits64(a) + a", "fraction"),
        ("return from_bits64(a) % from_bits64(b)", "fraction"),
        ("return unknown", "'unknown'"),
        ("return a[0]", "view"),
        ("x, y = a, b\n return x", "several"),
        ("return (a, b)[a]", "depends on data"),
        ("return math.pi", "integer constant"),
        ("return a if b else from_bits64(a)", "kind"),
        ("return a is b", "Is"),
        ("return lambda: a", "Lambda"),
    ],
)
def test_what_is_not_known_is_refused(
    body: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "refused.py"
    source.write_text(
        "import math\nfrom tx8isa.numbers.primitives import u64, from_bits64\n"
        "def outer(x):\n    def f(a):\n        return a + x\n    return f\nf = outer(1)\n"
        f"def refused(a, b):\n {body}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "refused", raising=False)
    module = importlib.import_module("refused")
    with pytest.raises(Untranslatable, match=re.escape(why)):
        compiled(module.refused)
    monkeypatch.delitem(sys.modules, "refused")


def test_a_function_that_calls_itself_is_refused() -> None:
    with pytest.raises(Untranslatable, match="deep"):
        compiled(endless)


def endless(a: int, b: int) -> int:
    return endless(b, a)
