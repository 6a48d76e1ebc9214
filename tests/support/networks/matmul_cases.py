"""Matrix products compiled with a given plan, and their results by NumPy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from compiler.codegen.kernel import Kernel, Target
from compiler.codegen.slices.tensors import DdrTensor
from compiler.graph import Array, Shape, Tensor
from compiler.lowering.matmul.matmul import gemm, matmul, matmul_cuts
from compiler.lowering.record import Cut, Step, Work
from compiler.operators.record import Call
from compiler_harness import small_machine
from phase_harness import run_phase
from tx8isa.machine.description import load_machine
from tx8isa.numbers.formats import Format

SPM = load_machine(None).spm.reserved


@dataclass(frozen=True)
class Case:
    """A product as a phase by itself: the work, its integer operands, and its result."""

    work: Work
    inputs: dict[str, Array]
    want: Array

    @property
    def tensors(self) -> list[DdrTensor]:
        steps = [tensor for step in self.work.steps for tensor in step.operands]
        return [tensor for tensor in (*self.work.inputs, *steps) if tensor is not None]

    def lower(self, kernel: Kernel) -> None:
        (gemm if self.work.op == "Gemm" else matmul)(kernel, self.work)

    def cut(self, cut: Cut | None) -> Case:
        return replace(self, work=replace(self.work, cut=cut))

    def check(self, tiles: int = 16, spm: int | None = None) -> list[str]:
        """Run it and compare; returns the lines of code."""
        machine = None if spm is None else small_machine(spm)
        got, lines = run_phase(self.lower, self.inputs, self.tensors, self.work.output, tiles, machine)
        assert np.array_equal(got.astype(np.float64).reshape(self.want.shape), self.want), self.work.cut
        return lines

    def all_cuts(self, tiles: int = 16, spm: int = SPM) -> list[Cut]:
        return list(matmul_cuts(Target(tiles, spm, self.work.output.fmt), self.work))


def integers(shape: Shape, seed: int) -> Array:
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float64)


def made(
    a: Shape,
    b: Shape,
    fmt: Format = Format.FP16,
    constant: bool = False,
    stored: Format | None = None,
    out: Format = Format.FP32,
    **attrs: int,
) -> Case:
    """A MatMul, or with ``attrs`` a Gemm, with operands in DDR as ``stored`` and computed in ``fmt``."""
    left, right = integers(a, 1), integers(b, 2)
    x = DdrTensor("a", stored or fmt, a)
    y = DdrTensor("b", stored or fmt, b, right if constant else None)
    first = left.T if attrs.get("transA") else left
    want = np.asarray(first @ (right.T if attrs.get("transB") else right))
    tensors = Tensor("a", "float32", a), Tensor("b", "float32", b), None
    given: dict[str, Any] = {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0, **attrs}
    call = Call(20, given, tensors, (None, None, None), ("y",))
    result = DdrTensor("y", out, want.shape)
    operands = (x, y, None)
    work = Work("n", "Gemm" if attrs else "MatMul", operands, result, call=call, compute=fmt)
    inputs = {"a": left} if constant else {"a": left, "b": right}
    return Case(work, inputs, want)


def step(op: str, result: DdrTensor, *others: DdrTensor) -> Step:
    """A step whose first operand is the running value."""
    value = Tensor("v", "float32", result.shape)
    operands = tuple(Tensor(other.symbol, "float32", other.shape) for other in others)
    call = Call(20, {}, (value, *operands), (None,) * (1 + len(others)), ("w",))
    return Step(op, op, call, (None, *others), (0,))
