"""The folder of the C examples."""

from __future__ import annotations

PROGRAMS = ("hello", "vector_add", "batchnorm", "gemm", "ring", "floats")
