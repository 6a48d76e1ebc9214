"""The start of a program on several chips: streams are opened before anybody sends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from compiler.codegen.emitter import Emitter
from compiler.codegen.registers import TILE
from tx8isa.machine.chips import Chips
from tx8isa.machine.description import Machine
from tx8isa.numbers.division import ceil_div

from . import registers as at
from .routes import partners_of
from .trees import Groups

_SCRATCH = 0x1000
"""The address of greetings, in the part of the scratchpad that is kept for the core.

The stack is far above.
"""
_TABLE = "chips.partners"
"""The symbol of the table of partners, after the prefix of the network."""


Exchanges = Iterable[tuple[Groups, str]]
"""Groups of chips, and their method of exchange."""


def partners(chips: Chips, exchanges: Exchanges) -> list[list[int]]:
    """For each chip, the chips with which it exchanges, in the order of their numbers."""
    found: list[set[int]] = [set() for _ in range(chips.count)]
    for groups, way in exchanges:
        for chip, others in partners_of(chips, groups, way).items():
            found[chip].update(*(other[:2] for other in others))
    return [sorted(others - {chip}) for chip, others in enumerate(found)]


def opening(machine: Machine, inboxes: int = 0) -> list[str]:
    """Open the streams at the start of the program, also those of ``inboxes`` inboxes."""
    out = Emitter()
    streams = dict.fromkeys((at.SUMS, at.ALLOWED, at.WRITTEN, at.HELLO), 4)
    for number in range(ceil_div(inboxes, at.PACKETS)):
        streams |= {at.INBOXES + number: at.LARGEST, at.EMPTY + number: 4}
    _open_streams(out, machine.spm.reserved + _SCRATCH, streams)
    return out.lines


def greeting(machine: Machine, chips: Chips, exchanges: Exchanges, prefix: str = "") -> list[str]:
    """Before the first exchange, copy a word to every partner repeatedly, until its streams are open.

    ``prefix`` begins the symbols of one of several networks.
    """
    out, table = Emitter(), prefix + _TABLE
    others = partners(chips, exchanges)
    width = max(map(len, others)) + 1
    out.directive(".section .rodata")
    out.directive(".balign 4")
    out.label(table)
    for chip in others:
        words = [at.upper_word(chips.xy(other)) for other in chip]
        out.directive(f".word {', '.join(map(hex, [*words, *[0] * (width - len(words))]))}")
    out.directive(".text")
    _greet(out, machine, machine.spm.reserved + _SCRATCH, width, table)
    return out.lines


def _open_streams(out: Emitter, scratch: int, streams: Mapping[int, int]) -> None:
    """Open streams, each with the bytes of its packets."""
    out.instruction("li", "t0", hex(scratch))
    for stream, size in streams.items():
        out.instruction("li", "t1", hex(at.BASE + 8 * stream))
        out.instruction("sw", "t0", "0(t1)")
        out.instruction("sw", "zero", "4(t1)")
        out.instruction("li", "t1", hex(at.CONFIG + 4 * stream))
        out.instruction("li", "t2", hex(at.config(size)))
        out.instruction("sw", "t2", "0(t1)")


def _greet(out: Emitter, machine: Machine, scratch: int, width: int, table: str) -> None:
    """Registers: t0 has this chip, t1 its row of the table, t2 the block of the DTE."""
    source = scratch + 4 * at.PACKETS
    out.instruction("li", "t1", hex(machine.windows.spm_weak + source))
    out.instruction("sw", "zero", "0(t1)")
    out.instruction("csrr", "t0", "mhartid")
    out.instruction("li", "t1", str(machine.tiles))
    out.instruction("divu", "t0", "t0", "t1")
    out.instruction("li", "t2", str(4 * width))
    out.instruction("mul", "t2", "t2", "t0")
    out.instruction("la", "t1", table)
    out.instruction("add", "t1", "t1", "t2")
    out.instruction("li", "t2", hex(at.dte_block(machine)))
    out.instruction("li", "t3", hex(source))
    out.instruction("sw", "t3", f"{at.SOURCE}(t2)")
    out.instruction("slli", "t3", "t0", "2")
    out.instruction("li", "t4", hex(scratch))
    out.instruction("add", "t3", "t3", "t4")
    out.instruction("sw", "t3", f"{at.TARGET}(t2)")
    out.instruction("slli", "t3", "t0", "10")
    out.instruction("li", "t4", hex(at.packet(at.HELLO)))
    out.instruction("or", "t3", "t3", "t4")
    out.instruction("sw", "t3", f"{at.USER_ID}(t2)")
    out.instruction("li", "t3", "4")
    out.instruction("sw", "t3", f"{at.LENGTH}(t2)")
    out.instruction("slli", "t5", TILE, "8")
    out.instruction("fence")
    _greet_each(out)


def _greet_each(out: Emitter) -> None:
    """Greet each partner; a greeting fails until the partner has opened its streams."""
    out.label("1")
    out.instruction("lw", "t3", "0(t1)")
    out.instruction("beqz", "t3", "4f")
    out.instruction("or", "t3", "t3", "t5")
    out.instruction("sw", "t3", f"{at.TARGET_HIGH}(t2)")
    out.label("2")
    out.instruction("li", "t3", str(at.FINISHED | at.FAILED))
    out.instruction("sw", "t3", f"{at.STATUS}(t2)")
    out.instruction("li", "t3", "1")
    out.instruction("sw", "t3", f"{at.START}(t2)")
    out.label("3")
    out.instruction("lw", "t3", f"{at.STATUS}(t2)")
    out.instruction("andi", "t4", "t3", str(at.FINISHED))
    out.instruction("beqz", "t4", "3b")
    out.instruction("andi", "t4", "t3", str(at.FAILED))
    out.instruction("bnez", "t4", "2b")
    out.instruction("addi", "t1", "t1", "4")
    out.instruction("j", "1b")
    out.label("4")
    out.instruction("li", "t3", str(at.FINISHED))
    out.instruction("sw", "t3", f"{at.STATUS}(t2)")
