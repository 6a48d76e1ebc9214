"""A work as a kernel: its lowering is run, its buffers placed, smaller slices tried when they do not fit."""

from __future__ import annotations

from dataclasses import replace

from compiler.codegen.kernel import Kernel, Target
from compiler.codegen.spm import SpmOverflow
from compiler.codegen.tensors import DdrTensor
from compiler.graph import GraphError
from compiler.lowering import LOWERINGS, Work

SMALLEST_BUDGET = 4096
"""Scratchpad bytes below which smaller slices are not tried."""

WHOLE_SPM = "spm"
"""Size in a cut that says: the lowering's own rule, with slices of so many bytes together."""


def generate(prefix: str, work: Work, target: Target, synchronized: bool = False) -> Kernel:
    """The code of one phase, with its buffers placed.

    A cut that was decided must fit: SpmOverflow when it does not. The lowering's own rule is asked again for
    half the bytes, until GraphError says that nothing fits. ValueError for a cut that the lowering cannot
    have proposed.
    """
    if work.cut is not None:
        budget = dict(work.cut.sizes).get(WHOLE_SPM)
        if budget is None:
            if LOWERINGS[work.op].cuts is None:
                raise ValueError(f"{work.op} takes no cut but '{WHOLE_SPM}'")
            return attempt(prefix, work, target, target.spm_bytes, synchronized)
        return attempt(prefix, replace(work, cut=None), target, budget, synchronized)
    budget = target.spm_bytes
    while True:
        try:
            return attempt(prefix, work, target, budget, synchronized)
        except SpmOverflow as overflow:
            budget //= 2
            if budget < SMALLEST_BUDGET:
                raise GraphError([f"node '{work.name}' ({work.op}): {overflow}"]) from None


def attempt(prefix: str, work: Work, target: Target, budget: int, synchronized: bool) -> Kernel:
    """The code with slices of at most ``budget`` bytes; SpmOverflow when the buffers do not fit."""
    entry = LOWERINGS[work.op]
    assert entry.lower is not None
    kernel = Kernel(prefix, target, budget, synchronized=synchronized)
    kernel.out.comment(_summary(work))
    if not entry.prefetch:
        kernel.begin()
    entry.lower(kernel, work)
    kernel.place_buffers()
    return kernel


def _summary(work: Work) -> str:
    """What a phase computes, for those who read the assembly."""
    operands = [*work.inputs, *(tensor for step in work.steps for tensor in step.operands)]
    inputs = ", ".join(_spelt(tensor) for tensor in operands if tensor is not None)
    names = " + ".join([work.op.removeprefix("tx8be."), *(step.op for step in work.steps)])
    return f"{names}: {inputs} -> {_spelt(work.output)}"


def _spelt(tensor: DdrTensor) -> str:
    return f"{tensor.symbol} {'x'.join(map(str, tensor.shape)) or 'scalar'}"
