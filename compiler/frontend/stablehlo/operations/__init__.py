"""Operations of StableHLO as operators of ONNX: a small function for each, in the file of its family.

``REWRITES`` has all of them by the name of the operation. A rewriter gets the ``Site`` of an operation, adds
nodes, and returns the values of its results.
"""

from __future__ import annotations

from collections.abc import Mapping

from compiler.frontend.stablehlo.site import Rewriter

from . import elementwise, gathering, linear, normalization, reductions, scattering, shapes, sorting

REWRITES: Mapping[str, Rewriter] = {
    **elementwise.REWRITES,
    **shapes.REWRITES,
    **linear.REWRITES,
    **reductions.REWRITES,
    **sorting.REWRITES,
    **gathering.REWRITES,
    **scattering.REWRITES,
    **normalization.REWRITES,
}

__all__ = ["REWRITES"]
