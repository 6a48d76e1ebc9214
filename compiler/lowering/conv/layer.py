"""What a convolution or a pool and the steps behind it compute, in the numbers that their cuts depend on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from compiler.codegen.slices.aligned import BLOCK, aligned_bytes, within_plane
from compiler.codegen.slices.precision import part_count
from compiler.codegen.slices.tensors import DdrTensor
from compiler.codegen.slices.windows import Geometry, dense, flattened, skipping, upright, window_geometry
from compiler.lowering.pointwise.epilogue import step_bytes
from compiler.lowering.pointwise.record import known_number
from compiler.lowering.record import Step, Work
from compiler.operators.windows.conv import conv_window
from tx8isa.numbers.formats import Format
from tx8isa.numbers.limits import LARGEST_KERNEL

from .weights import Groups, groups_of

_EXACT = frozenset({"Relu", "Max", "Min", "Clip", "Abs", "Neg"})
"""Operators that commute with rounding."""


@dataclass(frozen=True)
class ConvEpilogue:
    """The steps of a group, as a convolution applies them.

    ``residual`` is a tensor of the result's shape to which the products are added; ``exact``: the ``steps``
    give the same before and after rounding, so that the matrix engine can round.
    """

    residual: DdrTensor | None
    steps: tuple[Step, ...]
    exact: bool


def epilogue_of(work: Work) -> ConvEpilogue:
    """A leading addition of a whole tensor becomes the start of the sums."""
    steps, residual = work.steps, None
    if steps:
        residual = _whole_addend(steps[0], work.output)
    if residual is not None:
        steps = steps[1:]
    return ConvEpilogue(residual, steps, is_exact(steps))


def is_exact(steps: Sequence[Step]) -> bool:
    """Whether steps give the same before and after rounding."""
    return all(step.op in _EXACT and not _tensors(step) for step in steps)


def _tensors(step: Step) -> list[DdrTensor]:
    """The operands of a step that are more than a number."""
    return [tensor for tensor in step.operands if tensor is not None and known_number(tensor) is None]


def _whole_addend(step: Step, result: DdrTensor) -> DdrTensor | None:
    others = _tensors(step)
    present = sum(tensor is not None for tensor in step.call.inputs)
    if step.op not in ("Add", "Sum") or present != 2 or len(others) != 1 or len(step.running) != 1:
        return None
    return others[0] if others[0].shape == result.shape else None


_RESERVED_BYTES = 1024
"""Scratchpad bytes for the ends of lines that the buffers of a slice do not fill."""

_MOST_ZEROS = 8
"""Up to so many elements of a dilated window for each tap a depthwise convolution is computed as one."""


class Kind(Enum):
    """By which instructions a layer is computed."""

    GEMM = "ne.gemm"
    """Every position of the result needs the same position of the image alone."""
    CONV = "ne.conv"
    DEPTHWISE = "ne.dwconv"
    """Every channel of the result needs the same channel of the image alone."""
    POOL = "ct.pool"
    """The same."""


@dataclass(frozen=True)
class ConvLayer:
    """A group in numbers: what its cuts and their costs depend on.

    ``extra`` bytes of scratchpad for each element of the result are needed by the steps, and ``passes`` of
    the vector engine over it. ``direct``: an engine rounds to the format of the result, if it has all input
    channels.
    """

    geometry: Geometry
    batch: int
    groups: Groups
    fmt: Format
    kind: Kind
    blocked: bool
    bias: bool
    residual: bool
    direct: bool
    extra: int
    passes: int
    packed: bool
    """Whether the weights are known when compiling."""
    every_row: Geometry
    """The window over all rows of the image."""

    @property
    def channelwise(self) -> bool:
        """Whether channels and maps are the same, so that slices of maps are slices of channels too."""
        return self.kind in (Kind.DEPTHWISE, Kind.POOL)

    @property
    def taps(self) -> int:
        return self.geometry.kernel[0] * self.geometry.kernel[1]

    @property
    def grain(self) -> int:
        """Slices of maps begin at multiples of this."""
        if self.groups.count > 1 or self.channelwise:
            return BLOCK
        return 16 if self.groups.maps % BLOCK == 0 else BLOCK

    def slice_bytes(self, rows: int, maps: int, channels: int) -> tuple[int, int]:
        """Scratchpad bytes of a slice: what stays for several of them, and what each has for itself."""
        geometry, fmt = self.geometry, self.fmt
        parts = part_count(fmt)
        image, result = geometry.input_rows(rows) * geometry.width, rows * geometry.columns
        inputs = maps if self.channelwise else channels
        kept = parts * aligned_bytes(self.taps * (1 if self.channelwise else maps), inputs, fmt)
        own = (1 if parts == 1 or self.kind is Kind.POOL else 3) * aligned_bytes(image, inputs, fmt)
        if not self.blocked and inputs % BLOCK:
            own += image * (inputs % BLOCK) * fmt.bits // 8
        wide, narrow = aligned_bytes(result, maps, Format.FP32), aligned_bytes(result, maps, fmt)
        single = channels == self.groups.channels
        rounds = fmt is not Format.FP32
        own += narrow if self.direct and single else wide + rounds * narrow + self.extra * (wide // 4)
        if self.residual:
            own += narrow + rounds * wide
        elif self.bias and single:
            kept += wide
        if not self.blocked and maps % BLOCK:
            own += result * (maps % BLOCK) * fmt.bits // 8
        return kept + 4 * maps + _RESERVED_BYTES, own + _RESERVED_BYTES


def layer_of(work: Work) -> ConvLayer:
    """The numbers of a work. Positions of several compact images are one row of positions."""
    source, call = work.input(0), work.spec
    epilogue, fmt = epilogue_of(work), work.output.fmt
    groups = groups_of(call, work.input(1).value is not None)
    depthwise = is_depthwise(work)
    if depthwise:
        groups = Groups(1, source.shape[-1], work.output.shape[-1], 1)
    every_row, batch, kind = upright(geometry_of(work)), source.shape[0], Kind.CONV
    geometry = skipping(every_row)
    flat = None if depthwise else flattened(geometry, 1 if source.blocked else batch)
    if flat is not None:
        geometry, every_row, batch, kind = flat, flat, batch if source.blocked else 1, Kind.GEMM
    rounds = part_count(fmt) == 1 and epilogue.exact
    return ConvLayer(
        geometry,
        batch,
        groups,
        fmt,
        Kind.DEPTHWISE if depthwise else kind,
        source.blocked,
        work.has(2),
        epilogue.residual is not None,
        rounds,
        step_bytes(epilogue.steps, Format.FP32),
        len(epilogue.steps),
        work.input(1).value is not None,
        every_row,
    )


def geometry_of(work: Work) -> Geometry:
    """The windows as the matrix engine takes them: dilated ones of a depthwise convolution filled up."""
    geometry = window_geometry(conv_window(work.spec))
    return dense(geometry) if is_depthwise(work) else geometry


def is_depthwise(work: Work) -> bool:
    """Whether every channel has a window of its own that the matrix engine has an instruction for.

    That has no dilation. Zeros between the taps cost less than other channels' weights, up to some number.
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
    """Whether the slices of every group are slices of blocked tensors."""
    groups = groups_of(work.spec, work.input(1).value is not None)
    if groups.count == 1 or is_depthwise(work):
        return True
    channels, maps = work.input(0).shape[-1], work.output.shape[-1]
    return within_plane(channels, groups.channels) and within_plane(maps, groups.maps)
