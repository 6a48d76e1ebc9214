"""The program as text, from the phases that the passes have left."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from asm.image import Image
from compiler.codegen import program
from compiler.codegen.kernel import Constant, Scratch
from compiler.codegen.precision import stored
from compiler.dialect.ops import InputOp, LoadConstOp, OutputOp, TensorOperation
from compiler.dialect.types import DTYPE_FORMATS, format_of, order_of, shape_of
from compiler.graph import Tensor
from compiler.passes.base import Context, in_storage_order, is_alias, operations

Interface = list[tuple[str, Tensor, str]]
"""Graph inputs and outputs: kind, tensor, symbol."""


def program_text(context: Context, module: ModuleOp) -> tuple[str, bytes]:
    """The assembly text and the bytes of the constants' file that it includes."""
    data = program.Data()
    sources = [operation for operation in operations(module) if operation.results]
    # What has content comes first: the zeros behind it need no room in the file.
    for operation in sources:
        if isinstance(operation, LoadConstOp) and operation.symbol in context.used:
            _constant(context, data, operation)
    for entry in context.data:
        if isinstance(entry, Constant):
            data.constant(entry.symbol, entry.fmt, entry.data.shape, entry.data)
    declared: set[str] = set()
    interface = interface_of(context, module)
    for operation in sources:
        symbol = operation.symbol
        if not isinstance(operation, LoadConstOp) and symbol not in declared and not is_alias(operation):
            declared.add(symbol)
            _declare(interface, data, operation, symbol)
    for entry in context.data:
        if isinstance(entry, Scratch):
            data.space(entry.symbol, entry.size)
    name = " ".join(context.graph.name.split())
    head = [f"# {name} in {context.compute.token}, made by tx8cc", ""]
    code = [program.phase(node, lines) for node, lines in context.phases]
    start = program.prologue(context.tiles, context.machine.tiles)
    parts = [head, data.out.lines, [""], start, *code, [""], program.epilogue()]
    return "\n".join(line for part in parts for line in part) + "\n", bytes(data.blob)


def _constant(context: Context, data: program.Data, operation: LoadConstOp) -> None:
    value = operation.results[0]
    fmt, order = format_of(value.type), order_of(value.type)
    array = in_storage_order(context.constants[operation.node.data], order)
    data.constant(operation.symbol, fmt, array.shape, stored(array, fmt))


def _declare(interface: Interface, data: program.Data, operation: TensorOperation, symbol: str) -> None:
    """The directive for the tensor that an operation makes."""
    value = operation.results[0]
    fmt, shape = format_of(value.type), shape_of(value.type)
    for kind, tensor, owner in interface:
        if owner == tensor.name == symbol:
            data.interface(kind, symbol, fmt, tensor.shape, tensor.dtype)
            return
    data.space(symbol, program.bytes_of(fmt, shape))


def interface_of(context: Context, module: ModuleOp) -> Interface:
    """The graph inputs and outputs: kind, tensor, symbol."""
    found = []
    for operation in operations(module):
        if isinstance(operation, InputOp | OutputOp):
            is_input = isinstance(operation, InputOp)
            kind, tensors = ("input", context.graph.inputs) if is_input else ("output", context.graph.outputs)
            tensor = next(tensor for tensor in tensors if tensor.name == operation.node.data)
            found.append((kind, tensor, operation.symbol))
    return found


def foreign_buffers(context: Context, module: ModuleOp, image: Image) -> str:
    """Records of inputs and outputs with names that assembly cannot spell; ``image`` has the addresses."""
    lines = []
    for kind, tensor, symbol in interface_of(context, module):
        if symbol != tensor.name:
            fmt, address = DTYPE_FORMATS[tensor.dtype], image.symbols[symbol].address
            lines.append(program.buffer_record(kind, tensor.name, fmt, tensor.shape, tensor.dtype, address))
    return "".join(f"{line}\n" for line in lines)
