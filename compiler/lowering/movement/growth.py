"""Append: new rows of a cache that is kept in place; nothing else is copied."""

from __future__ import annotations

from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.tensors import View, copy_views, whole
from compiler.lowering.record import EVERY_TYPE, Engine, Work, lowering
from compiler.operators.shapes.growth import APPEND
from compiler.operators.types import axis_from_front


@lowering(APPEND, types=EVERY_TYPE, engines=(Engine.DMA,), updates=True)
def append(kernel: Kernel, work: Work) -> None:
    """Store the new rows after the old ones; first copy these, unless the result has their memory."""
    cache, rows, target = work.input(0), work.input(1), work.output
    if not work.updates:
        copy_views(kernel, target.shape, whole(cache), whole(target))
        kernel.synchronize()
    axis = axis_from_front(work.spec.integer("axis"), len(target.shape))
    begin = work.spec.integer("at") * target.strides[axis]
    copy_views(kernel, rows.shape, whole(rows), View(target, target.strides, begin))
