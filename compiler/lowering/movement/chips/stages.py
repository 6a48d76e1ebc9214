"""What a stage of a pipeline sends to the next one: tile t of a chip to tile t of the other.

A sender waits until the receiver lets it write, so a stage is at most one tensor ahead of the next one. Both
cut a tensor in the same way, whatever else is in their scratchpads.
"""

from __future__ import annotations

from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.tensors import DdrTensor, View, copy_views, dma_format, whole
from compiler.lowering.record import EVERY_TYPE, Engine, Work, lowering
from compiler.operators.domains.chips.collectives import RECEIVE, SEND, TAKE
from tx8isa.numbers.division import ceil_div, round_up

from .collectives import GRAIN, blocks_of, member_of
from .registers import WRITTEN

_PLACE, _LARGEST = 0x1400, 1 << 13
"""Where a message is on both chips, in the part of the scratchpad that is kept for the core, behind the
greetings and far below the stack; and its bytes at most."""


def _message(kernel: Kernel, tensor: DdrTensor, tiles: int) -> tuple[int, int]:
    """The place of a message, and its elements; the last one may have fewer."""
    most = _LARGEST // tensor.bytes_each
    part = min(most, round_up(ceil_div(tensor.size, tiles), GRAIN))
    return kernel.target.machine.spm.reserved + _PLACE, part


@lowering(SEND, engines=(Engine.DMA,), gives_fp32=True)
def send(kernel: Kernel, work: Work) -> None:
    """Every tile loads its part of the tensor and writes it to the other chip."""
    source = work.input(0)
    member = member_of(kernel, work)
    (base, part), token = _message(kernel, source, member.tiles), dma_format(source.fmt).token
    for begin, count in blocks_of(kernel, member, source.size, part):
        kernel.emit(f"rdma.{token}", dst=base, src=source.at(begin), n=count)
        kernel.emit("ncc.wait")
        member.allowed()
        member.send(base, base, count * source.bytes_each, (WRITTEN, 0))
        member.sent()


@lowering(RECEIVE, engines=(Engine.DMA,))
def receive(kernel: Kernel, work: Work) -> None:
    """Every tile lets the other chip write its part of the tensor, and stores it."""
    target = work.output
    member = member_of(kernel, work)
    (base, part), token = _message(kernel, target, member.tiles), dma_format(target.fmt).token
    for begin, count in blocks_of(kernel, member, target.size, part):
        member.expects(count * target.bytes_each)
        member.allow()
        member.written(WRITTEN, 0)
        kernel.emit(f"wdma.{token}", dst=target.at(begin), src=base, n=count)
        kernel.emit("ncc.wait")


@lowering(TAKE, types=EVERY_TYPE, engines=(Engine.DMA,))
def take(kernel: Kernel, work: Work) -> None:
    """A copy of some rows."""
    source, target = work.input(0), work.output
    view = View(source, source.strides, work.spec.integer("begin") * source.strides[0])
    copy_views(kernel, target.shape, view, whole(target))
