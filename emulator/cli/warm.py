"""``tx8emu --warm``: the machine code that programs commonly need, made at once.

Variants that few programs use are omitted: other rounding modes than nearest even, kernels that record
numeric exceptions, and the post-processing of the matrix engine (``ne_post``).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any, TextIO

from tx8isa.tools.command_line import note


def all_jobs() -> list[Callable[[], object]]:
    """Return a job for everything that is compiled: kernels of each format and kind, and program loops."""
    from emulator.chip.copies import copies_kernel
    from emulator.chip.host_threads import rounds_kernel
    from emulator.core.float_unit import unit_kernel
    from emulator.core.loop import run_kernel
    from emulator.engines.expected import all_slots
    from emulator.engines.issue import issue_kernel
    from emulator.engines.slots import Slots
    from emulator.memory.keeping import keep_kernel
    from emulator.memory.resetting import reset_kernel
    from emulator.timing.log import log_kernel
    from emulator.timing.simulate import simulate_kernel
    from emulator.watch.strict.checks import copy_kernel, hook_kernel
    from emulator.watch.strict.core_checks import check_kernel

    slots = Slots()
    others = [issue_kernel, rounds_kernel, unit_kernel, reset_kernel, copies_kernel, log_kernel]
    others += [keep_kernel, simulate_kernel, hook_kernel, copy_kernel, check_kernel]
    loops = [partial(run_kernel, checked) for checked in (False, True)]
    return [*(partial(slots.compile, slot) for slot in all_slots()), *loops, *others]


def warm(file: TextIO | None) -> str:
    """Fill the cache, with a line of progress on ``file`` if it is a terminal; return a summary."""
    from tqdm.std import tqdm

    from emulator.native import ahead, store

    jobs, start = all_jobs(), time.monotonic()
    shown = file is not None and file.isatty()
    with tqdm(total=len(jobs), file=file, disable=not shown, unit=" kernels", leave=False) as bar:
        ahead.run_all(jobs, bar.update)
    entries = [path.stat().st_size for path in store.folder().glob("*.o")]
    size = f"{len(entries):,} kernels, {sum(entries) / (1 << 20):,.1f} MB, in {store.folder()}"
    return f"{size}; {time.monotonic() - start:,.0f} s"


class Warm(argparse.Action):
    """Like ``--help``: fill the cache and exit, whatever the other arguments are."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from emulator.native import jit_enabled, store
        from tx8isa.errors import Tx8Error

        if not jit_enabled():
            raise Tx8Error("--warm: nothing is compiled with TX8_JIT=0")
        if not store.is_kept():
            raise Tx8Error(f"--warm: {store.folder()} cannot be written; name another with TX8_CACHE_DIR")
        print(warm(sys.stderr))
        parser.exit()


def announce(verbose: bool) -> Callable[[str, float | None], None]:
    """Return the report of compiled kernels: with -v each one, else a single line on a terminal."""
    said: list[str] = []

    def announce(name: str, seconds: float | None) -> None:
        if verbose:
            text = "compiling" if seconds is None else f"compiled in {seconds:.2f} s:"
            note(f"tx8emu: {text} {name}")
        elif not said and sys.stderr is not None and sys.stderr.isatty():
            note("tx8emu: compiling kernels for this machine; later runs find them ready")
        said.append(name)

    return announce
