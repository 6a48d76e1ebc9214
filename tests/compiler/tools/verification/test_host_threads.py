"""Products on one thread of the host: others take no processor time, and afterwards all are there again."""

from __future__ import annotations

import time

import numpy as np
import pytest

from compiler.tools.verification.host_threads import one_thread


def of_other_threads() -> float:
    """The processor time of this process that this thread has not taken."""
    return time.process_time() - time.thread_time()


def threads_of_blas() -> list[int]:
    found = pytest.importorskip("threadpoolctl").threadpool_info()
    return [each["num_threads"] for each in found if each["internal_api"] == "openblas"]


def test_other_threads_take_no_time() -> None:
    a = np.ones((6, 400, 400))
    with one_thread():
        before = of_other_threads()
        for _ in range(5):
            np.matmul(a, a)
        assert of_other_threads() - before < 0.05


def test_afterwards_there_are_as_many_threads_as_before() -> None:
    before = threads_of_blas()
    with pytest.raises(KeyError), one_thread():
        assert set(threads_of_blas()) <= {1}
        raise KeyError
    assert threads_of_blas() == before
