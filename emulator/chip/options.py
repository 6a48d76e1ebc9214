"""The options of a run."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    from emulator.timing.slices import Sink
    from tx8isa.numbers.prime_field import PrimeField

OnException = Literal["stop", "drop"]
WriteSpan = Literal["exact", "hostile"]
NePost = Literal["ignore", "proposed"]
Show = Callable[[int, bytes], None]


class RunOptions(TypedDict, total=False):
    """Keyword arguments of ``System``, ``Program.start`` and ``Program.run``."""

    serial: bool
    """Workers start in serial mode: every instruction waits for all older ones of its worker."""
    threads: int
    """Host threads that share the tiles; results do not depend on their number."""
    on_exception: OnException
    """The treatment of a refused engine instruction.

    ``stop``: the run ends. ``drop``: the exception register records it, the instruction has no effect, and
    the program continues (docs/isa.md, Exceptions; proposed).
    """
    show: Show
    """Receives (file, data): the program's output to the files 1 and 2."""
    write_span: WriteSpan
    """``hostile`` spoils the rest of the last line of every CT and NE result (docs/isa.md, Memories and
    addresses)."""
    ne_post: NePost
    """``proposed``: the matrix engine applies bias, scale and activation of float formats. ``ignore``: it
    ignores them, as on the board (docs/isa.md, Post-processing)."""
    translate: bool
    """Translate frequent parts of the program to machine code, which only affects speed."""
    strict: bool
    """Look for hazards (docs/strict.md); the tiles then run on one host thread."""
    order: bool
    """Judge the order of all accesses when the run has ended (docs/order.md)."""
    data: bool
    """False: engines and copies neither compute nor move data, and there are no results; time, counts and
    checks are those of a run with data. A program that depends on data stops (docs/emulator.md)."""
    timed: bool | None
    """Simulate time during the run (docs/timing.md). None: when there are sinks or the program reads time."""
    field: PrimeField | None
    """Also execute the program in prime fields (docs/proving.md); the tiles then run on one host thread."""
    sinks: Sequence[Sink]
    """The sinks that receive the slices of simulated time."""


MOST_CORES = 8
"""More host threads slow down small networks (docs/benchmarks.md)."""


def host_cores() -> int:
    """Return the default number of host threads: the processors that this process may use."""
    return min(len(os.sched_getaffinity(0)), MOST_CORES)


def discard(file: int, data: bytes) -> None:
    """Discard the output of a program."""


DEFAULTS: RunOptions = {
    "serial": False,
    "threads": 1,
    "on_exception": "stop",
    "show": discard,
    "write_span": "exact",
    "ne_post": "ignore",
    "translate": True,
    "strict": False,
    "order": False,
    "data": True,
    "timed": None,
    "field": None,
    "sinks": (),
}
