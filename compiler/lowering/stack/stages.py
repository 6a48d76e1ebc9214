"""The stages of a stack: convolutions and pools that read each other's results in the scratchpad.

A stack is computed by blocks of rows of its result. The windows after a *stage* decide which rows it must
compute for a block. For rows ``b .. b + n - 1`` of the result they are the rows
``step * b + low .. step * (b + n - 1) + high`` of the stage's value, as far as the image reaches. Rows that
two blocks need are computed for both.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, replace
from functools import cached_property
from weakref import WeakKeyDictionary

from compiler.codegen.slices.aligned import Grid
from compiler.codegen.slices.tensors import BLOCK, DdrTensor
from compiler.codegen.slices.windows import Geometry
from compiler.lowering.conv.layer import (
    ConvEpilogue,
    ConvLayer,
    Kind,
    epilogue_of,
    geometry_of,
    is_depthwise,
    is_exact,
    layer_of,
)
from compiler.lowering.conv.pooling import counts_differ, pool_layer
from compiler.lowering.conv.weights import Groups
from compiler.lowering.pointwise.record import known_number
from compiler.lowering.record import LOWERINGS, AnyWork, SequenceWork, Work, laws_of
from compiler.operators import OPERATORS
from compiler.operators.record import Law
from tx8isa.numbers.formats import Format
from tx8isa.numbers.limits import LARGEST_EXTENT

JOIN = "Concat"
"""The operator that puts the results of some stages side by side."""


def begins_stage(op: str) -> bool:
    """True if a stage of a stack begins at an operator."""
    return op == JOIN or (op in LOWERINGS and LOWERINGS[op].stage)


_CHOOSES = Law.EXACT | Law.RISING


@dataclass(frozen=True)
class NeededRows:
    """Rows of a value that blocks of result rows need (see the module); none from ``limit``."""

    step: int
    low: int
    high: int
    limit: int

    def most(self, rows: int) -> int:
        """Largest number of needed rows for a block of ``rows``."""
        return min((rows - 1) * self.step + self.high - self.low + 1, self.limit)

    def image(self, geometry: Geometry) -> NeededRows:
        """Rows of the image that windows over these rows touch."""
        (stride, _), (begin, _), (extent, _) = geometry.strides, geometry.begin, geometry.extent
        last = (self.limit - 1) * stride - begin + extent
        high = self.high * stride - begin + extent - 1
        return NeededRows(self.step * stride, self.low * stride - begin, high, min(last, geometry.height))

    def joined(self, other: NeededRows) -> NeededRows:
        """The rows that two readers need together; ValueError if they do not advance alike."""
        if self.step != other.step:
            raise ValueError(f"rows in steps of {self.step} and {other.step}")
        return NeededRows(
            self.step, min(self.low, other.low), max(self.high, other.high), max(self.limit, other.limit)
        )

    def hold(self, other: NeededRows) -> bool:
        """True if all rows of ``other`` are among these."""
        return self.step == other.step and self.joined(other) == self


@dataclass(frozen=True)
class Stage:
    """An operator with the steps after it; ``rows`` are those it computes, ``image`` those it reads."""

    work: Work
    layer: ConvLayer
    epilogue: ConvEpilogue
    rows: NeededRows
    image: NeededRows

    @property
    def source(self) -> DdrTensor:
        return self.work.input(0)

    @property
    def result(self) -> DdrTensor:
        return self.work.output

    @property
    def grid(self) -> Grid:
        """All positions of the result."""
        return Grid(self.layer.geometry.rows, self.layer.geometry.columns, self.layer.geometry.rows)


@dataclass(frozen=True)
class Piece:
    """The place of a stage's result in a join: the first channel."""

    whole: DdrTensor
    channel: int


@dataclass(frozen=True)
class Stages:
    """The stages of a stack.

    ``places``: the channel of the stack's result at which a stage's result begins; ``pieces``: results that
    are joined in the scratchpad, by their symbols.
    """

    order: tuple[Stage, ...]
    places: dict[str, int]
    pieces: dict[str, Piece]

    @cached_property
    def made(self) -> Set[str]:
        """Symbols of the values that the stages compute."""
        joined = {piece.whole.symbol for piece in self.pieces.values()}
        return joined | self.by_result.keys()

    @cached_property
    def by_result(self) -> Mapping[str, Stage]:
        """The stages by the symbols of their results."""
        return {stage.result.symbol: stage for stage in self.order}

    @property
    def last(self) -> Stage:
        return self.order[-1]


def stages_of(work: SequenceWork) -> Stages:
    """The stages of a stack; ValueError if they cannot be computed by blocks of rows together."""
    *works, last = work.operators
    if last.op == JOIN:
        places = {tensor.symbol: channel for tensor, channel in _pieces(last)}
    else:
        works, places = [*works, last], {last.output.symbol: 0}
    needs = dict.fromkeys(places, NeededRows(1, 0, 0, last.output.shape[1]))
    pieces: dict[str, Piece] = {}
    order: list[Stage] = []
    for each in reversed(works):
        rows = needs[each.output.symbol]
        if each.op == JOIN:
            wants = [(tensor, rows) for tensor, _ in _pieces(each)]
            pieces |= {tensor.symbol: Piece(each.output, channel) for tensor, channel in _pieces(each)}
        else:
            layer, epilogue = _numbers(each)
            order.append(Stage(each, layer, epilogue, rows, rows.image(layer.geometry)))
            wants = [(order[-1].source, order[-1].image), *((tensor, rows) for tensor in added(each))]
        for tensor, wanted in wants:
            known = needs.get(tensor.symbol)
            needs[tensor.symbol] = wanted if known is None else known.joined(wanted)
    found = Stages(tuple(reversed(order)), places, pieces)
    _check_joins(found, needs)
    return found


def _check_joins(found: Stages, needs: dict[str, NeededRows]) -> None:
    """Check joined and stored values: stages compute them, with equal heights, in order of channels. A piece
    of a join is in the scratchpad only as a part of the join.
    """
    made = {stage.result.symbol: stage.rows for stage in found.order}
    joined = {symbol: needs[piece.whole.symbol] for symbol, piece in found.pieces.items()}
    stored = dict.fromkeys(found.places, NeededRows(1, 0, 0, found.last.layer.geometry.rows))
    if any(made.get(symbol) != rows for symbol, rows in (joined | stored).items()):
        raise ValueError("a piece of a join that is not computed in the same blocks as the others")
    if any(symbol in found.pieces for stage in found.order for symbol in _read(stage)):
        raise ValueError("a piece of a join that is read by itself")
    channels: dict[str, int] = {}
    for stage in found.order:
        piece = found.pieces.get(stage.result.symbol)
        if piece is not None:
            if piece.channel < channels.get(piece.whole.symbol, 0):
                raise ValueError("pieces of a join in another order than its channels")
            channels[piece.whole.symbol] = piece.channel


def last_pieces(stages: Stages) -> dict[str, str]:
    """The pieces of joins whose steps can be applied to all pieces at once, each with the last of its join.

    An engine rounds them and writes them side by side, and their steps are the same.
    """
    joins: dict[str, list[Stage]] = {}
    for stage in stages.order:
        if stage.result.symbol in stages.pieces:
            joins.setdefault(stages.pieces[stage.result.symbol].whole.symbol, []).append(stage)
    found: dict[str, str] = {}
    for makers in joins.values():
        symbols = [stage.result.symbol for stage in makers]
        direct = all(stage.layer.kind.weighted and stage.layer.engine_rounds for stage in makers)
        if direct and len({_changes(stage) for stage in makers}) == 1:
            found |= dict.fromkeys(symbols, symbols[-1])
    return found


def after_pools(stages: Stages) -> dict[str, Stage]:
    """The stages whose steps can be applied to the result of a pool of maxima instead, by their results.

    Only the pool reads their results, or the join of their results; all pieces of the join have equal steps.
    """
    readers: dict[str, list[Stage]] = {}
    for stage in stages.order:
        for symbol in _read(stage):
            readers.setdefault(symbol, []).append(stage)
    found: dict[str, Stage] = {}
    for source, (pool, *others) in readers.items():
        if others or _CHOOSES not in laws_of(pool.work.op) or pool.source.symbol != source:
            continue
        makers = [stage for stage in stages.order if source in _names(stages, stage)]
        possible = all(_commutes(stage) and not _names(stages, stage) & {*stages.places} for stage in makers)
        if makers and possible and len({_changes(stage) for stage in makers}) == 1:
            found |= {stage.result.symbol: pool for stage in makers}
    return found


def _names(stages: Stages, stage: Stage) -> set[str]:
    """The symbols of a result and of the join that contains it."""
    symbol = stage.result.symbol
    return {symbol, stages.pieces[symbol].whole.symbol} if symbol in stages.pieces else {symbol}


def _read(stage: Stage) -> Iterator[str]:
    """The symbols of the values that a stage reads."""
    yield stage.source.symbol
    yield from (tensor.symbol for tensor in added(stage.work))


def _commutes(stage: Stage) -> bool:
    """True if a maximum of a convolution's results can come before its steps."""
    steps, layer = stage.epilogue.steps, stage.layer
    rounded = layer.kind.weighted and layer.engine_rounds
    return bool(steps) and rounded and all(_CHOOSES in laws_of(step.op) for step in steps)


def _changes(stage: Stage) -> str:
    """The steps of a stage as a text that is equal for equal steps; none of them has a tensor."""
    return repr(
        [
            (
                step.op,
                step.call.opset,
                sorted(step.call.attrs.items()),
                [None if tensor is None else known_number(tensor) for tensor in step.operands],
            )
            for step in stage.epilogue.steps
        ]
    )


_known: WeakKeyDictionary[Work, tuple[ConvLayer, ConvEpilogue]] = WeakKeyDictionary()
"""Cached stages: the search asks for the same ones in many stacks."""


def _numbers(work: Work) -> tuple[ConvLayer, ConvEpilogue]:
    """A stage in numbers, its image as rows of positions."""
    found = _known.get(work)
    if found is None:
        found = _known[work] = _computed_numbers(work)
    return found


def _computed_numbers(work: Work) -> tuple[ConvLayer, ConvEpilogue]:
    if work.op == "Int8Sum":
        return _sum_layer(work), ConvEpilogue(None, (), True)
    if OPERATORS[work.op].product is None:
        wide = work.output.fmt is Format.INT8
        return pool_layer(work, wide), ConvEpilogue(None, work.steps, is_exact(work.steps))
    geometry, layer = geometry_of(work), layer_of(work)
    kind = Kind.DEPTHWISE if is_depthwise(work) else Kind.CONV
    if kind is Kind.CONV and geometry.kernel == geometry.strides == (1, 1):
        kind = Kind.GEMM
    return replace(
        layer, geometry=geometry, every_row=geometry, kind=kind, batch=work.input(0).shape[0]
    ), epilogue_of(work)


def _sum_layer(work: Work) -> ConvLayer:
    """A sum as windows of one position."""
    batch, *image, channels = work.output.shape
    height, width = image if len(image) == 2 else (math.prod(image), 1)
    ones = (1, 1)
    geometry = Geometry(height, width, ones, ones, ones, (0, 0), height, width)
    return ConvLayer(
        geometry,
        batch,
        Groups(1, channels, channels, 1),
        Format.INT8,
        Format.INT8,
        Kind.SUM,
        blocked=True,
        bias=False,
        residual=False,
        engine_rounds=False,
        extra_bytes=8,
        passes=1,
        packed=False,
        every_row=geometry,
    )


def added(work: Work) -> Iterator[DdrTensor]:
    """Tensors of the result's shape that are added to it, or that its steps need."""
    if work.op == "Int8Sum":
        yield work.input(1)
    for step in work.steps:
        yield from (t for t in step.operands if t is not None and t.value is None)


def added_early(stage: Stage) -> DdrTensor | None:
    """The tensor of the result's shape that a stage needs from the beginning of its computation."""
    return stage.work.input(1) if stage.layer.kind is Kind.SUM else stage.epilogue.residual


def _pieces(work: Work) -> list[tuple[DdrTensor, int]]:
    """The operands of a join, each with its first channel in the result."""
    found: list[tuple[DdrTensor, int]] = []
    channel = 0
    for tensor in work.inputs:
        assert tensor is not None
        if channel % BLOCK or any(tensor.symbol == other.symbol for other, _ in found):
            raise ValueError("a piece that is not whole planes of the result, or is there twice")
        found.append((tensor, channel))
        channel += tensor.shape[-1]
    return found


def can_be_stage(work: AnyWork) -> bool:
    """True if the work of a group can be a stage of a stack, or a join in it."""
    tensors = [tensor for tensor in work.inputs if tensor is not None and tensor.value is None]
    if not isinstance(work, Work) or not work.output.blocked or not all(tensor.blocked for tensor in tensors):
        return False
    if not work.output.fmt.is_float and work.output.fmt is not Format.INT8:
        return False
    if work.op == JOIN:
        return len(tensors) == len(work.inputs) > 1 and work.spec.integer("axis") in (
            1,
            1 - len(work.output.shape),
        )
    of_bytes = work.output.fmt is Format.INT8
    if not LOWERINGS[work.op].stage or work.input(0).fmt is not work.output.fmt:
        return False
    if work.op == "Int8Sum":
        return len(work.output.shape) in (3, 4)
    if len(tensors) != 1 or (of_bytes and work.steps):
        return False
    if any(tensor.shape != work.output.shape or not tensor.blocked for tensor in added(work)):
        return False
    if OPERATORS[work.op].product is None:
        return Law.EXACT in laws_of(work.op) or not counts_differ(work.spec)
    if of_bytes and is_depthwise(work):
        return False
    return work.output.shape[-1] <= LARGEST_EXTENT and layer_of(work).groups.count == 1
