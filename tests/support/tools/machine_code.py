"""Kernels as machine code: the mark of tests that need it, and the choice of who compiles."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import pytest

from emulator import native

needs_jit = pytest.mark.skipif(not native.jit_enabled(), reason="the JIT is off")


@contextmanager
def compiled_by(engine: str) -> Iterator[None]:
    """Let ``engine`` make machine code of kernels."""
    with patch.dict(os.environ, TX8_JIT=engine):
        yield
