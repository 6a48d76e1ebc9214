"""Operations that rearrange the elements of blocks: joined, split, by indices, counted."""

from __future__ import annotations

from dataclasses import replace

from compiler.frontend.triton.kernels.site import KernelSite
from compiler.frontend.triton.kernels.values import KernelValue, SpmBlock, UnsupportedOperation, everywhere
from compiler.frontend.triton.operations import TtirOperation
from tx8isa.numbers.limits import MOST_MOVES

from .registry import Values, integer_attribute, operation


def _full(site: KernelSite, value: KernelValue, element: str) -> SpmBlock:
    return site.blocks.full(site.blocks.typed(value, element))


@operation("tt.join")
def _join(site: KernelSite, found: TtirOperation, operands: Values) -> Values:
    """Join two blocks as the two indices of a new last axis."""
    kind = found.types[0]
    parts = [_full(site, value, kind.element) for value in operands]
    shape = (*kind.shape, 2)
    made = site.blocks.empty(kind.element, parts[0].fmt, shape, [extent > 1 for extent in shape])
    for number, part in enumerate(parts):
        _copy_apart(site, part, 1, made, number, 2)
    return [made]


@operation("tt.split")
def _split(site: KernelSite, found: TtirOperation, operands: Values) -> Values:
    """Split the two indices of the last axis into blocks."""
    kind = found.types[0]
    data = _full(site, operands[0], kind.element)
    shape = kind.shape[:-1]
    parts = []
    for number in range(2):
        part = site.blocks.empty(kind.element, data.fmt, shape, [extent > 1 for extent in shape])
        _copy_apart(site, data, 2, part, 0, 1, first=number)
        parts.append(part)
    return [part if part.shape else site.single(part, part.element) for part in parts]


def _copy_apart(
    site: KernelSite, source: SpmBlock, step: int, target: SpmBlock, at: int, target_step: int, first: int = 0
) -> None:
    """Copy every ``step``-th element to every ``target_step``-th one, beginning at ``first`` and ``at``."""
    count, size = source.count // step, source.size
    if count > MOST_MOVES:
        raise UnsupportedOperation(f"{count} elements that are moved apart; at most {MOST_MOVES}")
    site.kernel.emit(
        "td.gatherscatter",
        dst=target.address + at * size,
        src0=source.address + first * size,
        n=size,
        src_stride0=step * size,
        src_iter0=count,
        dst_stride0=target_step * size,
        dst_iter0=count,
    )


@operation("tt.cat")
def _concatenate(site: KernelSite, found: TtirOperation, operands: Values) -> Values:
    """Append the elements of one block to those of another."""
    kind = found.types[-1]
    parts = [_full(site, value, kind.element) for value in operands]
    made = site.blocks.empty(kind.element, parts[0].fmt, kind.shape, [True] * len(kind.shape))
    at = made.address
    for part in parts:
        site.blocks.copy(replace(part, address=at), part)
        at = at + part.count * part.size
    return [made]


@operation("tt.gather")
def _gather(site: KernelSite, found: TtirOperation, operands: Values) -> Values:
    """Gather the elements of a block at indices along an axis."""
    source, index, result = found.types
    data, places = _full(site, operands[0], source.element), _full(site, operands[1], index.element)
    made = site.blocks.empty(source.element, data.fmt, result.shape, [extent > 1 for extent in result.shape])
    site.picks.gather(data, places, integer_attribute(found, "axis"), made)
    return [made]


@operation("tt.histogram")
def _histogram(site: KernelSite, found: TtirOperation, operands: Values) -> Values:
    """Count each number from 0 to below the number of results; others are not counted."""
    kind = found.types[-1]
    numbers = _full(site, operands[0], found.types[0].element)
    chosen: KernelValue = operands[1] if len(operands) > 1 else everywhere(numbers.shape)
    counts = site.blocks.empty(kind.element, numbers.fmt, kind.shape, [True])
    site.blocks.fill(counts, 0)
    site.picks.count(numbers, chosen, counts)
    return [counts]
