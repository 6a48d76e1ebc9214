"""Sends from a stage of a pipeline to the next one: tile t of a chip to tile t of the other, from DDR to DDR.

A tensor arrives in an inbox of the receiver. The DTE copies it there without the core and the engines, which
compute the next part of the batch at the same time. The sender waits only if the inbox may still be full. The
receiver copies the tensor to its place in its own DDR, and reports that the inbox is empty.
"""

from __future__ import annotations

from compiler.codegen.kernel import Kernel
from compiler.codegen.phase import Scratch
from compiler.codegen.slices.tensors import DdrTensor, View, copy_views, dma_format, stretches, whole
from compiler.graph import GraphError
from compiler.lowering.record import EVERY_TYPE, Engine, Work, lowering
from compiler.operators.domains.chips.collectives import RECEIVE, SEND, TAKE, groups_of
from compiler.operators.domains.chips.stages import in_background
from tx8isa.numbers.division import ceil_div, round_up

from . import registers as at
from .collectives import GRAIN, blocks_of, member_of
from .routes import SendPrice

_PIECE = 1 << 13
"""Bytes that a tile copies out of an inbox at a time."""


def _inbox_of(work: Work, tensor: DdrTensor) -> tuple[int, DdrTensor]:
    """The number of an inbox, and the tensor in it; all chips have it at the same address."""
    number = work.spec.integer("inbox")
    if number >= at.MOST_INBOXES:
        most = f"expected at most {at.MOST_INBOXES // 2} values between two stages"
        raise GraphError([f"node '{work.name}': inbox {number} of a stage: {most}"])
    return number, DdrTensor(f"chips.inbox{number}", tensor.fmt, (tensor.size,))


def _share(kernel: Kernel, work: Work, tensor: DdrTensor) -> int:
    """Number of elements of a tensor that a tile sends; the last tile may have fewer, or none."""
    share = round_up(ceil_div(tensor.size, kernel.target.tiles), GRAIN)
    if share * tensor.bytes_each > at.LARGEST:
        most, found = kernel.target.tiles * at.LARGEST, tensor.size * tensor.bytes_each
        raise GraphError(
            [f"node '{work.name}' sends {found:,} bytes, expected at most {most:,}: use more parts"]
        )
    return share


@lowering(SEND, engines=(Engine.DMA,), gives_fp32=True)
def send(kernel: Kernel, work: Work) -> None:
    """Every tile starts to send its part of the tensor, once channel and inbox are free."""
    source, spec = work.input(0), work.spec
    member, channel = member_of(kernel, work), spec.integer("channel")
    number, inbox = _inbox_of(work, source)
    price = SendPrice(kernel.target.machine, tuple(groups_of(spec)), source.size * source.bytes_each)
    kernel.links = 0 if in_background(spec) else round(price.cycles)
    for begin, count in blocks_of(kernel, member, source.size, _share(kernel, work, source)):
        if work.has(2):
            member.await_copy(channel)
        if spec.integer("full"):
            member.await_empty(number)
        member.send_to_inbox(source.at(begin), inbox.at(begin), count * source.bytes_each, number, channel)
        if not in_background(spec):
            member.await_copy(channel)


@lowering(RECEIVE, engines=(Engine.DMA,))
def receive(kernel: Kernel, work: Work) -> None:
    """Every tile copies its part of the tensor out of the inbox when it has arrived."""
    target, spec = work.output, work.spec
    member, token = member_of(kernel, work), dma_format(target.fmt).token
    number, inbox = _inbox_of(work, target)
    kernel.links = 0  # the sender has the price
    kernel.scratches.append(Scratch(inbox.symbol, inbox.size * inbox.bytes_each, shared=True))
    for begin, count in blocks_of(kernel, member, target.size, _share(kernel, work, target)):
        member.await_inbox(number, count * target.bytes_each)
        for stretch in stretches(count, _PIECE // target.bytes_each):
            with kernel.loop(stretch.count) as turn:
                here = kernel.buffer("message", stretch.size * target.bytes_each)
                place = kernel.let(begin + (stretch.start + turn * stretch.size))
                kernel.emit(f"rdma.{token}", dst=here, src=inbox.at(place), n=stretch.size)
                kernel.emit(f"wdma.{token}", dst=target.at(place), src=here, n=stretch.size)
        kernel.emit("ncc.wait")
        if spec.integer("again"):
            member.empty(number)


@lowering(TAKE, types=EVERY_TYPE, engines=(Engine.DMA,))
def take(kernel: Kernel, work: Work) -> None:
    """Copy the operand's rows with numbers ``begin`` and above."""
    source, target = work.input(0), work.output
    view = View(source, source.strides, work.spec.integer("begin") * source.strides[0])
    copy_views(kernel, target.shape, view, whole(target))
