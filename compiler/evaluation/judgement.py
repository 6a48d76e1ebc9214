"""Compares the outputs of a run with the reference, and says whether the program or the format is at fault.

The reference evaluates the model in binary64 with inputs and weights that are not rounded. A format rounds
them before anything is computed; the error of that rounding alone is measured with the same reference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from compiler.graph import Array, Graph, Tensor

from .reference import quantises, run_reference
from .tolerance import Kind, Verdict, judge

Blame = Literal["program", "format", "both"]

_MOVEMENT = ("Reshape", "Flatten", "Transpose", "Concat", "Identity", "Slice", "Pad")

_UNROUNDED = "fp32"
"""The compute type that holds all inputs and constants as they are."""


@dataclass(frozen=True)
class Judgement:
    """One output of a run, judged.

    ``verdict`` compares it with the model's own numbers, ``rounding`` compares with them what the reference
    gives once inputs and weights are rounded. ``blame`` says what makes a failing output wrong: the
    ``format`` if the program does what the rounded reference does, the ``program`` if rounding alone stays
    within the tolerance, else ``both``; None for an output that passes.
    """

    verdict: Verdict
    rounding: Verdict
    blame: Blame | None = None

    @property
    def as_the_format_allows(self) -> bool:
        """Whether the program is right, be the format good enough or not."""
        return self.blame in (None, "format")


def judged(
    graph: Graph, dtype: str, outputs: Mapping[str, Array], inputs: Mapping[str, Array]
) -> dict[str, Judgement]:
    """Judge the outputs that a program of compute type ``dtype`` gave for some inputs.

    GraphError for inputs that do not fit.
    """
    exact = run_reference(graph, inputs)
    rounded = exact if dtype == _UNROUNDED else run_reference(graph, inputs, storage=dtype)
    return {
        tensor.name: _judgement(
            graph, tensor, dtype, outputs[tensor.name], exact[tensor.name], rounded[tensor.name]
        )
        for tensor in graph.outputs
    }


def _judgement(
    graph: Graph, tensor: Tensor, dtype: str, got: Array, exact: Array, rounded: Array
) -> Judgement:
    kind = _kind_of_output(graph, tensor)
    verdict = judge(kind, dtype, got, exact, declared=tensor.dtype)
    rounding = judge(kind, dtype, rounded, exact, declared=tensor.dtype)
    if verdict.ok:
        return Judgement(verdict, rounding)
    agrees = judge(kind, dtype, got, rounded, declared=tensor.dtype).ok
    blame: Blame = "format" if agrees else "program" if rounding.ok else "both"
    told = f"{verdict.text}; {_sentence(blame, dtype, rounding)}"
    return Judgement(replace(verdict, text=told), rounding, blame)


def _sentence(blame: Blame, dtype: str, rounding: Verdict) -> str:
    """Why an output is wrong."""
    if dtype == _UNROUNDED:
        return "the program is at fault: nothing is rounded before it"
    cost = f"max error {rounding.max_abs_error:.3g}, cosine {rounding.cosine:.7f}"
    alone = f"inputs and weights rounded to {dtype} alone cost {cost}"
    if blame == "format":
        return f"the format is at fault: {alone}, and the program does what follows from them"
    return f"the program is at fault{', and the format too' if blame == 'both' else ''}: {alone}"


def _kind_of_output(graph: Graph, tensor: Tensor) -> Kind:
    """The kind of tolerances of an output: bytes of a quantised graph may be one step off."""
    if graph.near and quantises(graph):
        return "near"
    return "quantising" if tensor.dtype in ("int8", "uint8") and quantises(graph) else kind_of(graph)


def kind_of(graph: Graph) -> Kind:
    """The kind of tolerances that apply to a graph."""
    if len(graph.nodes) > 1:
        return "model"
    return "movement" if all(node.op in _MOVEMENT for node in graph.nodes) else "operator"
