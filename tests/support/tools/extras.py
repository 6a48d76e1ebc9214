"""Marks of tests that need a large extra of tx8, which the tests' own environment does not have.

The texts that Triton made are in ``examples/triton``, for every run; ``make triton`` installs Triton itself.
"""

from __future__ import annotations

from importlib.util import find_spec

import pytest

needs_torch = pytest.mark.skipif(
    not all(map(find_spec, ("torch", "onnxscript"))),
    reason="PyTorch is an extra of its own: pip install torch onnxscript",
)
needs_triton = pytest.mark.skipif(
    find_spec("triton") is None, reason="Triton is an extra of its own: make triton"
)
