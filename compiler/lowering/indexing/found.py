"""Places of true elements, numbers with a bound, and outputs whose size data decides.

The kernel core counts and writes. In a tensor that several tiles write, each tile has its own lines.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from compiler.codegen.expr import Value, Variable, minimum
from compiler.codegen.kernel import Kernel
from compiler.codegen.program import SHAPE_BLOCK, SHAPE_WORD
from compiler.codegen.slices.scalar import ScalarCode, offset_of
from compiler.codegen.slices.tensors import copy_views, unravel, whole
from compiler.lowering.record import EVERY_TYPE, Engine, Work, always, lowering
from compiler.operators.record import Call
from compiler.operators.reductions.boxes import GRAIN
from compiler.operators.reductions.found import COUNTED

from .stop import stop_unless_within

_BLOCK = 64
"""Elements of an output that a tile writes at once."""


@lowering("TrueCounts", types=EVERY_TYPE, on_core=always)
def true_counts(kernel: Kernel, work: Work) -> None:
    """Count true elements: every tile counts in some blocks, then one tile adds the counts."""
    source, target, core = work.input(0), work.output, ScalarCode(kernel)
    blocks = target.size - 1
    with core.elements(blocks, GRAIN) as block:
        total = core.number(0)
        begin = kernel.let(block * COUNTED)
        with kernel.loop(kernel.let(minimum(begin + COUNTED, source.size)), begin) as at:
            truth = core.load(source, at)
            core.emit("snez", truth, truth)
            core.emit("add", total, total, truth)
        core.store(target, block, total)
    kernel.synchronize()
    with kernel.if_zero(kernel.tile):
        core.acquire()
        total = core.number(0)
        with kernel.loop(blocks) as block:
            count = core.load(target, block)
            core.store(target, block, total)
            core.emit("add", total, total, count)
        core.store(target, blocks, total)
        core.publish()


@lowering("TruePlaces", types=EVERY_TYPE, on_core=always)
def true_places(kernel: Kernel, work: Work) -> None:
    """Each tile writes an equal part of the places; the counts say which blocks contain them."""
    source, counts, target, core = work.input(0), work.input(1), work.output, ScalarCode(kernel)
    with core.elements(target.size) as at:
        core.store(target, at, "zero")
    kernel.synchronize()
    core.acquire()
    found = Variable(core.load(work.input(2), 0), 0, target.size)
    grain = GRAIN * kernel.target.tiles
    share = kernel.let((found + (grain - 1)) // grain * GRAIN)
    begin = kernel.let(kernel.tile * share)
    first, end = _register(core, begin), _register(core, minimum(begin + share, found))
    with kernel.loop(counts.size - 1) as block:
        number, after = core.load(counts, block), core.load(counts, block + 1)
        core.emit("ble", after, first, "9f")
        core.emit("bge", number, end, "9f")
        start = kernel.let(block * COUNTED)
        with kernel.loop(kernel.let(minimum(start + COUNTED, source.size)), start) as at:
            core.emit("beqz", core.load(source, at), "8f")
            core.emit("blt", number, first, "7f")
            core.emit("bge", number, end, "7f")
            core.store(target, Variable(number, 0, target.size - 1), _register(core, at))
            kernel.out.label("7")
            core.emit("addi", number, number, "1")
            kernel.out.label("8")
        kernel.out.label("9")
    core.publish()


@lowering("TrueRanks", types=EVERY_TYPE, on_core=always)
def true_ranks(kernel: Kernel, work: Work) -> None:
    """Rank the true elements: each block continues from the count of those before it."""
    source, counts, core = work.input(0), work.input(1), ScalarCode(kernel)
    core.begin()
    with kernel.items(counts.size - 1) as block:
        rank = core.load(counts, block)
        core.emit("addi", rank, rank, "-1")
        begin = kernel.let(block * COUNTED)
        with kernel.loop(kernel.let(minimum(begin + COUNTED, source.size)), begin) as at:
            truth = core.load(source, at)
            core.emit("snez", truth, truth)
            core.emit("add", rank, rank, truth)
            core.store(work.output, at, rank)
    core.publish()


@lowering("Bounded", types=EVERY_TYPE, on_core=always)
def bounded(kernel: Kernel, work: Work) -> None:
    """One tile looks at the number, and stops the program with a line if it is out of bounds."""
    call, core = work.spec, ScalarCode(kernel)
    core.begin()
    with kernel.if_zero(kernel.tile):
        count, limit = core.load(work.input(0), 0), core.number(call.integer("most"))
        if work.has(1):
            other = core.load(work.input(1), 0)
            core.emit("bge", other, limit, "1f")
            core.emit("mv", limit, other)
            kernel.out.label("1")
        stop_unless_within(core, count, limit, call.string("what"), call.integer("shown"))
        core.store(work.output, 0, count)
        core.publish()


def _has_gaps(call: Call) -> bool:
    """where an axis before the last data-dependent one has several elements"""
    last = max(call.integers("axes") or (0,))
    return math.prod(call.shape(0)[:last]) != 1


@lowering("Sized", types=EVERY_TYPE, engines=(Engine.DMA,), on_core=_has_gaps)
def sized(kernel: Kernel, work: Work) -> None:
    """The sizes go to the shape block; elements are copied one by one only if there are gaps between them."""
    call, source, core = work.spec, work.input(0), ScalarCode(kernel)
    axes, words = call.integers("axes") or (), call.integers("words") or ()
    counts = [work.input(1 + at) for at in range(len(axes))]
    core.acquire()
    with kernel.if_zero(kernel.tile):
        for count, word in zip(counts, words, strict=True):
            with kernel.registers.scope():
                size, block = core.load(count, 0), core.register()
                core.emit("la", block, f"%core({SHAPE_BLOCK})")
                core.emit("sd", size, f"{word * SHAPE_WORD}({block})")
        core.publish()
    if not _has_gaps(call):
        copy_views(kernel, source.shape, whole(source), whole(work.output))
        return
    sizes: list[Value] = list(source.shape)
    for axis, count in zip(axes, counts, strict=True):
        # With a size of 0 there are no elements, and no division takes place.
        sizes[axis] = Variable(core.load(count, 0), 1, source.shape[axis])
    with _elements(core, sizes) as number:
        value = core.load(source, offset_of(unravel(number, sizes), source.strides))
        core.store(work.output, number, value)


@contextmanager
def _elements(core: ScalarCode, sizes: Sequence[Value]) -> Iterator[Value]:
    """The numbers of the elements of this tile of a tensor with sizes that are in registers."""
    kernel, count = core.kernel, _product(core, sizes)
    kernel.on_core = True
    with kernel.items(kernel.let((count + (_BLOCK - 1)) // _BLOCK)) as block:
        begin = kernel.let(block * _BLOCK)
        with kernel.loop(kernel.let(minimum(begin + _BLOCK, count)), begin) as element:
            yield element
    core.publish()


def _product(core: ScalarCode, sizes: Sequence[Value]) -> Variable:
    """Put the product of sizes into a register; a size may be 0 whatever its bound."""
    most, product = 1, core.number(1)
    for size in sizes:
        with core.kernel.registers.scope():
            core.emit("mul", product, product, _register(core, size))
        most *= size if isinstance(size, int) else getattr(size, "high", 1)
    return Variable(product, 0, most)


def _register(core: ScalarCode, value: Value) -> str:
    return core.kernel.registers.compute(value)
