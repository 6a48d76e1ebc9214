"""States: inputs and outputs of a graph that are the same memory, so that one run finds what another left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from compiler.graph import Graph, GraphError, Tensor
from tx8isa.tools.suggestions import hint


def with_states(graph: Graph, states: Mapping[str, str]) -> Graph:
    """The graph with inputs that are the same memory as outputs, by name: ``{"past": "present"}``.

    GraphError, with every mistake, for names that the graph does not have, for an output that is two states,
    and for tensors that differ in shape or element type, or have no elements.
    """
    problems = list(_problems(graph, states))
    if problems:
        raise GraphError(problems)
    return replace(graph, states=tuple(states.items()))


def _problems(graph: Graph, states: Mapping[str, str]) -> Iterator[str]:
    inputs, outputs = ({tensor.name: tensor for tensor in some} for some in (graph.inputs, graph.outputs))
    for past, present in states.items():
        what = f"state {past}={present}"
        if past not in inputs:
            names = f"{_listed(inputs)}{hint(past, inputs)}"
            yield f"{what}: the graph has no input '{past}'; its inputs: {names}"
        elif present not in outputs:
            names = f"{_listed(outputs)}{hint(present, outputs)}"
            yield f"{what}: the graph has no output '{present}'; its outputs: {names}"
        elif list(states.values()).count(present) > 1:
            yield f"{what}: output '{present}' is the state of another input too; give it to one"
        else:
            yield from _misfits(what, inputs[past], outputs[present])


def _misfits(what: str, past: Tensor, present: Tensor) -> Iterator[str]:
    """What keeps an input and an output from being the same memory."""
    if (past.shape, past.dtype) != (present.shape, present.dtype):
        yield f"{what}: input is {_described(past)}, output is {_described(present)}; expected the same"
    elif not past.size:
        yield f"{what}: {_described(past)} has no elements that could stay from run to run"


def _described(tensor: Tensor) -> str:
    return f"{'x'.join(map(str, tensor.shape)) or 'scalar'} {tensor.dtype}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"
