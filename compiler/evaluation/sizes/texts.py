"""Sizes from their texts, the form in which plans keep them."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from .conditions import Domain
from .size import Size

_OPERATIONS = frozenset(
    {"add", "sub", "mul", "div", "rem", "ceil", "min", "max", "eq", "ne", "lt", "le", "gt", "ge"}
)
_NUMBER, _WORD = re.compile(r"-?\d+(?=[ )]|$)"), re.compile(r" ([a-z]+) ")


def size_of_text(text: str, names: Sequence[str]) -> Size:
    """The size whose ``str`` is the text, in a domain without points; ``names`` are the dimensions.

    ValueError for any other text.
    """
    size, end = _Reader(text, names).operand(0)
    if end != len(text) or not isinstance(size, Size):
        raise ValueError(f"'{text}' is no size of {', '.join(names)}")
    return size


class _Reader:
    def __init__(self, text: str, names: Sequence[str]) -> None:
        self.text, self.names = text, sorted(names, key=len, reverse=True)
        self.domain, self.values = Domain({}, 0, np.zeros(0, bool)), np.zeros(0, np.int64)

    def operand(self, at: int) -> tuple[int | Size, int]:
        """The number or size that begins at a place, and its end."""
        text = self.text
        if number := _NUMBER.match(text, at):
            return int(number[0]), number.end()
        if text.startswith("(", at):
            left, at = self.operand(at + 1)
            word = _WORD.match(text, at)
            if word is not None and word[1] in _OPERATIONS:
                right, at = self.operand(word.end())
                if text.startswith(")", at):
                    return Size(self.domain, self.values, word[1], left, right), at + 1
        elif text.startswith("-", at):
            left, at = self.operand(at + 1)
            if isinstance(left, Size):
                return Size(self.domain, self.values, "neg", left), at
        else:
            for name in self.names:
                if text.startswith(name, at) and text[at + len(name) :][:1] in ("", " ", ")"):
                    return Size(self.domain, self.values, "symbol", name=name), at + len(name)
        raise ValueError(f"'{text}' is no size of {', '.join(self.names)}")
