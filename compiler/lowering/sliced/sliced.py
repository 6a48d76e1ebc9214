"""A sequence of operators of which each tile computes slices of its own.

Every stage is computed by its own lowering, for a chip of a single tile: its operands and its result are the
tile's shares. A share of a value that another stage makes is in the scratchpad; lowerings read and write it
like one in DDR (``codegen/moves.py``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from compiler.codegen.expr import Address, Value
from compiler.codegen.kernel import Kernel, Target
from compiler.codegen.slices.tensors import DdrTensor, dma_format
from compiler.codegen.spm import SpmOverflow
from compiler.lowering.generate import SMALLEST_BUDGET
from compiler.lowering.record import LOWERINGS, Cut, Engine, Work, lowering
from tx8isa.numbers.division import round_up
from tx8isa.numbers.layouts import LINE_BYTES

from .shared_work import shared_work
from .shares import Axis, Division, Stage, Undividable, candidate_axes, divide, is_contiguous, local

SLICES = "slices"
"""The axis of the tiles that share the values."""
_AXIS, _PART = "axis", "part"
"""In a cut: the axis of the result that is shared; the part of the free scratchpad that a stage may use."""
_PARTS = (1, 2, 4)


def division_of(work: Work, cut: Cut) -> Division:
    """The division that a cut describes; ValueError if the sequence has no such division."""
    return divide(work, int(cut.choice(_AXIS, "0")), cut.parts(SLICES))


def divisions(target: Target, work: Work) -> Iterator[tuple[Cut, Division]]:
    """The possible divisions of a sequence, those among the most tiles first."""
    for axis, parts in candidate_axes(work.output.shape, target.tiles):
        try:
            division = divide(work, axis, parts)
        except Undividable:
            continue
        yield Cut(((SLICES, parts),), (), ((_AXIS, str(axis)),)), division


def _cuts(target: Target, work: Work) -> Iterator[Cut]:
    found = [cut for cut, _ in divisions(target, work)]
    for part in _PARTS:
        yield from (replace(cut, sizes=((_PART, part),)) for cut in found)


@lowering("Sliced", cuts=_cuts, engines=(Engine.MATRIX, Engine.VECTOR, Engine.DMA))
def sliced(kernel: Kernel, work: Work) -> None:
    """All stages, one after another, for the shares of this tile."""
    if work.cut is None:
        found = next(divisions(kernel.target, work), None)
        if found is None:
            raise SpmOverflow("the stages have no common division")
        cut, division = found
    else:
        cut, division = work.cut, division_of(work, work.cut)
    if division.parts > kernel.target.tiles:
        raise ValueError(f"{division.parts} shares, there are {kernel.target.tiles} tiles")
    phase = _Phase(kernel, work, division, dict(cut.sizes).get(_PART, 1))
    with kernel.if_below(kernel.tile, division.parts):
        phase.run()


@dataclass
class _Phase:
    kernel: Kernel
    work: Work
    division: Division
    part: int
    shares: dict[tuple[str, Axis], Value] = field(default_factory=dict)
    """Where this tile's shares are that do not begin at a symbol."""

    loaded: list[int] = field(default_factory=list)
    """Bytes of the shares that were loaded."""

    def run(self) -> None:
        kernel, tile = self.kernel, self.kernel.tile
        for number, stage in enumerate(self.division.stages):
            with kernel.registers.scope(), kernel.computing(stage.work.name):
                self._reserve(stage, tile)
                work = shared_work(stage, self.division.parts, self._placed)
                with self._alone(number):
                    self._compute(work)
        self._store_result(tile)

    # --- where shares are -------------------------------------------------------------------------------

    def _reserve(self, stage: Stage, tile: Value) -> None:
        """Give the operands and the result of a stage their addresses; operands are loaded where they must."""
        for tensor, axis in stage.uses():
            if axis is not None and (tensor.symbol, axis) not in self.shares:
                self.shares[tensor.symbol, axis] = self._operand(tensor, axis, tile)
        result = stage.work.output
        if result.symbol != self.work.output.symbol or not is_contiguous(result.shape, stage.result or 0):
            size = self._bytes(result, stage.result)
            self.shares[result.symbol, stage.result] = self.kernel.buffer("share", size)
        elif stage.result is not None:
            self.shares[result.symbol, stage.result] = self._run(result, stage.result, tile)

    def _operand(self, tensor: DdrTensor, axis: int, tile: Value) -> Value:
        """The address of a share of an operand."""
        made = self.division.made.get(tensor.symbol)
        if tensor.symbol in self.division.made and made is None:
            if not is_contiguous(tensor.shape, axis):
                raise SpmOverflow(f"the shares of axis {axis} of {tensor.symbol} are not contiguous")
            return self.shares[tensor.symbol, None] + tile * self._bytes(tensor, axis)
        if tensor.symbol in self.division.made:
            return self.shares[tensor.symbol, made]
        if is_contiguous(tensor.shape, axis):
            return self._run(tensor, axis, tile)
        return self._loaded(tensor, axis, tile)

    def _run(self, tensor: DdrTensor, axis: int, tile: Value) -> Value:
        """The address of a share that is a single run of DDR."""
        return self.kernel.let(Address(tensor.symbol) + tile * self._bytes(tensor, axis))

    def _loaded(self, tensor: DdrTensor, axis: int, tile: Value) -> Value:
        """The address in the scratchpad of a share that is many runs of DDR."""
        size = self._bytes(tensor, axis)
        self.loaded.append(round_up(size, LINE_BYTES))
        target = self.kernel.buffer("share", size)
        self._copy("rdma", tensor, axis, tile, target)
        return target

    def _copy(self, engine: str, tensor: DdrTensor, axis: int, tile: Value, place: Value) -> None:
        """Move a share that is many runs between DDR and the scratchpad."""
        inner = math.prod(tensor.shape[axis:])
        run, outer = inner // self.division.parts, math.prod(tensor.shape[:axis])
        outside = Address(tensor.symbol) + tile * (run * tensor.bytes_each)
        dst, src = (place, outside) if engine == "rdma" else (outside, place)
        token = dma_format(tensor.fmt).token
        self.kernel.emit(f"{engine}.{token}", dst=dst, src=src, n=run, stride0=inner, iter0=outer)

    def _store_result(self, tile: Value) -> None:
        """Store the result if its share is many runs of DDR."""
        result, axis = self.work.output, self.division.result
        assert axis is not None
        if not is_contiguous(result.shape, axis):
            self._copy("wdma", result, axis, tile, self.shares[result.symbol, axis])

    def _bytes(self, tensor: DdrTensor, axis: Axis) -> int:
        return math.prod(local(tensor.shape, axis, self.division.parts)) * tensor.bytes_each

    def _placed(self, tensor: DdrTensor, axis: Axis) -> DdrTensor:
        """This tile's share of a tensor as one of its own; a whole value from outside stays what it is."""
        base = self.shares.get((tensor.symbol, axis))
        if axis is None:
            return tensor if base is None else replace(tensor, base=base)
        shape = local(tensor.shape, axis, self.division.parts)
        return replace(tensor, shape=shape, base=base, value=None)

    # --- stages -----------------------------------------------------------------------------------------

    @contextmanager
    def _alone(self, number: int) -> Iterator[None]:
        """The code inside is for a chip of one tile, with the bytes that the shares leave."""
        kernel = self.kernel
        target, tile, budget = kernel.target, kernel.tile, kernel.budget
        free = (budget - self._alive(number)) // self.part
        if free < SMALLEST_BUDGET:
            raise SpmOverflow(f"the shares leave {free} bytes of SPM")
        scratches = len(kernel.scratches)
        kernel.target, kernel.tile, kernel.budget = replace(target, tiles=1, spm_bytes=free), 0, free
        yield
        kernel.target, kernel.tile, kernel.budget = target, tile, budget
        if len(kernel.scratches) > scratches:
            raise SpmOverflow("a stage needs memory in DDR")

    def _alive(self, number: int) -> int:
        """Bytes of the shares in the scratchpad that exist while a stage is computed."""
        last = {
            tensor.symbol: at for at, stage in enumerate(self.division.stages) for tensor, _ in stage.uses()
        }
        begun = [stage.work.output for stage in self.division.stages[: number + 1]]
        needed = [tensor for tensor in begun if last.get(tensor.symbol, number) >= number]
        sizes = (self._bytes(tensor, self.division.made[tensor.symbol]) for tensor in needed)
        return sum(round_up(size, LINE_BYTES) for size in sizes) + sum(self.loaded)

    def _compute(self, work: Work) -> None:
        entry = LOWERINGS[work.op]
        assert entry.lower is not None
        entry.lower(self.kernel, work)
