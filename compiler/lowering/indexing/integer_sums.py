"""IntegerSum: the kernel core adds the elements of an axis one after another."""

from __future__ import annotations

import math

from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.scalar import ScalarCode
from compiler.codegen.slices.tensors import unravel
from compiler.lowering.record import EVERY_TYPE, Work, always, lowering
from compiler.operators.reductions.integer_sums import INTEGER_SUM
from compiler.operators.types import axis_of


@lowering(INTEGER_SUM, types=EVERY_TYPE, on_core=always)
def integer_sum(kernel: Kernel, work: Work) -> None:
    """Each element of the result is the sum of a column."""
    source, target, core = work.input(0), work.output, ScalarCode(kernel)
    axis = axis_of(work.spec)
    length, inner = source.shape[axis], math.prod(source.shape[axis + 1 :])
    with core.elements(target.size) as number:
        outer, column = unravel(number, (math.prod(source.shape[:axis]), inner))
        total = core.number(0)
        with kernel.loop(length) as row:
            core.emit("add", total, total, core.load(source, (outer * length + row) * inner + column))
        core.store(target, number, total)
