"""Operators on blocked tensors whose slices do not keep to the planes: by way of compact copies in DDR."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.aligned import (
    MOST_POSITIONS,
    Grid,
    Place,
    aligned_bytes,
    load_slice,
    store_slice,
)
from compiler.codegen.slices.dealing import share, slices
from compiler.codegen.slices.tensors import DdrTensor

from .record import Work


def through_compact(k: Kernel, work: Work, lower: Callable[[Kernel, Work], None]) -> None:
    """Run a lowering on compact copies of the blocked operands, and store its result blocked."""
    k.begin()
    compact: dict[str, DdrTensor] = {}
    for tensor in (*work.inputs, *(operand for step in work.steps for operand in step.operands)):
        if tensor is not None and tensor.blocked and tensor.symbol not in compact:
            compact[tensor.symbol] = _scratch(k, tensor)
            _copy(k, tensor, compact[tensor.symbol])
    k.synchronize()

    def swapped(tensor: DdrTensor | None) -> DdrTensor | None:
        return compact[tensor.symbol] if tensor is not None and tensor.blocked else tensor

    steps = tuple(replace(step, operands=tuple(map(swapped, step.operands))) for step in work.steps)
    result = _scratch(k, work.output)
    lower(k, replace(work, inputs=tuple(map(swapped, work.inputs)), steps=steps, output=result, cut=None))
    k.synchronize()
    _copy(k, result, work.output)


def _scratch(k: Kernel, tensor: DdrTensor) -> DdrTensor:
    symbol = k.scratch("compact", tensor.size * tensor.bytes_each).symbol
    return replace(tensor, symbol=symbol, blocked=False)


def _copy(k: Kernel, source: DdrTensor, target: DdrTensor) -> None:
    """All channels of a few positions at a time."""
    channels, positions = source.shape[-1], math.prod(source.shape[1:-1])
    each = 2 * aligned_bytes(64, channels, source.fmt) // 64 + 1
    size = max(1, min(k.budget // (2 * each), MOST_POSITIONS))
    own = share(positions, k.target.tiles, k.tile if k.target.tiles > 1 else 0, size)
    with k.loop(source.shape[0]) as n, slices(k, own) as (at, count):
        grid = Grid(count, 1, size)
        data = load_slice(k, "data", source, Place(n, at), grid, channels)
        store_slice(k, data, target, Place(n, at))
