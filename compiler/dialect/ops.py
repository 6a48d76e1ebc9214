"""Operations of the tx8be dialect; graph operators get theirs from the operators' records.

``node`` names the graph node that an operation computes. ``operands_at`` numbers the operands as the
specification does: an operand whose value is known at compile time is an attribute instead. The passes fill
in ``home`` and ``dev_info``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, ModuleOp, StringAttr, i64
from xdsl.ir import Dialect, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    attr_def,
    irdl_op_definition,
    opt_attr_def,
    region_def,
    traits_def,
    var_region_def,
)
from xdsl.traits import NoTerminator

from compiler.operators import OPERATORS

from .channel_norm import ChannelNormOp
from .exchanges import AllGatherOp, ExchangeOperation, HaloExchangeOp
from .group import GroupOp, LoadConstOp, LoadVarOp, StoreVarOp
from .homes import HomeAttr
from .tensor import TensorOperation
from .types import TF32Type


@irdl_op_definition
class InputOp(TensorOperation):
    """A graph input; ``node`` is its name."""

    name = "tx8be.input"


@irdl_op_definition
class OutputOp(TensorOperation):
    """Makes a value the graph output ``node``; ``state`` is the graph input in the same memory."""

    name = "tx8be.output"
    state = opt_attr_def(StringAttr)


@irdl_op_definition
class CastOp(TensorOperation):
    """Converts a tensor to another format, or copies it."""

    name = "tx8be.cast"


@irdl_op_definition
class SubgraphOp(IRDLOperation):
    """The operations of one program, in the order in which they run."""

    name = "tx8be.subgraph"
    body = region_def("single_block")
    graph = attr_def(StringAttr)
    opset = opt_attr_def(IntegerAttr)
    traits = traits_def(NoTerminator())


class NodeOperation(TensorOperation):
    """An operator of the specification.

    ``onnx`` has its attributes; ``known`` has, by position, the operands whose values must be known at
    compile time. ``numbers`` has formulas for their elements and for attributes that depend on the sizes of a
    run. ``dtypes`` has the element types of the specification, first of the operands ("" for an omitted one),
    then of the results. ``values`` has the names of the results ("" for an unused one).
    """

    known = opt_attr_def(DictionaryAttr)
    numbers = opt_attr_def(DictionaryAttr)
    dtypes = opt_attr_def(ArrayAttr)
    values = opt_attr_def(ArrayAttr)

    @property
    def operator(self) -> str:
        """The name of the operator in the specification."""
        return _OPERATOR_NAMES[self.name]

    @property
    def op(self) -> str:
        return self.operator

    def verify_(self) -> None:
        super().verify_()
        record = OPERATORS[self.operator]
        if not record.inputs[-1].variadic and len(self.operands) > len(record.inputs):
            raise self.refuse(f"{len(self.operands)} operands, {self.operator} has {len(record.inputs)}")


class ControlOperation(NodeOperation):
    """An operator of control flow.

    Each of its regions has a module of its own: a graph that takes the operands of the operation by their
    positions, and whose outputs are the results. Passes work on one module at a time, so nothing is grouped,
    merged or moved across the border of a region.
    """

    regions_of_bodies = var_region_def()
    traits = traits_def(NoTerminator())

    @property
    def modules(self) -> list[ModuleOp]:
        """The modules of the operation's graphs."""
        found = [region.block.first_op for region in self.regions]
        return [module for module in found if isinstance(module, ModuleOp)]

    @property
    def carried(self) -> list[tuple[SSAValue, SSAValue]]:
        """Pairs of an operand and a result that a loop carries from step to step; none for an If."""
        if self.op != "Loop" or self.operands_at is None or self.attributes_of_node is None:
            return []
        first = sum(int(at) == 0 for at in self.operands_at.get_values())
        counted = self.attributes_of_node.data["counted"] == IntegerAttr(1, i64)
        return list(zip(self.operands[first:], self.results[: len(self.results) - counted], strict=False))


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


_RENAMED = {"Cast": "convert"}
"""Operators whose names belong to other operations of the dialect."""
_OPERATOR_NAMES: dict[str, str] = {}
"""The operator of each operation name for which a class was made."""


@cache
def _operation(operator: str) -> type[NodeOperation]:
    name = f"tx8be.{_RENAMED.get(operator, _snake(operator))}"
    taken = _OPERATOR_NAMES.setdefault(name, operator)
    if taken != operator:
        raise ValueError(f"the operators {taken} and {operator} would have the same operation {name}")
    fields = {"name": name, "__doc__": OPERATORS[operator].summary}
    base = ControlOperation if OPERATORS[operator].bodies else NodeOperation
    return irdl_op_definition(type(f"{operator.replace('.', '_')}Op", (base,), fields))


class _NodeOperations(Mapping[str, type[NodeOperation]]):
    """The operation classes by operator, each made when it is first looked up.

    A network needs few of them, and making all takes longer than most passes.
    """

    def __getitem__(self, operator: str) -> type[NodeOperation]:
        if operator not in OPERATORS:
            raise KeyError(operator)
        return _operation(operator)

    def __iter__(self) -> Iterator[str]:
        return iter(OPERATORS)

    def __len__(self) -> int:
        return len(OPERATORS)


NODE_OPERATIONS: Mapping[str, type[NodeOperation]] = _NodeOperations()

OWN_OPERATIONS: list[type[Operation]] = [
    *(InputOp, LoadConstOp, OutputOp, CastOp, ChannelNormOp, SubgraphOp),
    *(GroupOp, LoadVarOp, StoreVarOp, AllGatherOp, HaloExchangeOp),
]


def tx8be() -> Dialect:
    """Return the dialect with all operations, also of added operators, for a parser."""
    return _dialect(tuple(NODE_OPERATIONS))


@cache
def _dialect(operators: tuple[str, ...]) -> Dialect:
    classes = (NODE_OPERATIONS[operator] for operator in operators)
    return Dialect("tx8be", [*OWN_OPERATIONS, *classes], [TF32Type, HomeAttr])


__all__ = [
    "NODE_OPERATIONS",
    "AllGatherOp",
    "CastOp",
    "ChannelNormOp",
    "ControlOperation",
    "ExchangeOperation",
    "GroupOp",
    "HaloExchangeOp",
    "InputOp",
    "LoadConstOp",
    "LoadVarOp",
    "NodeOperation",
    "OutputOp",
    "StoreVarOp",
    "SubgraphOp",
    "TensorOperation",
    "tx8be",
]
