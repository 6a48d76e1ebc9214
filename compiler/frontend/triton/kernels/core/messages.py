"""Lines that a program writes: to the standard output, or to the standard error before it stops.

The text of a line is in read-only data, with a placeholder byte for each number; a routine of the core
(``message.s``) writes it. Lines name the program of the grid, as Triton's do.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

from asm.instructions.text import quote
from compiler.codegen.expr import Value
from compiler.codegen.kernel import Kernel

SIGNED, UNSIGNED, HEXADECIMAL, REAL = map(chr, range(1, 5))
"""Placeholders of numbers in a text: signed, unsigned, hexadecimal, the bits of an FP32 number."""
_OUTPUT, _ERROR = 1, 2
"""The files of the environment."""
_LARGEST_TEXT = 300
"""The most bytes of the user's text in a line."""
_POWERS = range(-30, 54)
"""Powers of ten that scale an FP32 number to nine digits before the point."""


class MessageCode:
    """Writes code that writes lines. ``program`` is the place in the grid of the running program."""

    def __init__(self, kernel: Kernel, program: Sequence[Value]) -> None:
        self.kernel, self.program = kernel, program
        self.symbols: dict[str, str] = {}
        """The symbols of the texts, by the texts with the numbers of their files."""

    def say(self, text: str, numbers: Sequence[Value], place: Sequence[Value] = (), format: str = "") -> None:
        """Write a line with tile, program and the index of an element to the standard output.

        ``text`` is the user's, ``format`` has the placeholders of the numbers.
        """
        index = f" idx ({', '.join(SIGNED for _ in place)})" if place else ""
        line = f"tile {SIGNED} {_PROGRAM}{index}{shown(text)}{format}"
        self._call(_OUTPUT, line, [self.kernel.tile, *self.program, *place, *numbers])

    def stop(self, text: str, numbers: Sequence[Value], place: Sequence[Value] = ()) -> None:
        """Stop the program at an ``ebreak``, with a line that the fault shows."""
        index = f" idx ({', '.join(SIGNED for _ in place)})" if place else ""
        self._call(_ERROR, f"{_PROGRAM}{index}: {text}", [*self.program, *place, *numbers])
        self.kernel.out.instruction("ebreak")

    def _call(self, file: int, line: str, numbers: Sequence[Value]) -> None:
        symbol = self.symbols.setdefault(f"{chr(file)}{line}\n", f"message.text{len(self.symbols)}")
        for position, number in enumerate(numbers):
            with self.kernel.registers.scope():
                register = self.kernel.registers.compute(number)
                self.kernel.out.instruction("sd", register, f"{-8 * (position + 1)}(sp)")
        self.kernel.out.instruction("la", "gp", symbol)
        self.kernel.out.instruction("call", "message")

    def lines(self) -> list[str]:
        """Return the routine with its data, if there are lines to write."""
        if not self.symbols:
            return []
        routine = Path(__file__).with_name("message.s").read_text()
        texts = [f"{symbol}: .asciz {quote(text)}" for text, symbol in self.symbols.items()]
        return ["", ".loc", '.node ""', routine, *_powers(), *texts]


_PROGRAM = f"pid ({SIGNED}, {SIGNED}, {SIGNED})"


def shown(text: str) -> str:
    """Return a text of the user without control characters, cut to the largest length."""
    kept = "".join(each if each >= " " else "?" for each in text)
    return kept.encode()[:_LARGEST_TEXT].decode(errors="ignore")


def _powers() -> list[str]:
    """Return one half, and each power of ten as the sum of two numbers in binary64."""
    lines = ["        .section .rodata", "        .balign 8", "        .double 0.5", "message.powers:"]
    for exponent in _POWERS:
        exact = Fraction(10) ** exponent
        nearest = float(exact)
        lines.append(f"        .double {nearest!r}, {float(exact - Fraction(nearest))!r}")
    return lines
