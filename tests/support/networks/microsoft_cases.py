"""Calls of one operator of com.microsoft, and random operands of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from compiler.driver import Program
from compiler.graph import Array
from onnx_calls import OnnxCall, assert_close

__all__ = ["MicrosoftCall", "assert_bytes", "assert_close", "floats", "some_bytes"]

RNG = np.random.default_rng(11)


def floats(*shape: int, scale: float = 1.0) -> Array:
    """Normally distributed numbers."""
    return np.asarray(RNG.standard_normal(shape) * scale).astype(np.float32)


def some_bytes(dtype: str, *shape: int, bits: int = 8) -> Array:
    """Any bytes; with 7 bits half of them, around the middle of the type."""
    limits = np.iinfo(dtype)
    quarter = 64 if bits == 7 else 0
    return RNG.integers(limits.min + quarter, limits.max + 1 - quarter, shape).astype(dtype)


@dataclass
class MicrosoftCall(OnnxCall):
    """A call of an operator of com.microsoft."""

    domain: str = "com.microsoft"
    options: Mapping[str, str] = field(default_factory=dict)


def assert_bytes(call: MicrosoftCall, folder: Path, steps: int = 0, dtype: str = "fp16") -> Program:
    """The chip's bytes equal those of onnxruntime; one in 50 may be off by ``steps``."""
    program, found = call.on_chip(folder, dtype)
    for name, wanted in call.by_onnxruntime().items():
        assert found[name].dtype == wanted.dtype
        assert found[name].shape == wanted.shape
        away = np.abs(found[name].astype(int) - wanted.astype(int))
        assert away.max(initial=0) <= steps, name
        assert np.count_nonzero(away) <= max(1, wanted.size // 50) * bool(steps), name
    return program
