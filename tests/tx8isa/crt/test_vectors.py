"""Members on vectors, called from C in every format, against NumPy."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from c_tools import needs_gcc
from crt_calls import (
    FLOATS,
    INTEGERS,
    MODES,
    SRC0,
    SRC1,
    Array,
    Call,
    check_calls,
    drawn,
    formats_of,
    pattern,
    rounded,
    stored,
)
from tx8isa.c.tsm.tables import tables

UNIT = 37
N = 2 * UNIT
LOOP = {"elem_count": 128, "unit_elem_count": 64, "full_elem_count": 384, "full_unit_elem_count": 192}
GROUPS = f"&(St_Elem_Shape){{{', '.join(str(v) for v in LOOP.values())}}}"

ONE: dict[str, Callable[[Array], Array]] = {
    "Abs": np.abs,
    "Recip": lambda x: 1 / x,
    "Square": np.square,
    "Sqrt": np.sqrt,
    "Rsqrt": lambda x: 1 / np.sqrt(x),
    "Neg": lambda x: 0.0 - x,
}
TWO: dict[str, Callable[[Array, Array], Array]] = {
    "Max": np.maximum,
    "Min": np.minimum,
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
}
COMPARED: dict[str, Callable[[Array, Array], Array]] = {
    "Equal": np.equal,
    "UnEqual": np.not_equal,
    "GreaterEqual": np.greater_equal,
    "Greater": np.greater,
    "LessEqual": np.less_equal,
    "LessThen": np.less,
}
TRUTH: dict[str, Callable[[Array, Array], Array]] = {
    "And": np.logical_and,
    "Or": np.logical_or,
    "Xor": np.logical_xor,
}
LOG2_E = np.frombuffer(b"\x3b\xaa\xb8\x3f", np.float32)[0]
"""The constant of the fast exponential (spec), which multiplies in FP32 and then raises 2 to the product."""
FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "Log2": np.log2,
    "Ln": np.log,
    "Pow2": np.exp2,
    "Exp": np.exp,
    "Explp": lambda x: np.exp2((np.float32(x) * LOG2_E).astype(np.float64)),
    "Sin": np.sin,
    "Cos": np.cos,
    "Tanh": np.tanh,
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Relu": lambda x: np.where(x > 0, x, 0.0),
    "Satrelu": lambda x: np.clip(x, 0.0, 6.0),
    "Leakyrelu": lambda x: np.where(x >= 0, x, 0.01 * x),
    "Softplus": lambda x: np.log1p(np.exp(x)),
}


def second(form: str, values: Array) -> Array:
    """The second operand of each element of the result, by the form of the instruction."""
    if form == "VuV":
        return np.resize(values[:UNIT], N)
    if form == "VuVLoop":
        return np.concatenate([np.tile(unit, 2) for unit in values.reshape(3, 64)])
    return np.full(N, values[0]) if form == "VS" else values


def lengths(form: str) -> tuple[int, int]:
    """Elements of the two operands."""
    if form == "VuVLoop":
        return LOOP["full_elem_count"], LOOP["full_unit_elem_count"]
    return N, {"VuV": UNIT, "VS": 1}.get(form, N)


def arguments(form: str, fmt: str, b: Array, rest: list[str]) -> list[object]:
    """The arguments after the packet; ``rest`` are the arguments after the lengths."""
    other = pattern(fmt, b[0]) if form == "VS" else SRC1
    count: list[object] = {"VuVLoop": [GROUPS], "VuV": [N, UNIT]}.get(form, [N])
    return [SRC0, other, "@", *count, *rest]


def binary_calls(
    name: str,
    form: str,
    fmt: str,
    function: Callable[[Array, Array], Array],
    rest: list[str],
    **options: object,
) -> Call:
    """A call with two operands; ``small``: with few numbers, so that some are equal and some are 0."""
    m, k = lengths(form)
    a, b = drawn(fmt, m, 1, 0.5, 4.0), drawn(fmt, k, 2, 0.5, 4.0)
    a[::3], b[1::2] = -a[::3], -b[1::2]
    if options.get("small"):
        a, b = (np.where(np.arange(len(x)) % 5 == 1, 0.0, np.rint(x)) for x in (a, b))
    values = np.asarray(function(a, second(form, b)), np.float64)
    expected, bits = stored(fmt, rounded(fmt, values, options.get("mode", np.rint))), 0  # type: ignore[arg-type]
    if name.partition(".")[2].startswith("Bool"):
        expected, bits = np.packbits(values > 0, bitorder="little").tobytes(), m
    given = [(SRC0, stored(fmt, a)), *([] if form == "VS" else [(SRC1, stored(fmt, b))])]
    return Call(name, arguments(form, fmt, b, rest), given, expected, bits=bits)


def arithmetic() -> Iterator[Call]:
    for fmt in FLOATS:
        a = drawn(fmt, N, 3, 0.25, 8.0)
        for name, one in ONE.items():
            x = np.concatenate([[0.0, -0.0], -a[2:]]) if name in ("Abs", "Neg") else a
            args = [SRC0, "@", N, f"Fmt_{fmt}"]
            yield Call(
                f"TsmArith.{name}VV", args, [(SRC0, stored(fmt, x))], stored(fmt, rounded(fmt, one(x)))
            )
        for place, (name, two) in enumerate(TWO.items()):
            for turn, form in enumerate(("VV", "VS", "VuV", "VuVLoop")):
                mode, how = MODES[(place + turn) % len(MODES)]
                rest = [mode, f"Fmt_{fmt}"]
                yield binary_calls(f"TsmArith.{name}{form}", form, fmt, two, rest, mode=how)


def relations() -> Iterator[Call]:
    for fmt in FLOATS:
        for name, compared in COMPARED.items():
            for form in ("VV", "VS", "VuV", "VuVLoop"):
                for prefix in ("", "Bool"):
                    member = f"TsmRelation.{prefix}{name}{form}"
                    yield binary_calls(member, form, fmt, compared, [f"Fmt_{fmt}"], small=True)


def logic() -> Iterator[Call]:
    for fmt in FLOATS:
        x = np.where(np.arange(N) % 3 == 0, 0.0, drawn(fmt, N, 4))
        expected = stored(fmt, (x == 0).astype(np.float64))
        yield Call("TsmLogic.NotV", [SRC0, "@", N, f"Fmt_{fmt}"], [(SRC0, stored(fmt, x))], expected)
        for name, two in TRUTH.items():
            for form in ("VV", "VuV", "VuVLoop"):

                def ones(a: Array, b: Array, two: Callable[[Array, Array], Array] = two) -> Array:
                    return two(a != 0, b != 0)

                call = binary_calls(f"TsmLogic.{name}{form}", form, fmt, ones, [f"Fmt_{fmt}"], small=True)
                yield call


def bit_logic() -> Iterator[Call]:
    rng = np.random.default_rng(5)
    n, groups = 104, LOOP["full_elem_count"]
    a, b = rng.integers(0, 2, groups).astype(bool), rng.integers(0, 2, groups).astype(bool)

    def packed(bits: Array) -> bytes:
        return np.packbits(bits, bitorder="little").tobytes()

    given = [(SRC0, packed(a)), (SRC1, packed(b))]
    yield Call("TsmLogic.BoolNotV", [SRC0, "@", n], given[:1], packed(~a[:n]), bits=n)
    # A unit of 37 bits takes five bytes, and after the last whole one the second operand is 0 (board).
    whole = n // 40 * 40
    repeated = np.concatenate([np.resize(b[:40], whole), np.zeros(n - whole, bool)])
    looped = np.concatenate([np.tile(unit, 2) for unit in b[:192].reshape(3, 64)])
    for name, two in TRUTH.items():
        args = [SRC0, SRC1, "@"]
        yield Call(f"TsmLogic.Bool{name}V", [*args, n], given, packed(two(a[:n], b[:n])), bits=n)
        short = packed(two(a[:n], repeated))
        yield Call(f"TsmLogic.Bool{name}VuV", [*args, n, UNIT], given, short, bits=n)
        yield Call(f"TsmLogic.Bool{name}VuVLoop", [*args, GROUPS], given, packed(two(a, looped)))


def functions() -> Iterator[Call]:
    for table in ("TsmTranscendental", "TsmActivation"):
        for name, function in FUNCTIONS.items():
            if name not in {m.name for t in tables() if t.name == table for m in t.members}:
                continue
            for fmt in FLOATS:
                x = drawn(fmt, N, 6, 0.25, 6.0) if name in ("Log2", "Ln") else drawn(fmt, N, 7, -3.0, 7.0)
                expected = stored(fmt, rounded(fmt, function(x)))
                exact = "" if name in ("Relu", "Satrelu") else fmt
                args = [SRC0, "@", N, f"Fmt_{fmt}"]
                yield Call(f"{table}.{name}", args, [(SRC0, stored(fmt, x))], expected, within=exact)


def converts() -> Iterator[Call]:
    (members,) = (table.members for table in tables() if table.name == "TsmConvert")
    for turn, member in enumerate(members):
        source, target = member.name.split("_")
        taken = {parameter.name for parameter in member.parameters}
        mode, how = MODES[turn % len(MODES)] if "rnd_mode" in taken else MODES[0]
        x, zero = drawn(source, N, turn), 9 if "zp" in taken else 0
        values = how(x) if target in INTEGERS else rounded(target, x - zero, how)
        args = [SRC0, *([zero] if "zp" in taken else []), "@", N, *([mode] if "rnd_mode" in taken else [])]
        yield Call(f"TsmConvert.{member.name}", args, [(SRC0, stored(source, x))], stored(target, values))


GROUPS_OF_CALLS = {
    "relations": (relations, ("TsmRelation",)),
    "logic": (lambda: [*logic(), *bit_logic()], ("TsmLogic",)),
    "functions": (functions, ("TsmTranscendental", "TsmActivation")),
    "converts": (converts, ("TsmConvert",)),
    "arithmetic": (arithmetic, ("TsmArith",)),
}


@needs_gcc
@pytest.mark.parametrize("group", GROUPS_OF_CALLS)
def test_members_compute_what_numpy_does(group: str, tmp_path: Path) -> None:
    check_calls(GROUPS_OF_CALLS[group][0](), tmp_path)


@pytest.mark.parametrize("group", GROUPS_OF_CALLS)
def test_every_member_is_called_in_every_format(group: str) -> None:
    calls, names = GROUPS_OF_CALLS[group]
    used: dict[str, set[str]] = defaultdict(set)
    for call in calls():
        used[call.member] |= {str(a)[4:] for a in call.arguments if str(a).startswith("Fmt_")}
    members = [f"{table.name}.{m.name}" for table in tables() if table.name in names for m in table.members]
    assert used == {member: set(formats_of(member)) for member in members}
