"""The forms in which expressions are computed: here as they are (``sums.py`` has shorter ones)."""

from __future__ import annotations

from compiler.codegen.expr import Value, Variable


class Forms:
    """Chooses how expressions are computed, and tells what is known of their values."""

    def simplest(self, value: Value) -> Value:
        """An expression with the same value that takes the fewest bytes where it is computed now."""
        return value

    def define(self, variable: Variable, value: Value) -> None:
        """A variable has a value as long as it is in use."""

    def forget(self, variable: Variable) -> None:
        """A variable gets another value: that of others is not known from it any more."""

    @property
    def mark(self) -> int:
        """The number of variables that are known here."""
        return 0

    def forget_since(self, mark: int) -> None:
        """The variables that have become known since then are not in use any more."""

    def number(self, value: Value) -> int | None:
        """The number that a value always is, None if it is not known."""
        return None

    def settled(self, value: Value) -> Value:
        """The number that a value always is, if it is known, otherwise the value."""
        number = self.number(value)
        return value if number is None else number

    def is_below(self, value: Value, other: Value) -> bool | None:
        """Whether a value is always below another one, or never; None if neither is known."""
        return None
