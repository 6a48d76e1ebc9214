"""Settings of every test run."""

from __future__ import annotations

import gc
import resource
import signal
import zlib
from pathlib import Path

import pytest
from hypothesis import settings

# A shell starts background jobs with SIGINT ignored; the tests of Ctrl-C and the processes they start need
# Python's own handler.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Nothing in the tests asserts a time: the first example may compile kernels, and the machine may be busy.
settings.register_profile("tests", deadline=None)
settings.load_profile("tests")


THINNED = {
    "tests/compiler/lowering": 4,
    "tests/compiler/operators/test_operator_records.py": 2,
    "tests/emulator/chip/test_faults.py": 4,
    "tests/emulator/core": 2,
    "tests/emulator/debug": 2,
    "tests/emulator/kernels": 3,
    "tests/emulator/watch": 2,
    "tests/fuzz": 2,
    "tests/tx8isa/test_every_record.py": 2,
    "tests/tx8isa/test_machine.py": 4,
}
"""Folders and files whose cases take the most time together, and of how many of them the normal run has one.

The others get the marker ``long``.
"""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave cases to ``make long``, but the first of each test, and those of files that are named."""
    if any(".py" in argument for argument in config.args):
        return
    seen = set[str]()
    for item in items:
        share = share_of(item.nodeid)
        test = item.nodeid.partition("[")[0]
        if test in seen and zlib.crc32(item.nodeid.encode()) % share:
            item.add_marker(pytest.mark.long)
        seen.add(test)


def share_of(test: str) -> int:
    """Of how many cases of a test, by its path and name, the normal run has one."""
    return next((share for place, share in THINNED.items() if test.startswith(place)), 1)


def pytest_collection_finish() -> None:
    """Tests and modules stay to the end: garbage collections need not look at them again and again."""
    gc.collect()
    gc.freeze()


_collect_above = 2 << 30
"""Bytes of this process above which garbage is collected after a test."""


def pytest_runtest_teardown() -> None:
    """Free the memories of chips that are in reference cycles.

    Each is some ten megabytes and a handful of objects; the interpreter collects garbage by counting objects.
    """
    global _collect_above
    if resident_bytes() > _collect_above:
        gc.collect()
        _collect_above = max(_collect_above, resident_bytes() + (1 << 30))


def resident_bytes() -> int:
    """How much of the host's memory this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
