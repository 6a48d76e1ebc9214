"""Bytes that grow in place, and a garbage collector that waits during the growth."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import numpy as np
import pytest

from tx8isa.tools.collector import seldom_collected
from tx8isa.tools.growing import GrowingBytes


@pytest.fixture(autouse=True)
def usual_threshold() -> Iterator[None]:
    """Set the threshold that Python begins with; the tests' own threshold is higher."""
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


def test_bytes_are_those_that_were_written_wherever_the_pages_have_gone() -> None:
    grown, wanted = GrowingBytes(), b""
    random = np.random.default_rng(1)
    for size in (0, 1, 65_535, 1, 200_000, 3_000_000):
        part = random.integers(0, 256, size, np.uint8)
        grown.extend(size)[...] = part
        wanted += part.tobytes()
        assert len(grown) == len(wanted)
    assert grown.read_only() == wanted
    assert grown.view(65_536, 3).tobytes() == wanted[65_536:65_539]


def test_new_bytes_are_zeros() -> None:
    grown = GrowingBytes()
    assert not grown.extend(5_000_000).any()


def test_views_in_use_keep_the_pages_where_they_are() -> None:
    grown = GrowingBytes()
    view = grown.extend(8)
    with pytest.raises(BufferError):
        grown.extend(1 << 20)
    assert len(grown) == 8
    view[...] = 7
    assert grown.view(0, 8).tolist() == [7] * 8


def test_all_bytes_together_cannot_be_written() -> None:
    grown = GrowingBytes()
    grown.extend(4)
    assert grown.read_only().readonly
    assert not np.frombuffer(grown.read_only(), np.uint8).flags.writeable


def test_the_threshold_of_the_collector_is_what_it_was_after_all_have_ended() -> None:
    before = gc.get_threshold()
    first, second = seldom_collected(), seldom_collected()
    with first:
        assert gc.get_threshold()[0] > before[0]
        second.__enter__()
    assert gc.get_threshold()[0] > before[0]
    second.__exit__(None, None, None)
    assert gc.get_threshold() == before


def test_a_collector_that_is_off_stays_off() -> None:
    before = gc.get_threshold()
    gc.set_threshold(0)
    try:
        with seldom_collected():
            assert gc.get_threshold()[0] == 0
        assert gc.get_threshold()[0] == 0
    finally:
        gc.set_threshold(*before)


def test_an_error_ends_it_too() -> None:
    before = gc.get_threshold()
    with pytest.raises(ValueError, match="inside"), seldom_collected():
        raise ValueError("inside")
    assert gc.get_threshold() == before
