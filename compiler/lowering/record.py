"""Registry of lowerings: how an operator becomes code, and what it can take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from compiler.codegen.kernel import Kernel
from compiler.codegen.tensors import DdrTensor
from compiler.graph import DTYPES, FLOATS
from compiler.operators.record import Call


class Order(Enum):
    """In which order of axes an operator wants its operands and gives its result."""

    PLAIN = "plain"
    """As ONNX has them."""
    CHANNELS_LAST = "channels_last"
    """Axis 1 of the first operand and of the result behind all others; the other operands plain."""
    FOLLOW = "follow"
    """Whatever order the operands have, if they have one in common."""


@dataclass(frozen=True)
class Work:
    """An operator application as its lowering sees it.

    ``call`` has the shapes and attributes of the specification (None for operations that a pass inserted,
    whose parameters are in ``extra``); the tensors are as they lie in DDR.
    """

    name: str
    op: str
    call: Call | None
    inputs: tuple[DdrTensor | None, ...]
    output: DdrTensor
    channels_last: bool = False
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def spec(self) -> Call:
        if self.call is None:
            raise ValueError(f"operation {self.name} stands for no node")
        return self.call

    def input(self, index: int) -> DdrTensor:
        tensor = self.inputs[index]
        if tensor is None:
            raise ValueError(f"operand {index} of {self.name} was left away")
        return tensor

    def has(self, index: int) -> bool:
        return index < len(self.inputs) and self.inputs[index] is not None


EVERY_TYPE = tuple(DTYPES)

Check = Callable[[Call], str | None]
"""None if the lowering can take a call, else what it cannot, with the value found."""


@dataclass(frozen=True)
class Lowering:
    """How one operator is made into code. An ``alias`` needs none: its result is its first operand."""

    op: str
    lower: Callable[[Kernel, Work], None] | None
    order: Order
    check: Check | None = None
    types: tuple[str, ...] = FLOATS
    """Element types of the operands and results it takes."""


LOWERINGS: dict[str, Lowering] = {}


def lowering(
    *ops: str, order: Order = Order.PLAIN, check: Check | None = None, types: tuple[str, ...] = FLOATS
) -> Callable[[Callable[[Kernel, Work], None]], Callable[[Kernel, Work], None]]:
    """Decorator: the function lowers these operators."""

    def register(function: Callable[[Kernel, Work], None]) -> Callable[[Kernel, Work], None]:
        for op in ops:
            _add(Lowering(op, function, order, check, types))
        return function

    return register


def alias(*ops: str) -> None:
    """These operators give their first operand another shape and need no code."""
    for op in ops:
        _add(Lowering(op, None, Order.PLAIN, types=EVERY_TYPE))


def _add(entry: Lowering) -> None:
    if entry.op in LOWERINGS:
        raise ValueError(f"operator {entry.op} has two lowerings")
    LOWERINGS[entry.op] = entry
