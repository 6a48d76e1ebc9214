"""Generates the final code of versions: only for their own points, with one distance between both copies of
buffers.

The points of a version are known when all versions exist, and second copies of buffers when these are placed.
It omits code that only the alternatives needed.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from compiler.codegen.spm import Copies
from compiler.evaluation.sizes import Domain
from compiler.graph import Array, GraphError
from compiler.lowering.generate import DOES_NOT_FIT
from compiler.passes.base import RangedContext

from .phase_code import PhaseCode
from .versions import UNTRACED, Version


def finished(context: RangedContext, code: PhaseCode, version: Version) -> Version:
    """The version with the smallest code that was found, right for the same points."""
    found = _smallest(context, code, version)
    if found is None:
        return version
    copies = found.kernel.spm.found_copies()
    for symbol in (f"{found.kernel.prefix}.apart", "") if copies.doubled else ("",):
        other = _again(found, replace(copies, apart=symbol))
        if other is not None:
            return other
    return found


def _smallest(context: RangedContext, code: PhaseCode, version: Version) -> Version | None:
    """The version in small code: without code for other points, if possible.

    If a sequence's division is known to be right only for more points, the code is made for all of these.
    """
    with suppress(*UNTRACED):
        found = _made_for(context, code, version, version.points)
        if found is not None:
            return found
    return _made_for(context, code, version, version.domain.first)


def _made_for(context: RangedContext, code: PhaseCode, version: Version, points: Array) -> Version | None:
    """The version in small code, made for some points; None if it is not right for the version's points."""
    domain = Domain(version.domain.symbols, version.anchor, points, context.size_loads)
    context.domain = domain
    try:
        kernel = code.kernel_of(version.kernel.prefix, version.division)
    except (*DOES_NOT_FIT, GraphError):
        return None
    finally:
        context.domain = None
    if (version.points & ~domain.alive).any():
        return None
    domain.complete = True
    return replace(version, kernel=kernel, domain=domain)


def _again(version: Version, copies: Copies) -> Version | None:
    """The version with the decided copies of buffers; None if they do not fit."""
    domain, generate = version.domain, version.kernel.again
    alive = domain.alive
    if generate is None:
        return None
    domain.alive, domain.complete = domain.first, False
    with suppress(*DOES_NOT_FIT):
        kernel = generate(copies)
        if not (version.points & ~domain.alive).any():
            domain.complete = True
            return replace(version, kernel=kernel)
    domain.alive, domain.complete = alive, True
    return None
