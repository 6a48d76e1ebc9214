"""Writes machine versions as functions that emit LLVM instructions.

``emit(builder, *values)`` takes the LLVM values of the arguments and returns the result's. Nothing here needs
Numba: ``direct`` makes a function of the emitted text, ``by_numba`` an intrinsic.

A kind is a letter: ``i`` and ``u`` for signed and unsigned 64-bit words, ``d`` for binary64, ``f`` for
binary32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from llvmlite import ir

I1, I8, I16, I32, I64, I128 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64, 128))
F16, F32, F64 = ir.HalfType(), ir.FloatType(), ir.DoubleType()
LLVM_TYPES: dict[str, Any] = {"i": I64, "u": I64, "d": F64, "f": F32}
"""LLVM's type of each kind."""

Emit = Callable[..., Any]
Kind = Literal["i", "u", "d", "f"]


class Version(NamedTuple):
    """A primitive for arguments of certain kinds."""

    parameters: str
    """A kind for each; ``i`` takes every integer and truth value, as a word."""
    result: Kind | Literal[""]
    """The kind of the result; empty for none."""
    emit: Emit


Primitive = tuple[Version, ...]
"""The versions of a primitive; the first that accepts the arguments is used."""


class Elements(NamedTuple):
    """A primitive that makes a view: ``(address, elements)``."""

    bits: int
    kind: Kind
    """``u``, ``i`` or ``f``, of elements with so many bits."""


def of_words(parameters: int, emit: Emit, result: Kind | Literal[""] = "i") -> Primitive:
    """Make a version for integers, which ``emit`` gets as 64-bit words."""
    return (Version("i" * parameters, result, emit),)


def of_floats(parameters: int, kind: Kind, emit: Emit, result: Kind) -> Primitive:
    """Make a version for floats of one kind."""
    return (Version(kind * parameters, result, emit),)


def constant(value: int) -> Any:
    """Return a constant 64-bit word."""
    return ir.Constant(I64, value)


def declared(builder: Any, result: Any, arguments: list[Any], name: str) -> Any:
    """Declare a function of the C library, or an intrinsic of LLVM, by name."""
    known = builder.module.globals.get(name)
    return known or ir.Function(builder.module, ir.FunctionType(result, arguments), name)


def pointer(builder: Any, address: Any, kind: Any) -> Any:
    """Convert an address to a pointer to a value of an LLVM type."""
    return builder.inttoptr(address, kind.as_pointer())
