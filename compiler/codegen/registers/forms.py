"""Computes expressions in the form in which they are written (``sums.py`` finds shorter forms)."""

from __future__ import annotations

from compiler.codegen.expr import Value, Variable


class Forms:
    """Chooses the forms in which expressions are computed, and knows facts about their values."""

    def simplest(self, value: Value) -> Value:
        """An expression with the same value that takes the fewest bytes at this place."""
        return value

    def define(self, variable: Variable, value: Value) -> None:
        """Record the value that a variable has as long as it is in use."""

    def forget(self, variable: Variable) -> None:
        """Forget a variable that gets another value, and the values that were derived from it."""

    @property
    def mark(self) -> int:
        """The number of variables that are known here."""
        return 0

    def forget_since(self, mark: int) -> None:
        """Forget the variables recorded since ``mark``, which are no longer in use."""

    def number(self, value: Value) -> int | None:
        """The number that a value always is, None if it is not known."""
        return None

    def settled(self, value: Value) -> Value:
        """The number that a value always is, if it is known, otherwise the value."""
        number = self.number(value)
        return value if number is None else number

    def is_below(self, value: Value, other: Value) -> bool | None:
        """True if a value is always below another one, False if it never is; None if that is unknown."""
        return None
