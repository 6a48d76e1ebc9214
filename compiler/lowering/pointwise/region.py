"""Slices of channel-blocked results, as the steps behind an anchor see them (``pointwise.Region``)."""

from __future__ import annotations

from dataclasses import dataclass

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
from tx8isa.numbers.formats import Format


@dataclass(frozen=True)
class SliceRegion:
    """A slice of a result in the scratchpad; ``at`` is its place in the result."""

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
        """The same slice of another tensor of the result's shape, in the format of the data."""
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
