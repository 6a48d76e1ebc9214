"""Sequences of tensors and optionals, known when a model is read.

A sequence is a list of the tensors' names. An optional with an element is that element, a tensor or sequence.
Operators of the graph have neither: a tensor taken from one is a tensor of the graph.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import NodeProto

from .flow import ControlFlow, Importer
from .model import plain
from .partial import Scope, Unsupported, carries_found

Names = tuple[str, ...]


def take_sequence(importer: Importer, node: NodeProto, opset: int, scope: Scope, depth: int) -> bool:
    """Add the results of a node that makes or reads a sequence or optional; False for any other node."""
    graph, op = importer.graph, node.op_type
    given = [name for name in node.input if name in graph.sequences or name in graph.absent]
    if op == "Identity" and given:
        graph.alias(node.output[0], given[0], node.name)
        return True
    if op not in SEQUENCES:
        if given:
            raise Unsupported(f"operand '{given[0]}' is {graph.kind(given[0])}; expected a tensor")
        return False
    if op in _READERS and node.input[0] not in graph.sequences:
        raise Unsupported(f"operand '{node.input[0]}' is not a sequence of known length")
    found = SEQUENCES[op](ControlFlow(importer, node, opset, scope, depth))
    if found is None:
        graph.absent.add(node.output[0])
    elif isinstance(found, str):
        graph.alias(node.output[0], found, node.name)
    else:
        graph.sequences[node.output[0]] = found
    return True


def _elements(flow: ControlFlow) -> Names:
    return flow.graph.sequences[flow.node.input[0]]


def _number(flow: ControlFlow, operand: int) -> int | None:
    """Return the number in an operand; None when it is omitted. Unsupported when it is not known."""
    names = flow.node.input
    if operand >= len(names) or not names[operand]:
        return None
    value = flow.graph.value(names[operand])
    if value is None:
        raise Unsupported(f"its operand '{names[operand]}' must be known when compiling")
    flow.check_one(names[operand], "position")
    return int(value.reshape(-1)[0])


def _place_in(position: int, length: int) -> int:
    """Return a position from the front; Unsupported beyond the ends."""
    if not -length <= position < length:
        raise Unsupported(f"position {position} is not in a sequence of {length}")
    return position % length


def _insert(flow: ControlFlow) -> Names:
    elements, at = list(_elements(flow)), _number(flow, 2)
    if at is not None and at != len(elements):
        at = _place_in(at, len(elements))
    elements.insert(len(elements) if at is None else at, flow.node.input[1])
    return tuple(elements)


def _erase(flow: ControlFlow) -> Names:
    elements, at = list(_elements(flow)), _number(flow, 1)
    del elements[_place_in(-1 if at is None else at, len(elements))]
    return tuple(elements)


def _at(flow: ControlFlow) -> str:
    """Return an element; for a computed position, that row of all elements stacked."""
    elements, position = _elements(flow), flow.node.input[1]
    if flow.graph.value(position) is not None:
        return elements[_place_in(_number(flow, 1) or 0, len(elements))]
    shapes = {flow.graph.tensor(name).shape for name in elements}
    if len(shapes) != 1:
        raise Unsupported(
            f"its position is computed, and the elements have shapes {sorted(map(list, shapes))}"
        )
    return flow.place("Gather", [_joined(flow, elements, 0, stacked=True), flow.scalar(position)], axis=0)


def _joined(flow: ControlFlow, elements: Names, axis: int, stacked: bool) -> str:
    """Join the elements along an axis, which is a new one if they are stacked."""
    if not elements:
        raise Unsupported("its sequence is empty")
    at = flow.number([axis])
    parts = [flow.place("Unsqueeze", [name, at]) for name in elements] if stacked else elements
    return flow.place("Concat", parts, axis=axis)


def _concat(flow: ControlFlow) -> str:
    axis = plain(flow.node, "axis", 0)
    assert isinstance(axis, int)
    return _joined(flow, _elements(flow), axis, stacked=bool(plain(flow.node, "new_axis", 0)))


def _split(flow: ControlFlow) -> Names:
    name, axis = flow.node.input[0], plain(flow.node, "axis", 0)
    if name in flow.graph.bounded:
        raise carries_found(name, "its operand")
    shape = flow.graph.tensor(name).shape
    assert isinstance(axis, int)
    if not -len(shape) <= axis < len(shape):
        raise Unsupported(f"axis {axis} is not an axis of '{name}' {list(shape)}")
    if len(flow.node.input) < 2 and not plain(flow.node, "keepdims", 1):
        places = (flow.number(at) for at in range(shape[axis]))
        return tuple(flow.place("Gather", [name, place], axis=axis) for place in places)
    ends = np.cumsum(_sizes(flow, shape[axis])).tolist()
    along = flow.number([axis])
    spans = zip([0, *ends], ends, strict=False)
    return tuple(flow.place("Slice", [name, flow.number([a]), flow.number([b]), along]) for a, b in spans)


def _sizes(flow: ControlFlow, extent: int) -> list[int]:
    """Return the extents of the parts of a SplitToSequence."""
    if len(flow.node.input) < 2 or not flow.node.input[1]:
        return [1] * extent
    split = flow.graph.value(flow.node.input[1])
    if split is None:
        raise Unsupported(f"its operand '{flow.node.input[1]}' must be known when compiling")
    if split.ndim:
        sizes = [int(size) for size in split]
    else:
        each = max(int(split), 1)
        sizes = [min(each, extent - begin) for begin in range(0, extent, each)]
    if sum(sizes) != extent or min(sizes) < 1:
        raise Unsupported(f"parts of {sizes} do not make up an axis of {extent}")
    return sizes


def _optional(flow: ControlFlow) -> str | None:
    return _sole_operand(flow) or None


def _sole_operand(flow: ControlFlow) -> str:
    """Return the name of the only operand; empty if it is omitted."""
    return next(iter(flow.node.input), "")


def _has_element(flow: ControlFlow) -> str:
    name = _sole_operand(flow)
    return flow.graph.constant(np.array(bool(name) and name not in flow.graph.absent))


def _element(flow: ControlFlow) -> str:
    name = _sole_operand(flow)
    if name in flow.graph.absent:
        raise Unsupported(f"operand '{name}' is {flow.graph.kind(name)}")
    return name


SEQUENCES: dict[str, Callable[[ControlFlow], Names | str | None]] = {
    "SequenceEmpty": lambda flow: (),
    "SequenceConstruct": lambda flow: tuple(flow.node.input),
    "SequenceInsert": _insert,
    "SequenceErase": _erase,
    "SequenceAt": _at,
    "SequenceLength": lambda flow: flow.number(len(_elements(flow))),
    "ConcatFromSequence": _concat,
    "SplitToSequence": _split,
    "Optional": _optional,
    "OptionalHasElement": _has_element,
    "OptionalGetElement": _element,
}
_READERS = ("SequenceInsert", "SequenceErase", "SequenceAt", "SequenceLength", "ConcatFromSequence")
