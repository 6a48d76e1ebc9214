"""The error that every tool reports as a user's mistake."""

from __future__ import annotations


class Tx8Error(Exception):
    """The input was at fault.

    ``str(error)`` is the whole message: one line that says what happened, where, the value found and
    what is allowed. Command lines print it on stderr and exit 1; it never comes with a traceback.
    """


class BudgetError(Tx8Error):
    """A source would grow beyond its ``Budget``; the caller's text names what grows."""
