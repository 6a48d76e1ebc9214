"""Random packets, registers and images drawn by hypothesis, which shrinks a failure to its smallest example.

The examples are those of ``test_fuzz.py``, here in the test's own process. There are no guard areas, but a
failure shrinks to one instruction if one is enough.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fuzz_images
import fuzz_instructions
import fuzz_registers


@pytest.mark.parametrize(
    "example",
    [fuzz_instructions.example, fuzz_registers.example, fuzz_images.example],
    ids=["instructions", "registers", "images"],
)
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(rng=st.randoms(use_true_random=False))
def test_anything_ends_faults_or_is_refused(example: Callable[[Random], str], rng: Random) -> None:
    assert example(rng)
