"""A stop of the program with a message: the number that was too large, and the limit."""

from __future__ import annotations

import numpy as np

from compiler.codegen.slices.scalar import ScalarCode
from compiler.codegen.slices.tensors import DdrTensor
from tx8isa.numbers.formats import Format

_FRAME = 512
"""Bytes of the stack for the line."""
_LARGEST_TEXT = 200
"""Bytes of each part of the line."""
_WRITE, _ERROR_FILE = 64, 2


def stop_unless_within(core: ScalarCode, number: str, limit: str, what: str, more: int) -> None:
    """Stop the program unless 0 <= ``number`` <= ``limit``, both in registers.

    A fault shows this line: the number, ``what``, the limit. The messages print both numbers larger by
    ``more``.
    """
    out = core.kernel.out
    go_on = f"{core.kernel.prefix}.within"
    core.emit("bgeu", limit, number, go_on)
    with core.kernel.registers.scope():
        core.emit("addi", "sp", "sp", str(-_FRAME))
        end = core.register()
        core.emit("mv", end, "sp")
        for register in (number, limit) if more else ():
            core.emit("addi", register, register, str(more))
        _number(core, number, end)
        _text(core, what, end)
        _number(core, limit, end)
        core.emit("sub", "a2", end, "sp")
        core.emit("mv", "a1", "sp")
        core.emit("li", "a0", str(_ERROR_FILE))
        core.emit("li", "a7", str(_WRITE))
        core.emit("ecall")
        core.emit("ebreak")
    out.label(go_on)


def _text(core: ScalarCode, text: str, end: str) -> None:
    """Append a text to the line that ends at the address in a register."""
    data = np.frombuffer(text.encode()[:_LARGEST_TEXT], np.uint8)
    symbol = core.kernel.constant("text", Format.UINT8, data).symbol
    tensor = DdrTensor(symbol, Format.UINT8, data.shape)
    with core.kernel.loop(data.size) as at, core.kernel.registers.scope():
        core.emit("sb", core.load(tensor, at), f"0({end})")
        core.emit("addi", end, end, "1")


def _number(core: ScalarCode, number: str, end: str) -> None:
    """Append the decimal digits of a number."""
    out = core.kernel.out
    with core.kernel.registers.scope():
        rest, digit, place = core.register(), core.register(), core.register()
        ten, last = core.number(10), core.register()
        core.emit("mv", rest, number)
        core.emit("bgez", rest, "1f")
        core.emit("neg", rest, rest)
        core.emit("li", digit, str(ord("-")))
        core.emit("sb", digit, f"0({end})")
        core.emit("addi", end, end, "1")
        out.label("1")
        core.emit("addi", last, "sp", str(_FRAME))
        core.emit("mv", place, last)
        out.label("2")
        core.emit("remu", digit, rest, ten)
        core.emit("addi", digit, digit, str(ord("0")))
        core.emit("addi", place, place, "-1")
        core.emit("sb", digit, f"0({place})")
        core.emit("divu", rest, rest, ten)
        core.emit("bnez", rest, "2b")
        out.label("3")
        core.emit("lbu", digit, f"0({place})")
        core.emit("sb", digit, f"0({end})")
        core.emit("addi", end, end, "1")
        core.emit("addi", place, place, "1")
        core.emit("bltu", place, last, "3b")
