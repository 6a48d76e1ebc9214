"""Limits on what a source may expand to before its program runs: bytes held, and steps of work.

A macro, a loop, a function or a constant of a few bytes can stand for any amount of text, nodes or numbers.
Whoever expands or folds takes what it will need from a budget first, so a source of a kilobyte takes seconds
and less than a gigabyte, whatever it says. A larger source has more: what is in a file is never refused.
"""

from __future__ import annotations

from tx8isa.errors import BudgetError

BYTES = 128 << 20
"""Bytes that any source may become."""
STEPS = 1 << 20
"""Steps of about ten microseconds of the host that any source may take."""
NODE = 32
"""Steps that it takes to write out one node of a graph."""
MOVED_IN_A_STEP, COMPUTED_IN_A_STEP, PRODUCTS_IN_A_STEP, LOOPED_IN_A_STEP = 1024, 256, 4096, 1
"""Elements that NumPy copies in a step, that it computes, products that it adds up, and elements that a loop
in Python computes."""
_GROWTH = 64
"""Bytes for each byte of the source besides: weights of two bits become binary64."""


class Budget:
    """Returns the budget that is left for a source of ``size`` bytes."""

    def __init__(self, size: int = 0) -> None:
        self.bytes = BYTES + _GROWTH * size
        self.steps = STEPS + size

    def hold(self, size: int, beside: int = 0) -> None:
        """Take bytes that are kept, and others ``beside`` them for a while; BudgetError if it has less."""
        if size + beside > self.bytes:
            raise _beyond(f"{size + beside:,} bytes", self.bytes)
        self.bytes -= size

    def work(self, steps: int) -> None:
        """Take steps; BudgetError if it has fewer, and none are left then."""
        left, self.steps = self.steps, max(self.steps - steps, 0)
        if steps > left:
            raise _beyond(f"{steps:,} steps of work", left)


def _beyond(what: str, left: int) -> BudgetError:
    return BudgetError(f"would take {what} before a run; a source of this size has {left:,} left")
