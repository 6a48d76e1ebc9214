"""Tests whether a stack can be divided by channels."""

from __future__ import annotations

import math
from collections.abc import Iterator

from compiler.codegen.slices.aligned import within_plane
from compiler.codegen.slices.tensors import DdrTensor
from compiler.lowering.conv.layer import Kind
from compiler.lowering.record import Work
from tx8isa.numbers.formats import Format

from .stages import Stage, Stages
from .whole import Share, share_of


def can_gather(work: Work, stages: Stages, tiles: int, spm_bytes: int) -> bool:
    """True if the channels of every stage can be divided, and tiles have the channels that they need."""
    found = {stage.result.symbol: share_of(stage.result.shape[-1], tiles) for stage in stages.order}
    shares = {symbol: share for symbol, share in found.items() if share is not None}
    if stages.last.layer.batch > 1 or len(shares) < len(found):
        return False
    if max(_whole_bytes(stage, stages) for stage in stages.order) > spm_bytes:
        return False
    stored = all(within_plane(work.output.shape[-1], shares[symbol].width) for symbol in stages.places)
    return stored and all(_stage_fits(stage, stages, shares) for stage in stages.order)


def _whole_bytes(stage: Stage, stages: Stages) -> int:
    """Bytes that every tile holds whole while a stage is computed: image, result, and added values."""
    tensors = [stage.source, stage.result]
    tensors += [tensor for tensor in added_values(stage) if tensor.symbol in stages.made]
    return sum(tensor.bytes_each * math.prod(tensor.shape[1:]) for tensor in tensors)


def _stage_fits(stage: Stage, stages: Stages, shares: dict[str, Share]) -> bool:
    """True if products need no parts, and a tile's own channels of operands are its shares."""
    layer, share = stage.layer, shares[stage.result.symbol]
    if layer.fmt is Format.FP32 or stage.work.output.fmt is Format.FP32:
        return False
    own = [*added_values(stage), *([stage.source] if is_channelwise(stage) else [])]
    return all(
        shares.get(tensor.symbol) == share
        if tensor.symbol in stages.made
        else within_plane(tensor.shape[-1], share.width)
        for tensor in own
    )


def is_channelwise(stage: Stage) -> bool:
    """True if a channel of the result depends only on the same channel of the image."""
    return stage.layer.channelwise


def added_values(stage: Stage) -> Iterator[DdrTensor]:
    """Tensors of the shape of the result that a stage adds to it or combines with it."""
    if stage.layer.kind is Kind.SUM:
        yield stage.work.input(1)
    if stage.epilogue.residual is not None:
        yield stage.epilogue.residual
    for step in stage.epilogue.steps:
        yield from (t for t in step.operands if t is not None and t.value is None)
