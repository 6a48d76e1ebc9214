"""A convolution and the global pool of its result in one phase.

The convolution is divided as in a phase of its own, but into slices with all positions of their maps. Each
slice is pooled in the scratchpad, which saves the load of a separate phase.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from compiler.codegen.kernel import Kernel, Target
from compiler.codegen.slices.aligned import Aligned, Place
from compiler.codegen.spm import SpmOverflow
from compiler.dialect.homes import WHOLE, Home
from compiler.dialect.orders import Order
from compiler.lowering.conv.convolution import convolve
from compiler.lowering.conv.cuts import best_cuts, first_plan, plan_for
from compiler.lowering.conv.layer import ConvLayer, layer_of, stays_in_planes
from compiler.lowering.conv.plan import layer_for
from compiler.lowering.record import LOWERINGS, AnyWork, Cut, Engine, Placement, SequenceWork, Work, lowering
from compiler.operators import OPERATORS
from tx8isa.numbers.limits import LARGEST_EXTENT

from .global_pool import POOLS, pool_positions


def begins_pooled(op: str) -> bool:
    """True if a group of a pooled convolution begins at an operator: a convolution, or a global pool."""
    convolves = op in LOWERINGS and LOWERINGS[op].stage and OPERATORS[op].product is not None
    return convolves or op in POOLS


def can_be_pooled(work: AnyWork) -> bool:
    """True if the work of a group can be the convolution, or the pool after one."""
    source, output = work.inputs[0], work.output
    if not begins_pooled(work.op) or source is None or not (source.blocked and output.blocked):
        return False
    return work.op in POOLS or (output.fmt.is_float and isinstance(work, Work) and stays_in_planes(work))


def check_pooled(work: SequenceWork) -> None:
    """ValueError if a work is not a convolution and the pool of its result."""
    if [stage.op in POOLS for stage in work.stages] != [False, True]:
        raise ValueError("not a convolution and one global pool")
    conv, pool = work.operators
    if pool.input(0).symbol != conv.output.symbol:
        raise ValueError("the pool of another tensor")
    positions = math.prod(conv.output.shape[1:-1])
    if positions > LARGEST_EXTENT:
        raise ValueError(f"{positions} positions; at most {LARGEST_EXTENT} are pooled at once")


def pooled_placement(target: Target, work: SequenceWork) -> Placement:
    """The result of the convolution stays in the scratchpads; each tile holds images and maps of its own."""
    conv, cut = work.stages[0], work.cut
    assert cut is not None
    images, maps = (axis if cut.parts(axis) > 1 else WHOLE for axis in ("images", "maps"))
    return Placement({conv.output.symbol: Home((images, maps, *(WHOLE,) * (len(conv.output.shape) - 2)))}, ())


def _layer(work: SequenceWork) -> ConvLayer:
    check_pooled(work)
    return replace(layer_of(work.operators[0]), all_positions=True)


def _cuts(target: Target, work: SequenceWork) -> Iterable[Cut]:
    return best_cuts(target, _layer(work))


@lowering(
    "Pooled",
    order=Order.CHANNELS_LAST,
    cuts=_cuts,
    blocked=True,
    prefetch=True,
    engines=(Engine.MATRIX, Engine.VECTOR),
)
def pooled(kernel: Kernel, work: SequenceWork) -> None:
    """Compute slices of the maps with all their positions, and pool each to one position of the result."""
    layer, (conv, pool) = _layer(work), work.operators
    plan = first_plan(layer, kernel.target, kernel.budget) if work.cut is None else plan_for(layer, work.cut)
    if plan is None:
        raise SpmOverflow("all positions of a few maps do not fit the SPM")

    def use(code: Kernel, data: Aligned, at: Place) -> None:
        pool_positions(code, pool, data, at)

    convolve(kernel, conv, layer_for(layer, plan), plan, use)
