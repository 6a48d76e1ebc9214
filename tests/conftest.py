"""Settings of every test run."""

from __future__ import annotations

import gc
import signal

from hypothesis import settings

# A shell starts background jobs with SIGINT ignored; the tests of Ctrl-C and the processes they start need
# Python's own handler.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Nothing in the tests asserts a time: the first example may compile kernels, and the machine may be busy.
settings.register_profile("tests", deadline=None)
settings.load_profile("tests")


def pytest_collection_finish() -> None:
    """Tests and modules stay to the end: garbage collections need not look at them again and again.

    They take place more often, too, so that the memories of chips in reference cycles are freed in time.
    """
    gc.collect()
    gc.freeze()
