"""Records of operators that are defined by their expansions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from compiler.graph import Array, Box, Node, Shape
from compiler.operators.boxes.forms import elementwise
from compiler.operators.boxes.propagation import propagated
from compiler.operators.record import (
    OPERATORS,
    Attribute,
    Call,
    Expansion,
    Input,
    Intermediates,
    Needs,
    Operator,
    Output,
    Reference,
    Rule,
    Uniform,
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
    ranged_expansion: Expansion | None = None,
    written_out: bool | None = None,
    **properties: Any,
) -> Operator:
    """Register an operator whose shapes, dtypes, reference and needs follow from its expansion.

    ``needs`` is given if it can be more precise than the needs derived from the expansion. Indices hide which
    elements an operator reads. ``result`` gives dtype and shape of the only output without expanding the
    call. An operator needs it if its expansion makes arrays whose size the operands do not bound. Then the
    size of the result is checked before anything of that size is made. ``written_out`` is true by default for
    operators outside of ONNX's own domains, which rewrites do not know. ``properties`` are properties of the
    record that do not follow from the expansion.
    """
    uniform = properties.pop("uniform", None) or _uniform_of(expansion)
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
            ranged_expansion=ranged_expansion,
            needs=needs or _needs_of(expansion),
            scratch=_scratch_of(expansion),
            precise=precise,
            written_out=_is_foreign(name) if written_out is None else written_out,
            uniform=uniform,
            **properties,
        )
    )


_OWN_DOMAINS = ("", "ai.onnx.ml")


def _is_foreign(name: str) -> bool:
    """Return True for the name of an operator outside of the domains that ONNX itself defines."""
    return name.rpartition(".")[0] not in _OWN_DOMAINS


def _uniform_of(expansion: Expansion) -> Uniform:
    """Return True along every axis if the expansion only computes element by element, with constant
    numbers."""

    def uniform(call: Call, axis: int) -> bool:
        if _uniform_of not in call.answers:
            build, _ = _expanded(call, expansion)
            given = {tensor.name for tensor in call.inputs if tensor is not None}
            numbers = all(array.size == 1 for name, array in build.constants.items() if name not in given)
            by_element = all(OPERATORS[node.op].needs is elementwise for node in build.nodes)
            call.answers[_uniform_of] = numbers and by_element
        return bool(call.answers[_uniform_of])

    return uniform


def _expanded(call: Call, expansion: Expansion) -> tuple[Builder, tuple[str, ...]]:
    """Expand one call outside of a graph; return the nodes and the names of the results."""
    tensors = {tensor.name: tensor for tensor in call.inputs if tensor is not None}
    known = zip(call.inputs, call.values, strict=False)
    constants = {t.name: value for t, value in known if t is not None and value is not None}
    prefix = "part"
    while any(name.startswith(f"{prefix}.") for name in tensors):  # the call is itself part of an expansion
        prefix += "+"
    build = Builder(prefix, call.opset, tensors, constants)
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
    """Return needs that go backwards through the nodes of an expansion."""

    def needs(call: Call, number: int, box: Box) -> tuple[Box | None, ...]:
        build, results = _expanded(call, expansion)
        found = propagated(build, build.nodes, {results[number]: box})
        return tuple(found.get(tensor.name) if tensor is not None else None for tensor in call.inputs)

    return needs


def _reference_of(expansion: Expansion) -> Reference:
    """Return a reference that runs the references of the expansion's nodes one after another."""

    def reference(call: Call, *operands: Array | None) -> tuple[Array, ...]:
        build, results = _expanded(call, expansion)
        values = {name: widened(array) for name, array in build.constants.items()}
        given = zip(call.inputs, operands, strict=False)
        values |= {tensor.name: array for tensor, array in given if tensor is not None and array is not None}
        for node, part, dead in _steps(build, results):
            found = OPERATORS[node.op].reference(
                part, *[values[name] if name else None for name in node.inputs]
            )
            values |= dict(zip(node.outputs, found, strict=False))
            for name in dead:
                values.pop(name, None)
        return tuple(values[name] if name else np.zeros(()) for name in results)

    return reference


def _scratch_of(expansion: Expansion) -> Callable[[Call], Intermediates]:
    """Return the count of elements that the reference of an expansion holds and computes in between."""

    def scratch(call: Call) -> Intermediates:
        build, results = _expanded(call, expansion)
        live = {name: array.size for name, array in build.constants.items()}
        most, computed = sum(live.values()), 0
        for node, part, dead in _steps(build, results):
            inside = OPERATORS[node.op].scratch(part)
            made = {name: build.tensors[name].size for name in node.outputs if name}
            live |= {name: size for name, size in made.items() if name not in results}
            most = max(most, sum(live.values()) + inside.held)
            computed += sum(made.values()) + inside.computed
            for name in dead:
                live.pop(name, None)
        return Intermediates(most, computed)

    return scratch


def _steps(build: Builder, results: Sequence[str]) -> Iterator[tuple[Node, Call, set[str]]]:
    """Yield the nodes of an expansion with their calls, and the values that nothing reads after each."""
    last = {name: number for number, node in enumerate(build.nodes) for name in (*node.outputs, *node.inputs)}
    for number, node in enumerate(build.nodes):
        record = OPERATORS[node.op]
        part = resolve(node, build.opset, build.tensors, build.constants, len(record.inputs))
        names = {*node.outputs, *node.inputs} - set(results)
        yield node, part, {name for name in names if last[name] == number}
