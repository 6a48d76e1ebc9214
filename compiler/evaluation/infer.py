"""From a description to a typed graph: names, order, operators, attributes, types, rules, shapes.

Every importer ends here, so messages are the same for all kinds of files.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Container, Iterator, Mapping
from dataclasses import replace

import numpy as np

from compiler.graph import AttrValue, Description, Graph, GraphError, Node, RefusedNode, Tensor, joined
from compiler.operators import OPERATORS
from compiler.operators.record import Attribute, Call, Input, Operator, resolve
from tx8isa.tools.suggestions import hint

from .survey import Fate, Survey


def build_graph(description: Description, survey: Survey | None = None) -> Graph:
    """Check a description and infer the shape and dtype of every value.

    Raises GraphError with every mistake of the first level that has any: names, then order, then the nodes
    one by one. If the operands of a node could not be inferred, only its operator is checked. ``survey`` gets
    the fate of each node.
    """
    survey = Survey() if survey is None else survey
    try:
        nodes = ordered_nodes(description)
    except GraphError as error:
        unknown = [problem for node in description.nodes if (problem := _unknown(description, node))]
        raise joined([*unknown, error]) from None
    tensors = {tensor.name: tensor for tensor in description.inputs}
    for name, array in description.constants.items():
        tensors[name] = Tensor(name, array.dtype.name, array.shape)
    finished: list[Node] = []
    for node in nodes:
        fate = _fate(description, node, tensors)
        survey.fates.append(fate)
        finished += fate.parts
    survey.tensors, survey.constants, survey.opset = tensors, description.constants, description.opset
    survey.stop_if_refused()
    outputs, copies = _distinct_outputs(description, tensors)
    finished += [infer_node(description, node, tensors) for node in copies]
    return Graph(
        name=description.name,
        opset=description.opset,
        inputs=description.inputs,
        outputs=tuple(tensors[name] for name in outputs),
        constants=description.constants,
        nodes=tuple(finished),
        tensors=tensors,
        files=description.files,
        shardings=description.shardings,
        doubles=description.doubles,
    )


def _distinct_outputs(description: Description, taken: Container[str]) -> tuple[list[str], list[Node]]:
    """The names of the outputs, and nodes that copy a value to each place where it is an output again."""
    outputs: list[str] = []
    copies = []
    for at, name in enumerate(description.outputs):
        own = name
        while own in outputs or (own != name and own in taken):
            own = f"{name}.{at}" if own == name else f"{own}_"
        if own != name:
            copies.append(Node("Identity", f"output {own}", (name,), (own,), {}))
        outputs.append(own)
    return outputs, copies


def ordered_nodes(description: Description) -> list[Node]:
    """The nodes in an order in which they can be run; GraphError for wrong names and cycles."""
    _stop_at(f"{description.source}: {problem}" for problem in _name_problems(description))
    return _sorted_nodes(description)


def _stop_at(problems: Iterator[str] | list[str]) -> None:
    found = list(problems)
    if found:
        raise GraphError(found)


def _fate(description: Description, node: Node, tensors: dict[str, Tensor]) -> Fate:
    """The fate of a node; its results are added to ``tensors`` if it is right."""
    refusal = _unknown(description, node)
    if refusal is not None:
        return Fate(node.op, node.name, refusal)
    if any(name and name not in tensors for name in node.inputs):
        return Fate(node.op, node.name, examined=False)
    try:
        return Fate(node.op, node.name, parts=(infer_node(description, node, tensors),))
    except GraphError as error:
        wrong = GraphError([f"{description.source}: {node}: {text}" for text in error.messages])
        return Fate(node.op, node.name, wrong)


def _unknown(description: Description, node: Node) -> GraphError | None:
    """The refusal of a node whose operator is not known, or not in this operator set."""
    own = description.internal or node.bodies
    if node.op not in OPERATORS or (OPERATORS[node.op].internal and not own):
        near = hint(node.op, (name for name in OPERATORS if not OPERATORS[name].internal))
        return RefusedNode(node.op, node.name, hint=near)
    if description.opset < OPERATORS[node.op].since:
        return RefusedNode(node.op, node.name, _too_old(node.op, description.opset))
    return None


def _too_old(op: str, opset: int) -> str:
    return f"needs opset {OPERATORS[op].since} or newer; the graph declares opset {opset}"


def _name_problems(description: Description) -> Iterator[str]:
    """Problems of names: given twice, or never defined."""
    for name, count in Counter(node.name for node in description.nodes).items():
        if count > 1:
            yield f"{count} nodes are named '{name}'; node names must differ"
    makers: dict[str, str] = {}
    for name, maker in _definitions(description):
        if name in makers:
            yield f"{maker}: tensor '{name}' is already defined by {makers[name]}"
        makers.setdefault(name, maker)
    for node in description.nodes:
        for name in node.inputs:
            if name and name not in makers:
                yield f"{node}: input '{name}' is not defined{hint(name, makers)}"
    for name in dict.fromkeys(description.outputs):
        if name not in makers:
            yield f"output '{name}' is not produced by any node{hint(name, makers)}"


def _definitions(description: Description) -> Iterator[tuple[str, str]]:
    for tensor in description.inputs:
        yield tensor.name, "the graph inputs"
    for name in description.constants:
        yield name, "the constants"
    for node in description.nodes:
        yield from ((name, str(node)) for name in node.outputs if name)


def _sorted_nodes(description: Description) -> list[Node]:
    """The nodes in topological order; among nodes that are ready the order of the file decides."""
    nodes = description.nodes
    producer = {name: index for index, node in enumerate(nodes) for name in node.outputs if name}
    needs = [{producer[name] for name in node.inputs if name in producer} for node in nodes]
    users: list[list[int]] = [[] for _ in nodes]
    for index, sources in enumerate(needs):
        for source in sources:
            users[source].append(index)
    waiting = [len(sources) for sources in needs]
    ready = [index for index, count in enumerate(waiting) if count == 0]
    order = []
    while ready:
        index = heapq.heappop(ready)
        order.append(nodes[index])
        for user in users[index]:
            waiting[user] -= 1
            if waiting[user] == 0:
                heapq.heappush(ready, user)
    if len(order) < len(nodes):
        stuck = {index for index, count in enumerate(waiting) if count}
        raise GraphError([f"{description.source}: {_cycle(nodes, needs, stuck)}"])
    return order


def _cycle(nodes: tuple[Node, ...], needs: list[set[int]], stuck: set[int]) -> str:
    """A cycle among nodes that need each other, in the direction of the data."""
    path = [min(stuck)]
    while (before := min(needs[path[-1]] & stuck)) not in path:
        path.append(before)
    loop = path[path.index(before) :][::-1]
    loop = loop[loop.index(min(loop)) :] + loop[: loop.index(min(loop))]
    names = [f"'{nodes[index].name}'" for index in [*loop, loop[0]]]
    return f"the nodes form a cycle: {' -> '.join(names)}"


def infer_node(description: Description, node: Node, tensors: dict[str, Tensor]) -> Node:
    """Check one node, add its outputs to ``tensors``, return it with its attributes complete.

    The messages of a GraphError from here do not name the node yet.
    """
    record, opset = OPERATORS[node.op], description.opset
    if opset < record.since:
        raise GraphError([_too_old(node.op, opset)])
    _stop_at(_arity_problems(record, node, opset))
    attrs = _complete_attributes(record, node, opset)
    finished = replace(node, attrs=attrs)
    call = resolve(finished, opset, tensors, description.constants, len(record.inputs))
    _stop_at(_type_problems(record, call))
    _stop_at(_constant_problems(record, node, call))
    for rule in record.rules:
        found = rule.check(call)
        if found is not None:
            raise GraphError([f"{rule.text}; found {found}"])
    for tensor in record.infer(call):
        if tensor.excess:
            raise GraphError([f"its result {tensor.excess}"])
        tensors[tensor.name] = tensor
    return finished


def _operand(inputs: tuple[Input, ...], index: int) -> Input:
    """The declaration of the operand at a position; the last one repeats if it is variadic."""
    return inputs[min(index, len(inputs) - 1)]


def _arity_problems(record: Operator, node: Node, opset: int) -> Iterator[str]:
    inputs = record.inputs_at(opset)
    most = None if inputs[-1].variadic else len(inputs)
    least = sum(not item.optional for item in inputs)
    if len(node.inputs) < least or (most is not None and len(node.inputs) > most):
        names = ", ".join(("optional " if item.optional else "") + item.name for item in inputs)
        count = f"{least} or more" if most is None else str(least) if least == most else f"{least} to {most}"
        plural = "" if count == "1" else "s"
        yield f"takes {count} input{plural} ({names}) in opset {opset}; found {len(node.inputs)}"
    else:
        for index, name in enumerate(node.inputs):
            if not name and not _operand(inputs, index).optional:
                yield f"input {index} ({_operand(inputs, index).name}) is required; found an empty name"
    if not node.outputs or (len(node.outputs) > len(record.outputs) and not record.outputs[-1].variadic):
        names = ", ".join(item.name for item in record.outputs)
        count = "1" if len(record.outputs) == 1 else f"1 to {len(record.outputs)}"
        yield f"has {count} output{'' if count == '1' else 's'} ({names}); found {len(node.outputs)}"
    elif not node.outputs[0] and not record.outputs[0].optional:
        yield f"output 0 ({record.outputs[0].name}) is required; found an empty name"


def _complete_attributes(record: Operator, node: Node, opset: int) -> Mapping[str, AttrValue]:
    known = {item.name: item for item in record.attributes if item.known_to(opset)}
    problems = [_unknown_attribute(record, name, opset, known) for name in node.attrs if name not in known]
    complete: dict[str, AttrValue] = {}
    for item in known.values():
        if item.name in node.attrs:
            value = node.attrs[item.name]
            problem = _attribute_problem(item, value)
            if problem is None:
                complete[item.name] = _stored(item, value)
            else:
                problems.append(f"attribute {item.name} must be {problem}; found {_shown(value)}")
        elif item.required:
            problems.append(f"attribute {item.name} is required")
        elif item.default is not None:
            complete[item.name] = _stored(item, item.default)
    _stop_at(problems)
    return complete


def _unknown_attribute(record: Operator, name: str, opset: int, known: Mapping[str, Attribute]) -> str:
    for item in record.attributes:
        if item.name == name:
            span = f"since opset {item.since}" if opset < item.since else f"up to opset {item.until}"
            is_operand = any(operand.name == name for operand in record.inputs_at(opset))
            reason = "; it is an input now" if is_operand else ""
            return f"attribute {name} exists {span}; the graph declares opset {opset}{reason}"
    listed = ", ".join(known) or "none"
    return f"unknown attribute '{name}'; known are {listed}{hint(name, known)}"


def _attribute_problem(item: Attribute, value: AttrValue) -> str | None:
    """None if the value is allowed, else the requirement."""
    if item.kind == "int":
        fits, what = isinstance(value, int), "an integer"
    elif item.kind == "float":
        fits, what = isinstance(value, int | float) and bool(np.isfinite(_float32(value))), "a float32 number"
    elif item.kind == "string":
        fits, what = isinstance(value, str), "a string"
    elif item.kind == "floats":
        fits = isinstance(value, tuple) and all(isinstance(element, int | float) for element in value)
        what = "a list of numbers"
    elif item.kind == "strings":
        fits = isinstance(value, tuple) and all(isinstance(element, str) for element in value)
        what = "a list of strings"
    else:
        fits = isinstance(value, tuple) and all(isinstance(element, int) for element in value)
        what = "a list of integers"
    if not fits:
        return what
    if item.allowed and value not in item.allowed:
        return f"one of {', '.join(map(str, item.allowed))}"
    elements = value if isinstance(value, tuple) else (value,)
    if item.minimum is not None and any(int(element) < item.minimum for element in elements):
        return f"{what}, at least {item.minimum}"
    return None


def _float32(value: AttrValue) -> np.float32:
    """An attribute of kind float as ONNX stores it; infinite if it does not fit."""
    with np.errstate(over="ignore"):
        return np.float32(float(str(value)))


def _stored(item: Attribute, value: AttrValue) -> AttrValue:
    """The value as an ONNX file stores it, so that graph.json and ONNX files give the same graph."""
    return float(_float32(value)) if item.kind == "float" else value


def _shown(value: AttrValue) -> str:
    return str(list(value)) if isinstance(value, tuple) else repr(value)


def _type_problems(record: Operator, call: Call) -> Iterator[str]:
    bound: dict[str, tuple[str, str]] = {}
    for index, tensor in enumerate(call.inputs):
        if tensor is None:
            continue
        item = _operand(record.inputs, index)
        label = f"{item.name} ('{tensor.name}')"
        if tensor.dtype not in item.types.allowed:
            yield f"input {label} is {tensor.dtype}; allowed are {', '.join(item.types.allowed)}"
            continue
        if not item.types.name:
            continue
        first, dtype = bound.setdefault(item.types.name, (label, tensor.dtype))
        if dtype != tensor.dtype:
            yield f"inputs {first} and {label} must have one dtype; found {dtype} and {tensor.dtype}"


def _constant_problems(record: Operator, node: Node, call: Call) -> Iterator[str]:
    for item, name, value in zip(record.inputs, node.inputs, call.values, strict=False):
        if item.constant and name and value is None:
            yield f"input {item.name} must be a constant, because it fixes a shape or value; found '{name}'"
