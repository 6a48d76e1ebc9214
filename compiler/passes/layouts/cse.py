"""Pass ``cse``: equal operations are merged, so that a value that is used twice is computed once.

Operations are equal if operator, attributes, types and operands are; constants with the same content count as
one operand. Casts and changes of order are operations too.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.rewriter import Rewriter

from compiler.codegen.program import same_bits, sample
from compiler.dialect.ops import (
    ControlOperation,
    GroupOp,
    InputOp,
    LoadConstOp,
    NodeOperation,
    OutputOp,
    TensorOperation,
)
from compiler.graph import Array
from compiler.passes.base import Context, operations

_NAMES = ("node", "values")
"""Attributes that are only names of operations and values."""

_Key = tuple[object, ...]


class CsePass:
    """Replaces every operation that equals an earlier one by that one; erases constants without users."""

    name = "cse"

    def run(self, context: Context, module: ModuleOp) -> None:
        merger = _Merger(context)
        for operation in operations(module):
            merger.merge(operation)
        for operation in operations(module):
            left = isinstance(operation, LoadConstOp) and operation in merger.left
            if left and not operation.results[0].uses:
                Rewriter.erase_op(operation)


class _Merger:
    def __init__(self, context: Context) -> None:
        self.context = context
        self.first: dict[_Key, TensorOperation] = {}
        self.left: set[LoadConstOp] = set()
        """Constants with a merged user."""
        self._alike: dict[_Key, list[tuple[LoadConstOp, Array]]] = {}

    def merge(self, operation: TensorOperation) -> None:
        """Erase the operation if there was an equal one."""
        if isinstance(operation, InputOp | LoadConstOp | OutputOp | GroupOp | ControlOperation):
            return
        first = self.first.setdefault(self._key(operation), operation)
        if first is operation:
            return
        for result, same in zip(operation.results, first.results, strict=True):
            result.replace_all_uses_with(same)
        self.left |= {value.owner for value in operation.operands if isinstance(value.owner, LoadConstOp)}
        Rewriter.erase_op(operation)

    def _key(self, operation: TensorOperation) -> _Key:
        attributes: dict[str, Attribute] = {
            name: value for name, value in operation.attributes.items() if name not in _NAMES
        }
        operands = (self._operand(value) for value in operation.operands)
        types = (result.type for result in operation.results)
        return operation.name, frozenset(attributes.items()), _wanted(operation), *operands, None, *types

    def _operand(self, value: SSAValue) -> SSAValue:
        """The operand, or the first constant with the same content."""
        owner = value.owner
        if not isinstance(owner, LoadConstOp):
            return value
        data = self.context.constants[owner.node.data]
        alike = self._alike.setdefault((value.type, data.shape, sample(data)), [])
        for other, known in alike:
            if same_bits(known, data):
                return other.results[0]
        alike.append((owner, data))
        return value


def _wanted(operation: TensorOperation) -> tuple[bool, ...]:
    """For each result of the operator, True if the operation has it."""
    values = operation.values if isinstance(operation, NodeOperation) else None
    if not isinstance(values, ArrayAttr):
        return ()
    return tuple(isinstance(name, StringAttr) and bool(name.data) for name in values)
