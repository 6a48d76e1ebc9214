"""Epilogues: the pointwise operators of a group that are applied to an anchor's result in the scratchpad."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.aligned import (
    Aligned,
    Place,
    channel_vector,
    load_slice,
    load_vector,
    narrowed_slice,
    per_channel,
    widened_slice,
)
from compiler.codegen.slices.tensors import DdrTensor
from compiler.codegen.slices.vector import WIDE, Vector, convert
from compiler.evaluation.sizes import ever
from compiler.lowering.record import Step
from compiler.operators.record import Call
from tx8isa.numbers.formats import Format

from .record import POINTWISE, Combine, Operand, Pointwise, SliceVector, known_number


class AnchorResult(Protocol):
    """A slice of an anchor's result in the scratchpad, as an epilogue sees it."""

    @property
    def kernel(self) -> Kernel: ...

    @property
    def fmt(self) -> Format:
        """The format of the data in the scratchpad."""

    @property
    def elements(self) -> Value:
        """Stored elements of the slice, padding included."""

    @property
    def room(self) -> int:
        """The largest number of stored elements that such a slice can have."""

    def load_like(self, tensor: DdrTensor) -> Value:
        """Load the same elements of a tensor in the same order, converted to ``fmt``; their address."""

    def per_channel(self, name: str, data: Value, vector: DdrTensor) -> None:
        """data = data name vector (add sub mul div max min), one value for each index of the last axis."""


@dataclass(frozen=True)
class AlignedResult:
    """A slice of a channel-blocked result; ``at`` is its place in the result."""

    kernel: Kernel
    data: Aligned
    at: Place

    @property
    def fmt(self) -> Format:
        return self.data.fmt

    @property
    def elements(self) -> Value:
        return self.data.elements

    @property
    def room(self) -> int:
        return self.data.room

    def load_like(self, tensor: DdrTensor) -> Value:
        """Load this slice of another tensor of the result's shape, in the format of the data."""
        loaded = load_slice(self.kernel, "operand", tensor, self.at, self.data.grid, self.data.channels)
        if loaded.fmt is self.fmt:
            return loaded.base
        if self.fmt is Format.FP32:
            return widened_slice(self.kernel, loaded).base
        return narrowed_slice(self.kernel, widened_slice(self.kernel, loaded), self.fmt).base

    def per_channel(self, name: str, data: Value, vector: DdrTensor) -> None:
        """data = data name vector; the data are FP32."""
        if self.fmt is not Format.FP32:
            raise ValueError(f"vectors are applied to FP32 data, not to {self.fmt.token}")
        source = channel_vector(self.kernel, "vector_data", vector)
        loaded = load_vector(self.kernel, "vector", source, self.at.lane, self.data.channels)
        per_channel(self.kernel, name, self.data.at(data, Format.FP32), loaded)


def is_per_channel(tensor: DdrTensor, result: DdrTensor) -> bool:
    """True if a tensor has one value for each index of the last axis of the result."""
    return tensor.size == tensor.shape[-1] == result.shape[-1] if tensor.shape else False


def fusable(op: str, call: Call, operands: Sequence[DdrTensor | None], result: DdrTensor) -> bool:
    """True if a call can be a step of an anchor's epilogue.

    ``operands`` are as in :class:`Step`, with None at the positions of the running value. Other operands must
    have the order of axes of ``result``, whose shape is that of the running value.
    """
    entry = POINTWISE.get(op)
    present = [at for at, tensor in enumerate(call.inputs) if tensor is not None]
    running = [at for at in present if at >= len(operands) or operands[at] is None]
    if entry is None or not running or not all(call.tensor(at).is_float for at in present):
        return False
    return result.fmt.is_float and all(
        _fits(entry, at, operands[at], running[0], result) for at in present if at not in running
    )


def _fits(entry: Pointwise, at: int, tensor: DdrTensor | None, running: int, result: DdrTensor) -> bool:
    assert tensor is not None
    if known_number(tensor) is not None:
        return True
    if tensor.shape == result.shape and tensor.blocked == result.blocked:
        return True
    return entry.combines(at) and (entry.commutative or running == 0) and is_per_channel(tensor, result)


def apply_steps(result: AnchorResult, data: Value, steps: Sequence[Step]) -> None:
    """Apply the steps to the data of a result, in place."""
    running = _RunningValue(result, data)
    for step in steps:
        running.apply(step)
    running.finish()


def step_bytes(steps: Sequence[Step], fmt: Format) -> int:
    """Scratchpad bytes that :func:`apply_steps` needs for each element of its data in ``fmt``."""
    wide = any(POINTWISE[step.op].wide for step in steps) and fmt not in WIDE
    largest = 0
    for step in steps:
        tensors = [tensor for tensor in step.operands if tensor is not None]
        loaded = sum(known_number(tensor) is None for tensor in tensors)
        width = 4 if wide else fmt.bits // 8
        largest = max(
            largest, width * (POINTWISE[step.op].temporaries + 1) + loaded * (width + fmt.bits // 8)
        )
    return largest + 4 * wide


class _RunningValue:
    """The value to which steps are applied: ``place`` is its address, ``fmt`` its present format."""

    def __init__(self, result: AnchorResult, data: Value) -> None:
        self.result, self.data = result, data
        self.place, self.fmt = data, result.fmt

    def apply(self, step: Step) -> None:
        """Apply one step."""
        entry = POINTWISE[step.op]
        if any(tensor is not None and self._repeats(step, tensor) for tensor in step.operands):
            self._to_result_format()
        elif entry.wide:
            self._to_fp32()
        operands = [
            self._operand(step, at) for at, tensor in enumerate(step.call.inputs) if tensor is not None
        ]
        vector = SliceVector(self.result.kernel, self.fmt, self.result.elements, self._temporary)
        self.place = entry.body(vector, operands, step.call)

    def _temporary(self, name: str) -> Value:
        return self.result.kernel.buffer(name, self.fmt.bits // 8 * self.result.room)

    def _repeats(self, step: Step, tensor: DdrTensor) -> bool:
        """True if a tensor has fewer elements than the result; one that has as many is loaded whole."""
        return known_number(tensor) is None and ever(tensor.size < math.prod(_result_shape(step)))

    def _operand(self, step: Step, at: int) -> Operand:
        tensor = step.operands[at] if at < len(step.operands) else None
        if tensor is None:
            return Operand(data=self.place, overwritable=len(step.running) == 1)
        number = known_number(tensor)
        if number is not None:
            return Operand(number=number)
        if self._repeats(step, tensor):
            return Operand(combine=self._per_channel(tensor))
        loaded = self.result.load_like(tensor)
        data = loaded if self.fmt is self.result.fmt else self._as_fp32(loaded)
        return Operand(data=data, overwritable=True)

    def _per_channel(self, tensor: DdrTensor) -> Combine:
        def combine(name: str, dst: Value, a: Value) -> None:
            if dst is not a:
                self._copy(dst, a)
            self.result.per_channel(name, dst, tensor)

        return combine

    def _copy(self, dst: Value, src: Value) -> None:
        """dst = src: adding -0 changes no number."""
        Vector(self.result.kernel, self.fmt, self.result.elements).vs("add", dst, src, -0.0)

    def _as_fp32(self, data: Value) -> Value:
        """Data of the result's format as FP32."""
        if self.result.fmt in WIDE:
            return data
        kernel = self.result.kernel
        wide = kernel.buffer("wide", 4 * self.result.room)
        convert(kernel, wide, data, self.result.elements, self.result.fmt, Format.FP32)
        return wide

    def _to_fp32(self) -> None:
        if self.fmt is not Format.FP32:
            self.place, self.fmt = self._as_fp32(self.place), Format.FP32

    def _to_result_format(self) -> None:
        result = self.result
        if self.fmt is not result.fmt:
            convert(result.kernel, self.data, self.place, result.elements, self.fmt, result.fmt)
            self.place, self.fmt = self.data, result.fmt

    def finish(self) -> None:
        """Bring the value back to the address and format that the result had."""
        self._to_result_format()
        if self.place is not self.data:
            self._copy(self.data, self.place)


def _result_shape(step: Step) -> tuple[int, ...]:
    return step.call.shape(step.running[0])
