"""Sends a tensor from the first member of a group of chips along the ring, or a slice to each chip."""

from __future__ import annotations

from dataclasses import replace

from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.tensors import View, copy_views, dma_format
from compiler.lowering.record import EVERY_TYPE, Engine, Work, lowering
from compiler.operators.domains.chips.collectives import BROADCAST, PART

from .collectives import blocks_of, member_of, part_of, rows_of
from .registers import WRITTEN


@lowering(BROADCAST, engines=(Engine.DMA,))
def broadcast(kernel: Kernel, work: Work) -> None:
    """Every tile passes on some elements of the first member's tensor."""
    source, target = work.input(0), work.output
    member = member_of(kernel, work)
    part = part_of(kernel, source, source.size, 1, member.tiles)
    base, token = kernel.buffer("chunks", part * source.bytes_each), dma_format(source.fmt).token
    for begin, count in blocks_of(kernel, member, source.size, part):
        kernel.emit(f"rdma.{token}", dst=base, src=source.at(begin), n=count)
        kernel.emit("ncc.wait")
        size = count * source.bytes_each
        member.expects(size)
        kernel.receive(base)
        with kernel.unless_zero(member.place):
            member.allow()
            member.written(WRITTEN, 0)
        with kernel.if_below(member.place, member.size - 1):
            member.allowed()
            member.send(base, base, size, (WRITTEN, 0))
            member.sent()
        kernel.keep_alive(base)
        kernel.emit(f"wdma.{token}", dst=target.at(begin), src=base, n=count)
        kernel.emit("ncc.wait")


@lowering(PART, types=EVERY_TYPE, engines=(Engine.DMA,))
def part(kernel: Kernel, work: Work) -> None:
    """A copy of this chip's part of each row."""
    source, target = work.input(0), work.output
    member = member_of(kernel, work)
    outer, width = rows_of(work, target)
    base = kernel.let(source.at(member.place * width))
    view = View(replace(source, base=base), (member.size * width, 1))
    copy_views(kernel, (outer, width), view, View(target, (width, 1)))
