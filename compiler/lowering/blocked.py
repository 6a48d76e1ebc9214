"""Operators on blocked tensors whose slices do not keep to the planes: by way of compact copies in DDR."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.aligned import BLOCK, Grid, Place, aligned_bytes, load_slice, store_slice
from compiler.codegen.slices.shards import shard_of, slices
from compiler.codegen.slices.tensors import DdrTensor
from tx8isa.numbers.limits import MOST_MOVES

from .record import Work


def through_compact(kernel: Kernel, work: Work, lower: Callable[[Kernel, Work], None]) -> None:
    """Run a lowering on compact copies of the blocked operands, and store its result blocked."""
    kernel.begin()
    compact: dict[str, DdrTensor] = {}
    for tensor in (*work.inputs, *(operand for step in work.steps for operand in step.operands)):
        if tensor is not None and tensor.blocked and tensor.symbol not in compact:
            compact[tensor.symbol] = _scratch(kernel, tensor)
            _copy(kernel, tensor, compact[tensor.symbol])
    kernel.synchronize()

    def swapped(tensor: DdrTensor | None) -> DdrTensor | None:
        return compact[tensor.symbol] if tensor is not None and tensor.blocked else tensor

    steps = tuple(replace(step, operands=tuple(map(swapped, step.operands))) for step in work.steps)
    result = _scratch(kernel, work.output)
    lower(
        kernel, replace(work, inputs=tuple(map(swapped, work.inputs)), steps=steps, output=result, cut=None)
    )
    kernel.synchronize()
    _copy(kernel, result, work.output)


def _scratch(kernel: Kernel, tensor: DdrTensor) -> DdrTensor:
    symbol = kernel.scratch("compact", tensor.size * tensor.bytes_each).symbol
    return replace(tensor, symbol=symbol, blocked=False)


def _copy(kernel: Kernel, source: DdrTensor, target: DdrTensor) -> None:
    """All channels of a few positions at a time."""
    channels, positions = source.shape[-1], math.prod(source.shape[1:-1])
    each = 2 * aligned_bytes(BLOCK, channels, source.fmt) // BLOCK + 1
    size = max(1, min(kernel.budget // (2 * each), MOST_MOVES))
    own = shard_of(positions, kernel.target.tiles, kernel.tile if kernel.target.tiles > 1 else 0, size)
    with kernel.loop(source.shape[0]) as n, slices(kernel, own) as (at, count):
        grid = Grid(count, 1, size)
        data = load_slice(kernel, "data", source, Place(n, at), grid, channels)
        store_slice(kernel, data, target, Place(n, at))
