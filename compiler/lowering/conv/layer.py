"""A convolution or a pool with its steps, as the numbers on which cuts depend."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from compiler.codegen.slices.aligned import aligned_bytes, within_plane
from compiler.codegen.slices.precision import part_count
from compiler.codegen.slices.tensors import BLOCK, DdrTensor
from compiler.codegen.slices.windows import (
    Geometry,
    as_positions,
    known_geometry,
    row_as_column,
    window_geometry,
    with_dense_kernel,
    without_skipped_rows,
)
from compiler.evaluation.sizes import here
from compiler.lowering.pointwise.epilogue import step_bytes
from compiler.lowering.pointwise.record import known_number
from compiler.lowering.record import Step, Work, laws_of
from compiler.operators.record import Law
from compiler.operators.windows.conv import conv_window
from tx8isa.numbers.formats import Format
from tx8isa.numbers.limits import LARGEST_KERNEL

from .quantised.int8 import engine_bytes
from .weights import Groups, groups_of


@dataclass(frozen=True)
class ConvEpilogue:
    """The steps of a convolution's group: a residual that starts its sums, and the steps applied afterwards.

    ``residual`` is a tensor of the result's shape that is the initial value of the sums. ``exact``: the
    ``steps`` commute with rounding, so that the matrix engine can round before them.
    """

    residual: DdrTensor | None
    steps: tuple[Step, ...]
    exact: bool


def epilogue_of(work: Work) -> ConvEpilogue:
    """The epilogue of a work; if its first step adds a tensor of the result's shape, that is the residual.

    Sums of bytes begin with integers, so for them this addition is an ordinary step.
    """
    steps, residual = work.steps, None
    if steps and work.input(0).fmt is not Format.INT8:
        residual = _whole_addend(steps[0], work.output)
    if residual is not None:
        steps = steps[1:]
    return ConvEpilogue(residual, steps, is_exact(steps))


def is_exact(steps: Sequence[Step]) -> bool:
    """True if steps commute with rounding."""
    return all(Law.EXACT in laws_of(step.op) and not _tensors(step) for step in steps)


def _tensors(step: Step) -> list[DdrTensor]:
    """The operands of a step that are tensors, not single numbers."""
    return [tensor for tensor in step.operands if tensor is not None and known_number(tensor) is None]


def _whole_addend(step: Step, result: DdrTensor) -> DdrTensor | None:
    """The tensor of the result's shape that a step adds; None if the step does anything else."""
    others = _tensors(step)
    present = sum(tensor is not None for tensor in step.call.inputs)
    if Law.SUM not in laws_of(step.op) or present != 2 or len(others) != 1 or len(step.running) != 1:
        return None
    return others[0] if others[0].shape == result.shape else None


_RESERVED_BYTES = 1024
"""Scratchpad bytes for the ends of lines that the buffers of a slice do not fill."""

_MOST_ZEROS = 8
"""Most elements of a dilated window for each tap, up to which ne.dwconv computes a depthwise convolution."""


class Kind(Enum):
    """The instruction that computes a layer."""

    GEMM = "ne.gemm"
    """For 1x1 convolutions: each position of the result needs only its own position of the image."""
    CONV = "ne.conv"
    DEPTHWISE = "ne.dwconv"
    """For depthwise convolutions: each channel of the result needs only its own channel of the image."""
    POOL = "ct.pool"
    """For pools: each channel of the result needs only its own channel of the image."""
    SUM = "ct.add"
    """For sums of bytes: each element of the result needs only its own elements of two images."""

    @property
    def weighted(self) -> bool:
        """True if the instruction has weights."""
        return self not in (Kind.POOL, Kind.SUM)


@dataclass(frozen=True)
class ConvLayer:
    """The numbers of a group on which its cuts and their costs depend."""

    geometry: Geometry
    batch: int
    groups: Groups
    fmt: Format
    """The format of image and weights; INT8 for products of bytes, whose sums are integers."""
    result_fmt: Format
    kind: Kind
    blocked: bool
    bias: bool
    residual: bool
    engine_rounds: bool
    """True if an engine can round to the format of the result, if a slice has all input channels."""
    extra_bytes: int
    """Scratchpad bytes that the steps need for each element of the result."""
    passes: int
    """Number of times that the vector engine processes the result for the steps."""
    packed: bool
    """True if the weights are known when compiling."""
    every_row: Geometry
    """The geometry with all rows of the image, not only those that windows touch."""
    all_positions: bool = False
    """True if a slice must have all positions of its maps, because they are pooled before they are stored."""

    @property
    def channelwise(self) -> bool:
        """True if channels and maps are the same, so that slices of maps are slices of channels too."""
        return self.kind in (Kind.DEPTHWISE, Kind.POOL, Kind.SUM)

    @property
    def sum_fmt(self) -> Format:
        """The format in which sums are accumulated, of four bytes."""
        return Format.INT32 if self.fmt is Format.INT8 else Format.FP32

    @property
    def taps(self) -> int:
        return self.geometry.kernel[0] * self.geometry.kernel[1]

    def weight_bytes(self, maps: int | None = None) -> int:
        """Scratchpad bytes of the weights of some maps, or of all, without padding."""
        inputs = 0 if not self.kind.weighted else 1 if self.channelwise else self.groups.channels
        return self.taps * inputs * (self.groups.maps if maps is None else maps) * self.fmt.bits // 8

    @property
    def grain(self) -> int:
        """Slices of maps begin at multiples of this number."""
        if self.groups.count > 1 or self.channelwise:
            return BLOCK
        return 16 if self.groups.maps % BLOCK == 0 else BLOCK

    def slice_bytes(self, rows: int, maps: int, channels: int) -> tuple[int, int]:
        """Scratchpad bytes that several slices share, and bytes of each slice."""
        geometry, fmt = self.geometry, self.fmt
        parts = part_count(fmt)
        image, result = geometry.input_rows(rows) * geometry.width, rows * geometry.columns
        inputs = maps if self.channelwise else channels
        kept = parts * aligned_bytes(self.taps * (1 if self.channelwise else maps), inputs, fmt)
        own = (1 if parts == 1 or self.kind is Kind.POOL else 3) * aligned_bytes(image, inputs, fmt)
        if not self.blocked and inputs % BLOCK:
            own += image * (inputs % BLOCK) * fmt.bits // 8
        wide, narrow = aligned_bytes(result, maps, self.sum_fmt), aligned_bytes(result, maps, self.result_fmt)
        all_channels = channels == self.groups.channels
        converted = self.result_fmt is not self.sum_fmt
        if fmt is Format.INT8:
            pooled = self.kind is Kind.POOL
            own += aligned_bytes(image, inputs, Format.FP16) if pooled else engine_bytes(image, inputs)
        if self.engine_rounds and all_channels:
            own += narrow
        else:
            own += wide + converted * narrow + self.extra_bytes * (wide // 4)
        if self.residual:
            own += narrow + converted * wide
        elif self.bias and all_channels:
            kept += wide
        if not self.blocked and maps % BLOCK:
            own += result * (maps % BLOCK) * self.result_fmt.bits // 8
        return kept + 4 * maps * (2 if fmt is Format.INT8 else 1) + _RESERVED_BYTES, own + _RESERVED_BYTES


def known_layer(layer: ConvLayer) -> ConvLayer:
    """The layer with known sizes; dynamic ones have their present values in the range."""
    return replace(
        layer,
        geometry=known_geometry(layer.geometry),
        every_row=known_geometry(layer.every_row),
        batch=here(layer.batch),
    )


def layer_of(work: Work) -> ConvLayer:
    """The numbers of a convolution. A 1x1 convolution of compact images is computed as one of a single long
    image."""
    source, call = work.input(0), work.spec
    epilogue, fmt = epilogue_of(work), source.fmt
    groups = groups_of(call, work.input(1).value is not None)
    depthwise = is_depthwise(work)
    if depthwise:
        groups = Groups(1, source.shape[-1], work.output.shape[-1], 1)
    every_row, batch, kind = row_as_column(geometry_of(work)), source.shape[0], Kind.CONV
    geometry = without_skipped_rows(every_row)
    flat = None if depthwise else as_positions(geometry, 1 if source.blocked else batch)
    if flat is not None:
        geometry, every_row, batch, kind = flat, flat, batch if source.blocked else 1, Kind.GEMM
    return ConvLayer(
        geometry,
        batch,
        groups,
        fmt,
        work.output.fmt,
        Kind.DEPTHWISE if depthwise else kind,
        blocked=source.blocked,
        bias=work.has(2),
        residual=epilogue.residual is not None,
        engine_rounds=part_count(fmt) == 1 and epilogue.exact and fmt is not Format.INT8,
        extra_bytes=step_bytes(epilogue.steps, Format.FP32),
        passes=len(epilogue.steps),
        packed=work.input(1).value is not None,
        every_row=every_row,
    )


def geometry_of(work: Work) -> Geometry:
    """The windows of the instruction; a depthwise convolution has zeros in place of dilation."""
    geometry = window_geometry(conv_window(work.spec))
    return with_dense_kernel(geometry) if is_depthwise(work) else geometry


def is_depthwise(work: Work) -> bool:
    """True if ne.dwconv can compute a convolution: every channel has a window of its own.

    The instruction has no dilation; zeros between the taps cost less than ne.conv with zero weights for all
    other channels, up to ``_MOST_ZEROS``.
    """
    call = work.spec
    group, (maps, per_group) = call.integer("group"), call.shape(1)[:2]
    geometry = window_geometry(conv_window(call))
    sparse = (
        math.prod(geometry.extent) > _MOST_ZEROS * math.prod(geometry.kernel)
        or max(geometry.extent) > LARGEST_KERNEL
    )
    return group > 1 and per_group == 1 and maps == group and not sparse and work.input(1).value is not None


def stays_in_planes(work: Work) -> bool:
    """True if the channels and maps of each group are slices of blocked tensors."""
    groups = groups_of(work.spec, work.input(1).value is not None)
    if groups.count == 1 or is_depthwise(work):
        return True
    channels, maps = work.input(0).shape[-1], work.output.shape[-1]
    return within_plane(channels, groups.channels) and within_plane(maps, groups.maps)
