"""A work as a kernel: its lowering is run, its buffers placed, smaller slices tried when they do not fit."""

from __future__ import annotations

from dataclasses import replace

from compiler.codegen.kernel import Kernel, Target
from compiler.codegen.registers import OutOfRegisters
from compiler.codegen.slices.tensors import DdrTensor
from compiler.codegen.spm import SpmOverflow
from compiler.graph import GraphError

from . import LOWERINGS, Work
from .apart import compute_apart, has_steps_apart

DOES_NOT_FIT = (SpmOverflow, OutOfRegisters)
"""What is raised for a way of dividing the work that a tile has no room for."""

SMALLEST_BUDGET = 4096
"""Scratchpad bytes below which smaller slices are not tried."""

WHOLE_SPM = "spm"
"""Size in a cut that says: the lowering's own rule, with slices of so many bytes together."""


def generate(
    prefix: str, work: Work, target: Target, synchronized: bool = False, settled: frozenset[str] = frozenset()
) -> Kernel:
    """The code of one phase, with its buffers placed.

    A cut that was decided must fit: ``DOES_NOT_FIT`` is raised when it does not. The lowering's own rule is
    asked again for half the bytes; a group of which nothing fits is computed member by member, and GraphError
    says that not even this fits. ValueError for a cut that the lowering cannot have proposed.
    """
    if work.cut is not None:
        budget = dict(work.cut.sizes).get(WHOLE_SPM)
        if budget is None:
            if LOWERINGS[work.op].cuts is None:
                raise ValueError(f"{work.op} takes no cut but '{WHOLE_SPM}'")
            return attempt(prefix, work, target, target.spm_bytes, synchronized, settled)
        return attempt(prefix, replace(work, cut=None), target, budget, synchronized, settled)
    budget, apart = target.spm_bytes, False
    while True:
        try:
            return attempt(prefix, work, target, budget, synchronized, settled, apart)
        except DOES_NOT_FIT as overflow:
            budget //= 2
            if budget < SMALLEST_BUDGET and (apart or not has_steps_apart(work)):
                raise GraphError([f"node '{work.name}' ({work.op}): {overflow}"]) from None
        if budget < SMALLEST_BUDGET:
            budget, apart = target.spm_bytes, True


def attempt(
    prefix: str,
    work: Work,
    target: Target,
    budget: int,
    synchronized: bool,
    settled: frozenset[str] = frozenset(),
    apart: bool = False,
) -> Kernel:
    """The code with slices of at most ``budget`` bytes; ``DOES_NOT_FIT`` is raised when there is no room.

    ``apart``: the members of a group one after another.
    """
    entry = LOWERINGS[work.op]
    assert entry.lower is not None
    kernel = Kernel(prefix, target, budget, synchronized=synchronized, settled=settled)
    kernel.out.comment(_summary(work))
    if apart:
        compute_apart(kernel, work)
    else:
        if not entry.prefetch:
            kernel.begin()
        entry.lower(kernel, work)
    kernel.place_buffers()
    return kernel


def _summary(work: Work) -> str:
    """What a phase computes, for those who read the assembly."""
    operands = [*work.inputs, *(tensor for step in work.steps for tensor in step.operands)]
    names = " > ".join(_names(stage) for stage in work.stages or (work,))
    inputs = ", ".join(_spelt(tensor) for tensor in operands if tensor is not None)
    return f"{names}: {inputs} -> {_spelt(work.output)}"


def _names(work: Work) -> str:
    return " + ".join([work.op.removeprefix("tx8be."), *(step.op for step in work.steps)])


def _spelt(tensor: DdrTensor) -> str:
    return f"{tensor.symbol} {'x'.join(map(str, tensor.shape)) or 'scalar'}"
