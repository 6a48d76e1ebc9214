"""Operations of the tx8be dialect; those of graph operators are made from the operators' records.

``node`` names the graph node an operation stands for, ``operands_at`` says which operand of the
specification each operand is (those known when compiling are attributes of the node, not operands here).
``layout_str``, ``tile_parallel``, ``chip_parallel`` and ``dev_info`` are filled in by the passes.
"""

from __future__ import annotations

import re

from xdsl.dialects.builtin import DenseArrayBase, DictionaryAttr, IntegerAttr, StringAttr
from xdsl.ir import Dialect, Operation
from xdsl.irdl import (
    IRDLOperation,
    attr_def,
    irdl_op_definition,
    opt_attr_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import NoTerminator
from xdsl.utils.exceptions import VerifyException

from compiler.dialect.types import TF32Type, format_of, order_of
from compiler.operators import OPERATORS


class TensorOperation(IRDLOperation):
    """What all operations on tensors share."""

    arguments = var_operand_def()
    products = var_result_def()
    node = attr_def(StringAttr)
    operands_at = opt_attr_def(DenseArrayBase)
    attributes_of_node = opt_attr_def(DictionaryAttr, attr_name="onnx")
    perm = opt_attr_def(DenseArrayBase)
    layout_str = opt_attr_def(StringAttr)
    tile_parallel = opt_attr_def(IntegerAttr)
    chip_parallel = opt_attr_def(IntegerAttr)
    dev_info = opt_attr_def(DictionaryAttr)

    @property
    def op(self) -> str:
        """Key of the operation's lowering."""
        return self.name

    @property
    def symbol(self) -> str:
        """Where the result lies in DDR; ValueError before the ddr pass."""
        symbol = self.dev_info.data.get("ddr") if self.dev_info is not None else None
        if not isinstance(symbol, StringAttr):
            raise ValueError(f"{self.name} of node '{self.node.data}' has no place in DDR yet")
        return symbol.data

    def verify_(self) -> None:
        for value in (*self.operands, *self.results):
            try:
                format_of(value.type)
                order_of(value.type)
            except ValueError as error:
                raise VerifyException(f"{self.name} of node '{self.node.data}': {error}") from None
        positions = self.operands_at
        if positions is not None and len(positions.get_values()) != len(self.operands):
            counts = f"{len(self.operands)} operands, operands_at names {len(positions.get_values())}"
            raise VerifyException(f"{self.name} of node '{self.node.data}': {counts}")


@irdl_op_definition
class InputOp(TensorOperation):
    """A graph input; ``node`` is its name."""

    name = "tx8be.input"


@irdl_op_definition
class LoadConstOp(TensorOperation):
    """A constant of the graph; ``node`` is its name."""

    name = "tx8be.load_const"


@irdl_op_definition
class OutputOp(TensorOperation):
    """Makes a value the graph output ``node``."""

    name = "tx8be.output"


@irdl_op_definition
class CastOp(TensorOperation):
    """The same values in another format, or a copy."""

    name = "tx8be.cast"


@irdl_op_definition
class ReorderOp(TensorOperation):
    """The same values in another order of axes in DDR; ``perm`` permutes the axes as they lie there."""

    name = "tx8be.reorder"

    def verify_(self) -> None:
        super().verify_()
        axes = () if self.perm is None else self.perm.get_values()
        if sorted(axes) != list(range(len(axes))) or not axes:
            raise VerifyException(
                f"{self.name} of node '{self.node.data}': perm {list(axes)} permutes no axes"
            )


@irdl_op_definition
class SubgraphOp(IRDLOperation):
    """The operations that one program runs, in order."""

    name = "tx8be.subgraph"
    body = region_def("single_block")
    graph = attr_def(StringAttr)
    traits = traits_def(NoTerminator())


class NodeOperation(TensorOperation):
    """An operator of the specification."""

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
            found = f"{len(self.operands)} operands, {self.operator} has {len(record.inputs)}"
            raise VerifyException(f"{self.name} of node '{self.node.data}': {found}")


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


#: Names that operations of the dialect's own have taken.
_RENAMED = {"Cast": "convert"}
_OPERATOR_NAMES = {f"tx8be.{_RENAMED.get(name, _snake(name))}": name for name in OPERATORS}


def _operation(name: str, operator: str) -> type[NodeOperation]:
    fields = {"name": name, "__doc__": OPERATORS[operator].summary}
    return irdl_op_definition(type(f"{operator}Op", (NodeOperation,), fields))


NODE_OPERATIONS: dict[str, type[NodeOperation]] = {
    operator: _operation(name, operator) for name, operator in _OPERATOR_NAMES.items()
}

OWN_OPERATIONS: list[type[Operation]] = [InputOp, LoadConstOp, OutputOp, CastOp, ReorderOp, SubgraphOp]

Tx8be = Dialect("tx8be", [*OWN_OPERATIONS, *NODE_OPERATIONS.values()], [TF32Type])
