"""The mark of tests that need kernels as machine code; without the JIT they are plain Python functions."""

from __future__ import annotations

import pytest

from emulator import native

needs_jit = pytest.mark.skipif(not native.jit_enabled(), reason="the JIT is off")
