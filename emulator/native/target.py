"""The processor kernels are compiled for."""

from __future__ import annotations

import os
from functools import cache


@cache
def target() -> tuple[str, str]:
    """Return name and features of the processor, in LLVM's spelling; NUMBA_CPU_* choose another one."""
    import llvmlite.binding as llvm

    name = os.environ.get("NUMBA_CPU_NAME")
    features = os.environ.get("NUMBA_CPU_FEATURES")
    if features is None:
        features = "" if name else llvm.get_host_cpu_features().flatten()
    return name or llvm.get_host_cpu_name(), features


@cache
def has_feature(feature: str) -> bool:
    """Return True if the target certainly has an LLVM feature such as ``f16c``."""
    return f"+{feature}" in target()[1].split(",")
