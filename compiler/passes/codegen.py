"""Pass ``codegen``: each operation's assembly text, from its lowering.

A lowering is asked to keep its slices below the scratchpad's size; when its buffers do not fit it is run
again for half of that. Operations that read what others wrote since the last barrier begin with one.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, ModuleOp, StringAttr, i64
from xdsl.ir import Attribute, SSAValue

from compiler.codegen.kernel import Kernel, Target
from compiler.codegen.spm import SpmOverflow
from compiler.codegen.tensors import DdrTensor
from compiler.dialect.ops import InputOp, LoadConstOp, NodeOperation, OutputOp, TensorOperation
from compiler.dialect.types import format_of, order_of, shape_of, storage_permutation
from compiler.graph import GraphError
from compiler.lowering import LOWERINGS, Order, Work
from compiler.operators import OPERATORS, call_of
from compiler.passes.base import Context, in_storage_order, is_alias, operations

_SMALLEST_BUDGET = 4096
"""Scratchpad bytes below which smaller slices are not tried."""


class CodegenPass:
    """Fills ``context.phases`` and ``context.data``, and adds the scratchpad buffers to dev_info."""

    name = "codegen"

    def run(self, context: Context, module: ModuleOp) -> None:
        unread: set[str] = set()
        used: set[str] = set()
        for operation in operations(module):
            if isinstance(operation, InputOp | LoadConstOp | OutputOp) or is_alias(operation):
                continue
            symbols = {symbol_of(value) for value in operation.operands}
            kernel = _generate(context, operation, len(context.phases), barrier=bool(symbols & unread))
            if symbols & unread:
                unread.clear()
            unread.add(symbol_of(operation.results[0]))
            context.phases.append((operation.node.data, kernel.text()))
            context.data += [*kernel.constants, *kernel.scratches]
            used |= kernel.used
            _describe(operation, kernel)
        context.used = used


def symbol_of(value: SSAValue) -> str:
    """The symbol of a value in DDR."""
    assert isinstance(value.owner, TensorOperation)
    return value.owner.symbol


def _generate(context: Context, operation: TensorOperation, number: int, barrier: bool) -> Kernel:
    """The code of one operation, with the largest slices that fit."""
    lower = LOWERINGS[operation.op].lower
    assert lower is not None
    assert operation.tile_parallel is not None
    spm = min(context.machine.spm.reserved, context.machine.spm.bytes)
    target = Target(operation.tile_parallel.value.data, spm, context.compute)
    work, budget = work_of(context, operation), spm
    while True:
        kernel = Kernel(f"p{number}", target, budget)
        kernel.out.comment(_summary(work))
        if barrier:
            kernel.synchronize()
        try:
            lower(kernel, work)
            kernel.place_buffers()
            return kernel
        except SpmOverflow as overflow:
            budget //= 2
            if budget < _SMALLEST_BUDGET:
                raise GraphError([f"node '{work.name}' ({work.op}): {overflow}"]) from None


def _summary(work: Work) -> str:
    """What a phase computes, for those who read the assembly."""
    inputs = ", ".join(_spelt(tensor) for tensor in work.inputs if tensor is not None)
    return f"{work.op.removeprefix('tx8be.')}: {inputs} -> {_spelt(work.output)}"


def _spelt(tensor: DdrTensor) -> str:
    return f"{tensor.symbol} {'x'.join(map(str, tensor.shape)) or 'scalar'}"


def work_of(context: Context, operation: TensorOperation) -> Work:
    """An operation as its lowering sees it."""
    tensors = [_tensor(context, value) for value in operation.operands]
    output = _tensor(context, operation.results[0])
    if not isinstance(operation, NodeOperation):
        extra = {} if operation.perm is None else {"perm": tuple(operation.perm.get_values())}
        return Work(operation.node.data, operation.op, None, tuple(tensors), output, extra=extra)
    assert operation.operands_at is not None
    node = context.node(operation)
    inputs: list[DdrTensor | None] = [None] * max(len(node.inputs), len(OPERATORS[node.op].inputs))
    for at, tensor in zip(operation.operands_at.get_values(), tensors, strict=True):
        inputs[int(at)] = tensor
    last = order_of(operation.results[0].type) is Order.CHANNELS_LAST
    return Work(node.name, node.op, call_of(context.graph, node), tuple(inputs), output, last)


def _tensor(context: Context, value: SSAValue) -> DdrTensor:
    order, shape = order_of(value.type), shape_of(value.type)
    stored = tuple(shape[axis] for axis in storage_permutation(len(shape), order))
    data = None
    if isinstance(value.owner, LoadConstOp):
        data = in_storage_order(context.constants[value.owner.node.data], order)
    return DdrTensor(symbol_of(value), format_of(value.type), stored, data)


def _describe(operation: TensorOperation, kernel: Kernel) -> None:
    """Add the scratchpad buffers to dev_info, as name, address and size."""
    buffers: list[Attribute] = []
    for buffer in kernel.buffers:
        if buffer.address >= 0:
            entry = {
                "name": StringAttr(buffer.symbol),
                "address": IntegerAttr(buffer.address, i64),
                "size": IntegerAttr(buffer.size, i64),
            }
            buffers.append(DictionaryAttr(entry))
    assert operation.dev_info is not None
    entries = dict(operation.dev_info.data)
    operation.attributes["dev_info"] = DictionaryAttr({**entries, "spm": ArrayAttr(buffers)})
