"""The rows of a stack in bands, one for each tile, and the rows of neighbours that each stage needs.

The stages between two exchanges of rows are a *step*.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from compiler.codegen.slices.tensors import DdrTensor
from compiler.lowering.conv.weights import line_at
from tx8isa.numbers.division import ceil_div

from .stages import NeededRows, Stage, Stages


@dataclass(frozen=True)
class Bands:
    """The rows of a stack's result divided among the first ``count`` tiles: ``size`` each, the last may have
    fewer."""

    count: int
    size: int
    rows: int

    @property
    def last(self) -> int:
        """The first row of the last band."""
        return (self.count - 1) * self.size


@dataclass(frozen=True)
class Halo:
    """Rows of a value that a tile needs from its neighbours; ``held``: all rows that it needs.

    It has computed ``own``; of the tile before it needs ``above`` rows, of the tile after it ``below``.
    """

    symbol: str
    own: NeededRows
    held: NeededRows

    @property
    def above(self) -> int:
        return -self.held.low

    @property
    def below(self) -> int:
        return self.held.high - self.own.high

    @property
    def shared(self) -> int:
        """Rows at the end of a band that the next tile computes too."""
        return self.own.high - self.own.step + 1

    def last_rows(self, bands: Bands) -> int:
        """Number of rows that the last band can send to the tile before it."""
        return self.own.limit - bands.last * self.own.step - self.shared


@dataclass
class HaloStep:
    """Stages after an exchange of the halos of some values."""

    halos: list[Halo] = field(default_factory=list)
    stages: list[Stage] = field(default_factory=list)


def bands_of(stages: Stages, tiles: int) -> Bands | None:
    """The division of rows; None if tiles would need rows of others than their neighbours, or of none."""
    rows = stages.last.layer.geometry.rows
    if stages.last.layer.batch > 1 or rows == 1 or tiles < 2:
        return None
    size = ceil_div(rows, tiles)
    bands = Bands(ceil_div(rows, size), size, rows)
    owned = owned_stages(stages)
    halos = [halo for _, halo in halos_of(owned)]
    complete = all(stage.rows.limit > bands.last * stage.rows.step for stage in owned.order)
    if not halos or not complete or not all(_is_near(halo, bands) for halo in halos):
        return None
    return bands


def _is_near(halo: Halo, bands: Bands) -> bool:
    """True if all rows that a tile needs are its own or its neighbours'."""
    band = bands.size * halo.own.step
    return max(halo.above, halo.below) <= band and (halo.below == 0 or halo.last_rows(bands) > 0)


def owned_stages(stages: Stages) -> Stages:
    """Limit each tile to the rows of its own band in every stage."""
    last = stages.last.layer.geometry.rows - 1
    order = []
    for stage in stages.order:
        step, limit = stage.rows.step, stage.rows.limit
        rows = NeededRows(step, 0, max(step - 1, limit - 1 - step * last), limit)
        order.append(replace(stage, rows=rows, image=rows.image(stage.layer.geometry)))
    return replace(stages, order=tuple(order))


def halos_of(stages: Stages) -> Iterator[tuple[int, Halo]]:
    """The halos of values in bands, each with the number of the first stage that needs it."""
    own = {stage.result.symbol: stage.rows for stage in stages.order}
    own |= {piece.whole.symbol: own[symbol] for symbol, piece in stages.pieces.items()}
    held = dict(own)
    for stage in stages.order:
        symbol = stage.source.symbol
        if symbol in own:
            held[symbol] = held[symbol].joined(stage.image)
    complete = set[str]()
    for number, stage in enumerate(stages.order):
        symbol = stage.source.symbol
        outside = symbol in own and not own[symbol].hold(stage.image)
        if outside and symbol not in complete:
            yield number, Halo(symbol, own[symbol], held[symbol])
            complete.add(symbol)


def steps_of(stages: Stages, exchanges: Mapping[str, int]) -> list[HaloStep]:
    """The steps of stages in bands; ``exchanges``: the stage before which each value's halo is exchanged.

    The first step has no halos.
    """
    halos = {halo.symbol: halo for _, halo in halos_of(stages)}
    steps = [HaloStep()]
    for number, stage in enumerate(stages.order):
        found = [halos[symbol] for symbol, before in exchanges.items() if before == number]
        if found:
            steps.append(HaloStep(found))
        steps[-1].stages.append(stage)
    return steps


@dataclass(frozen=True)
class WeightSend:
    """The part of a step's weights that tiles send at a time, between two fractions."""

    step: int
    begin: float = 0.0
    end: float = 1.0

    def elements(self, run: DdrTensor) -> tuple[int, int]:
        """The first element of this part of the contiguous run of weights, and the number of elements."""
        first, end = (line_at(run, fraction) for fraction in (self.begin, self.end))
        return first, end - first


def weight_sends(steps: Sequence[HaloStep], ahead: int) -> list[list[WeightSend]]:
    """The weights that tiles send before the first step, and at the begin of each step but the last.

    These are the weights of the step after. With ``ahead`` 2, if a step has over twice the weights of the one
    before, they are sent in two parts, so that both steps send equally long.
    """
    sizes = [sum(stage.layer.weight_bytes() for stage in step.stages) for step in steps]
    sends = [[WeightSend(number)] for number in range(len(steps))]
    for number in range(2, len(steps) if ahead > 1 else 0):
        if sizes[number] > 2 * sizes[number - 1]:
            part = (sizes[number] - sizes[number - 1]) / 2 / sizes[number]
            sends[number - 1].append(WeightSend(number, 0.0, part))
            sends[number] = [WeightSend(number, part, 1.0)]
    return sends
