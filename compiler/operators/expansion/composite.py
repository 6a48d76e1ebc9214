"""Records of operators that their expansions define."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from compiler.graph import Array, Box, Shape
from compiler.operators.boxes.propagation import propagated
from compiler.operators.record import (
    OPERATORS,
    Attribute,
    Call,
    Expansion,
    Input,
    Needs,
    Operator,
    Output,
    Reference,
    Rule,
    register,
    resolve,
)

from .builder import Builder, widened


def composite(
    *,
    name: str,
    since: int,
    summary: str,
    inputs: tuple[Input, ...],
    outputs: tuple[Output, ...],
    expansion: Expansion,
    attributes: tuple[Attribute, ...] = (),
    rules: tuple[Rule, ...] = (),
    precise: bool = False,
    result: Callable[[Call], tuple[str, Shape]] | None = None,
    needs: Needs | None = None,
) -> Operator:
    """Register an operator whose shapes, dtypes, reference and needs are those of its expansion.

    ``needs`` says more than the expansion can, in which indices hide what an operator does.

    ``result`` gives dtype and shape of the only output without expanding the call. An operator whose
    expansion makes arrays of a size that its operands do not bound must have it: the size of the result is
    checked before anything of that size is made.
    """
    return register(
        Operator(
            name=name,
            since=since,
            summary=summary,
            inputs=inputs,
            outputs=outputs,
            attributes=attributes,
            rules=rules,
            shapes=_shapes_of(expansion) if result is None else lambda call: (result(call)[1],),
            dtypes=_dtypes_of(expansion) if result is None else lambda call: (result(call)[0],),
            reference=_reference_of(expansion),
            expansion=expansion,
            needs=needs or _needs_of(expansion),
            precise=precise,
        )
    )


def _expanded(call: Call, expansion: Expansion) -> tuple[Builder, tuple[str, ...]]:
    """The nodes of the expansion of one call, without a graph around it, and the names of the results."""
    tensors = {tensor.name: tensor for tensor in call.inputs if tensor is not None}
    known = zip(call.inputs, call.values, strict=False)
    constants = {t.name: value for t, value in known if t is not None and value is not None}
    prefix = "part"
    while any(name.startswith(f"{prefix}.") for name in tensors):  # the call is itself part of an expansion
        prefix += "+"
    build = Builder(prefix, call.opset, tensors, constants, fold=False)
    results = expansion(build, call)
    if results is None:
        raise ValueError("an operator without a lowering must be expanded")
    return build, results


def _shapes_of(expansion: Expansion) -> Callable[[Call], tuple[Shape, ...]]:
    def shapes(call: Call) -> tuple[Shape, ...]:
        build, results = _expanded(call, expansion)
        return tuple(build.shape(name) if name else () for name in results)

    return shapes


def _dtypes_of(expansion: Expansion) -> Callable[[Call], tuple[str, ...]]:
    def dtypes(call: Call) -> tuple[str, ...]:
        build, results = _expanded(call, expansion)
        return tuple(build.dtype(name) if name else "" for name in results)

    return dtypes


def _needs_of(expansion: Expansion) -> Needs:
    """Backwards through the nodes of an expansion."""

    def needs(call: Call, number: int, box: Box) -> tuple[Box | None, ...]:
        build, results = _expanded(call, expansion)
        found = propagated(build, build.nodes, {results[number]: box})
        return tuple(found.get(tensor.name) if tensor is not None else None for tensor in call.inputs)

    return needs


def _reference_of(expansion: Expansion) -> Reference:
    """The references of the nodes of an expansion, one after another."""

    def reference(call: Call, *operands: Array | None) -> tuple[Array, ...]:
        build, results = _expanded(call, expansion)
        values = {name: widened(array) for name, array in build.constants.items()}
        given = zip(call.inputs, operands, strict=False)
        values |= {tensor.name: array for tensor, array in given if tensor is not None and array is not None}
        for node in build.nodes:
            record = OPERATORS[node.op]
            part = resolve(node, call.opset, build.tensors, build.constants, len(record.inputs))
            found = record.reference(part, *[values[name] if name else None for name in node.inputs])
            values |= dict(zip(node.outputs, found, strict=False))
        return tuple(values[name] if name else np.zeros(()) for name in results)

    return reference
