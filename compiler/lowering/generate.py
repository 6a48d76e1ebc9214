"""From a work to a kernel: runs its lowering and places its buffers, with smaller slices until they fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial

from compiler.codegen.kernel import Kernel, Target
from compiler.codegen.registers.spilling import OutOfRegisters, Spills, fitting
from compiler.codegen.slices.tensors import DdrTensor
from compiler.codegen.spm import Copies, SpmOverflow
from compiler.graph import CapacityError
from tx8isa.errors import Tx8Error

from . import LOWERINGS
from .fallback import compute_separately, has_separate_steps
from .record import AnyWork, SequenceWork, Work

DOES_NOT_FIT = (SpmOverflow, OutOfRegisters)
"""The errors of a cut for which a tile has too little scratchpad or too few registers."""

SMALLEST_BUDGET = 4096
"""Scratchpad bytes below which smaller slices are not tried."""

WHOLE_SPM = "spm"
"""Name of a size in cuts that leave the division to the lowering: total bytes of its slices."""


def generate(
    prefix: str,
    work: AnyWork,
    target: Target,
    synchronized: bool = False,
    settled: frozenset[str] = frozenset(),
) -> Kernel:
    """The code of one phase, with its buffers placed.

    A cut that was decided must fit: ``DOES_NOT_FIT`` is raised when it does not. Without a cut the lowering
    divides the work by its own rule. It tries again with half the bytes while its slices do not fit. A group
    for which no size fits is computed member by member. Values are spilled to the stack only if registers did
    not suffice. CapacityError if even that does not fit; ValueError for a cut that the lowering does not
    propose.
    """
    if work.cut is not None:
        budget = dict(work.cut.sizes).get(WHOLE_SPM)
        if budget is None:
            if LOWERINGS[work.op].cuts is None:
                raise ValueError(f"{work.op} takes no cut but '{WHOLE_SPM}'")
            return attempt(prefix, work, target, target.spm_bytes, synchronized, settled)
        return attempt(prefix, replace(work, cut=None), target, budget, synchronized, settled)
    problems: list[Tx8Error] = []
    for spilling in (False, True):
        for separately in (False, True) if has_separate_steps(work) else (False,):
            for budget in _budgets(target):
                try:
                    return attempt(prefix, work, target, budget, synchronized, settled, separately, spilling)
                except DOES_NOT_FIT as error:
                    problems.append(error)
        if not any(isinstance(problem, OutOfRegisters) for problem in problems):
            break
    raise CapacityError([f"node '{work.name}' ({work.op}): {problems[-1]}"])


def generate_stages(
    prefix: str,
    work: AnyWork,
    target: Target,
    synchronized: bool = False,
    settled: frozenset[str] = frozenset(),
) -> Kernel:
    """Write a sequence as its stages one after another, with results in DDR in between.

    CapacityError if it does not fit.
    """
    problems: list[Tx8Error] = []
    for budget in _budgets(target):
        try:
            return attempt(prefix, work, target, budget, synchronized, settled, separately=True)
        except DOES_NOT_FIT as error:
            problems.append(error)
    raise CapacityError([f"node '{work.name}' ({work.op}): {problems[-1]}"])


def _budgets(target: Target) -> Iterator[int]:
    """Bytes of scratchpad for slices: all, and half as many as before."""
    budget = target.spm_bytes
    yield budget
    while budget // 2 >= SMALLEST_BUDGET:
        budget //= 2
        yield budget


def attempt(
    prefix: str,
    work: AnyWork,
    target: Target,
    budget: int,
    synchronized: bool,
    settled: frozenset[str] = frozenset(),
    separately: bool = False,
    spilling: bool = True,
) -> Kernel:
    """The code with slices of at most ``budget`` bytes; ``DOES_NOT_FIT`` is raised when there is no room.

    ``separately``: the members of a group one after another. ``spilling``: values may go to the stack.
    Without room for copies of reordered slices, no slice is reordered. Without room for second copies of all
    slices whose loads run ahead, no loads run ahead.
    """
    tried = _Attempt(prefix, work, target, budget, synchronized, settled, separately, spilling)
    try:
        return tried.kernel(reordering=True)
    except DOES_NOT_FIT:
        if not tried.made[-1].reordered:
            raise
        return tried.kernel(reordering=False)


@dataclass
class _Attempt:
    """The arguments of ``attempt``, and the kernels made so far."""

    prefix: str
    work: AnyWork
    target: Target
    budget: int
    synchronized: bool
    settled: frozenset[str]
    separately: bool
    spilling: bool
    made: list[Kernel] = field(default_factory=list)

    def kernel(self, reordering: bool, copies: Copies | None = None, ahead: bool = True) -> Kernel:
        """The kernel, with its buffers placed; loads run ahead only if all their buffers have two copies.

        In a program for a range of sizes none does, because its code must be small.
        """
        try:
            found = fitting(partial(self._make, reordering, copies, ahead), self.spilling)
        except SpmOverflow:
            if not self.made[-1].spm.needed_twice:
                raise
            return self.kernel(reordering, copies, ahead=False)
        found.again = partial(self.kernel, reordering)
        return found

    def _make(self, reordering: bool, copies: Copies | None, ahead: bool, spills: Spills) -> Kernel:
        phase = self.prefix, self.target, self.budget, self.synchronized, self.settled
        made = Kernel(
            *phase,
            reordering=reordering,
            spills=spills,
            copies=copies,
            ahead=ahead and not self.target.ranged,
        )
        self.made.append(made)
        _write(made, self.work, self.separately)
        made.place_buffers()
        return made


def _write(kernel: Kernel, work: AnyWork, separately: bool) -> None:
    """Run the lowering."""
    entry = LOWERINGS[work.op]
    assert entry.lower is not None
    kernel.out.comment(_summary(work))
    if separately:
        compute_separately(kernel, work)
        return
    if not entry.prefetch:
        kernel.await_earlier_phases()
    entry.lower(kernel, work)


def _summary(work: AnyWork) -> str:
    """The comment in the assembly that describes a phase."""
    stages = work.stages if isinstance(work, SequenceWork) else (work,)
    names = " > ".join(map(_names, stages))
    inputs = ", ".join(_description(tensor) for tensor in work.operands if tensor is not None)
    outputs = ", ".join(map(_description, (*work.others, work.output)))
    return f"{names}: {inputs} -> {outputs}"


def _names(work: AnyWork) -> str:
    steps = work.steps if isinstance(work, Work) else ()
    return " + ".join([work.op.removeprefix("tx8be."), *(step.op for step in steps)])


def _description(tensor: DdrTensor) -> str:
    return f"{tensor.symbol} {'x'.join(map(str, tensor.shape)) or 'scalar'}"
