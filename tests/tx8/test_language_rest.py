"""Garbage of the language server is collected in pauses of typing, or after many keystrokes."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from tx8.desktop import rest as module
from tx8.desktop.rest import MOST, Rest


class Cycle:
    """An object that only a collection frees."""

    def __init__(self) -> None:
        self.itself = self


def garbage() -> weakref.ref[Cycle]:
    return weakref.ref(Cycle())


@pytest.fixture
def rest() -> Iterator[Rest]:
    found = Rest()
    found.begin()
    yield found
    gc.enable()
    gc.unfreeze()


def test_a_server_collects_only_when_told(rest: Rest) -> None:
    assert not gc.isenabled()
    left = garbage()
    rest.opened()
    assert left() is None
    assert gc.get_freeze_count() > 0


def test_garbage_goes_in_a_pause(rest: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSE", 0.05)

    async def typing() -> None:
        left = garbage()
        for _ in range(4):
            rest.typed()
            await asyncio.sleep(0)
            assert left() is not None
        await asyncio.sleep(1)
        assert left() is None

    asyncio.run(typing())


def test_garbage_goes_without_a_pause_after_many_keystrokes(
    rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAUSE", 1000)

    async def typing() -> None:
        left = garbage()
        for number in range(MOST):
            assert left() is not None, number
            rest.typed()
            await asyncio.sleep(0)
        await asyncio.sleep(0.05)
        assert left() is None

    asyncio.run(typing())
