"""Whole programs whose time on a card was published, as models for the compiler.

Other compilers made them there, so a row judges model and compiler together. A figure below the published one
may mean a better program; a figure far below may mean that the model lacks a term.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper

import emulator
import tx8
from _graphs import gemm
from emulator.memory.buffers import travel_dtype
from emulator.timing.replay import TimeRange
from tx8isa.machine.description import Machine

_LENGTH = 1024
"""Elements of the short programs."""
_ATTENTION = (1, 28, 2048, 128)
_DISTANT = 1 / 3
"""A part of the least published time that no honest model stays below (docs/measurements.md)."""


@dataclass(frozen=True)
class Whole:
    """A program, its published times in microseconds, and a remark about the difference."""

    what: str
    model: onnx.ModelProto
    dtype: str
    samples: tuple[float, ...]
    note: str = ""
    fitted: bool = False


@dataclass(frozen=True)
class Measured:
    """A program, its simulated microseconds, and those at both ends of the ranges."""

    whole: Whole
    middle: float
    least: float
    most: float
    by_runtime: tuple[float, float]
    """The middle and the most where the vendor's C runtime submits the same commands, as it did there."""

    @property
    def holds(self) -> bool:
        """True if the range, with either way of submission, meets the published times."""
        most = max(self.most, self.by_runtime[1])
        return self.least <= max(self.whole.samples) and min(self.whole.samples) <= most

    @property
    def forgets(self) -> bool:
        """True if the model is so far below the best published time that it must lack something."""
        return self.middle < _DISTANT * min(self.whole.samples)

    def cells(self) -> tuple[str, ...]:
        whole = self.whole
        samples = " / ".join(f"{sample:,g}" for sample in whole.samples)
        verdict = f"{self.middle / _nearest(self) - 1:+.0%}, {'in' if self.holds else 'outside'} the range"
        figures = (f"{value:,.1f}" for value in (self.least, self.middle, self.most, self.by_runtime[0]))
        return whole.what, samples, *figures, verdict, "fitted" if whole.fitted else whole.note


def _nearest(found: Measured) -> float:
    """The published time that is nearest to the model's."""
    return min(found.whole.samples, key=lambda sample: abs(sample - found.middle))


def _model(
    nodes: list[onnx.NodeProto], names: str, kind: int, shape: tuple[int, ...], opset: int = 17
) -> onnx.ModelProto:
    inputs = [helper.make_tensor_value_info(name, kind, shape) for name in names]
    outputs = [helper.make_tensor_value_info("y", kind, shape)]
    graph = helper.make_graph(nodes, "whole", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def _attention() -> onnx.ModelProto:
    node = helper.make_node("Attention", ["q", "k", "v"], ["y"], is_causal=1)
    return _model([node], "qkv", TensorProto.BFLOAT16, _ATTENTION, 23)


def whole_programs() -> list[Whole]:
    """Every program that has a row."""
    half, brain, single = TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.FLOAT
    division = _model([helper.make_node("Div", ["a", "b"], ["y"])], "ab", single, (_LENGTH,))
    sigmoid = _model([helper.make_node("Sigmoid", ["a"], ["y"])], "a", half, (_LENGTH,))
    four = "plain Triton, explicit tile memory, the vendor's library, the same over the mesh"
    causal = "taken to be causal; there the engines were busy for 2.8 ms together, and hardly at once"
    return [
        Whole("division FP32, 1,024", division, "fp32", (18, 19), fitted=True),
        Whole("sigmoid FP16, 1,024", sigmoid, "fp16", (32, 36), "it sets the most of `core.program`"),
        Whole(
            "GEMM 4096 FP16",
            gemm(half),
            "fp16",
            (6000,),
            "there the engines were busy for 5.1 ms together, and hardly at once",
        ),
        Whole("GEMM 4096 BF16", gemm(brain), "bf16", (6010,), "as FP16"),
        Whole("attention 28 x 2048 x 128 BF16", _attention(), "bf16", (2680,), causal),
        Whole("GEMM 2048 FP16", gemm(half, 2048), "fp16", (2877, 999, 1026, 471), four),
        Whole("GEMM 512 FP16", gemm(half, 512), "fp16", (144, 244, 150, 168), "the same four"),
    ]


def measure(whole: Whole) -> Measured:
    """Compile a program, run it in simulated time with each way of submission, and find its range."""
    program = tx8.compile(whole.model, dtype=whole.dtype)
    least, middle, most = _times(program, program.machine)
    _, *by_runtime = _times(program, program.machine.issued_by("c-runtime"))
    return Measured(whole, middle, least, most, (by_runtime[0], by_runtime[1]))


def _times(program: tx8.Program, machine: Machine) -> tuple[float, float, float]:
    """Microseconds on a machine: the least, the middle and the most."""
    rng, wanted = np.random.default_rng(1), TimeRange()
    inputs = {
        buffer.name: rng.uniform(-1, 1, buffer.shape).astype(travel_dtype(buffer))
        for buffer in program.inputs
    }
    system = emulator.Program(program.image, machine).start(inputs, timed=True, sinks=[wanted])
    system.run()
    assert system.cycles is not None
    assert wanted.least is not None
    assert wanted.most is not None
    clock = machine.engines.clock.value / 1e6
    return wanted.least / clock, system.cycles / clock, wanted.most / clock


def whole_table(found: list[Measured]) -> list[str]:
    """The rows in Markdown; times in microseconds."""
    return [
        "| program | measured | least | model | most | by the C runtime | error | |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
        *(f"| {' | '.join(row.cells())} |" for row in found),
    ]
