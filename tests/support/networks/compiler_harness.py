"""Graphs made in a test, compiled, run on the emulated chip and judged against the binary64 reference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

import compiler
import emulator
from asm.image import read_image, write_image
from buffer_bounds import beyond_buffers
from compiler.driver import Program
from compiler.evaluation.infer import build_graph
from compiler.graph import Array, Description, Graph, Node, Tensor
from compiler.tools import run
from tx8isa.machine.description import Machine, load_machine

Attrs = Mapping[str, Any]
NodeSpec = tuple[str, Sequence[str], Sequence[str], Attrs]

#: A scratchpad that forces every lowering into many slices with tails.
SMALL_SPM = 0x8000


def small_machine(spm_bytes: int = SMALL_SPM) -> Machine:
    """The TX81 with a smaller scratchpad."""
    machine = load_machine(None)
    spm = msgspec.structs.replace(machine.spm, bytes=spm_bytes, reserved=spm_bytes)
    return msgspec.structs.replace(machine, spm=spm, name=f"spm{spm_bytes:#x}")


def graph(
    nodes: Sequence[NodeSpec],
    inputs: Mapping[str, tuple[int, ...]],
    constants: Mapping[str, Array] | None = None,
    outputs: Sequence[str] = ("y",),
    dtype: str = "float32",
    opset: int = 20,
) -> Graph:
    """A checked graph; its nodes are named n0, n1 ..."""
    made = [Node(op, f"n{i}", tuple(a), tuple(b), dict(attrs)) for i, (op, a, b, attrs) in enumerate(nodes)]
    tensors = tuple(Tensor(name, dtype, shape) for name, shape in inputs.items())
    return build_graph(
        Description("test", "test", opset, tensors, tuple(outputs), dict(constants or {}), tuple(made))
    )


def one(
    op: str, shapes: Sequence[tuple[int, ...]], constants: Mapping[str, Array] | None = None, **attrs: Any
) -> Graph:
    """A graph of one node whose operands are inputs a, b, c ... and then the constants."""
    names = [chr(ord("a") + i) for i in range(len(shapes))]
    node = (op, [*names, *(constants or {})], ["y"], attrs)
    return graph([node], dict(zip(names, shapes, strict=True)), constants)


def draw(*shape: int, seed: int = 5, scale: float = 1.0) -> Array:
    """Normally distributed float32 values."""
    return np.asarray(np.random.default_rng(seed).standard_normal(shape) * scale, np.float32)


def ints(*values: int) -> Array:
    """An int64 operand that is a constant."""
    return np.array(values, np.int64)


def assert_right(
    made: Graph,
    dtype: str = "fp16",
    tiles: int = 16,
    machine: Machine | None = None,
    inputs: Mapping[str, Array] | None = None,
    scale: float = 1.0,
    residency: str = "off",
    search: str = "fast",
) -> Program:
    """Compile, run and compare every output; return the program for further tests.

    By default (``residency``) every group is a separate phase, because a test of a lowering needs the code
    for all tiles, not for the shares of one. The tolerance of an output is the error of rounding inputs and
    constants to the format, so that only the program is tested.
    """
    program = compiler.compile(made, dtype, tiles, machine, residency=residency, search=search)
    given = inputs
    if given is None:
        given = {
            name: values * np.asarray(scale, values.dtype)
            for name, values in run.random_inputs(made, {}, 3).items()
        }
    outcome = run.check(program, given)
    assert_in_order(program, outcome.outputs)
    assert not (beyond := beyond_buffers(program, given)), beyond[0]
    for name, found in outcome.judgements.items():
        nodes = [str(node) for node in made.nodes]
        assert found.as_the_format_allows, f"{nodes} {dtype} {tiles} tiles, {name}: {found.verdict.text}"
    return program


def assert_in_order(program: Program, outputs: Iterable[str]) -> None:
    """Inputs and outputs have the order of the model: in the image, and as results of a run."""
    graph, buffers = program.graph, program.image.buffers
    wanted = [tensor.name for tensor in graph.outputs]
    assert [buffer.name for buffer in buffers if buffer.kind == "output"] == wanted
    assert [b.name for b in buffers if b.kind == "input"] == [tensor.name for tensor in graph.inputs]
    assert [*outputs] == wanted


def strict_outputs(made: Graph, program: Program) -> dict[str, bytes]:
    """The outputs, which are near the reference and the same on two threads, without hazards."""
    inputs = run.random_inputs(made, {}, 7)
    assert all(verdict.ok for verdict in run.check(program, inputs).verdicts.values())
    loaded = emulator.Program(read_image(write_image(program.image), "prog.bin"), program.machine)
    found = loaded.run(inputs, strict=True)
    assert loaded.hazards == ()
    assert_in_order(program, found)
    again = loaded.run(inputs, threads=2)
    assert all(again[name].tobytes() == value.tobytes() for name, value in found.items())
    return {name: value.tobytes() for name, value in found.items()}
