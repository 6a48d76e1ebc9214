"""Loads of sizes, which the program has computed at its start."""

from __future__ import annotations

from typing import NamedTuple

from compiler.codegen.emitter import instruction_text
from compiler.evaluation.sizes import Size

SIZE_PREFIX = "%size "
"""Prefix of an operand that loads a size; in the program's text it becomes the size's place in the table."""


class SizeLoad(NamedTuple):
    """The instruction that loads a size into a register."""

    target: str
    size: Size

    def __str__(self) -> str:
        text = str(self.size)
        self.size.domain.loads[text] = self.size
        return instruction_text("ld", f"{self.target}, {SIZE_PREFIX}{text}")
