"""Divides rows by their sums: by a division, or by products with reciprocals if rows have many elements."""

from __future__ import annotations

import math

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Target
from compiler.codegen.slices.lanes import Folds
from compiler.codegen.slices.vector import Vector
from compiler.evaluation.sizes import here
from tx8isa.cost.busy import busy_cycles


def divide(vector: Vector, totals: Value, folds: Folds) -> str:
    """Prepare ``totals`` for the instruction that divides elements by them; returns its name.

    ``vector`` has the elements of ``totals``. The choice depends on the shape alone, so the results have the
    same bits however the work is divided.
    """
    if _takes_less(vector.kernel.target, folds):
        return "div"
    vector.unary("recip", totals, totals)
    return "mul"


def _takes_less(target: Target, folds: Folds) -> bool:
    """True if a tile divides its elements faster than it issues reciprocals, a further kind of command."""
    machine = target.machine
    rows = here(folds.outer * folds.inner)
    elements = math.ceil(rows / min(rows, target.tiles)) * here(folds.axis)
    more = busy_cycles("ct.div.vv.fp32", machine, n=elements) - busy_cycles(
        "ct.mul.vv.fp32", machine, n=elements
    )
    issue = machine.timing.issue
    return more < issue.of("ct").value + issue.kind.value
