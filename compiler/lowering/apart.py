"""Groups whose slices fit nowhere: their members one after another, with what is between them in DDR."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.tensors import DdrTensor
from tx8isa.numbers.layouts import batch_bytes

from .record import LOWERINGS, Work


def has_steps_apart(work: Work) -> bool:
    """Whether a work is an anchor with steps, all in one format, which can be computed apart."""
    return bool(work.steps) and not LOWERINGS[work.op].rounds


def compute_apart(kernel: Kernel, work: Work) -> None:
    """Each member by itself; in between all tiles wait until the one before is in DDR."""
    for number, member in enumerate(_members(kernel, work)):
        entry = LOWERINGS[member.op]
        assert entry.lower is not None
        if number:
            kernel.synchronize()
        elif not entry.prefetch:
            kernel.begin()
        entry.lower(kernel, member)


def _members(kernel: Kernel, work: Work) -> Iterator[Work]:
    """The anchor and each step as works of their own."""
    running = _between(kernel, work.output)
    yield replace(work, output=running, steps=(), cut=None)
    for step in work.steps:
        tensors = enumerate(step.operands)
        operands = tuple(running if at in step.running else tensor for at, tensor in tensors)
        running = work.output if step is work.steps[-1] else _between(kernel, work.output)
        yield Work(step.name, step.op, step.call, operands, running, work.channels_last)


def _between(kernel: Kernel, like: DdrTensor) -> DdrTensor:
    """Room in DDR for a tensor that lies as another does."""
    size = like.size * like.bytes_each
    if like.blocked:
        size = like.shape[0] * batch_bytes(math.prod(like.shape[1:-1]), like.shape[-1], like.fmt.bits)
    return replace(like, symbol=kernel.scratch("between", size).symbol)
