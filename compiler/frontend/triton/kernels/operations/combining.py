"""Operations that combine the elements of a block, or of an array, by a function."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.frontend.triton.kernels.core.atomics import combination
from compiler.frontend.triton.kernels.engines.reductions import Blocks, Combine
from compiler.frontend.triton.kernels.site import KernelSite
from compiler.frontend.triton.kernels.values import FLOAT_FORMATS, KernelValue, Pointers, UnsupportedOperation
from compiler.frontend.triton.operations import TtirOperation

from .registry import Values, integer_attribute, operation


def _function(site: KernelSite, found: TtirOperation) -> tuple[str, Combine]:
    """Return the name of a function's only operation (empty if it has several), and its code."""
    (body,) = found.regions
    single = body.operations[0].name if len(body.operations) == 2 else ""

    def combine(left: Blocks, right: Blocks) -> Sequence[KernelValue]:
        with site.within(found), site.inner():
            return site.run_block(body, (*left, *right))

    return single, combine


def _blocks(site: KernelSite, found: TtirOperation, operands: Values) -> Blocks:
    pairs = zip(operands, found.types, strict=False)
    return [site.blocks.typed(value, kind.element) for value, kind in pairs]


@operation("tt.reduce")
def _reduce(site: KernelSite, found: TtirOperation, operands: Values) -> Values:
    single, combine = _function(site, found)
    values, axis = _blocks(site, found, operands), integer_attribute(found, "axis")
    made = site.reductions.reduce(values, axis, single, combine)
    return [data if data.shape else site.single(data, data.element) for data in made]


@operation("tt.scan")
def _scan(site: KernelSite, found: TtirOperation, operands: Values) -> Values:
    _, combine = _function(site, found)
    values, axis = _blocks(site, found, operands), integer_attribute(found, "axis")
    return list(site.scans.scan(values, axis, found.attributes.get("reverse") == "true", combine))


@operation("tt.atomic_rmw")
def _atomic(site: KernelSite, found: TtirOperation, operands: Values) -> Values:
    pointers, operand, *rest = operands
    if not isinstance(pointers, Pointers):
        raise UnsupportedOperation("a pointer that was loaded")
    combine = combination(found.words[0], pointers.element)
    before = site.atomics.change(pointers, operand, rest[0] if rest else None, combine)
    return [before if before.shape else site.single(before, before.element)]


@operation("tt.atomic_cas")
def _compare_and_swap(site: KernelSite, found: TtirOperation, operands: Values) -> Values:
    pointers, expected, operand = operands
    if not isinstance(pointers, Pointers):
        raise UnsupportedOperation("a pointer that was loaded")
    if pointers.element in FLOAT_FORMATS:
        raise UnsupportedOperation(f"a comparison and exchange of {pointers.element}; supported are integers")
    before = site.atomics.exchange(pointers, expected, operand)
    return [before if before.shape else site.single(before, before.element)]
