"""LLVM text of the primitives of ``emulator.native``, by the function that defines each.

Here are primitives that scalar instructions use, as parts of larger expressions. The others are functions of
``emulator.native.machine`` (``helpers``). The tests compare each with its definition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from emulator.native.primitives import float32, memory
from emulator.native.primitives.names import PRIMITIVES
from tx8isa.numbers import primitives

from .values import TYPES, Kind, Known, Untranslatable, Value, View, Writer, kind_of, spelled, typed

Emit = Callable[..., Any]


def integer(writer: Writer, value: Known) -> Known:
    """Convert a truth value to 0 or 1; words stay unchanged."""
    kind = kind_of(value)
    if kind == "b":
        return int(value) if isinstance(value, bool) else writer.make("i", f"zext {typed(value)} to i64")
    if kind not in ("i", "u", "n"):
        raise Untranslatable("a number with a fraction where an integer is expected")
    return value


def as_kind(kind: Kind, value: Known) -> Known:
    """Return the same word as signed or unsigned."""
    return Value(kind, value.name) if isinstance(value, Value) else value


def _low(extend: str) -> Emit:
    def emit(writer: Writer, value: Known) -> Value:
        low = writer.make("i", f"trunc {typed(integer(writer, value))} to i32")
        return writer.make("i", f"{extend} i32 {low.name} to i64")

    return emit


def _upper(left: str, right: str) -> Emit:
    """Write the upper half of a product of operands extended to 128 bits."""

    def emit(writer: Writer, a: Known, b: Known) -> Value:
        wide = [
            writer.make("i", f"{extend} {typed(integer(writer, v))} to i128")
            for extend, v in ((left, a), (right, b))
        ]
        product = writer.make("i", f"mul i128 {wide[0].name}, {wide[1].name}")
        high = writer.make("i", f"lshr i128 {product.name}, 64")
        return writer.make("i", f"trunc i128 {high.name} to i64")

    return emit


def _floats(kind: Kind, *values: Known) -> None:
    for value in values:
        if kind_of(value) != kind:
            raise Untranslatable(f"an operand of kind {kind_of(value)} where {kind} is expected")


def _cast(to: Kind, text: str, *, source: Kind = "i") -> Emit:
    """Write a cast, the instruction ``text``, of one operand to the type ``to``."""

    def emit(writer: Writer, value: Known) -> Value:
        value = integer(writer, value) if source == "i" else value
        if source != "i":
            _floats(source, value)
        return writer.make(to, f"{text} {typed(value)} to {TYPES[to]}")

    return emit


def canonical(writer: Writer, value: Value) -> Value:
    """Replace a NaN ``value`` by the positive quiet NaN without payload.

    The select is on integers, because LLVM regards all NaN as equal and drops a select on floats.
    """
    word, nan = ("i64", 0x7FF8 << 48) if value.kind == "d" else ("i32", 0x7FC00000)
    kind = TYPES[value.kind]
    bits = writer.make("i", f"bitcast {kind} {value.name} to {word}")
    is_nan = writer.make("b", f"fcmp uno {kind} {value.name}, {value.name}")
    chosen = writer.make("i", f"select i1 {is_nan.name}, {word} {nan}, {word} {bits.name}")
    return writer.make(value.kind, f"bitcast {word} {chosen.name} to {kind}")


def _canonical_call(name: str, kind: Kind) -> Emit:
    def emit(writer: Writer, *values: Known) -> Value:
        _floats(kind, *values)
        operands = ", ".join(typed(value) for value in values)
        return canonical(writer, writer.make(kind, f"call {TYPES[kind]} @{name}({operands})"))

    return emit


def _divide(writer: Writer, a: Known, b: Known) -> Value:
    _floats("d", a, b)
    return canonical(writer, writer.make("d", f"fdiv {typed(a)}, {spelled(b)}"))


def _bits_f32(writer: Writer, bits: Known) -> Value:
    low = writer.make("i", f"trunc {typed(integer(writer, bits))} to i32")
    return writer.make("f", f"bitcast i32 {low.name} to float")


def _f32_bits(writer: Writer, value: Known) -> Value:
    _floats("f", value)
    bits = writer.make("i", f"bitcast {typed(value)} to i32")
    return writer.make("i", f"zext i32 {bits.name} to i64")


def to_double(writer: Writer, value: Known) -> Known:
    """``float(value)``."""
    kind = kind_of(value)
    if kind in ("d", "f"):
        return value if kind == "d" else writer.make("d", f"fpext {typed(value)} to double")
    name = "uitofp" if kind == "u" else "sitofp"
    return writer.make("d", f"{name} {typed(integer(writer, value))} to double")


def _view(bits: int, kind: Kind) -> Emit:
    return lambda writer, address, n: View(bits, kind, integer(writer, address))


EMITTERS: dict[Callable[..., Any], Emit] = {
    primitives.s64: lambda writer, value: as_kind("i", integer(writer, value)),
    primitives.u64: lambda writer, value: as_kind("u", integer(writer, value)),
    primitives.s32: _low("sext"),
    primitives.u32: _low("zext"),
    primitives.mulh: _upper("sext", "sext"),
    primitives.mulhu: _upper("zext", "zext"),
    primitives.mulhsu: _upper("sext", "zext"),
    primitives.bits64: _cast("i", "bitcast", source="d"),
    primitives.from_bits64: _cast("d", "bitcast"),
    primitives.sqrt: _canonical_call("llvm.sqrt.f64", "d"),
    primitives.divide: _divide,
    primitives.fma64: _canonical_call("llvm.fma.f64", "d"),
    primitives.fma32: _canonical_call("llvm.fma.f32", "f"),
    float32.bits_f32: _bits_f32,
    float32.f32_bits: _f32_bits,
    float: to_double,
    np.float64: to_double,
    memory.view_u8: _view(8, "u"),
    memory.view_u16: _view(16, "u"),
    memory.view_u32: _view(32, "u"),
    memory.view_u64: _view(64, "u"),
    memory.view_i64: _view(64, "i"),
    memory.view_f32: _view(32, "f"),
    memory.view_f64: _view(64, "d"),
}
"""The writer of each primitive. Primitives of memory give a view; its elements are accessed later."""

PURE = frozenset(f for f in PRIMITIVES if f.__module__ in (primitives.__name__, float32.__name__))
"""Primitives that Python evaluates when all their operands are known."""

DECLARATIONS = """
declare double @llvm.sqrt.f64(double)
declare double @llvm.fma.f64(double, double, double)
declare float @llvm.fma.f32(float, float, float)
declare double @llvm.fabs.f64(double)
declare float @llvm.fabs.f32(float)
"""


def convert_to_integer(writer: Writer, value: Known) -> Known:
    """``int(value)``: toward zero; the source keeps the value in range."""
    if kind_of(value) in ("d", "f"):
        return writer.make("i", f"fptosi {typed(value)} to i64")
    return integer(writer, value)
