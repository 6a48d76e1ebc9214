"""Fixtures of several tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from forked_tools import forked_tools


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the commands, which start faster than installed ones."""
    with forked_tools(tmp_path_factory.mktemp("tools")) as folder:
        yield folder
