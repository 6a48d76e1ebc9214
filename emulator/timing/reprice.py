"""The rows of a log with the costs of another machine: what instructions cost follows from their operands."""

from __future__ import annotations

from collections.abc import Callable

from emulator.engines import queues, tables
from emulator.engines.issue import gather_arguments
from emulator.native import compile_generated
from emulator.native.primitives.memory import get, put
from tx8isa.cost import instructions as cost

from . import layout
from .log import gather

# -- the words of a job
J_ROWS = 0  # host address of the first row
J_WORDS = 1  # words of all rows
J_COSTS = 2  # host address of the costs
J_SCRATCH = 3  # host address of words for arguments
JOB_WORDS = 4


def lay_out(row: int, scratch: int) -> None:
    """Copy the operands of an engine's row to where terms look for them."""
    first = layout.L_PAYLOAD + get(row, layout.L_RANGES) * queues.RANGE_WORDS
    for i in range(get(row, layout.L_FIELDS)):
        put(scratch, queues.HEAD + i, get(row, first + i))


def generate_reprice() -> Callable[[int], int]:
    """Write the function that puts other costs into rows: (address of a job) -> 0."""
    evaluate = tables.write_dispatcher(list(cost.FUNCTIONS), queues.ARGUMENTS)

    def reprice(job: int) -> int:
        row, costs, scratch = get(job, J_ROWS), get(job, J_COSTS), get(job, J_SCRATCH)
        end = row + 8 * get(job, J_WORDS)
        while row < end:
            if get(row, layout.L_KIND) & 255 == layout.ENGINE:
                record = get(row, layout.L_RECORD) * tables.COSTS
                lay_out(row, scratch)
                gather(costs, record, tables.C_DATA_COUNT, tables.C_DATA_ARGUMENTS, scratch, queues.HEAD)
                put(row, layout.L_FIXED, get(costs, record + tables.C_FIXED))
                put(row, layout.L_DATA, evaluate(get(costs, record + tables.C_DATA), scratch))
            row += 8 * (get(row, layout.L_KIND) >> layout.LENGTH_SHIFT)
        return 0

    return reprice


def reprice_kernel() -> int:
    """Address of the compiled function."""
    functions = (*cost.FUNCTIONS, lay_out, gather, gather_arguments, get, put)
    words = (layout.L_KIND, layout.L_RECORD, layout.L_RANGES, layout.L_FIELDS, layout.L_FIXED, layout.L_DATA)
    numbers = (
        *words,
        layout.L_PAYLOAD,
        layout.ENGINE,
        layout.LENGTH_SHIFT,
        tables.COSTS,
        tables.C_FIXED,
        tables.C_DATA,
        tables.C_DATA_COUNT,
        tables.C_DATA_ARGUMENTS,
        queues.ARGUMENTS,
        queues.HEAD,
        queues.RANGE_WORDS,
    )
    return compile_generated(generate_reprice, (*functions, *numbers), "log at other costs", 1)
