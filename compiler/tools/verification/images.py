"""Proves a program that was not compiled from a graph, such as a kernel of Triton (docs/proving.md).

The graph says what the program must compute: its inputs and outputs are arrays of the program, by name. So no
constants of the graph are in the program, and both are taken as they are, without a twin.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Protocol

import numpy as np

from asm.image import Buffer, Image
from compiler.codegen.program import layout_of
from compiler.driver import Program
from compiler.evaluation.field.rules import RULES
from compiler.evaluation.field.run import FieldGraph, held_numbers, only_finds
from compiler.evaluation.storage import compute_format
from compiler.graph import Array, Graph, GraphError, Tensor
from compiler.operators import OPERATORS
from compiler.operators.expansion.expander import expand_graph
from compiler.tools.run import travelling_type
from tx8isa.machine.description import Machine
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import Layout
from tx8isa.numbers.packing import storage_dtype
from tx8isa.numbers.prime_field import PrimeField
from tx8isa.tools.suggestions import hint

from .findings import Proof
from .prove import has_exponentials
from .recipes import Recipes
from .session import ProofSession

AFTER = ".after"
"""Ends the name of an output of the graph that is also an input: what the program leaves in the array."""
_BEFORE = ".before"
_GRAPH_FORMAT = "fp32"
"""The format of numbers in the graph; arrays may have any format of floats."""
_SHORT = 16
"""Bits of the formats to which a program may round its numbers."""


class Assembled(Protocol):
    """A program, made in any way, with its assembly as text."""

    @property
    def image(self) -> Image: ...

    @property
    def machine(self) -> Machine: ...

    @property
    def text(self) -> str: ...


def prove_image(
    program: Assembled,
    graph: Graph,
    seed: int = 1,
    explain: bool = True,
    numbers: Mapping[str, Array] | None = None,
) -> Proof:
    """Compare a program with a graph in prime fields.

    ``numbers``: arrays of inputs whose numbers decide something, such as places; others are random.
    Arrays that the program stores to, and the graph does not read, begin with random elements.
    GraphError for a graph with other arrays than the program; emulator.Fault when it stops.
    """
    _check(program.image, program.machine, graph)
    image, given = _bound(program.image, graph)
    bound = Program(given, _GRAPH_FORMAT, 1, program.text, b"", image, program.machine)
    field = PrimeField(seed, has_exponentials(bound), _compute(image), held_numbers(graph))
    wanted = _meaning(bound, field)
    session = ProofSession(bound, field, seed, explain, finds=only_finds(wanted.graph))
    return session.step(given, wanted, numbers or {})


def _meaning(program: Program, field: PrimeField) -> FieldGraph:
    """The graph in the field, without operators that mean several others."""
    graph = expand_graph(program.graph, OPERATORS.keys() - RULES.keys())
    return FieldGraph(
        graph, compute_format(_GRAPH_FORMAT), field, Recipes(field, program).computed, compiled=False
    )


def _check(image: Image, machine: Machine, graph: Graph) -> None:
    """Refuse a program that runs on several chips or at several sizes, and a graph with states."""
    parts = {
        "runs on several chips": machine.chip_count > 1,
        "has several networks": bool(image.entry_points),
        "runs a range of sizes": image.shapes is not None,
    }
    if found := [what for what, holds in parts.items() if holds]:
        raise GraphError([f"the program {found[0]}, and was not compiled from a graph"])
    if graph.states:
        raise GraphError(["the graph has states, and the program was not compiled from it"])


def _compute(image: Image) -> Format:
    """The format of 16 bits to which a program may have rounded its numbers; FP32 without one."""
    formats = {Format.parse(each.format) for each in image.buffers if each.kind != "constant"}
    short = [fmt for fmt in formats if fmt.is_float and fmt.bits == _SHORT]
    return short[0] if len(short) == 1 else Format.FP32


def _bound(image: Image, graph: Graph) -> tuple[Image, Graph]:
    """The image and the graph with the same inputs and outputs."""
    read, written = ({each.name: each for each in image.buffers if each.kind == kind} for kind in _KINDS)
    inputs = {tensor.name: tensor for tensor in graph.inputs}
    outputs = {tensor.name: tensor for tensor in graph.outputs}
    names = {name: f"{name}{AFTER}" if f"{name}{AFTER}" in outputs else name for name in written}
    _check_names("input", inputs, read)
    _check_names("output", outputs, {names[name]: each for name, each in written.items()})
    if missing := [name for name in read if name not in inputs and name not in written]:
        raise GraphError([f"the program reads '{missing[0]}', which is no input of the graph"])
    if missing := [name for name in written if names[name] not in outputs]:
        raise GraphError([f"the program stores to '{missing[0]}', which is no output of the graph"])
    kept = [_unread(each) for name, each in read.items() if name not in inputs]
    tensors = {**graph.tensors, **{tensor.name: tensor for tensor in kept}}
    whole = replace(graph, inputs=(*graph.inputs, *kept), tensors=tensors)
    buffers = (_as_declared(each, names, whole) for each in image.buffers)
    return replace(image, buffers=tuple(buffers)), whole


_KINDS = ("input", "output")


def _check_names(kind: str, tensors: Mapping[str, Tensor], buffers: Mapping[str, Buffer]) -> None:
    """Refuse a graph with an input or output that the program does not have, or has in another way."""
    for name, tensor in tensors.items():
        if name not in buffers:
            known = ", ".join(buffers) or "none"
            raise GraphError(
                [f"the program has no {kind} '{name}'{hint(name, buffers)}; its {kind}s: {known}"]
            )
        if found := next(_misfits(tensor, buffers[name]), ""):
            raise GraphError([f"{kind} '{name}' {found}"])


def _misfits(tensor: Tensor, buffer: Buffer) -> Iterator[str]:
    """Yield why a tensor of the graph cannot be an array of the program."""
    count, fmt = math.prod(buffer.shape), Format.parse(buffer.format)
    if tensor.size != count:
        yield f"has {tensor.size:,} elements in the graph, {count:,} in the program"
    if not (tensor.is_float and fmt.is_float) and tensor.dtype != _stored_type(buffer):
        yield f"is {tensor.dtype} in the graph, {_stored_type(buffer)} in the program"
    if Layout.parse(buffer.layout).blocked:
        yield f"has the layout {buffer.layout} in the program; proofs take compact arrays"


def _stored_type(buffer: Buffer) -> str:
    return buffer.dtype or storage_dtype(Format.parse(buffer.format)).name


def _unread(buffer: Buffer) -> Tensor:
    """An input for an array that the graph does not read."""
    name = "float32" if Format.parse(buffer.format).is_float else _stored_type(buffer)
    return Tensor(f"{buffer.name}{_BEFORE}", name, buffer.shape)


def _as_declared(buffer: Buffer, names: Mapping[str, str], graph: Graph) -> Buffer:
    """A buffer with the name, the shape and the type of the graph's tensor."""
    if buffer.kind not in _KINDS:
        return buffer
    declared = graph.inputs if buffer.kind == "input" else graph.outputs
    tensors = {tensor.name: tensor for tensor in declared}
    name = names[buffer.name] if buffer.kind == "output" else buffer.name
    tensor = tensors[name if name in tensors else f"{name}{_BEFORE}"]
    dtype = np.dtype(travelling_type(tensor)).name
    return replace(buffer, name=tensor.name, shape=tensor.shape, layout=layout_of(tensor.shape), dtype=dtype)
