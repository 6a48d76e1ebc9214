"""The functions that write operations, by the names of the operations."""

from __future__ import annotations

from collections.abc import Callable

from compiler.frontend.triton.kernels.site import Handler
from compiler.frontend.triton.kernels.values import KernelValue, UnsupportedOperation
from compiler.frontend.triton.operations import TtirOperation

HANDLERS: dict[str, Handler] = {}

Values = list[KernelValue]


def operation(*names: str) -> Callable[[Handler], Handler]:
    """Register the function that writes these operations."""

    def register(handler: Handler) -> Handler:
        for name in names:
            HANDLERS[name] = handler
        return handler

    return register


def integer_attribute(found: TtirOperation, name: str) -> int:
    """Return an attribute that is a number."""
    value = found.attributes.get(name)
    if not isinstance(value, int):
        raise UnsupportedOperation(f"no attribute '{name}'")
    return value
