"""Simulated time with other figures of the machine, from the logs of the same run.

The program runs once. Its logs do not depend on coefficients, so the simulation is repeated on them with
other coefficients. A program that reads time keeps the values, and the behaviour, of the run itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from emulator import native
from emulator.engines import queues, tables
from emulator.engines.issue import gather_arguments
from emulator.native import compile_generated
from emulator.native.primitives.memory import get, put
from tx8isa.cost import instructions as cost
from tx8isa.cost.instructions import TICKS

from . import layout
from .chip import OtherPrices, tile_places
from .log import gather
from .saved import SimulationState
from .simulate import HELD, simulate_kernel
from .slices import Batch, Later

_Words = npt.NDArray[np.int64]
_ROOM = 1 << 12
"""Initial capacity of a log, in words."""


# -- the words of a job
J_ROWS = 0  # host address of the first row
J_WORDS = 1  # words of all rows
J_COSTS = 2  # host address of the costs
J_SCRATCH = 3  # host address of words for arguments
JOB_WORDS = 4


def lay_out(row: int, scratch: int) -> None:
    """Copy the operands of an engine's row to the place where terms look for them."""
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
    """Return the address of the compiled function."""
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


class TimeRange(Later):
    """A sink that requests the time of a run on other machines (``chip.others``); it receives no slices.

    Further simulations find it when somebody reads it; the program runs only once.
    """

    def __init__(self) -> None:
        super().__init__()
        self._least: float | None = None
        self._most: float | None = None
        self._c_runtime: float | None = None

    @property
    def least(self) -> float | None:
        """Cycles at the end where programs take least time; None until the run is over."""
        self.settle()
        return self._least

    @property
    def most(self) -> float | None:
        """Cycles at the other end."""
        self.settle()
        return self._most

    @property
    def c_runtime(self) -> float | None:
        """Cycles if the vendor's C runtime submits the commands, at the figures of the run.

        None before the end of the run, and if the run itself had the C runtime's figures. None also for a
        program with the library for C: its logs have the time of the library's code in place of the C
        runtime's.
        """
        self.settle()
        return self._c_runtime

    def take(self, batch: Batch) -> None:
        """Do nothing: the range needs no slices."""

    def close(self, ends: Sequence[int]) -> None:
        """Do nothing."""

    def found(self, run: float, others: Sequence[float], library: bool) -> None:
        """Record the cycles of the run and on ``chip.others``. ``library``: the program contains it.

        A tile that comes later may find DDR free, so the run itself may be outside of its range.
        """
        least, most, *by_runtime = others
        self._least, self._most = min(run, least, most), max(run, least, most)
        self._c_runtime = None if library else next(iter(by_runtime), None)


class Replay:
    """The simulation of one run with other figures."""

    def __init__(self, other: OtherPrices) -> None:
        other.reset()
        self.chip, self._costs = other.chip, other.costs
        self._places = tile_places(self.chip)
        self.rows = [np.empty(_ROOM, dtype=np.int64) for _ in self._places]
        self._scratch = np.zeros(queues.WORDS, dtype=np.int64)
        self._job = np.zeros(JOB_WORDS, dtype=np.int64)
        self._reprice, self._simulate = reprice_kernel(), simulate_kernel()

    def take(self, rows: Sequence[_Words], over: bool = False) -> None:
        """Simulate as far as these rows of the tiles' logs allow, and to the end when the run is over."""
        for number, words in enumerate(rows):
            if words.size:
                self._add(number, words)
        self._process(over)

    def _add(self, number: int, rows: _Words) -> None:
        """Add rows to the log of a tile, with the costs of this simulation."""
        held = int(self.chip[self._places[number] + layout.P_LOG_END])
        if held + rows.size > self.rows[number].size:
            grown = np.empty(2 * (held + rows.size), dtype=np.int64)
            grown[:held] = self.rows[number][:held]
            self.rows[number] = grown
        added = self.rows[number][held : held + rows.size]
        added[:] = rows
        self._job[[J_ROWS, J_WORDS]] = added.ctypes.data, rows.size
        self._job[[J_COSTS, J_SCRATCH]] = self._costs.ctypes.data, self._scratch.ctypes.data
        native.call(self._reprice, int(self._job.ctypes.data))
        self.chip[self._places[number] + layout.P_LOG_END] = held + rows.size

    def _process(self, over: bool) -> None:
        chip, places = self.chip, self._places
        chip[layout.H_OUT_SIZE], chip[layout.H_OVER] = layout.OUT_ROWS, over
        chip[places + layout.P_LOG] = [rows.ctypes.data for rows in self.rows]
        result = native.call(self._simulate, int(chip.ctypes.data))
        assert result == HELD  # without slices there is always room
        for rows, place in zip(self.rows, places.tolist(), strict=True):
            at, end = int(chip[place + layout.P_LOG_AT]), int(chip[place + layout.P_LOG_END])
            rows[: end - at] = rows[at:end].copy()
            chip[[place + layout.P_LOG_AT, place + layout.P_LOG_END]] = 0, end - at

    @property
    def cycles(self) -> float:
        """Cycles until the last tile was done, so far."""
        clock, last = (self.chip[self._places + word] for word in (layout.P_CLOCK, layout.P_LAST_END))
        return float(np.maximum(clock, last).max()) / TICKS

    def save(self) -> SimulationState:
        """Return the state of the simulation."""
        ends = self.chip[self._places + layout.P_LOG_END].tolist()
        rows = [rows[:end].copy() for rows, end in zip(self.rows, ends, strict=True)]
        return SimulationState(self.chip.copy(), rows)

    def begin_at(self, chip: _Words) -> None:
        """Continue from a state of the run itself; the time until then counts as in the run.

        The rows at which cores are now arrive again, after the run has processed them. So a core at such a
        row waits for it. A core that is about to exit has no more rows, and exits when the run does.
        """
        self._take_over(chip)
        cores = self.chip[self._places + layout.P_CORE]
        leaving = self._places[cores == layout.LEAVING]
        self.chip[leaving + layout.P_CLOCK] = self.chip[leaving + layout.P_DUE]
        self.chip[leaving + layout.P_CORE] = layout.EXITED
        at_row = self._places[~np.isin(cores, (layout.STARVED, layout.LEAVING, layout.EXITED))]
        self.chip[at_row + layout.P_CORE] = layout.STARVED
        self.chip[at_row + layout.P_HOLD] = self.chip[at_row + layout.P_CLOCK]
        self.chip[np.concatenate([leaving, at_row]) + layout.P_DUE] = layout.HUGE
        self.chip[self._places + layout.P_LOG_END] = 0

    def restore(self, saved: SimulationState) -> None:
        """Continue from the state of ``save``, on the same machine."""
        self._take_over(saved.chip)
        self.rows = [np.concatenate([rows, np.zeros(_ROOM, dtype=np.int64)]) for rows in saved.rows]
        self.chip[self._places + layout.P_LOG_END] = [rows.size for rows in saved.rows]

    def _take_over(self, chip: _Words) -> None:
        """Take a state with this simulation's coefficients, without processing log rows or giving slices."""
        coefficients = slice(layout.H_COEFFICIENTS, layout.HEADER)
        own = self.chip[coefficients].copy()
        self.chip[:] = chip
        self.chip[coefficients] = own
        self.chip[[layout.H_EMIT, layout.H_OUT_ROWS]] = 0
        self.chip[self._places + layout.P_LOG_AT] = 0
