"""How machine versions are written: as functions that emit LLVM instructions, which Numba inlines.

``emit(builder, *values)`` takes the LLVM values of the arguments and gives that of the result. Numba compiles
a function of Python far more slowly than it takes in these.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Any

from llvmlite import ir
from numba import types as numba_types
from numba.core import cgutils as numba_cgutils
from numba.extending import intrinsic as numba_intrinsic

types: Any = numba_types
cgutils: Any = numba_cgutils

I8, I16, I32, I64, I128 = (ir.IntType(bits) for bits in (8, 16, 32, 64, 128))
F16, F32, F64 = ir.HalfType(), ir.FloatType(), ir.DoubleType()

Emit = Callable[..., Any]
Accept = Callable[..., Any]
"""(Numba types of the arguments) -> signature, or None for types that the function does not take."""


def intrinsic(parameters: int, accept: Accept, generate: Callable[..., Any]) -> Any:
    """A function of so many parameters; ``generate(context, builder, signature, values)`` emits its body."""

    def definition(typing: Any, *kinds: Any) -> Any:
        signature = accept(*kinds)
        return None if signature is None else (signature, generate)

    names = ("typing", *(f"p{i}" for i in range(parameters)))
    described: Any = definition
    described.__signature__ = Signature([Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in names])
    return numba_intrinsic(described)


def of_words(parameters: int, emit: Emit, result: Any = types.int64) -> Any:
    """A function of integers, which ``emit`` gets as 64-bit words; ``result`` is the Numba type it gives."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        made = emit(builder, *to_words(context, builder, signature, values))
        return context.get_dummy_value() if result is types.void else made

    return intrinsic(parameters, lambda *kinds: result(*kinds) if is_integer(*kinds) else None, generate)


def of_floats(parameters: int, kind: Any, emit: Emit, result: Any) -> Any:
    """A function of floats of one Numba type."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return emit(builder, *values)

    def accept(*kinds: Any) -> Any:
        return result(*kinds) if all(given == kind for given in kinds) else None

    return intrinsic(parameters, accept, generate)


def to_words(context: Any, builder: Any, signature: Any, values: Any) -> list[Any]:
    """Integers or booleans of any width as 64 bits, each extended by its own signedness."""
    pairs = zip(values, signature.args, strict=True)
    return [context.cast(builder, value, kind, types.int64) for value, kind in pairs]


def is_integer(*kinds: Any) -> bool:
    return all(isinstance(kind, types.Integer | types.Boolean) for kind in kinds)


def constant(value: int) -> Any:
    """A 64-bit word."""
    return ir.Constant(I64, value)


def declared(builder: Any, result: Any, arguments: list[Any], name: str) -> Any:
    """A function of the C library, or an intrinsic of LLVM, by name."""
    return cgutils.get_or_insert_function(builder.module, ir.FunctionType(result, arguments), name)


def pointer(builder: Any, address: Any, kind: Any) -> Any:
    """An address as a pointer to a value of an LLVM type."""
    return builder.inttoptr(address, kind.as_pointer())
