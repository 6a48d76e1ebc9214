"""Simulated time for Triton's measurements: ``triton.autotune`` and ``triton.testing``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple

from compiler.frontend.triton.operations import TtirError
from tx8isa.errors import Tx8Error
from tx8isa.machine.description import load_machine

if TYPE_CHECKING:
    from tx8.run import Run

    from .kernel import TritonKernel


class HeldLaunch(NamedTuple):
    """A launch that Triton has prepared and that has not run."""

    kernel: TritonKernel
    grid: tuple[int, int, int]
    arguments: list[Any]


class _Launches:
    """The launches so far: the last run, and the milliseconds of all runs one after the other."""

    last: Run | None = None
    held: list[HeldLaunch] | None = None
    """The launches since ``launches_held`` began; None while launches run."""
    milliseconds = 0.0


def launch(kernel: TritonKernel, grid: tuple[int, int, int], arguments: list[Any]) -> None:
    """Run a kernel, or hold its launch."""
    if _Launches.held is not None:
        _Launches.held.append(HeldLaunch(kernel, grid, arguments))
        return
    note_launch(kernel.launch(grid, *arguments))
    print(last_run().printed, end="")


@contextmanager
def launches_held() -> Iterator[list[HeldLaunch]]:
    """Collect the launches inside the block instead of running them."""
    found: list[HeldLaunch] = []
    _Launches.held = found
    try:
        yield found
    finally:
        _Launches.held = None


def note_launch(run: Run) -> None:
    """Record a finished run."""
    _Launches.last = run
    _Launches.milliseconds += run.cycles / load_machine().engines.clock.value * 1e3


def last_run() -> Run:
    """Return the run of the last launch: cycles, statistics, hazards; Tx8Error before the first."""
    if _Launches.last is None:
        raise Tx8Error("no kernel of Triton was launched yet")
    return _Launches.last


def simulated_times(
    call: Callable[[], Any], quantiles: Sequence[float] = (0.5,), **options: Any
) -> list[float]:
    """Return the milliseconds of one call on the chip for each quantile; all are equal.

    Infinity for a kernel that cannot be compiled, such as one whose blocks do not fit the scratchpad.
    """
    try:
        return [_time_of(call)] * len(quantiles)
    except TtirError:
        return [math.inf] * len(quantiles)


def _time_of(call: Callable[[], Any]) -> float:
    before = _Launches.milliseconds
    call()
    return _Launches.milliseconds - before


class SimulatedEvent:
    """A moment in simulated time, as ``triton.testing`` records it."""

    def __init__(self, enable_timing: bool = True) -> None:
        self._moment = 0.0

    def record(self) -> None:
        """Set the event to the present simulated time."""
        self._moment = _Launches.milliseconds

    def elapsed_time(self, end: SimulatedEvent) -> float:
        """Return the milliseconds from this event to another one."""
        return end._moment - self._moment


class SimulatedDevice:
    """The interface of a device for ``triton.testing``; launches have ended when they return."""

    Event = SimulatedEvent

    def synchronize(self) -> None:
        """Do nothing, because launches have ended when they return."""


def take_do_bench(is_here: Callable[[], bool]) -> None:
    """Make ``triton.testing.do_bench`` run a kernel only once where ``is_here``, because all runs take the
    same time."""
    from triton import testing  # here, for Triton loads the driver before it

    plain = testing.do_bench
    if hasattr(plain, "__wrapped__"):
        return

    @wraps(plain)
    def do_bench(
        fn: Callable[[], Any],
        warmup: float = 25,
        rep: float = 100,
        grad_to_none: Any = None,
        quantiles: Sequence[float] | None = None,
        return_mode: str = "mean",
    ) -> Any:
        if not is_here():
            return plain(fn, warmup, rep, grad_to_none, quantiles, return_mode)
        time = _time_of(fn)
        if quantiles is not None and len(quantiles) > 1:
            return [time] * len(quantiles)
        return [time] if quantiles is None and return_mode == "all" else time

    testing.do_bench = do_bench
