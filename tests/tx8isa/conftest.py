"""Fixtures of several tests of this folder."""

from __future__ import annotations

import pytest

from machine_files import Table, packaged_table


@pytest.fixture
def table() -> Table:
    """The packaged machine description, to be spoilt."""
    return packaged_table()
