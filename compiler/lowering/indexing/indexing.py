"""Gathers and scatters: the core computes addresses from data.

The DMA copies long rows (indexed_rows.py), the core everything else, element by element. An index that is out
of range stops the program at an ``ebreak``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from compiler.codegen.expr import Value, Variable
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.scalar import ScalarCode, offset_of
from compiler.codegen.slices.tensors import DdrTensor, copy_views, unravel, whole
from compiler.lowering.movement.movement import convert_tensor
from compiler.lowering.pointwise.casts import fp32_scratch
from compiler.lowering.pointwise.integers import extremum, two_operands
from compiler.lowering.record import EVERY_TYPE, Engine, Work, always, lowering
from compiler.operators.record import Call
from compiler.operators.types import axis_from_front

from .indexed_rows import FEWEST_ELEMENTS, IndexedRows, gather_rows, scatter_rows


def _rows_of(call: Call) -> IndexedRows:
    """Return the rows that Gather copies, one for each index."""
    shape = call.shape(0)
    axis = axis_from_front(call.integer("axis"), len(shape))
    return IndexedRows(math.prod(call.shape(1)), math.prod(shape[axis + 1 :]), math.prod(shape[:axis]))


def _takes_short_rows(call: Call) -> bool:
    """where an index selects few elements"""
    return _rows_of(call).elements < FEWEST_ELEMENTS


@lowering("Gather", types=EVERY_TYPE, engines=(Engine.DMA,), on_core=_takes_short_rows, core_reads=True)
def gather(kernel: Kernel, work: Work) -> None:
    """Slices of the data along one axis, in the order of the indices."""
    data, indices, target = work.input(0), work.input(1), work.output
    axis = axis_from_front(work.spec.integer("axis"), len(data.shape))
    core, rows = ScalarCode(kernel), _rows_of(work.spec)
    inner, count = rows.inner, rows.count
    if not _takes_short_rows(work.spec):

        def first(row: Value) -> Value:
            return core.index(core.load(indices, row), data.shape[axis]) * inner

        core.acquire()
        gather_rows(kernel, data, target, rows, data.shape[axis] * inner, first)
        return
    with core.elements(target.size) as number:
        outer, which, rest = unravel(number, (math.prod(data.shape[:axis]), count, inner))
        index = core.index(core.load(indices, which), data.shape[axis])
        place = (outer * data.shape[axis] + index) * inner + rest
        core.store(target, number, core.load(data, place))


@lowering("GatherElements", types=EVERY_TYPE, on_core=always, core_reads=True)
def gather_elements(kernel: Kernel, work: Work) -> None:
    """Every element of the result has an index of its own."""
    data, indices, target = work.input(0), work.input(1), work.output
    axis = axis_from_front(work.spec.integer("axis"), len(data.shape))
    core = ScalarCode(kernel)
    with core.elements(target.size) as number:
        place = unravel(number, target.shape)
        place[axis] = core.index(core.load(indices, number), data.shape[axis])
        core.store(target, number, core.load(data, offset_of(place, data.strides)))


def _slice_size(call: Call) -> int:
    """Number of elements that one index of GatherND or ScatterND selects."""
    batch = call.integer("batch_dims") if "batch_dims" in call.attrs else 0
    return math.prod(call.shape(0)[batch + call.shape(1)[-1] :])


def _takes_short_slices(call: Call) -> bool:
    """where an index selects few elements"""
    return _slice_size(call) < FEWEST_ELEMENTS


@lowering("GatherND", types=EVERY_TYPE, engines=(Engine.DMA,), on_core=_takes_short_slices, core_reads=True)
def gather_nd(kernel: Kernel, work: Work) -> None:
    """Slices of the data; each row of indices gives the position of one."""
    data, indices, target = work.input(0), work.input(1), work.output
    batch, depth = work.spec.integer("batch_dims"), indices.shape[-1]
    inner = _slice_size(work.spec)
    batches = math.prod(data.shape[:batch])
    rows = indices.size // depth // batches
    core = ScalarCode(kernel)

    def place(row: Value) -> Value:
        in_batch = row // rows * math.prod(data.shape[batch:])
        return in_batch + _indexed_element(core, indices, row, data, range(batch, batch + depth))

    if not _takes_short_slices(work.spec):
        core.acquire()
        gather_rows(kernel, data, target, IndexedRows(batches * rows, inner), inner, place)
        return
    with core.elements(target.size) as number:
        core.store(target, number, core.load(data, place(kernel.let(number // inner)) + number % inner))


def _indexed_element(core: ScalarCode, indices: DdrTensor, row: Value, data: DdrTensor, axes: range) -> Value:
    """The element of the data at the position in a row of indices, one index for each of ``axes``."""
    place, registers = core.number(0), core.kernel.registers
    for at, axis in enumerate(axes):
        with registers.scope():
            index = core.index(core.load(indices, row * len(axes) + at), data.shape[axis])
            core.emit("add", place, place, registers.compute(index * data.strides[axis]))
    return Variable(place, 0, data.size - 1)


_REDUCTIONS = {
    "add": two_operands("add"),
    "mul": two_operands("mul"),
    "max": extremum("bge"),
    "min": extremum("ble"),
}
"""Code for integers by the attribute ``reduction``."""


def _scatter(core: ScalarCode, work: Work, place: Value, update: str) -> None:
    """Store an update, or the reduction of it and the element before."""
    reduction = work.spec.string("reduction")
    if reduction != "none":
        before = core.load(work.output, place)
        if work.output.fmt.is_float:
            core.emit("fmv.w.x", "ft0", before)
            core.emit("fmv.w.x", "ft1", update)
            core.emit(f"f{reduction}.s", "ft0", "ft0", "ft1")
            core.emit("fmv.x.w", update, "ft0")
        else:
            update = _REDUCTIONS[reduction](core, [before, update])
    core.store(work.output, place, update)


def _copy_data(kernel: Kernel, work: Work) -> None:
    """Copy the data to the result, unless both are the same memory."""
    if not work.updates:
        copy_views(kernel, work.output.shape, whole(work.input(0)), whole(work.output))
        kernel.synchronize()


def _in_core_format(kernel: Kernel, work: Work, lower: Callable[[Kernel, Work], None]) -> None:
    """Run a lowering of a scatter: reductions of 16-bit floats on copies in FP32, which the core computes."""
    reduced = work.spec.string("reduction") != "none"
    if not reduced or not work.output.fmt.is_float or work.output.bytes_each == 4:
        lower(kernel, work)
        return
    data, updates, result = (
        fp32_scratch(kernel, tensor) for tensor in (work.input(0), work.input(2), work.output)
    )
    for narrow, wide in ((work.input(0), data), (work.input(2), updates)):
        convert_tensor(kernel, narrow, wide)
    kernel.synchronize()
    lower(kernel, replace(work, inputs=(data, work.input(1), updates), output=result))
    kernel.synchronize()
    convert_tensor(kernel, result, work.output)


@lowering("ScatterElements", types=EVERY_TYPE, on_core=always, updates=True, core_reads=True)
def scatter_elements(kernel: Kernel, work: Work) -> None:
    """A copy, then the updates in their order, because several may have the same index."""
    _in_core_format(kernel, work, _scatter_elements)


def _scatter_elements(kernel: Kernel, work: Work) -> None:
    data, indices, updates = work.input(0), work.input(1), work.input(2)
    axis = axis_from_front(work.spec.integer("axis"), len(data.shape))
    _copy_data(kernel, work)
    core = ScalarCode(kernel)
    with core.elements(updates.size, updates.size) as number:
        place = unravel(number, updates.shape)
        place[axis] = core.index(core.load(indices, number), data.shape[axis])
        _scatter(core, work, offset_of(place, data.strides), core.load(updates, number))


def _updates_elements(call: Call) -> bool:
    """where an index selects few elements, and with a reduction"""
    return _slice_size(call) < FEWEST_ELEMENTS or call.string("reduction") != "none"


@lowering(
    "ScatterND",
    types=EVERY_TYPE,
    engines=(Engine.DMA,),
    on_core=_updates_elements,
    updates=True,
    core_reads=True,
)
def scatter_nd(kernel: Kernel, work: Work) -> None:
    """A copy, then the updates in their order."""
    _in_core_format(kernel, work, _scatter_nd)


def _scatter_nd(kernel: Kernel, work: Work) -> None:
    data, indices, updates = work.input(0), work.input(1), work.input(2)
    depth = indices.shape[-1]
    inner = _slice_size(work.spec)
    _copy_data(kernel, work)
    core = ScalarCode(kernel)

    def place(row: Value) -> Value:
        return _indexed_element(core, indices, row, data, range(depth))

    if not _updates_elements(work.spec):
        core.acquire()
        scatter_rows(kernel, updates, work.output, IndexedRows(updates.size // inner, inner), place)
        return
    with core.elements(updates.size, updates.size) as number:
        element = place(kernel.let(number // inner)) + number % inner
        _scatter(core, work, element, core.load(updates, number))
