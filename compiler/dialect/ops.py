"""Operations of the tx8be dialect; those of graph operators are made from the operators' records.

``node`` names the graph node an operation stands for, ``operands_at`` says which operand of the
specification each operand is (those known when compiling are attributes of the node, not operands here).
``layout_str``, ``tile_parallel``, ``chip_parallel`` and ``dev_info`` are filled in by the passes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, StringAttr
from xdsl.ir import Dialect, Operation
from xdsl.irdl import IRDLOperation, attr_def, irdl_op_definition, opt_attr_def, region_def, traits_def
from xdsl.traits import NoTerminator

from compiler.operators import OPERATORS

from .channel_norm import ChannelNormOp
from .group import GroupOp, LoadConstOp, LoadVarOp, StoreVarOp
from .tensor import TensorOperation
from .types import TF32Type


@irdl_op_definition
class InputOp(TensorOperation):
    """A graph input; ``node`` is its name."""

    name = "tx8be.input"


@irdl_op_definition
class OutputOp(TensorOperation):
    """Makes a value the graph output ``node``."""

    name = "tx8be.output"


@irdl_op_definition
class CastOp(TensorOperation):
    """The same values in another format, or a copy."""

    name = "tx8be.cast"


@irdl_op_definition
class SubgraphOp(IRDLOperation):
    """The operations that one program runs, in order."""

    name = "tx8be.subgraph"
    body = region_def("single_block")
    graph = attr_def(StringAttr)
    opset = opt_attr_def(IntegerAttr)
    traits = traits_def(NoTerminator())


class NodeOperation(TensorOperation):
    """An operator of the specification.

    ``onnx`` has its attributes, ``known`` the operands whose values fix the code, by position. ``dtypes``
    are the element types in the specification: of every operand ("" where one was left away), then of the
    results, whose names are ``values`` ("" for one that is not wanted).
    """

    known = opt_attr_def(DictionaryAttr)
    dtypes = opt_attr_def(ArrayAttr)
    values = opt_attr_def(ArrayAttr)

    @property
    def operator(self) -> str:
        """Its name in the specification."""
        return _OPERATOR_NAMES[self.name]

    @property
    def op(self) -> str:
        return self.operator

    def verify_(self) -> None:
        super().verify_()
        record = OPERATORS[self.operator]
        if not record.inputs[-1].variadic and len(self.operands) > len(record.inputs):
            raise self.refuse(f"{len(self.operands)} operands, {self.operator} has {len(record.inputs)}")


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


#: Names that operations of the dialect's own have taken.
_RENAMED = {"Cast": "convert"}
_OPERATOR_NAMES = {f"tx8be.{_RENAMED.get(name, _snake(name))}": name for name in OPERATORS}


@cache
def _operation(operator: str) -> type[NodeOperation]:
    name = next(name for name, known in _OPERATOR_NAMES.items() if known == operator)
    fields = {"name": name, "__doc__": OPERATORS[operator].summary}
    return irdl_op_definition(type(f"{operator}Op", (NodeOperation,), fields))


class _NodeOperations(Mapping[str, type[NodeOperation]]):
    """The classes by operator. Each is made when it is first asked for: a network needs few of them, and
    making all takes longer than most passes."""

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
    *(GroupOp, LoadVarOp, StoreVarOp),
]


@cache
def tx8be() -> Dialect:
    """The dialect with all its operations, for those who read it as text."""
    return Dialect("tx8be", [*OWN_OPERATIONS, *NODE_OPERATIONS.values()], [TF32Type])


__all__ = [
    "NODE_OPERATIONS",
    "CastOp",
    "ChannelNormOp",
    "GroupOp",
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
