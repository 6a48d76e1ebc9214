"""The order of the rows of a matrix: blocks of eight by insertion, then all tiles merge runs."""

from __future__ import annotations

from compiler.codegen.expr import Variable, minimum
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.scalar import ScalarCode
from compiler.codegen.slices.tensors import DdrTensor
from compiler.lowering.record import EVERY_TYPE, Work, always, lowering
from compiler.operators.reductions.boxes import GRAIN
from tx8isa.numbers.division import ceil_div
from tx8isa.numbers.formats import Format

from .ranking import sortable


@lowering("RowOrder", types=EVERY_TYPE, on_core=always)
def row_order(kernel: Kernel, work: Work) -> None:
    """A stable merge sort of row numbers; each run begins a line, so no two tiles write the same one."""
    source, target = work.input(0), work.output
    count, levels = target.size, _levels(target.size)
    other = DdrTensor(kernel.scratch("order", 8 * count).symbol, Format.INT64, (count,))
    order = _RowOrder(ScalarCode(kernel), source)
    order.blocks(target if levels % 2 == 0 else other)
    if levels:
        pair = (target, other) if levels % 2 == 0 else (other, target)
        order.merge(*(order.core.address(tensor, 0) for tensor in pair))


def _levels(count: int) -> int:
    """Number of merges of all runs until one is left."""
    return max(0, (ceil_div(count, GRAIN) - 1).bit_length())


class _RowOrder:
    def __init__(self, core: ScalarCode, source: DdrTensor) -> None:
        self.core, self.kernel, self.source = core, core.kernel, source
        self.rows, self.columns = source.shape
        self.prefix = core.kernel.prefix

    def label(self, name: str) -> None:
        self.kernel.out.label(f"{self.prefix}.{name}")

    def jump(self, name: str, mnemonic: str = "j", *registers: str) -> None:
        self.core.emit(mnemonic, *registers, f"{self.prefix}.{name}")

    def blocks(self, target: DdrTensor) -> None:
        """Sort each eight rows by insertion."""
        core, kernel = self.core, self.kernel
        core.begin()
        with kernel.items(ceil_div(self.rows, GRAIN)) as block:
            begin = kernel.let(block * GRAIN)
            first = core.address(target, begin)
            with kernel.loop(kernel.let(minimum(begin + GRAIN, self.rows)), begin) as row:
                number, before, place = core.register(), core.register(), core.address(target, row)
                core.emit("mv", number, kernel.registers.compute(row))
                self.label("earlier")
                self.jump("placed", "ble", place, first)
                core.emit("ld", before, f"-8({place})")
                self.branch_if_less(number, before, "before", "insert")
                self.jump("placed")
                self.label("before")
                core.emit("sd", before, f"0({place})")
                core.emit("addi", place, place, "-8")
                self.jump("earlier")
                self.label("placed")
                core.emit("sd", number, f"0({place})")
        core.publish()
        kernel.synchronize()
        core.acquire()

    def merge(self, source: str, target: str) -> None:
        """Merge runs, doubling their length each time, from one buffer into the other and back."""
        core = self.core
        width, begin, all_rows = core.number(GRAIN), core.register(), core.number(self.rows)
        step = core.register()
        self.label("level")
        core.emit("li", step, str(2 * self.kernel.target.tiles))
        core.emit("mul", step, step, width)
        core.emit("slli", begin, width, "1")
        core.emit("mul", begin, begin, self.kernel.registers.compute(self.kernel.tile))
        self.label("run")
        self.jump("ends", "bge", begin, all_rows)
        self._merge_two(source, target, (begin, width, all_rows))
        core.emit("add", begin, begin, step)
        self.jump("run")
        self.label("ends")
        core.publish()
        self.kernel.synchronize()
        core.acquire()
        for left, right in ((source, target), (target, source), (source, target)):
            core.emit("xor", left, left, right)
        core.emit("slli", width, width, "1")
        self.jump("level", "blt", width, all_rows)

    def _merge_two(self, source: str, target: str, run: tuple[str, str, str]) -> None:
        """Merge two runs into one.

        ``run``: the begin of the first, the length of both, the number of rows.
        """
        core, (begin, width, all_rows) = self.core, run
        with self.kernel.registers.scope():
            one, other, out = core.register(), core.register(), core.register()
            middle, end = core.register(), core.register()
            core.emit("mv", one, begin)
            for limit, start in ((middle, begin), (end, middle)):
                core.emit("add", limit, start, width)
                core.emit("ble", limit, all_rows, "1f")
                core.emit("mv", limit, all_rows)
                self.kernel.out.label("1")
            core.emit("mv", other, middle)
            for place in (one, middle, other, end):
                core.emit("slli", place, place, "3")
            core.emit("add", out, target, one)
            for place in (one, middle, other, end):
                core.emit("add", place, place, source)
            self._take_in_order(one, middle, other, end, out)

    def _take_in_order(self, one: str, middle: str, other: str, end: str, out: str) -> None:
        """Merge in order.

        All parameters are addresses: of the next of each run, of their ends, of the result.
        """
        core = self.core
        left, right = core.register(), core.register()
        self.label("next")
        self.jump("one_left", "bge", other, end)
        core.emit("ld", right, f"0({other})")
        self.jump("take_other", "bge", one, middle)
        core.emit("ld", left, f"0({one})")
        self.branch_if_less(right, left, "take_other", "merge")
        self.label("take_one")
        core.emit("sd", left, f"0({out})")
        core.emit("addi", one, one, "8")
        self.jump("taken")
        self.label("take_other")
        core.emit("sd", right, f"0({out})")
        core.emit("addi", other, other, "8")
        self.label("taken")
        core.emit("addi", out, out, "8")
        self.jump("next")
        self.label("one_left")
        self.jump("merged", "bge", one, middle)
        core.emit("ld", left, f"0({one})")
        self.jump("take_one")
        self.label("merged")

    def branch_if_less(self, row: str, than: str, label: str, title: str) -> None:
        """Jump to a label if a row is less than another one; ``title`` is part of the labels here."""
        core, kernel = self.core, self.kernel
        with kernel.registers.scope():
            column = core.number(0)
            self.label(f"{title}_column")
            with kernel.registers.scope():
                left, right = self._key(row, column), self._key(than, column)
                self.jump(label, "blt", left, right)
                self.jump(f"{title}_more", "blt", right, left)
            if self.columns > 1:
                core.emit("addi", column, column, "1")
                with kernel.registers.scope():
                    limit = core.number(self.columns)
                    self.jump(f"{title}_column", "blt", column, limit)
            self.label(f"{title}_more")

    def _key(self, row: str, column: str) -> str:
        """Load an element into a register, so that integers compare as elements do."""
        core = self.core
        places = Variable(row, 0, self.rows - 1), Variable(column, 0, self.columns - 1)
        key = core.load(self.source, places[0] * self.columns + places[1])
        with self.kernel.registers.scope():
            sortable(core, key, self.source.fmt, largest=True)
        return key
