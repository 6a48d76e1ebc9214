"""Assembly text, line by line."""

from __future__ import annotations

import numpy as np


class Emitter:
    """Lines of one part of a program."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.instructions = 0
        """Number of instructions so far."""

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")

    def comment(self, text: str) -> None:
        self.lines.append(f"        # {text}")

    def directive(self, text: str) -> None:
        self.lines.append(f"        {text}")

    def instruction(self, mnemonic: str, *operands: str) -> None:
        self.instructions += 1
        self.lines.append(f"        {mnemonic:<23} {', '.join(operands)}".rstrip())


def decimal(value: float) -> str:
    """The shortest decimal text of a number, as FP32 if it is an FP32 number."""
    with np.errstate(over="ignore"):
        single = np.float32(value)
    text = str(single) if float(single) == value else repr(value)
    return text if set(text) & set(".ein") else f"{text}.0"
