"""MaxPool and AveragePool on channel-blocked slices, with steps after them.

If all windows count equally many elements, an average is one instruction, which divides the FP32 sum once.
Otherwise the sums are multiplied by the reciprocals of the windows' counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Kernel, Target
from compiler.codegen.slices.aligned import (
    Aligned,
    Place,
    aligned_bytes,
    load_slice,
    narrowed_slice,
    slice_buffer,
    store_slice,
    widened_slice,
)
from compiler.codegen.slices.precision import stored
from compiler.codegen.slices.shards import coordinates, sharded_blocks, slices
from compiler.codegen.slices.tensors import BLOCK, DdrTensor
from compiler.codegen.slices.vector import Vector, convert
from compiler.codegen.slices.windows import (
    Geometry,
    RowBlock,
    row_as_column,
    unsupported_window,
    window_geometry,
)
from compiler.codegen.spm import SpmOverflow
from compiler.dialect.orders import Order
from compiler.evaluation.sizes import Size, always
from compiler.graph import FLOATS, Array
from compiler.lowering.pointwise.epilogue import AlignedResult, apply_steps, step_bytes
from compiler.lowering.record import Cut, Engine, Work, laws_of, lowering
from compiler.operators.record import Call, Law
from compiler.operators.windows.pool import pool_window
from tx8isa.numbers.division import ceil_div
from tx8isa.numbers.formats import Format

from .cuts import best_cuts, first_plan, plan_for
from .layer import ConvEpilogue, ConvLayer, Kind, is_exact
from .plan import ConvPlan
from .slice import ConvProblem, tile_shards
from .weights import Groups


def _check(call: Call) -> str | None:
    window = pool_window(call)
    if max(window.dilations) > 1:
        return f"dilations of 1; found {list(window.dilations)}"
    return unsupported_window(window)


Pooling = Callable[[RowBlock, Aligned], Aligned]


def pool_layer(work: Work, wide: bool) -> ConvLayer:
    """A pool in numbers; ``wide``: it is computed in FP32 whatever the format of the data."""
    source = work.input(0)
    geometry, channels = window_geometry(pool_window(work.spec)), source.shape[-1]
    direct = is_exact(work.steps) and not wide
    image = 4 * ceil_div(geometry.input_rows(1) * geometry.width, geometry.columns)
    extra = step_bytes(work.steps, Format.FP32) + (8 + image) * (not direct)
    return ConvLayer(
        geometry,
        source.shape[0],
        Groups(1, channels, channels, 1),
        source.fmt,
        source.fmt,
        Kind.POOL,
        source.blocked,
        False,
        False,
        direct,
        extra,
        len(work.steps),
        False,
        geometry,
    )


def _alone(work: Work, wide: bool) -> ConvLayer:
    """The layer of a pool that is a separate phase: an image of one row is divided as one column."""
    layer = pool_layer(work, wide)
    geometry = row_as_column(layer.geometry)
    return replace(layer, geometry=geometry, every_row=geometry)


def _window_cuts(target: Target, work: Work) -> list[Cut]:
    return best_cuts(target, _alone(work, _is_wide(work)))


def _is_wide(work: Work) -> bool:
    """True if slices are pooled in another format than theirs."""
    return work.output.fmt is Format.INT8 or (work.op == "AveragePool" and counts_differ(work.spec))


def counts_differ(call: Call) -> bool:
    """True if windows count unequal numbers of elements, or not all that they cover; also if that depends on
    dynamic sizes."""
    window = pool_window(call)
    geometry = window_geometry(window)
    if _counts_ones(call):
        pads = (*geometry.begin, *window.pads_end)
        return bool(call.integer("ceil_mode")) or not all(always(pad == 0) for pad in pads)
    return bool((_counts(call) != geometry.kernel[0] * geometry.kernel[1]).any())


@lowering(
    "MaxPool",
    stage=True,
    order=Order.CHANNELS_LAST,
    check=_check,
    cuts=_window_cuts,
    anchor=True,
    types=(*FLOATS, "int8"),
    blocked=True,
    engines=(Engine.VECTOR,),
)
def max_pool(kernel: Kernel, work: Work) -> None:
    """ct.pool.max, which ignores positions outside the image; bytes are exact in FP16."""
    layer = _alone(work, _is_wide(work))

    def pool(block: RowBlock, data: Aligned) -> Aligned:
        if data.fmt is Format.INT8:
            return largest_bytes(kernel, layer.geometry, block, data)
        return pool_slice(kernel, "max", layer.geometry, block, data)

    _pooled(kernel, work, layer, pool)


def largest_bytes(kernel: Kernel, geometry: Geometry, block: RowBlock, data: Aligned) -> Aligned:
    """The maxima of a slice of bytes, which are exact in FP16."""
    image = slice_buffer(kernel, "image", Format.FP16, data.grid, data.channels)
    convert(kernel, image.base, data.base, data.elements, data.fmt, image.fmt)
    largest = pool_slice(kernel, "max", geometry, block, image)
    result = slice_buffer(kernel, "bytes", data.fmt, largest.grid, data.channels)
    convert(kernel, result.base, largest.base, largest.elements, largest.fmt, data.fmt)
    return result


@lowering(
    "AveragePool",
    stage=True,
    order=Order.CHANNELS_LAST,
    check=_check,
    cuts=_window_cuts,
    anchor=True,
    blocked=True,
    engines=(Engine.VECTOR,),
)
def average_pool(kernel: Kernel, work: Work) -> None:
    """ct.pool.avg, or FP32 sums times a factor for each position."""
    uneven = counts_differ(work.spec)
    layer = _alone(work, uneven)
    counts_ones = uneven and _counts_ones(work.spec)
    factors = _Factors(kernel, _counts(work.spec)) if uneven and not counts_ones else None

    def pool(block: RowBlock, data: Aligned) -> Aligned:
        if not uneven:
            return pool_slice(kernel, "avg", layer.geometry, block, data)
        result = pool_slice(kernel, "sum", layer.geometry, block, data)
        if factors is None:
            _divide_by_counts(kernel, layer.geometry, block, data, result)
        else:
            factors.apply(result, block.begin * layer.geometry.columns)
        return result

    _pooled(kernel, work, layer, pool)


def _counts_ones(call: Call) -> bool:
    """True if the counts of windows depend on a run; the chip then finds them by adding up ones."""
    sized = any(isinstance(size, Size) for size in call.shape(0)[2:])
    return sized and not call.integer("count_include_pad")


def _divide_by_counts(
    kernel: Kernel, geometry: Geometry, block: RowBlock, data: Aligned, sums: Aligned
) -> None:
    """Divide FP32 sums of windows by the number of image elements in each window, computed as sums of
    ones."""
    ones = slice_buffer(kernel, "ones", Format.FP32, data.grid, min(data.channels, BLOCK))
    kernel.emit("td.memset.fp32", dst=ones.base, value=1.0, n=ones.elements)
    counts = pool_slice(kernel, "sum", geometry, block, ones)
    for _, plane in sums.by_planes(sums.grid.height):
        count = counts
        if plane.tail and counts.planes:
            one = replace(ones, channels=plane.channels)
            count = pool_slice(kernel, "sum", geometry, block, one)
        Vector(kernel, Format.FP32, plane.elements).vv("div", plane.base, plane.base, count.base)


def _counts(call: Call) -> Array:
    """Number of elements in each mean, per output position [rows, columns] (ONNX AveragePool)."""
    window, geometry = pool_window(call), window_geometry(pool_window(call))
    include = bool(call.integer("count_include_pad"))
    axes = []
    ends = window.pads_end if len(window.pads_end) == 2 else (window.pads_end[0], 0)
    for axis, (size, outputs) in enumerate(
        ((geometry.height, geometry.rows), (geometry.width, geometry.columns))
    ):
        low = -geometry.begin[axis] if include else 0
        high = size + ends[axis] if include else size
        starts = np.arange(outputs) * geometry.strides[axis] - geometry.begin[axis]
        taps = starts[:, None] + np.arange(geometry.kernel[axis])
        axes.append(((taps >= low) & (taps < high)).sum(1))
    return np.asarray(np.multiply.outer(*axes))


class _Factors:
    """A factor for each output position, spread over the channels of a plane by the matrix engine.

    A factor is the sum of two TF32 numbers, so a product of [positions, 2] with ones [2, 64] is that factor
    in every lane, up to an error of 2**-22 of it.
    """

    def __init__(self, kernel: Kernel, counts: Array) -> None:
        self.kernel = kernel
        factors = (1.0 / counts).astype(np.float32).reshape(-1)
        high = stored(factors, Format.TF32)
        pairs = np.stack([high, stored(factors - high, Format.TF32)], 1)
        table = np.zeros((len(factors), 4), np.float32)
        table[:, :2] = pairs
        self.table = DdrTensor(
            kernel.constant("factors", Format.TF32, table).symbol, Format.TF32, (table.size,)
        )
        self.ones = kernel.buffer("ones", aligned_bytes(2, BLOCK, Format.TF32))
        kernel.emit("td.memset.tf32", dst=self.ones, value=1.0, n=2 * BLOCK)

    def apply(self, data: Aligned, first: Value) -> None:
        """Multiply every plane of FP32 data by the factors from position ``first``."""
        kernel, grid = self.kernel, data.grid
        pairs = slice_buffer(kernel, "pairs", Format.TF32, grid, 2)
        source = self.table.at(first * 4)
        kernel.emit("rdma.tf32", dst=pairs.base, src=source, n=grid.positions * 4)
        widths = [BLOCK] * data.planes + [data.tail] * bool(data.tail)
        for width in sorted(set(widths)):
            lanes = slice_buffer(kernel, "lanes", Format.FP32, grid, width)
            kernel.emit(
                "ne.gemm.tf32",
                a=pairs.base,
                b=self.ones,
                out=lanes.base,
                m=grid.positions,
                k=2,
                n=width,
                rt=1,
                out_format="fp32",
            )
            for index in (i for i, plane in enumerate(widths) if plane == width):
                place = data.plane(index)
                Vector(kernel, Format.FP32, lanes.elements).vv("mul", place, place, lanes.base)


def pool_instruction(op: str) -> str:
    """Emit the instruction of a pool: the largest element of each window, or the mean of its elements."""
    return "max" if Law.EXACT in laws_of(op) else "avg"


def pool_slice(kernel: Kernel, name: str, geometry: Geometry, block: RowBlock, data: Aligned) -> Aligned:
    """One instruction, ``name`` max, avg or sum, over a slice."""
    result = slice_buffer(kernel, "y", data.fmt, block.output, data.channels)
    kernel.emit(
        f"ct.pool.{name}.{data.fmt.token}",
        dst=result.base,
        src0=data.base,
        shape=data.shape,
        dst_shape=result.shape,
        pad=block.pad,
        window=[geometry.kernel[1], geometry.kernel[0], geometry.strides[1], geometry.strides[0]],
    )
    return result


def _pooled(kernel: Kernel, work: Work, layer: ConvLayer, pool: Pooling) -> None:
    """The slices of this tile; channels are computed independently."""
    source, plan = work.input(0), _plan(kernel, work, layer)
    places = coordinates(kernel, plan.grid)
    problem = ConvProblem(
        work,
        layer,
        plan,
        ConvEpilogue(None, work.steps, layer.engine_rounds),
        *tile_shards(layer, plan, places),
    )
    for stretch, own in sharded_blocks(source.shape[-1], plan.maps, plan.map_parts, places[-1]):
        with slices(kernel, own) as (number, _), problem.blocks(kernel) as (image, block):
            first = kernel.let(number * stretch.size + stretch.start)
            data = load_slice(kernel, "x", source, block.source(image, first), block.input, stretch.size)
            if not layer.engine_rounds and data.fmt.is_float:
                data = widened_slice(kernel, data)
            finish_pool(kernel, work, pool(block, data), block.target(image, first))


def _plan(kernel: Kernel, work: Work, layer: ConvLayer) -> ConvPlan:
    if work.cut is not None:
        return plan_for(layer, work.cut)
    found = first_plan(layer, kernel.target, kernel.budget)
    if found is None:
        need = layer.geometry.input_rows(1)
        raise SpmOverflow(f"one row of output and {need} of input do not fit the SPM")
    return found


def finish_pool(kernel: Kernel, work: Work, result: Aligned, at: Place) -> None:
    """Apply the steps of a pool to a slice of its result, round it once and store it."""
    apply_steps(AlignedResult(kernel, result, at), result.base, work.steps)
    if result.fmt is not work.output.fmt:
        result = narrowed_slice(kernel, result, work.output.fmt)
    store_slice(kernel, result, work.output, at)
