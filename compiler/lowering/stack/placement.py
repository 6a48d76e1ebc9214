"""The homes of a stack's values, and the exchanges: of channels, of rows at the edges of bands, or none."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.codegen.kernel import Target
from compiler.dialect.homes import WHOLE, Home
from compiler.lowering.record import ALL_GATHER, HALO_EXCHANGE, Placement, SequenceWork, StageExchange

from .bands import halos_of, owned_stages
from .cuts import BETWEEN, GATHER, HALO
from .stages import JOIN, NeededRows, Stage, Stages, stages_of
from .whole import is_channelwise

IMAGES, CHANNELS, ROWS = "images", "channels", "rows"
"""The mesh axes of stacks."""


def stack_placement(target: Target, work: SequenceWork) -> Placement:
    """The homes and exchanges of a stack with a cut."""
    assert work.cut is not None
    stages, between = stages_of(work), work.cut.choice(BETWEEN, "")
    if between == GATHER:
        exchanges = tuple(exchanges_of_channels(work, stages))
        sent = {each.symbol for each in exchanges}
        return Placement(dict(_homes_by_channels(work, stages, sent)), exchanges)
    if between == HALO:
        owned = owned_stages(stages)
        return Placement(dict(_homes_by_rows(work, owned)), tuple(exchanges_of_halos(work, owned)))
    return Placement(dict(_homes_by_rows(work, stages)), ())


def order_at(work: SequenceWork, stages: Stages, before: int) -> int:
    """The number of stages, joins left out, that come before the work's stage number ``before``."""
    return sum(_at(work, stage) < before for stage in stages.order)


def _at(work: SequenceWork, stage: Stage) -> int:
    return next(at for at, each in enumerate(work.stages) if each is stage.work)


def exchanges_of_channels(work: SequenceWork, stages: Stages) -> Iterator[StageExchange]:
    """All-gathers of results if a later stage reads all channels, each right after its computation."""
    for stage in stages.order:
        symbol = stage.result.symbol
        piece = stages.pieces.get(symbol)
        names = {symbol} | ({piece.whole.symbol} if piece is not None else set[str]())
        if any(not is_channelwise(each) and each.source.symbol in names for each in stages.order):
            yield StageExchange(ALL_GATHER, symbol, CHANNELS, _at(work, stage) + 1)


def exchanges_of_halos(work: SequenceWork, owned: Stages) -> Iterator[StageExchange]:
    """The rows of its neighbours that a tile needs, each just before the first stage that reads them."""
    for number, halo in halos_of(owned):
        at = _at(work, owned.order[number])
        yield StageExchange(HALO_EXCHANGE, halo.symbol, ROWS, at, halo.above, halo.below)


def _homes_by_channels(work: SequenceWork, stages: Stages, sent: set[str]) -> Iterator[tuple[str, Home]]:
    space = (WHOLE,) * (len(work.output.shape) - 2)
    own, whole = Home((WHOLE, CHANNELS, *space)), Home((WHOLE, WHOLE, *space))
    for stage in stages.order:
        if stage.source.symbol not in stages.made:
            yield stage.source.symbol, own if is_channelwise(stage) else whole
    for stage in stages.order:
        yield stage.result.symbol, own
    for symbol, piece in stages.pieces.items():
        yield piece.whole.symbol, whole if symbol in sent else own
    if work.stages[-1].op == JOIN:
        yield work.output.symbol, own


def _homes_by_rows(work: SequenceWork, stages: Stages) -> Iterator[tuple[str, Home]]:
    assert work.cut is not None
    images, height = (axis if work.cut.parts(axis) > 1 else WHOLE for axis in (IMAGES, ROWS))
    space = (WHOLE,) * (len(work.output.shape) - 3)

    def home(rows: NeededRows) -> Home:
        """The home of a value in bands; ``rows`` beyond a tile's share are computed by several tiles."""
        axes = (images, WHOLE, height, *space)
        if height == WHOLE:
            return Home(axes)
        return Home(axes, max(-rows.low, 0), max(rows.high - rows.step + 1, 0))

    for stage in stages.order:
        if stage.source.symbol not in stages.made:
            yield stage.source.symbol, home(stage.image)
    for stage in stages.order:
        yield stage.result.symbol, home(stage.rows)
        piece = stages.pieces.get(stage.result.symbol)
        if piece is not None:
            yield piece.whole.symbol, home(stage.rows)
    if work.stages[-1].op == JOIN:
        yield work.output.symbol, home(stages.last.rows)
