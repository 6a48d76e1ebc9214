"""Settings of every test run."""

from __future__ import annotations

import gc
import os
import resource
import signal
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import settings

from thinned import in_part, left_to_long, part_of

# A shell starts background jobs with SIGINT ignored. The tests of Ctrl-C and the processes that they start
# need Python's own handler.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Every worker imports the whole project, and tests start the tools hundreds of times: byte code of modules
# saves more than half of that time.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# No test asserts a time, because the first example may compile kernels and the machine may be busy.
settings.register_profile("tests", deadline=None)
settings.load_profile("tests")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--part", metavar="K/N", help="run one of N parts of the tests, such as 1/5")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the cases that are left to ``make long``; files named on the command line run completely."""
    if text := config.getoption("part"):
        try:
            part, parts = part_of(text)
        except ValueError as error:
            raise pytest.UsageError(str(error)) from None
        config.hook.pytest_deselected(items=[i for i in items if not in_part(i.nodeid, part, parts)])
        items[:] = [item for item in items if in_part(item.nodeid, part, parts)]
    if any(".py" in argument for argument in config.args):
        return
    for item, left in zip(items, left_to_long(item.nodeid for item in items), strict=True):
        if left:
            item.add_marker(pytest.mark.long)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Tests and modules stay alive to the end, so garbage collections need not visit them again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


_collect_above = 3 << 30
"""Bytes of this process above which garbage is collected after a test."""


def pytest_runtest_teardown() -> None:
    """Free the memories of chips that are in reference cycles.

    Each has some ten megabytes but a handful of objects, and the interpreter's collector counts objects. The
    remaining objects are in the caches of modules, so later collections need not visit these millions.
    """
    global _collect_above
    if resident_bytes() > _collect_above:
        gc.collect()
        gc.freeze()
        _collect_above = max(_collect_above, resident_bytes() + (1 << 30))


def resident_bytes() -> int:
    """Return the host memory of this process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
