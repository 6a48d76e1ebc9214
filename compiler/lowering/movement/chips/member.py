"""A tile as a member of a group of chips: what it sends to its fellow on the next chip of the ring."""

from __future__ import annotations

import numpy as np

from compiler.codegen.expr import Value, Variable
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.scalar import ScalarCode
from compiler.codegen.slices.tensors import DdrTensor
from compiler.graph import Array
from tx8isa.machine.chips import Chips
from tx8isa.numbers.formats import Format

from . import registers as at

_COLUMNS = 4
"""Of the table of groups: place in the ring, next chip, chip before, upper word of the next one's address."""


def table_of_groups(chips: Chips, groups: list[tuple[int, ...]]) -> Array:
    """By chip the words that ``_COLUMNS`` names; zeros for a chip of no group."""
    table = np.zeros((chips.count, _COLUMNS), np.int64)
    for group in groups:
        for place, chip in enumerate(group):
            after, before = group[(place + 1) % len(group)], group[place - 1]
            table[chip] = place, after, before, at.upper_word(chips.xy(after))
    return table.astype(np.uint32).view(np.int32)


class RingMember:
    """Writes the code of a member; its registers are taken to the end of the enclosing scope."""

    def __init__(self, kernel: Kernel, chips: Chips, groups: list[tuple[int, ...]]) -> None:
        self.kernel, self.core = kernel, ScalarCode(kernel)
        self.size = len(groups[0])
        table = table_of_groups(chips, groups)
        symbol = kernel.constant("groups", Format.INT32, table).symbol
        core, me = self.core, self.core.register()
        core.emit("csrr", me, "mhartid")
        core.emit("li", place := core.register(), str(kernel.target.machine.tiles))
        core.emit("divu", me, me, place)
        row = core.address(
            DdrTensor(symbol, Format.INT32, table.shape), Variable(me, 0, chips.count) * _COLUMNS
        )
        self._next, self._before, self._high = (core.register() for _ in range(3))
        for number, register in enumerate((place, self._next, self._before, self._high)):
            core.emit("lw", register, f"{4 * number}({row})")
        self.place = Variable(place, 0, self.size - 1)
        tile = row  # the row is not needed any more
        core.emit("slli", tile, kernel.registers.compute(kernel.tile), "8")
        core.emit("or", self._high, self._high, tile)
        self._user = core.register()
        core.emit("slli", self._user, me, "10")
        core.emit("li", tile, hex(at.packet_of_stream(at.WRITTEN)))
        core.emit("or", self._user, self._user, tile)
        core.emit("slli", me, me, "4")
        core.emit("ori", me, me, "1")
        self._me = me

    def allow(self) -> None:
        """Let the chip before write here, once; the engines must be done with the place."""
        self._update(self._before, at.ALLOWED)

    def expects(self, size: int) -> None:
        """From now on so many bytes are sent here at a time; nothing may be on its way."""
        core = self.core
        with self.kernel.registers.scope():
            place, value = core.number(at.CONFIG + 4 * at.WRITTEN), core.register()
            core.emit("li", value, hex(at.config(size)))
            core.emit("sw", value, f"0({place})")

    def send(self, source: Value, target: Value, size: int) -> None:
        """Begin to write to the next chip once it allows it: bytes here to the same tile there."""
        self._expect(self._next, at.ALLOWED)
        kernel, core = self.kernel, self.core
        kernel.keep_alive(source)
        kernel.keep_alive(target)
        with kernel.registers.scope():
            block, value = core.number(at.dte_block(kernel.target.machine)), core.register()
            for place, given in ((at.SOURCE, source), (at.TARGET, target)):
                with kernel.registers.scope():
                    core.emit("sw", kernel.registers.compute(given), f"{place}({block})")
            core.emit("sw", self._high, f"{at.TARGET_HIGH}({block})")
            core.emit("sw", self._user, f"{at.USER_ID}({block})")
            core.emit("li", value, str(size))
            core.emit("sw", value, f"{at.LENGTH}({block})")
            core.emit("fence")
            core.emit("li", value, "1")
            core.emit("sw", value, f"{at.START}({block})")

    def sent(self) -> None:
        """Wait until what was sent last is there; then the bytes here may change."""
        kernel, core = self.kernel, self.core
        with kernel.registers.scope():
            block, value = core.number(at.dte_block(kernel.target.machine)), core.register()
            kernel.out.label("1")
            core.emit("lw", value, f"{at.STATUS}({block})")
            core.emit("andi", value, value, str(at.FINISHED))
            core.emit("beqz", value, "1b")
            core.emit("sw", value, f"{at.STATUS}({block})")

    def written(self) -> None:
        """Wait until the chip before has written here."""
        self._expect(self._before, at.WRITTEN)

    def exchange(self, source: Value, target: Value, size: int) -> None:
        """Send to the next chip while the chip before sends here; ``sent`` has to follow."""
        self.allow()
        self.send(source, target, size)
        self.written()

    def _update(self, chip: str, stream: int) -> None:
        kernel, core = self.kernel, self.core
        with kernel.registers.scope():
            there, value = core.register(), core.register()
            core.emit("slli", there, chip, "8")
            core.emit("li", value, hex(at.UPDATES_OF_CHIPS))
            core.emit("or", there, there, value)
            core.emit("or", there, there, kernel.registers.compute(kernel.tile))
            core.emit("slli", there, there, "23")
            core.emit("li", value, hex(at.UPDATES))
            core.emit("add", there, there, value)
            core.emit("li", value, hex(stream << 12))
            core.emit("or", value, value, self._me)
            core.emit("sw", value, f"0({there})")

    def _expect(self, chip: str, stream: int) -> None:
        """Wait for the packet of a chip, and make its place free for the next one."""
        kernel, core = self.kernel, self.core
        with kernel.registers.scope():
            ready, bit, found = core.number(at.READY + 4 * stream), core.number(1), core.register()
            core.emit("sll", bit, bit, chip)
            kernel.out.label("1")
            core.emit("lw", found, f"0({ready})")
            core.emit("and", found, found, bit)
            core.emit("beqz", found, "1b")
            core.emit("sw", bit, f"0({ready})")
            core.emit("slli", found, chip, "2")
            core.emit("li", ready, hex(at.COUNTERS + 4 * at.PACKETS * stream))
            core.emit("add", found, found, ready)
            core.emit("li", bit, "-1")
            core.emit("sw", bit, f"0({found})")
