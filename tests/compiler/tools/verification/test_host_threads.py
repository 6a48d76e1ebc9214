"""Products of proofs take one thread of the host, and afterwards all are there again."""

from __future__ import annotations

import pytest

from compiler.tools.verification.host_threads import one_thread


def threads_of_blas() -> list[int]:
    found = pytest.importorskip("threadpoolctl").threadpool_info()
    return [each["num_threads"] for each in found if each["internal_api"] == "openblas"]


def test_afterwards_there_are_as_many_threads_as_before() -> None:
    before = threads_of_blas()
    with pytest.raises(KeyError), one_thread():
        assert set(threads_of_blas()) <= {1}
        raise KeyError
    assert threads_of_blas() == before
