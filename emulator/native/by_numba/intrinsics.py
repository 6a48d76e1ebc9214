"""The machine versions of the primitives as intrinsics, which Numba inlines.

Numba compiles a Python function far more slowly than it inlines an intrinsic.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Any

from numba import types as numba_types
from numba.extending import intrinsic as numba_intrinsic

from emulator.native.machine import MACHINE
from emulator.native.machine.primitive import Elements, Primitive, Version, pointer

from .views import ViewType

types: Any = numba_types

KINDS: dict[str, Any] = {
    "i": types.int64,
    "u": types.uint64,
    "d": types.float64,
    "f": types.float32,
    "": types.void,
}
ELEMENTS: dict[str, Any] = {"u": "uint", "i": "int", "f": "float"}


def intrinsic(primitive: Primitive | Elements) -> Any:
    """Return a primitive as a function that Numba compiles."""
    if isinstance(primitive, Elements):
        return _view(getattr(types, f"{ELEMENTS[primitive.kind]}{primitive.bits}"))

    def accept(*kinds: Any) -> Any:
        version = _version(primitive, kinds)
        return None if version is None else KINDS[version.result](*kinds)

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        version = _version(primitive, signature.args)
        assert version is not None, "Numba has accepted these types"
        given = zip(values, signature.args, version.parameters, strict=True)
        words = [context.cast(builder, value, kind, KINDS[letter]) for value, kind, letter in given]
        made = version.emit(builder, *words)
        return made if version.result else context.get_dummy_value()

    return _function(len(primitive[0].parameters), accept, generate)


def _version(primitive: Primitive, kinds: Any) -> Version | None:
    for version in primitive:
        if all(_takes(letter, kind) for letter, kind in zip(version.parameters, kinds, strict=True)):
            return version
    return None


def _takes(letter: str, kind: Any) -> bool:
    if letter == "i":
        return _is_integer(kind)
    return bool(types.unliteral(kind) == KINDS[letter])


def _is_integer(kind: Any) -> bool:
    return isinstance(kind, types.Integer | types.Boolean)


def _view(kind: Any) -> Any:
    """Make the intrinsic of a view of elements of this type."""

    def accept(*kinds: Any) -> Any:
        return ViewType(kind)(*kinds) if all(map(_is_integer, kinds)) else None

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        address = context.cast(builder, values[0], signature.args[0], types.int64)
        return pointer(builder, address, context.get_data_type(kind))

    return _function(2, accept, generate)


def _function(parameters: int, accept: Callable[..., Any], generate: Callable[..., Any]) -> Any:
    """Make an intrinsic; ``accept`` maps Numba's types to a signature or None, ``generate`` is the body."""

    def definition(typing: Any, *kinds: Any) -> Any:
        signature = accept(*kinds)
        return None if signature is None else (signature, generate)

    names = ("typing", *(f"p{i}" for i in range(parameters)))
    described: Any = definition
    described.__signature__ = Signature([Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in names])
    return numba_intrinsic(described)


INTRINSICS: dict[str, Any] = {name: intrinsic(primitive) for name, primitive in MACHINE.items()}
"""The intrinsics by the names of the primitives."""
