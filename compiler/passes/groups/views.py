"""Views: values that are one range of bytes of another value, and so need no code.

The operands of a Concat can be computed directly in its result if each of them is one range of its bytes. A
Slice whose result is one range of its operand's bytes is a view of the operand.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence

from xdsl.ir import Attribute, Operation, SSAValue

from compiler.dialect.ops import GroupOp, InputOp, NodeOperation, OutputOp, TensorOperation
from compiler.dialect.orders import Order
from compiler.dialect.planes import BLOCK, image_bytes
from compiler.dialect.types import format_of, order_of, shape_of, storage_permutation, stored_shape
from compiler.graph import Shape
from compiler.lowering.record import LOWERINGS
from compiler.operators.domains.chips.collectives import SEND, TAKE
from compiler.operators.domains.chips.stages import in_background, taken_ranges
from compiler.operators.record import Call
from compiler.operators.shapes.slicing import slice_ranges
from compiler.operators.types import axis_from_front
from compiler.passes.base import Context, is_alias
from compiler.passes.extents import is_ranged
from compiler.passes.work import call_of

from .dependences import Edges

View = tuple[SSAValue, int]
"""The value that contains a view, and the byte offset of the view in it."""


def sole_member(operation: TensorOperation, op: str) -> NodeOperation | None:
    """The operation itself, or the only member of a group, if it is the operator ``op``; else None."""
    if isinstance(operation, GroupOp):
        members = operation.members
        operation = members[0] if len(members) == 1 else operation
    return operation if isinstance(operation, NodeOperation) and operation.op == op else None


def concat_offsets(context: Context, operation: TensorOperation) -> list[tuple[SSAValue, int]] | None:
    """The operands of a Concat, each with its byte offset in the result.

    None if the operation is not a Concat, or if an operand is not a single range of the result's bytes.
    """
    member = sole_member(operation, "Concat")
    if member is None or is_ranged(context, operation.results[0]):
        return None
    result = operation.results[0]
    axis = axis_from_front(_call(context, operation, member).integer("axis"), len(shape_of(result.type)))
    offsets: list[tuple[SSAValue, int]] = []
    begin = 0
    for inner in member.operands:
        value = outside(operation, inner)
        extent = shape_of(inner.type)[axis]
        offset = None if value is None else _operand_offset(result.type, value.type, axis, begin)
        if value is None or offset is None:
            return None
        offsets.append((value, offset))
        begin += extent
    return offsets


def _operand_offset(result: Attribute, operand: Attribute, axis: int, begin: int) -> int | None:
    """The byte offset of the operand that begins at index ``begin`` of an axis; None if it is not a range."""
    order, extent = order_of(result), shape_of(operand)[axis]
    if order_of(operand) is not order:
        return None
    stored, bits = stored_shape(result), format_of(result).bits
    at = storage_permutation(len(stored), order).index(axis)
    if order is not Order.BLOCKED:
        return begin * math.prod(stored[at + 1 :]) * bits // 8 if math.prod(stored[:at]) == 1 else None
    positions = math.prod(stored[1:-1])
    if at == 0:
        return begin * image_bytes(positions, stored[-1], bits)
    whole = begin % BLOCK == 0 and (extent % BLOCK == 0 or begin + extent == stored[-1])
    if at != len(stored) - 1 or stored[0] != 1 or not whole:
        return None
    return begin * positions * bits // 8


def on_core(context: Context, operation: TensorOperation) -> bool:
    """True if the kernel core, which stores through a cache, computes an operation or a member of a group."""
    members = operation.members if isinstance(operation, GroupOp) else (operation,)
    return any(
        isinstance(member, NodeOperation)
        and (on_core := LOWERINGS[member.op].on_core) is not None
        and on_core(_call(context, operation, member))
        for member in members
    )


def _slicing_member(operation: TensorOperation) -> NodeOperation | None:
    """The Slice, or the Take of a stage of a pipeline, that an operation is."""
    return sole_member(operation, "Slice") or sole_member(operation, TAKE)


def _is_old_state(context: Context, value: SSAValue) -> bool:
    """True if a value is the old value of a state."""
    pasts = (past for past, _ in context.graph.states)
    return isinstance(value.owner, InputOp) and value.owner.node.data in pasts


def slice_view(context: Context, operation: TensorOperation) -> View | None:
    """The operand of a Slice or a Take and the byte offset of the result in it.

    None if the operation is neither, if its indices depend on the sizes of a run, or if the result is not a
    single range of the operand's bytes. A Take of a state is a copy: other parts may have been written.
    """
    member = _slicing_member(operation)
    value = None if member is None else outside(operation, member.operands[0])
    if member is None or value is None or member.numbers is not None or is_ranged(context, value):
        return None
    if member.op == TAKE and _is_old_state(context, value):
        return None
    call = _call(context, operation, member)
    kind, given = value.type, taken_ranges(call) if member.op == TAKE else slice_ranges(call)
    ranges = [given[axis] for axis in storage_permutation(len(given), order_of(kind))]
    blocked = order_of(kind) is Order.BLOCKED
    element = _first_channel(kind, ranges) if blocked else _first_element(stored_shape(kind), ranges)
    return None if element is None else (value, element * format_of(kind).bits // 8)


def stays_in_place(context: Context, operation: TensorOperation) -> bool:
    """True if an operation is a Send in the background: its result is the tensor in transit."""
    member = sole_member(operation, SEND)
    return member is not None and in_background(_call(context, operation, member))


def _first_element(shape: Shape, ranges: Sequence[range]) -> int | None:
    """The first element of indices that are one range of a compact tensor; None if they are not."""
    element = 0
    single = True
    for size, taken in zip(shape, ranges, strict=True):
        if (len(taken) != size and not single) or (len(taken) > 1 and taken.step != 1):
            return None
        element = element * size + taken.start
        single = single and len(taken) == 1
    return element


def _first_channel(kind: Attribute, ranges: Sequence[range]) -> int | None:
    """The first element of whole planes of a single image of a blocked tensor; None for other indices."""
    stored, channels = stored_shape(kind), ranges[-1]
    others = all(taken == range(size) for taken, size in zip(ranges[:-1], stored[:-1], strict=True))
    ends = len(channels) % BLOCK == 0 or channels.stop == stored[-1]
    if stored[0] != 1 or not others or channels.step != 1 or channels.start % BLOCK or not ends:
        return None
    return channels.start * math.prod(stored[1:-1])


def _call(context: Context, operation: TensorOperation, member: NodeOperation) -> Call:
    return call_of(context, member, lambda value: outside(operation, value))


def outside(operation: TensorOperation, value: SSAValue) -> SSAValue | None:
    """The value outside of the group that a member's operand is; None if a member computes it."""
    return operation.outer(value) if isinstance(operation, GroupOp) else value


def same_memory(value: SSAValue) -> SSAValue:
    """The original of a reshaped value."""
    while isinstance(value.owner, TensorOperation) and is_alias(value.owner):
        value = value.owner.operands[0]
    return value


def memory_root(value: SSAValue) -> SSAValue:
    """The value whose memory may hold a value, as a part of it and perhaps in another shape."""
    value = same_memory(value)
    while isinstance(value.owner, TensorOperation) and (part := _slicing_member(value.owner)):
        whole = outside(value.owner, part.operands[0])
        if whole is None:
            break
        value = same_memory(whole)
    return value


def readers_of(found: Sequence[TensorOperation]) -> dict[SSAValue, list[TensorOperation]]:
    """The operations that read the memory of each value, also in another shape or a part of it, in order."""
    readers: dict[SSAValue, list[TensorOperation]] = {}
    for each in found:
        for root in dict.fromkeys(map(memory_root, each.operands)):
            readers.setdefault(root, []).append(each)
    return readers


def state_edges(found: Sequence[TensorOperation]) -> Edges:
    """The edges that place the operation with the new value of a state after the readers of the old one."""
    inputs = {each.node.data: each.results[0] for each in found if isinstance(each, InputOp)}
    if not any(isinstance(each, OutputOp) and each.state is not None for each in found):
        return defaultdict(set)
    reading = readers_of(found)
    edges: dict[TensorOperation, set[TensorOperation]] = defaultdict(set)
    for each in found:
        if isinstance(each, OutputOp) and each.state is not None:
            old, writer = inputs[each.state.data], same_memory(each.operands[0]).owner
            readers = set(reading.get(old, ()))
            if isinstance(writer, TensorOperation):
                edges[writer] |= readers - {writer, each}
    return edges


def users_of(value: SSAValue) -> Iterator[Operation]:
    """The operations that use a value in any shape, except for those that reshape it."""
    for use in value.uses:
        if isinstance(use.operation, TensorOperation) and is_alias(use.operation):
            yield from users_of(use.operation.results[0])
        else:
            yield use.operation
