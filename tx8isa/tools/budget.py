"""Limits the expansion of a source before its program runs: bytes held, and steps of work.

A macro, a loop, a function or a constant of a few bytes can expand to any amount of text, nodes or numbers.
Code that expands or folds takes its needs from a budget first, so a source of a kilobyte takes seconds and
less than a gigabyte, whatever it contains. The budget grows with the source, so that contents of files are
never refused.
"""

from __future__ import annotations

from tx8isa.errors import BudgetError

BYTES = 128 << 20
"""Bytes to which any source may expand."""
STEPS = 1 << 20
"""Steps that any source may take, each about ten microseconds of the host."""
NODE = 32
"""Steps for writing out one node of a graph."""
MOVED_IN_A_STEP, COMPUTED_IN_A_STEP, PRODUCTS_IN_A_STEP, LOOPED_IN_A_STEP = 1024, 256, 4096, 1
"""Work in one step: elements that NumPy copies, elements that it computes, products that it adds up, and
elements that a loop in Python computes."""
_GROWTH = 64
"""Additional bytes for each byte of the source: weights of two bits become binary64."""


class Budget:
    """The remaining budget of a source of ``size`` bytes."""

    def __init__(self, size: int = 0) -> None:
        self.bytes = BYTES + _GROWTH * size
        self.steps = STEPS + size

    def hold(self, size: int, beside: int = 0) -> None:
        """Take ``size`` bytes permanently; ``beside`` more are needed for a while. BudgetError for too
        few."""
        if size + beside > self.bytes:
            raise _beyond(f"{size + beside:,} bytes", self.bytes)
        self.bytes -= size

    def work(self, steps: int) -> None:
        """Take steps. If fewer are left, raise BudgetError and leave none."""
        left, self.steps = self.steps, max(self.steps - steps, 0)
        if steps > left:
            raise _beyond(f"{steps:,} steps of work", left)


def _beyond(what: str, left: int) -> BudgetError:
    return BudgetError(f"would take {what} before a run; a source of this size has {left:,} left")
