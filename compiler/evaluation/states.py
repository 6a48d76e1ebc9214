"""States: inputs and outputs of a graph in the same memory, so that a run continues from the one before."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from compiler.graph import Graph, GraphError, Tensor
from compiler.operators.reductions.found import sized_outputs
from tx8isa.tools.suggestions import hint


def with_states(graph: Graph, states: Mapping[str, str], ranged: bool = False) -> Graph:
    """The graph with inputs that are the same memory as outputs, by name: ``{"past": "present"}``.

    GraphError, with every mistake, for names that the graph does not have, for an output that is two states,
    and for tensors that differ in shape or element type, or have no elements. In a ``ranged`` graph, that of
    a program for a range of sizes, a state may grow. Its output is then longer along one axis.
    """
    problems = list(_problems(graph, states, ranged))
    if problems:
        raise GraphError(problems)
    return replace(graph, states=tuple(states.items()))


def with_states_of_entries(graphs: Mapping[str, Graph], states: Mapping[str, str]) -> dict[str, Graph]:
    """The graphs of several entries, each with the states whose input or output it has.

    GraphError, with every mistake, for a name that no entry can have, for a state of no graph, and as for
    ``with_states``.
    """
    problems, found = [], {}
    if not graphs:
        problems.append("a program of several entries: no entry is given")
    for entry, graph in graphs.items():
        names = {tensor.name for tensor in (*graph.inputs, *graph.outputs)}
        own = {past: present for past, present in states.items() if past in names or present in names}
        if not _ENTRY.fullmatch(entry):
            problems.append(f"entry '{entry}': expected a name of letters, digits and underscores")
        sized = "which a program of one network can report: compile it alone"
        problems += [
            *(
                f"entry {entry}: data decides the size of output '{name}', {sized}"
                for name in sized_outputs(graph)
            ),
            *(f"entry {entry}: {problem}" for problem in _problems(graph, own)),
        ]
        found[entry] = replace(graph, states=tuple(own.items()))
    for past, present in states.items():
        if graphs and not any(past in dict(graph.states) for graph in found.values()):
            problems.append(f"state {past}={present}: no entry has such an input or output")
    if problems:
        raise GraphError(problems)
    return found


_ENTRY = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")


def _problems(graph: Graph, states: Mapping[str, str], ranged: bool = False) -> Iterator[str]:
    inputs, outputs = ({tensor.name: tensor for tensor in some} for some in (graph.inputs, graph.outputs))
    for past, present in states.items():
        what = f"state {past}={present}"
        if past not in inputs:
            names = f"{_listed(inputs)}{hint(past, inputs)}"
            yield f"{what}: the graph has no input '{past}'; its inputs: {names}"
        elif present not in outputs:
            names = f"{_listed(outputs)}{hint(present, outputs)}"
            yield f"{what}: the graph has no output '{present}'; its outputs: {names}"
        elif present in sized_outputs(graph):
            yield f"{what}: data decides the size of output '{present}'; a state has the same in every run"
        elif list(states.values()).count(present) > 1:
            yield f"{what}: output '{present}' is the state of another input too; give it to one"
        else:
            yield from _misfits(what, inputs[past], outputs[present], ranged)


def _misfits(what: str, past: Tensor, present: Tensor, ranged: bool) -> Iterator[str]:
    """The reasons why an input and an output cannot be the same memory."""
    longer = [a < b for a, b in zip(past.shape, present.shape, strict=False) if a != b] == [True]
    if longer and len(past.shape) == len(present.shape) and past.dtype == present.dtype:
        if not ranged:
            sizes = f"input is {_described(past)}, output is {_described(present)}"
            yield f"{what}: {sizes}; a state that grows needs the range of its length: --dim NAME=0:100:512"
    elif (past.shape, past.dtype) != (present.shape, present.dtype):
        yield f"{what}: input is {_described(past)}, output is {_described(present)}; expected the same"
    elif not past.size:
        yield f"{what}: {_described(past)} has no elements that could stay from run to run"


def _described(tensor: Tensor) -> str:
    return f"{'x'.join(map(str, tensor.shape)) or 'scalar'} {tensor.dtype}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"
