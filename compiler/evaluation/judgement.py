"""Compares the outputs of a run with the reference, and tells whether the program or the format is at fault.

The reference evaluates the model in binary64 with inputs and weights that are not rounded. A format rounds
them before anything is computed; the error of that rounding alone is measured with the same reference. So
does the error of quantising, if the program computes in bytes what the model has as floats.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from compiler.graph import Array, Graph, Tensor
from compiler.operators import OPERATORS

from .reference import quantises, run_reference
from .tolerance import BYTES, Kind, Tolerance, Verdict, judge

Blame = Literal["program", "format", "both", "quantising"]

_UNROUNDED = "fp32"
"""The compute type that holds all inputs and constants unchanged."""


@dataclass(frozen=True)
class FloatModel:
    """The network of floats before it was quantised.

    ``loss``: the share of the cosine that the user allows quantising to lose; None if not given.
    ``ranges``: the least and the largest value of inputs in the samples.
    """

    graph: Graph
    loss: float | None = None
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def limit(self) -> Tolerance:
        """The tolerance for differences from the floats' outputs: the larger of ``BYTES`` and the user's."""
        most = 1 - (BYTES.cosine or 0.0)
        return BYTES if self.loss is None or self.loss <= most else Tolerance(cosine=1 - self.loss)

    def advice(self, inputs: Mapping[str, Array]) -> str:
        """Advice if quantising loses too much for some inputs."""
        for name, (least, most) in self.ranges.items():
            low, high = float(inputs[name].min()), float(inputs[name].max())
            if low < least or high > most:
                found = f"input '{name}' has {low:.3g} to {high:.3g}, the samples {least:.3g} to {most:.3g}"
                return f"{found}: try samples like the inputs"
        return "try other samples, another --calibration, --max-loss or --dtype auto"


@dataclass(frozen=True)
class Quantising:
    """The errors of an output from floats to bytes, and from bytes to the chip.

    ``alone`` compares the quantised graph, in binary64, with the network of floats; ``chip`` compares the
    program with the quantised graph.
    """

    alone: Verdict
    chip: Verdict


@dataclass(frozen=True)
class Judgement:
    """One output of a run, judged.

    ``verdict`` compares it with the model's own numbers. ``rounding`` compares with these the reference with
    rounded inputs and weights. ``blame`` says what makes a failing output wrong: the ``format`` if the
    program agrees with the rounded reference, the ``program`` if rounding alone stays within the tolerance,
    else ``both``; None for an output that passes.

    For a quantised network the model's own numbers are those of the floats; ``rounding`` and these three
    blames refer to the quantised graph. If they find the program right, ``quantising`` is at fault.
    ``quantised`` has the single errors.
    """

    verdict: Verdict
    rounding: Verdict
    blame: Blame | None = None
    quantised: Quantising | None = None

    @property
    def as_the_format_allows(self) -> bool:
        """True if the program is right, even if the format or the quantised graph is not good enough."""
        return self.blame in (None, "format", "quantising")


def judged(
    graph: Graph,
    dtype: str,
    outputs: Mapping[str, Array],
    inputs: Mapping[str, Array],
    source: FloatModel | None = None,
) -> dict[str, Judgement]:
    """Judge the outputs that a program of compute type ``dtype`` gave for some inputs.

    ``source``: the graph before it was quantised. GraphError for inputs that do not fit.
    """
    exact = run_reference(graph, inputs)
    rounded = exact if dtype == _UNROUNDED else run_reference(graph, inputs, storage=dtype)
    found = {
        tensor.name: _judgement(
            graph, tensor, dtype, outputs[tensor.name], exact[tensor.name], rounded[tensor.name]
        )
        for tensor in graph.outputs
    }
    if source is None:
        return found
    floats = run_reference(source.graph, inputs)
    return {
        name: _with_floats(each, dtype, (outputs[name], exact[name], floats[name]), source, inputs)
        for name, each in found.items()
    }


def _with_floats(
    found: Judgement,
    dtype: str,
    values: tuple[Array, Array, Array],
    source: FloatModel,
    inputs: Mapping[str, Array],
) -> Judgement:
    """The judgement of an output of a quantised graph, compared with the network of floats as well.

    ``values``: the output on the chip, of the quantised graph, and of the network of floats.
    """
    got, exact, floats = values
    verdict, alone = (judge("quantised", dtype, each, floats, limit=source.limit) for each in (got, exact))
    blame = found.blame
    if blame is not None:
        verdict = replace(verdict, ok=False, text=f"compared with the quantised graph: {found.verdict.text}")
    elif not verdict.ok:
        cost = f"it alone costs max error {alone.max_abs_error:.3g}, cosine {alone.cosine:.7f}"
        told = f"quantising is at fault: {cost}; {source.advice(inputs)}"
        blame, verdict = "quantising", replace(verdict, text=f"{verdict.text}; {told}")
    return Judgement(verdict, found.rounding, blame, Quantising(alone, found.verdict))


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
    """The sentence that says why an output is wrong."""
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
    return "movement" if all(OPERATORS[node.op].moves for node in graph.nodes) else "operator"
