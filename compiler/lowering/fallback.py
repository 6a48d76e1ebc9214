"""Fallbacks for works that the lowering of their operator cannot compute as they are.

Groups whose slices do not fit the scratchpad are computed member by member, with intermediate results in DDR.
Operators whose slices do not respect the planes of blocked tensors work on compact copies in DDR.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.aligned import Grid, Place, aligned_bytes, load_slice, store_slice
from compiler.codegen.slices.shards import shard_of, slices
from compiler.codegen.slices.tensors import BLOCK, DdrTensor
from compiler.dialect.planes import image_bytes
from tx8isa.numbers.limits import MOST_MOVES

from .record import LOWERINGS, AnyWork, SequenceWork, Work


def has_separate_steps(work: AnyWork) -> bool:
    """True if a work is an anchor with steps, all in one format, so that each can be computed separately."""
    return isinstance(work, Work) and bool(work.steps) and not LOWERINGS[work.op].takes_fp32


def compute_separately(kernel: Kernel, work: AnyWork) -> None:
    """Split a work into its members: the anchor and its steps, or the stages of a sequence.

    All tiles wait until a result is in DDR.
    """
    if isinstance(work, SequenceWork):
        members = _stages(kernel, work)
    else:
        assert isinstance(work, Work)
        members = _members(kernel, work)
    for number, member in enumerate(members):
        entry = LOWERINGS[member.op]
        assert entry.lower is not None
        if number:
            kernel.synchronize()
        elif not entry.prefetch:
            kernel.await_earlier_phases()
        entry.lower(kernel, member)


def _members(kernel: Kernel, work: Work) -> Iterator[AnyWork]:
    """The anchor and each step as works of their own."""
    running = _intermediate(kernel, work.output)
    yield replace(work, output=running, steps=(), cut=None)
    for step in work.steps:
        tensors = enumerate(step.operands)
        operands = tuple(running if at in step.running else tensor for at, tensor in tensors)
        running = work.output if step is work.steps[-1] else _intermediate(kernel, work.output)
        yield Work(step.name, step.op, operands, running, call=step.call, channels_last=work.channels_last)


def _stages(kernel: Kernel, work: SequenceWork) -> Iterator[AnyWork]:
    """The stages of a sequence as works of their own. A stage may be a sequence, too."""
    stored = {tensor.symbol for tensor in (*work.others, work.output)}
    between: dict[str, str] = {}
    for stage in work.stages:
        for tensor in (*stage.others, stage.output):
            if tensor.symbol not in stored:
                between[tensor.symbol] = _intermediate(kernel, tensor).symbol
        yield _moved(stage, between)


def _moved(work: AnyWork, between: Mapping[str, str]) -> AnyWork:
    """Return a work with other symbols for some of its tensors."""

    def moved(tensor: DdrTensor | None) -> DdrTensor | None:
        if tensor is None or tensor.symbol not in between:
            return tensor
        return replace(tensor, symbol=between[tensor.symbol])

    def made(tensor: DdrTensor) -> DdrTensor:
        return replace(tensor, symbol=between.get(tensor.symbol, tensor.symbol))

    found = replace(
        work,
        inputs=tuple(map(moved, work.inputs)),
        output=made(work.output),
        others=tuple(map(made, work.others)),
    )
    if isinstance(found, SequenceWork):
        return replace(found, stages=tuple(_moved(stage, between) for stage in found.stages))
    if isinstance(found, Work):
        steps = (replace(step, operands=tuple(map(moved, step.operands))) for step in found.steps)
        return replace(found, steps=tuple(steps))
    return found


def _intermediate(kernel: Kernel, like: DdrTensor) -> DdrTensor:
    """A scratch tensor in DDR in the layout of another."""
    size = like.size * like.bytes_each
    if like.blocked:
        size = like.shape[0] * image_bytes(math.prod(like.shape[1:-1]), like.shape[-1], like.fmt.bits)
    return replace(like, symbol=kernel.scratch("between", size).symbol)


def run_on_compact_copies(kernel: Kernel, work: Work, lower: Callable[[Kernel, Work], None]) -> None:
    """Run a lowering on compact copies of the blocked operands, and store its result blocked."""
    kernel.await_earlier_phases()
    compact: dict[str, DdrTensor] = {}
    for tensor in work.operands:
        if tensor is not None and tensor.blocked and tensor.symbol not in compact:
            compact[tensor.symbol] = _compact_scratch(kernel, tensor)
            _copy_positions(kernel, tensor, compact[tensor.symbol])
    kernel.synchronize()

    def swapped(tensor: DdrTensor | None) -> DdrTensor | None:
        return compact[tensor.symbol] if tensor is not None and tensor.blocked else tensor

    inputs = tuple(swapped(tensor) for tensor in work.inputs)
    steps = tuple(replace(step, operands=tuple(map(swapped, step.operands))) for step in work.steps)
    result = _compact_scratch(kernel, work.output)
    lower(kernel, replace(work, inputs=inputs, steps=steps, output=result, cut=None))
    kernel.synchronize()
    _copy_positions(kernel, result, work.output)


def _compact_scratch(kernel: Kernel, like: DdrTensor) -> DdrTensor:
    """A compact scratch tensor in DDR of the shape of another."""
    symbol = kernel.scratch("compact", like.size * like.bytes_each).symbol
    return replace(like, symbol=symbol, blocked=False)


def _copy_positions(kernel: Kernel, source: DdrTensor, target: DdrTensor) -> None:
    """Copy a tensor of another layout, all channels of a few positions at a time."""
    channels, positions = source.shape[-1], math.prod(source.shape[1:-1])
    position_bytes = 2 * aligned_bytes(BLOCK, channels, source.fmt) // BLOCK + 1
    size = max(1, min(kernel.budget // (2 * position_bytes), MOST_MOVES))
    own = shard_of(positions, kernel.target.tiles, kernel.tile if kernel.target.tiles > 1 else 0, size)
    with kernel.loop(source.shape[0]) as image, slices(kernel, own) as (begin, count):
        grid = Grid(count, 1, size)
        data = load_slice(kernel, "data", source, Place(image, begin), grid, channels)
        store_slice(kernel, data, target, Place(image, begin))
