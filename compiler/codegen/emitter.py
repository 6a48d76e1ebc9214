"""Assembly text, line by line."""

from __future__ import annotations


class Emitter:
    """Lines of one part of a program."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.instructions = 0
        """How many instructions there are so far."""

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")

    def comment(self, text: str) -> None:
        self.lines.append(f"        # {text}")

    def directive(self, text: str) -> None:
        self.lines.append(f"        {text}")

    def instruction(self, mnemonic: str, *operands: str) -> None:
        self.instructions += 1
        self.lines.append(f"        {mnemonic:<23} {', '.join(operands)}".rstrip())
