"""A tile as a member of a group of chips: its messages to the same tile of the others, and its waits.

A partner is a chip that the member sends to, or that sends to it. On a ring they are the next member and the
one before. In a direct exchange they are the members ``number`` places after and before it, on a tree its
siblings.
"""

from __future__ import annotations

import numpy as np

from compiler.codegen.expr import Value, Variable
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.scalar import ScalarCode
from compiler.codegen.slices.tensors import DdrTensor
from compiler.graph import Array
from compiler.operators.domains.chips.collectives import DOUBLING, DUAL, TREE
from tx8isa.machine.chips import Chips
from tx8isa.numbers.formats import Format

from . import registers as at
from .routes import copies_at_once, partners_of
from .trees import Groups, Tree, tree_of

_FIXED, _PARTNER = 2, 3
"""Words of a row of the table: place in the ring and step to the next chunk; then for each partner the chip
to send to, the chip that sends, and the upper word of addresses on the former; then the words of a tree."""


def table_of_groups(chips: Chips, groups: Groups, way: str) -> Array:
    """For each chip and direction of a dual ring, the words of ``_FIXED`` and ``_PARTNER``.

    Zeros without a group.
    """
    directions = (1, -1) if way == DUAL else (1,)
    rows: dict[tuple[int, int], list[int]] = {}
    partners = partners_of(chips, groups, way)
    for group in groups:
        for place, chip in enumerate(group):
            for number, direction in enumerate(directions):
                words = [place, -direction % len(group)]
                mine = partners[chip][number : number + 1] if way == DUAL else partners[chip]
                for target, source, _ in mine:
                    words += [target, source, at.upper_word(chips.xy(target))]
                if way == TREE:
                    words += _words_of_tree(tree_of(chips, groups), group, chip)
                rows[chip, number] = words
    table = np.zeros((chips.count, len(directions), len(next(iter(rows.values())))), np.int64)
    for row, words in rows.items():
        table[row] = words
    return table.reshape(-1).astype(np.uint32).view(np.int32)


def _words_of_tree(tree: Tree, group: tuple[int, ...], chip: int) -> list[int]:
    """Return the first positions of a member's and its siblings' blocks, then the number and position of each
    chunk."""
    members = sorted(group)
    me, words = members.index(chip), []
    for level in tree.levels:
        words += [tree.block(level.turned(me, by), level) for by in range(level.fan)]
    for number in range(len(group)):
        other = tree.after(me, number)
        words += [group.index(members[other]), tree.position(other)]
    return words


class GroupMember:
    """Writes the code of a member; its registers are reserved to the end of the enclosing scope.

    In a dual ring the upper half of the tiles sends in the other direction.
    """

    def __init__(self, kernel: Kernel, chips: Chips, groups: Groups, way: str) -> None:
        self.kernel, self.core, self.way = kernel, ScalarCode(kernel), way
        self.size = len(groups[0])
        self.levels = tree_of(chips, groups).levels if way in (TREE, DOUBLING) else ()
        self.tiles = kernel.target.tiles // 2 if way == DUAL else kernel.target.tiles
        """Tiles that share the work of a direction."""
        partners = partners_of(chips, groups, way)
        self.partners = range(1, 1 + (1 if way == DUAL else len(partners[groups[0][0]])))
        table = table_of_groups(chips, groups, way)
        symbol = kernel.constant("groups", Format.INT32, table).symbol
        core, me = self.core, self.core.register()
        core.emit("csrr", me, "mhartid")
        core.emit("li", place := core.register(), str(kernel.target.machine.tiles))
        core.emit("divu", me, me, place)
        words, chip = table.size // chips.count, Variable(me, 0, chips.count - 1)
        row: Value = chip * words
        if way == DUAL:
            row = row + self.direction * (words // 2)
        self._row = core.address(DdrTensor(symbol, Format.INT32, table.shape), row)
        core.emit("lw", place, f"0({self._row})")
        core.emit("lw", step := core.register(), f"4({self._row})")
        self.place, self._step = Variable(place, 0, self.size - 1), Variable(step, 1, self.size - 1)
        core.emit("slli", me, me, "4")
        core.emit("ori", me, me, "1")
        self._me = me

    @property
    def direction(self) -> Value:
        """The ring of a dual ring to which this tile belongs, 0 or 1."""
        return self.kernel.tile // self.tiles

    def chunk(self, places: int) -> Value:
        """The number of the chunk that is ``places`` before this member's own, against the direction.

        On a tree it is the chunk of the member that is as many positions after this one on every level.
        """
        if self.way == TREE:
            return self._word(self._chunks_of_tree + 2 * (places % self.size), self.size)
        return (self.place + self._step * (places % self.size)) % self.size

    def position(self, places: int) -> Value:
        """The position of the chunk :meth:`chunk` among those in the scratchpad."""
        if self.way == TREE:
            return self._word(self._chunks_of_tree + 2 * (places % self.size) + 1, self.size)
        return self.chunk(places)

    def block(self, level: int, by: int) -> Value:
        """The first position of the block of the sibling ``by`` places after this member; 0 is its own
        block."""
        return self._word(
            self._blocks_of_tree + sum(each.fan for each in self.levels[:level]) + by, self.size
        )

    @property
    def _blocks_of_tree(self) -> int:
        return _FIXED + _PARTNER * len(self.partners)

    @property
    def _chunks_of_tree(self) -> int:
        return self._blocks_of_tree + sum(level.fan for level in self.levels)

    def _word(self, number: int, end: int) -> Variable:
        """A word of this member's row of the table, a number below ``end``."""
        self.core.emit("lw", register := self.core.register(), f"{4 * number}({self._row})")
        return Variable(register, 0, end - 1)

    def expects(self, size: int) -> None:
        """Expect messages of ``size`` bytes from now on; none may be in transit.

        On a tree messages have several sizes, so their bytes are counted (``arrived``).
        """
        core, size = self.core, at.LARGEST if self.way == TREE else size
        for stream in (at.SUMS, at.WRITTEN):
            with self.kernel.registers.scope():
                place, value = core.number(at.CONFIG + 4 * stream), core.register()
                core.emit("li", value, hex(at.config(size)))
                core.emit("sw", value, f"0({place})")

    def allow(self) -> None:
        """Let the partners write here; the engines must have finished with these places."""
        for number in self.partners:
            self._update(number, at.ALLOWED << 12, self._me)

    def allowed(self, number: int = 1) -> None:
        """Wait until a partner lets this tile write there."""
        with self.kernel.registers.scope():
            bit, chip = self.core.number(1), self._load(number, 0)
            self.core.emit("sll", bit, bit, chip)
            self._await(at.ALLOWED, bit)
            self._clear(at.ALLOWED, chip)

    def send(self, source: Value, target: Value, size: int, packet: tuple[int, int], number: int = 1) -> None:
        """Begin to write bytes of this tile to the same tile of a partner, as a packet of a stream.

        A limited number of copies may be in transit; beyond it, the oldest one must be complete.
        """
        kernel, core, sent, most = self.kernel, self.core, self._sent, copies_at_once(self.way)
        kernel.keep_alive(source)
        kernel.keep_alive(target)
        with kernel.registers.scope():
            block, value = core.number(at.dte_block(kernel.target.machine, sent % most)), core.register()
            if sent >= most:
                self._done(block, value)
            for place, given in ((at.SOURCE, source), (at.TARGET, target)):
                with kernel.registers.scope():
                    core.emit("sw", kernel.registers.compute(given), f"{place}({block})")
            with kernel.registers.scope():
                high, tile = self._load(number, 2), core.register()
                core.emit("slli", tile, kernel.registers.compute(kernel.tile), "8")
                core.emit("or", high, high, tile)
                core.emit("sw", high, f"{at.TARGET_HIGH}({block})")
            for place, word in ((at.USER_ID, at.packet(*packet)), (at.LENGTH, size)):
                core.emit("li", value, hex(word))
                core.emit("sw", value, f"{place}({block})")
            core.emit("fence")
            core.emit("li", value, "1")
            core.emit("sw", value, f"{at.START}({block})")
        self._sent += 1

    _sent = 0
    """Copies that this tile has begun since the last wait for all of them."""

    def sent(self) -> None:
        """Wait until everything sent has arrived; then the bytes here may change."""
        for number in range(min(self._sent, copies_at_once(self.way))):
            with self.kernel.registers.scope():
                block = self.core.number(at.dte_block(self.kernel.target.machine, number))
                self._done(block, self.core.register())
        self._sent = 0

    def await_copy(self, channel: int) -> None:
        """Wait until the copy of a channel has arrived."""
        with self.kernel.registers.scope():
            block = self.core.number(at.dte_block(self.kernel.target.machine, channel))
            self._done(block, self.core.register())

    def await_empty(self, inbox: int) -> None:
        """Wait until the partner has emptied its inbox."""
        self.written(*at.packet_of_empty(inbox))

    def send_to_inbox(self, source: Value, target: Value, size: int, inbox: int, channel: int) -> None:
        """Begin to copy bytes of DDR to an inbox in the DDR of the partner."""
        kernel, core = self.kernel, self.core
        kernel.keep_alive(source)
        kernel.keep_alive(target)
        with kernel.registers.scope():
            block = core.number(at.dte_block(kernel.target.machine, channel))
            for given, low, high in (
                (source, at.SOURCE, at.SOURCE_HIGH),
                (target, at.TARGET, at.TARGET_HIGH),
            ):
                with kernel.registers.scope():
                    address, upper = kernel.registers.compute(given), core.register()
                    core.emit("sw", address, f"{low}({block})")
                    core.emit("srli", upper, address, "32")
                    if given is target:
                        core.emit("or", upper, upper, self._load(1, 2))
                        core.emit("slli", tile := core.register(), kernel.registers.compute(kernel.tile), "8")
                        core.emit("or", upper, upper, tile)
                    core.emit("sw", upper, f"{high}({block})")
            with kernel.registers.scope():
                value = core.register()
                for place, word in ((at.USER_ID, at.packet(*at.packet_of_inbox(inbox))), (at.LENGTH, size)):
                    core.emit("li", value, hex(word))
                    core.emit("sw", value, f"{place}({block})")
                core.emit("fence")
                core.emit("li", value, "1")
                core.emit("sw", value, f"{at.START}({block})")
                core.emit("sw", "zero", f"{at.SOURCE_HIGH}({block})")  # exchanges copy from the scratchpad

    def await_inbox(self, inbox: int, size: int) -> None:
        """Wait until ``size`` bytes have arrived in an inbox, and start to count the next ones."""
        self.arrived(*at.packet_of_inbox(inbox), size)

    def arrived(self, stream: int, packet: int, size: int) -> None:
        """Wait until ``size`` bytes of a packet, perhaps of more, have arrived; then count from 0 again."""
        core = self.core
        with self.kernel.registers.scope():
            counter = core.number(at.COUNTERS + 4 * (at.PACKETS * stream + packet))
            wanted, found = core.number(size), core.register()
            self.kernel.out.label("1")
            core.emit("lw", found, f"0({counter})")
            core.emit("bne", found, wanted, "1b")
            core.emit("sw", core.number(-1), f"0({counter})")

    def empty(self, inbox: int) -> None:
        """Tell the partner that an inbox is empty."""
        self._update(1, at.update(*at.packet_of_empty(inbox)))

    def written(self, stream: int, packet: int) -> None:
        """Wait until a packet of a stream has been written here."""
        with self.kernel.registers.scope():
            self._await(stream, self.core.number(1 << packet))
            self._clear(stream, packet)

    def _done(self, block: str, value: str) -> None:
        """Wait until the copy of a block is done, and forget it."""
        self.kernel.out.label("1")
        self.core.emit("lw", value, f"{at.STATUS}({block})")
        self.core.emit("andi", value, value, str(at.FINISHED))
        self.core.emit("beqz", value, "1b")
        self.core.emit("sw", value, f"{at.STATUS}({block})")

    def _load(self, number: int, column: int) -> str:
        """Load a partner's entry of the table into a register."""
        register = self.core.register()
        self.core.emit("lw", register, f"{4 * (_FIXED + _PARTNER * (number - 1) + column)}({self._row})")
        return register

    def _update(self, number: int, word: int, more: str = "") -> None:
        """Make a packet of the partner that sends here ready; a register may have more bits of the word."""
        kernel, core = self.kernel, self.core
        with kernel.registers.scope():
            there, value = self._load(number, 1), core.register()
            core.emit("slli", there, there, "8")
            core.emit("li", value, hex(at.UPDATES_OF_CHIPS))
            core.emit("or", there, there, value)
            core.emit("or", there, there, kernel.registers.compute(kernel.tile))
            core.emit("slli", there, there, "23")
            core.emit("li", value, hex(at.UPDATES))
            core.emit("add", there, there, value)
            core.emit("li", value, hex(word))
            if more:
                core.emit("or", value, value, more)
            core.emit("sw", value, f"0({there})")

    def _await(self, stream: int, bit: str) -> None:
        """Wait for the packet of a bit."""
        core = self.core
        with self.kernel.registers.scope():
            ready, found = core.number(at.READY + 4 * stream), core.register()
            self.kernel.out.label("1")
            core.emit("lw", found, f"0({ready})")
            core.emit("and", found, found, bit)
            core.emit("beqz", found, "1b")
            core.emit("sw", bit, f"0({ready})")

    def _clear(self, stream: int, packet: int | str) -> None:
        """Free the place of a packet, given by number or in a register, for the next one."""
        core = self.core
        first = at.COUNTERS + 4 * at.PACKETS * stream
        with self.kernel.registers.scope():
            counter = core.number(first if isinstance(packet, str) else first + 4 * packet)
            if isinstance(packet, str):
                core.emit("slli", packet, packet, "2")
                core.emit("add", counter, counter, packet)
            core.emit("sw", core.number(-1), f"0({counter})")
