"""Pass ``ddr``: the symbol under which every value lies in DDR.

An alias has the symbol of its operand. A value that becomes a graph output lies in the output's buffer
from the start, when its bytes are those of the output; otherwise a copy is inserted.
"""

from __future__ import annotations

import re

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, ModuleOp, StringAttr, i64
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from compiler.dialect.ops import CastOp, InputOp, LoadConstOp, OutputOp, TensorOperation
from compiler.passes.base import Context, is_alias, operations
from tx8isa.rv import REGISTERS


class DdrPass:
    """Writes dev_info with the entry ``ddr``, and inserts copies for outputs that need one."""

    name = "ddr"

    def run(self, context: Context, module: ModuleOp) -> None:
        symbols: dict[SSAValue, str] = {}
        for operation in operations(module):
            if isinstance(operation, OutputOp):
                self._output(context, operation, symbols)
        for number, operation in enumerate(operations(module)):
            if not operation.results:
                continue
            result = operation.results[0]
            if is_alias(operation):
                symbols[result] = symbols[operation.operands[0]]
            elif result not in symbols:
                symbols[result] = _symbol(operation, number)
            operation.attributes["dev_info"] = DictionaryAttr({"ddr": StringAttr(symbols[result])})

    def _output(self, context: Context, operation: OutputOp, symbols: dict[SSAValue, str]) -> None:
        root = _root(operation.operands[0])
        if isinstance(root.owner, InputOp | LoadConstOp) or root in symbols:
            value = operation.operands[0]
            attributes = {
                "node": StringAttr(operation.node.data),
                "layout_str": StringAttr("plain"),
                "tile_parallel": IntegerAttr(context.tiles, i64),
                "chip_parallel": IntegerAttr(1, i64),
            }
            made = CastOp.create(operands=[value], result_types=[value.type], attributes=attributes)
            Rewriter().insert_op(made, InsertPoint.before(operation))
            operation.operands[0] = root = made.results[0]
        name = operation.node.data
        taken = {tensor.name for tensor in context.graph.inputs}
        symbols[root] = name if is_plain_name(name) and name not in taken else f"io.{len(symbols)}"
        operation.attributes["dev_info"] = DictionaryAttr({"ddr": StringAttr(symbols[root])})


_NAME = re.compile(r"[A-Za-z_][\w.$]*")
_OURS = re.compile(r"(v|c|io|p\d+)\..*|_start|exit")


def is_plain_name(name: str) -> bool:
    """Whether assembly can use the name of a graph input or output as its symbol."""
    return bool(_NAME.fullmatch(name)) and name not in REGISTERS and not _OURS.fullmatch(name)


def _symbol(operation: TensorOperation, number: int) -> str:
    if isinstance(operation, InputOp):
        name = operation.node.data
        return name if is_plain_name(name) else f"io.in{number}"
    return f"c.{number}" if isinstance(operation, LoadConstOp) else f"v.{number}"


def _root(value: SSAValue) -> SSAValue:
    """The value whose bytes a value has."""
    owner = value.owner
    while isinstance(owner, TensorOperation) and is_alias(owner):
        value = owner.operands[0]
        owner = value.owner
    return value
