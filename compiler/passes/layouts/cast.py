"""Pass ``cast``: floats inside the graph get the compute format. Inputs and outputs keep their own, unless
control flow executes the graph, because they are then values inside another graph.

Nodes that the graph marks as precise (:class:`compiler.graph.Graph`) compute in FP32.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from compiler.dialect.ops import CastOp, InputOp, LoadConstOp, NodeOperation, OutputOp, TensorOperation
from compiler.dialect.types import DTYPE_FORMATS, format_of, order_of, shape_of, tensor_type
from compiler.operators.domains.chips.collectives import TAKE
from compiler.passes.base import Context, operations
from tx8isa.numbers.formats import Format, holds

from .state_formats import store_as_computed


class CastPass:
    """Changes the types of values, and inserts casts where an operation needs another format."""

    name = "cast"

    def run(self, context: Context, module: ModuleOp) -> None:
        declared = {tensor.name: DTYPE_FORMATS[tensor.dtype] for tensor in context.graph.outputs}
        if context.is_body:
            declared = {name: context.compute if fmt.is_float else fmt for name, fmt in declared.items()}
        casts = _Casts(context)
        for operation in operations(module):
            if isinstance(operation, InputOp) and context.is_body:
                _retype(operation.results[0], context.compute)
            elif isinstance(operation, InputOp):
                casts.after_input(operation)
            elif isinstance(operation, OutputOp):
                casts.want(operation, 0, declared[operation.node.data])
            elif isinstance(operation, LoadConstOp):
                _retype(operation.results[0], casts.of_constant(operation))
            else:
                fmt = casts.of(operation)
                # The other operand of a Take only says when it runs.
                for index in range(1 if operation.op == TAKE else len(operation.operands)):
                    casts.want(operation, index, fmt)
                for result in operation.results:
                    _retype(result, fmt)
                if operation.op == "Cast":
                    _round_as_declared(operation, fmt)
        store_as_computed(context, module)


class _Casts:
    """Decides the formats in which operations compute; each value has one cast for each format."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.made: dict[tuple[SSAValue, Format], SSAValue] = {}

    def of(self, operation: TensorOperation) -> Format:
        precise = operation.node.data in self.context.graph.precise
        return Format.FP32 if precise else self.context.compute

    def of_constant(self, operation: LoadConstOp) -> Format:
        """The format of a constant: FP32 if only precise operations use it, so that it keeps its digits."""
        users = [use.operation for use in operation.results[0].uses]
        formats = {self.of(user) for user in users if isinstance(user, TensorOperation)}
        return Format.FP32 if formats == {Format.FP32} else self.context.compute

    def want(self, operation: TensorOperation, index: int, fmt: Format) -> None:
        """Insert a cast for an operand that is a float of another format than ``fmt``."""
        value = operation.operands[index]
        if format_of(value.type) is fmt or not format_of(value.type).is_float:
            return
        if (value, fmt) not in self.made:
            made = _cast(operation, value, fmt)
            Rewriter().insert_op(made, InsertPoint.before(operation))
            self.made[value, fmt] = made.results[0]
        operation.operands[index] = self.made[value, fmt]

    def after_input(self, operation: InputOp) -> None:
        """Cast an input of another format.

        It is not rounded before an operation that quantises it, because that would change the result. The
        cast is also unnecessary if all readers compute in FP32, perhaps because the format cannot hold its
        values.
        """
        value, compute = operation.results[0], self.context.compute
        if not format_of(value.type).is_float or format_of(value.type) is compute:
            return
        users = [use.operation for use in value.uses if isinstance(use.operation, TensorOperation)]
        wide = [user for user in users if self.of(user) is Format.FP32]
        exact = wide if len(wide) == len(list(value.uses)) or any(map(_quantises, users)) else []
        made = _cast(operation, value, compute)
        Rewriter().insert_op(made, InsertPoint.after(operation))
        value.replace_uses_with_if(made.results[0], lambda use: use.operation not in (made, *exact))
        if not made.results[0].uses:
            Rewriter.erase_op(made)


_BYTE = 8
"""Bits of the integers that every float format holds."""


def _round_as_declared(operation: TensorOperation, fmt: Format) -> None:
    """Casts the result of a Cast to its declared type and back if ``fmt`` has numbers that the type lacks."""
    assert isinstance(operation, NodeOperation) and operation.dtypes is not None
    before, after = (DTYPE_FORMATS[dtype.data] for dtype in operation.dtypes)
    if not after.is_float or holds(after, fmt):
        return
    if holds(after, before) if before.is_float else before.bits <= _BYTE:
        return
    narrow = _cast(operation, operation.results[0], after)
    back = _cast(operation, narrow.results[0], fmt)
    Rewriter().insert_op([narrow, back], InsertPoint.after(operation))
    operation.results[0].replace_uses_with_if(back.results[0], lambda use: use.operation is not narrow)


def _quantises(operation: TensorOperation) -> bool:
    """True if an operation rounds its operand to integers."""
    return operation.op == "QuantiseInt8"


def _cast(near: TensorOperation, value: SSAValue, fmt: Format) -> CastOp:
    kind = tensor_type(fmt, shape_of(value.type), order_of(value.type))
    return CastOp.create(
        operands=[value], result_types=[kind], attributes={"node": StringAttr(near.node.data)}
    )


def _retype(value: SSAValue, fmt: Format) -> None:
    if not format_of(value.type).is_float:
        return
    Rewriter.replace_value_with_new_type(value, tensor_type(fmt, shape_of(value.type), order_of(value.type)))
