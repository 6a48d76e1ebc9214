"""Pass ``cast``: inside the graph floats have the compute format; inputs and outputs keep their own."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from compiler.dialect.ops import CastOp, InputOp, OutputOp, TensorOperation
from compiler.dialect.types import DTYPE_FORMATS, format_of, order_of, shape_of, tensor_type
from compiler.passes.base import Context, operations
from tx8isa.formats import Format


class CastPass:
    """Retypes every value and puts casts behind inputs and before outputs whose dtype is another."""

    name = "cast"

    def run(self, context: Context, module: ModuleOp) -> None:
        declared = {tensor.name: DTYPE_FORMATS[tensor.dtype] for tensor in context.graph.outputs}
        for operation in operations(module):
            if isinstance(operation, InputOp):
                _after_input(operation, context.compute)
            elif isinstance(operation, OutputOp):
                _before_output(operation, declared[operation.node.data])
            else:
                _retype(operation.results[0], context.compute)


def _after_input(operation: InputOp, compute: Format) -> None:
    value = operation.results[0]
    if format_of(value.type).is_float and format_of(value.type) is not compute:
        made = _cast(operation, value, compute)
        Rewriter().insert_op(made, InsertPoint.after(operation))
        value.replace_uses_with_if(made.results[0], lambda use: use.operation is not made)


def _before_output(operation: OutputOp, declared: Format) -> None:
    value = operation.operands[0]
    if format_of(value.type) is not declared:
        made = _cast(operation, value, declared)
        Rewriter().insert_op(made, InsertPoint.before(operation))
        operation.operands[0] = made.results[0]


def _cast(near: TensorOperation, value: SSAValue, fmt: Format) -> CastOp:
    kind = tensor_type(fmt, shape_of(value.type), order_of(value.type))
    return CastOp.create(
        operands=[value], result_types=[kind], attributes={"node": StringAttr(near.node.data)}
    )


def _retype(value: SSAValue, fmt: Format) -> None:
    if not format_of(value.type).is_float:
        return
    Rewriter.replace_value_with_new_type(value, tensor_type(fmt, shape_of(value.type), order_of(value.type)))
