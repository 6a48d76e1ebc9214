"""The parser of textual IR, within a budget: a dense constant of a few letters can stand for any number."""

from __future__ import annotations

import math
from typing import Any

from xdsl.parser import Parser

from tx8isa.errors import BudgetError
from tx8isa.tools.budget import Budget

_BYTES_OF_AN_ELEMENT = 16
"""Bytes that xDSL holds for each element of a constant while it reads the text."""


class BudgetParser(Parser):
    """xDSL's parser, which refuses constants that are far larger than their text."""

    def __init__(self, context: Any, text: str, source: str) -> None:
        super().__init__(context, text, source)
        self._budget = Budget(len(text))

    def _parse_dense_literal_type(self) -> Any:
        begin = self.pos
        kind = super()._parse_dense_literal_type()
        elements = math.prod(kind.get_shape())
        size = elements * int(getattr(kind.get_element_type(), "size", 8))
        try:
            self._budget.hold(size, _BYTES_OF_AN_ELEMENT * elements)
        except BudgetError as error:
            self.raise_error(f"a constant of {elements} elements {error}", begin, self.pos)
        return kind
