"""The lowering of sliced sequences: each tile computes its slices of all operators.

Every stage is computed by its own lowering, for a chip of a single tile: its operands and its result are the
tile's shares. A share of an intermediate value is in the scratchpad; lowerings read and write it like one in
DDR (``codegen/writing/moves.py``). If all tiles need a value whole, they compute shares and exchange them
over the DTE or through DDR.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from compiler.codegen.kernel import Kernel, Target
from compiler.codegen.spm import SpmOverflow
from compiler.codegen.teams.gather import enter
from compiler.lowering.generate import SMALLEST_BUDGET
from compiler.lowering.record import (
    ALL_GATHER,
    LOWERINGS,
    Cut,
    Engine,
    SequenceWork,
    StageExchange,
    exchanges_in,
    lowering,
)

from .addresses import DDR, DTE, ShareAddresses
from .candidates import possible_shares
from .shared_work import shared_work
from .shares import SequenceDivision, SharedStage, divide
from .tile_share import Undividable

SLICES = "slices"
"""The axis of the tiles that share the values."""
_AXIS, _PART, _WHOLE = "axis", "part", "whole"
"""In a cut: the axis of the result; the part of the free scratchpad that a stage may use; and how tiles get
values that all need. Each computes them, or they exchange shares over the DTE or through DDR.
"""
_PARTS = (1, 2, 4)
"""Numbers of equal parts of the free scratchpad; a stage gets one part."""
_COMPUTED = "computed"


def division_of(work: SequenceWork, cut: Cut) -> SequenceDivision:
    """The division that a cut describes; ValueError if the sequence has no such division."""
    axis, gathering = int(cut.choice(_AXIS, "0")), cut.choice(_WHOLE, _COMPUTED) != _COMPUTED
    return divide(work, axis, cut.parts(SLICES), gathering)


def divisions(target: Target, work: SequenceWork) -> Iterator[Cut]:
    """The possible divisions of a sequence, those among the most tiles first."""
    for share in possible_shares(work.output, target.tiles):
        for whole in (DTE, DDR, _COMPUTED):
            try:
                division = divide(work, share.axis, share.count, whole != _COMPUTED)
            except Undividable:
                continue
            if whole == _COMPUTED or any(map(division.gathers, division.stages)):
                yield Cut(((SLICES, share.count),), (), ((_AXIS, str(share.axis)), (_WHOLE, whole)))


def exchanges_of(division: SequenceDivision) -> Iterator[StageExchange]:
    """The all-gathers of values that all tiles need whole, each after the stage that computes it."""
    for at, stage in enumerate(division.stages):
        if division.gathers(stage):
            yield StageExchange(ALL_GATHER, stage.work.output.symbol, SLICES, at + 1)


def _cuts(target: Target, work: SequenceWork) -> Iterator[Cut]:
    found = list(divisions(target, work))
    for part in _PARTS:
        yield from (replace(cut, sizes=((_PART, part),)) for cut in found)


@lowering("Sliced", cuts=_cuts, prefetch=True, engines=(Engine.MATRIX, Engine.VECTOR, Engine.DMA))
def sliced(kernel: Kernel, work: SequenceWork) -> None:
    """All stages, one after another, for the shares of this tile."""
    cut = next(divisions(kernel.target, work), None) if work.cut is None else work.cut
    if cut is None:
        raise SpmOverflow("the stages have no common division")
    division = division_of(work, cut)
    if division.tiles > kernel.target.tiles:
        raise ValueError(f"{division.tiles} shares, there are {kernel.target.tiles} tiles")
    exchanges_in(work, tuple(exchanges_of(division)))
    addresses = ShareAddresses(kernel, work, division, cut.choice(_WHOLE, _COMPUTED))
    phase = _Phase(kernel, division, addresses, dict(cut.sizes).get(_PART, 1))
    if addresses.exchanges:
        enter(kernel)
    else:
        kernel.await_earlier_phases()
    with kernel.if_below(kernel.tile, division.tiles):
        phase.run()


@dataclass
class _Phase:
    kernel: Kernel
    division: SequenceDivision
    addresses: ShareAddresses
    part: int
    """The number of parts of the free scratchpad; the stages use one."""

    def run(self) -> None:
        self.addresses.reserve()
        for number, stage in enumerate(self.division.stages):
            with self.kernel.computing(stage.work.name):
                self._compute(stage, number)
                self.addresses.complete(stage)

    def _compute(self, stage: SharedStage, number: int) -> None:
        self.addresses.prepare(stage)
        work = shared_work(stage, self.addresses.result(stage), self.addresses.operand)
        entry = LOWERINGS[work.op]
        assert entry.lower is not None
        with self.kernel.registers.scope(), self._alone(number):
            entry.lower(self.kernel, work)

    @contextmanager
    def _alone(self, number: int) -> Iterator[None]:
        """The code inside is for a chip of one tile, with the bytes that the shares leave."""
        kernel = self.kernel
        target, tile, budget = kernel.target, kernel.tile, kernel.budget
        free = (budget - self.addresses.bytes_during(number)) // self.part
        if free < SMALLEST_BUDGET:
            raise SpmOverflow(f"the shares leave {free} bytes of SPM")
        scratches = len(kernel.scratches)
        kernel.target, kernel.tile, kernel.budget = replace(target, tiles=1, spm_bytes=free), 0, free
        yield
        kernel.target, kernel.tile, kernel.budget = target, tile, budget
        if len(kernel.scratches) > scratches:
            raise SpmOverflow("a stage needs memory in DDR of its own")
