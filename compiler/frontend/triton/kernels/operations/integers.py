"""Integers, truth values and pointers: formulas where possible, else computed by the core."""

from __future__ import annotations

from dataclasses import replace

from compiler.codegen.expr import Variable, bounds
from compiler.frontend.triton.kernels.core.arithmetic import COMPARISONS, folded, wrapped
from compiler.frontend.triton.kernels.core.nodes import computed, leaves, parts_of, two
from compiler.frontend.triton.kernels.engines import shapes
from compiler.frontend.triton.kernels.integers import (
    ARITHMETIC,
    add,
    compare,
    intersection,
    multiply,
    truth_of,
    uniform,
)
from compiler.frontend.triton.kernels.site import KernelSite
from compiler.frontend.triton.kernels.values import (
    ELEMENT_FORMATS,
    FLOAT_FORMATS,
    INTEGER_FORMATS,
    TRUTH,
    Computed,
    Indices,
    KernelValue,
    Pointers,
    Region,
    Span,
    Splat,
    SpmBlock,
    UnsupportedOperation,
    bits_of,
    everywhere,
    range_of,
    varies,
)
from compiler.frontend.triton.operations import TtirOperation
from tx8isa.numbers.formats import Format

from .registry import Values, operation

NAMES = {
    **{f"arith.{name}i": name for name in ("add", "sub", "mul", "and", "or", "xor")},
    **{f"arith.{name}": name for name in ("divsi", "divui", "remsi", "remui", "minsi", "minui", "maxsi")},
    **{"arith.maxui": "maxui", "arith.shli": "shl", "arith.shrsi": "shrsi", "arith.shrui": "shrui"},
    "tt.mulhiui": "mulhui",
}
"""Operations of two integers, and the core's names for them."""


def data_value(site: KernelSite, value: KernelValue, element: str) -> KernelValue:
    """Return a computed value: a formula if equal for the whole block, data if a loop overwrites it."""
    if isinstance(value, Computed) and not any(value.stored):
        number = _known(value)
        found = Indices(number) if number is not None else site.core.scalar(value)
        if element == TRUTH:
            region = Region((), ((0, found.offset),))
            return shapes.splat(region, value.shape) if value.shape else region
        return shapes.splat(found, value.shape) if value.shape else found
    if isinstance(value, Computed) and any(
        isinstance(each, SpmBlock) and each.carried for each in leaves(value)
    ):
        return site.core.block(value, element)
    return value


def _known(value: KernelValue) -> int | None:
    """Return the number that a computed value equals, if it is known at compile time."""
    if isinstance(value, Indices):
        return value.offset if value.uniform and isinstance(value.offset, int) else None
    if not isinstance(value, Computed):
        return None
    numbers = [_known(operand) for operand in value.operands]
    if any(number is None for number in numbers) or value.operation in ("select", "tofloat", "tointeger"):
        return None
    known = [number for number in numbers if number is not None]
    bits = bits_of(value.source)
    if value.operation == "extui":
        return known[0] & ((1 << bits) - 1)
    if value.operation in ("extsi", "trunc"):
        return wrapped(known[0], bits_of(value.element))
    return folded(value.operation, known[0], known[1], bits)


# --- arithmetic ---------------------------------------------------------------------------------------------


def _arithmetic(site: KernelSite, found: TtirOperation, operands: Values) -> Values:
    """Write an operation of two integers; formulas of the whole block wrap around as the type does."""
    left, right = operands
    element = found.types[-1].element
    if element == TRUTH:
        return [logic(site, NAMES[found.name], left, right)]
    if isinstance(left, Indices) and isinstance(right, Indices):
        formula = _formula(found.name, left, right, element)
        if formula is not None:
            return [formula]
    check_integers(left, right)
    return [data_value(site, two(NAMES[found.name], left, right, element), element)]


def _formula(name: str, left: Indices, right: Indices, element: str) -> Indices | None:
    """Return the result as a formula.

    None if there is none, or if one number for the whole block may wrap.
    """
    numbers = [_known(left), _known(right)]
    if name in NAMES and numbers[0] is not None and numbers[1] is not None:
        return uniform(folded(NAMES[name], numbers[0], numbers[1], bits_of(element)), left.shape)
    if name not in ARITHMETIC:
        return None
    try:
        made = ARITHMETIC[name](left, right)
    except (UnsupportedOperation, ValueError):
        return None
    least, most = range_of(element)
    low, high = bounds(made.offset) if made.uniform else (least, most)
    return made if least <= low <= high <= most else None


def check_integers(*values: KernelValue) -> None:
    """Raise UnsupportedOperation for pointers and floats."""
    for value in values:
        if isinstance(value, Pointers | Splat):
            raise UnsupportedOperation("needs integers, not pointers or floats")


for _name in NAMES:
    operation(_name)(_arithmetic)


@operation("math.absi")
def _magnitude(site: KernelSite, found: TtirOperation, operands: Values) -> Values:
    (value,), element = operands, found.types[-1].element
    check_integers(value)
    opposite_sign = two("sub", uniform(0, value.shape), value, element)
    return [data_value(site, two("maxsi", value, opposite_sign, element), element)]


@operation("arith.ceildivsi")
def _ceiling(site: KernelSite, found: TtirOperation, operands: Values) -> Values:
    left, right = operands
    element = found.types[-1].element
    if isinstance(left, Indices) and isinstance(right, Indices):
        formula = _formula(found.name, left, right, element)
        if formula is not None:
            return [formula]
    raise UnsupportedOperation("a quotient rounded up of numbers that are data or may be negative")


@operation("arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast", "arith.index_castui")
def _integer_cast(site: KernelSite, found: TtirOperation, operands: Values) -> Values:
    (value,), (source, *_, target) = operands, [kind.element for kind in found.types]
    name = {"arith.extui": "extui", "arith.trunci": "trunc", "arith.index_castui": "extui"}.get(
        found.name, "extsi"
    )
    if isinstance(value, Indices):
        low, high = value.range
        least, most = range_of(target)
        fits = least <= low <= high <= most and (name != "extui" or low >= 0)
        if target != TRUTH and (fits or (not value.uniform and name == "extsi")):
            return [value]
    check_integers(value)
    return [data_value(site, computed(name, (value,), target, source), target)]


@operation("tt.bitcast", "arith.bitcast")
def _bitcast(site: KernelSite, found: TtirOperation, operands: Values) -> Values:
    (value,), kind = operands, found.types[-1]
    if isinstance(value, Pointers):
        return [_to_other_elements(value, kind.element)]
    element, source = kind.element, found.types[0].element
    data = site.blocks.straight(site.blocks.typed(value, source))
    formats = {**FLOAT_FORMATS, **INTEGER_FORMATS}
    if element not in formats or source == TRUTH:
        raise UnsupportedOperation(f"the bits of {source} as {element}")
    made = replace(data, element=element, fmt=formats[element])
    if not made.shape and not formats[element].is_float:
        return [Indices(site.core.of_block(made))]
    return [made]


# --- pointers -----------------------------------------------------------------------------------------------


def _to_other_elements(pointers: Pointers, element: str) -> Pointers:
    """Return pointers to the same addresses as pointers to elements of another size."""
    old, new = (ELEMENT_FORMATS[each].bits for each in (pointers.element, element))
    indices, data, shape = pointers.indices, pointers.data, pointers.shape
    if old > new:
        factor = uniform(old // new, shape)
        indices = multiply(indices, factor)
        data = None if data is None else two("mul", data, factor, "i64")
    elif old < new:
        parts = [indices.offset, *(axis.step for axis in indices.axes)]
        if data is not None or any(not isinstance(part, int) or part % (new // old) for part in parts):
            found, times = f"pointers to {pointers.element} as pointers to {element}", new // old
            raise UnsupportedOperation(f"{found}; supported where all steps are known multiples of {times}")
        axes = tuple(replace(axis, step=axis.step // (new // old)) for axis in indices.axes)
        indices = Indices(indices.offset // (new // old), axes, shape)
    return replace(pointers, element=element, indices=indices, data=data)


@operation("tt.int_to_ptr")
def _as_pointer(site: KernelSite, found: TtirOperation, operands: Values) -> Values:
    """Return a loaded address as a pointer."""
    (value,), kind = operands, found.types[-1]
    if not isinstance(value, Indices) or value.shape or kind.element not in ELEMENT_FORMATS:
        allowed = ", ".join(ELEMENT_FORMATS)
        raise UnsupportedOperation(f"takes one address of 64 bits, to elements of {allowed}; found {kind}")
    base = site.kernel.let(value.offset)
    return [Pointers("", kind.element, Indices(0), base=base, room=site.addresses.room(base))]


@operation("tt.addptr")
def _add_pointer(site: KernelSite, found: TtirOperation, operands: Values) -> Values:
    pointers, offset = operands
    if not isinstance(pointers, Pointers):
        raise UnsupportedOperation("a pointer that was loaded")
    formula, data = parts_of(offset)
    if data is not None and not any(varies(data)):
        scalar = shapes.splat(Indices(_number(site, data)), data.shape) if data.shape else None
        assert scalar is None or isinstance(scalar, Indices)
        number = scalar if scalar is not None else Indices(_number(site, data))
        formula, data = number if formula is None else add(formula, number), None
    if formula is not None:
        try:
            pointers = replace(pointers, indices=add(pointers.indices, formula))
        except UnsupportedOperation:  # both wrap around: one of them becomes data
            data = (
                computed("trunc", (formula,), "i64", "i64")
                if data is None
                else two("add", data, formula, "i64")
            )
    if data is not None:
        before = pointers.data
        data = data if before is None else two("add", before, data, "i64")
    else:
        data = pointers.data
    return [replace(pointers, data=data)]


def _number(site: KernelSite, value: KernelValue) -> Variable:
    """Return an integer that is the same for the whole block, in a register."""
    if isinstance(value, SpmBlock):
        return site.core.of_block(value)
    assert isinstance(value, Computed)
    found = site.core.scalar(value).offset
    assert isinstance(found, Variable)
    return found


# --- truth values -------------------------------------------------------------------------------------------


@operation("arith.cmpi")
def _compare(site: KernelSite, found: TtirOperation, operands: Values) -> Values:
    predicate, (left, right), element = found.words[0], operands, found.types[-1].element
    if element == TRUTH:
        names = {"ne": "xor", "eq": "xnor"}
        if predicate not in names:
            raise UnsupportedOperation(f"truth values compared by '{predicate}'")
        return [logic(site, names[predicate], left, right)]
    if isinstance(left, Indices) and isinstance(right, Indices):
        try:
            region = compare(predicate, left, right)
        except (UnsupportedOperation, ValueError):
            region = None
        if region is not None:
            return [held(site, region)]
    numbers = [_small_numbers(site, value) for value in operands]
    if predicate[0] != "u" and numbers[0] is not None and numbers[1] is not None:
        name = predicate if predicate in ("eq", "ne") else predicate[1:]
        return [site.elements.truth(name, numbers[0], numbers[1])]
    check_integers(left, right)
    assert predicate in COMPARISONS
    return [data_value(site, two(predicate, left, right, element, TRUTH), TRUTH)]


def held(site: KernelSite, region: Region) -> Region:
    """Return a region whose limits are computed once."""
    spans = tuple(Span(site.kernel.let(span.low), site.kernel.let(span.high)) for span in region.spans)
    return replace(region, spans=spans)


def _small_numbers(site: KernelSite, value: KernelValue) -> KernelValue | None:
    """Return integers as exact numbers of FP32, which the engine compares; None if not known to be exact."""
    if isinstance(value, Indices):
        return site.elements.positions(value) if site.elements.are_exact(value) else None
    if isinstance(value, SpmBlock) and value.fmt in (Format.INT8, Format.INT16) and value.element != TRUTH:
        return site.elements.cast(value, "f32")
    return None


def logic(site: KernelSite, name: str, left: KernelValue, right: KernelValue) -> KernelValue:
    """Return truth values ``left name right``: and, or, xor, xnor."""
    for value in (left, right):
        if not isinstance(value, Region | Computed) and not _is_truth(value):
            raise UnsupportedOperation(f"'{name}' of values that are not truth values")
    if isinstance(left, Region) and isinstance(right, Region):
        if name == "and":
            return intersection(left, right)
        if name == "xor" and _always(right):
            return opposite(site, left)
        if name == "xor" and _always(left):
            return opposite(site, right)
    if any(isinstance(value, Computed) for value in (left, right)) or not left.shape:
        operands: KernelValue = two("xor" if name == "xnor" else name, left, right, TRUTH)
        if name == "xnor":
            operands = two("eq", operands, uniform(0, left.shape), TRUTH, TRUTH)
        return data_value(site, operands, TRUTH)
    if name == "xnor":
        return site.elements.negate(site.elements.truth("xor", left, right))
    return site.elements.truth(name, left, right)


def _always(region: Region) -> bool:
    return region.everywhere


def opposite(site: KernelSite, region: Region) -> KernelValue:
    """Return the opposite of a region: a region again if it is one condition, else data."""
    if all(map(region.whole, range(len(region.shape)))) and len(region.conditions) == 1:
        ((smaller, larger),) = region.conditions
        return replace(region, conditions=((larger, smaller + 1),))
    if region.everywhere:
        return replace(everywhere(region.shape), conditions=((0, 0),))
    return site.elements.negate(region)


def _is_truth(value: KernelValue) -> bool:
    return isinstance(value, SpmBlock) and value.element == TRUTH


@operation("arith.select")
def _select(site: KernelSite, found: TtirOperation, operands: Values) -> Values:
    chosen, left, right = operands
    truth = truth_of(chosen) if isinstance(chosen, Region) and not chosen.shape else None
    if truth is not None:
        return [left if truth else right]
    if isinstance(chosen, Region) and chosen.everywhere:
        return [left]
    kind = found.types[-1]
    if isinstance(left, Pointers) or isinstance(right, Pointers):
        raise UnsupportedOperation(
            "a choice between pointers by a condition that is not known when compiling"
        )
    if not chosen.shape and kind.shape:
        chosen = shapes.splat(chosen, kind.shape)
    if kind.element in FLOAT_FORMATS:
        if site.is_last_use(found.operands[1]):
            outside = site.elements.replaced_outside(chosen, left, right)
            if outside is not None:
                return [outside]
        return [site.elements.select(chosen, left, right)]
    made = computed("select", (chosen, left, right), kind.element, kind.element)
    return [data_value(site, made, kind.element)]


def as_condition(site: KernelSite, value: KernelValue) -> Region:
    """Return a truth value as conditions of the core."""
    if isinstance(value, Region) and not value.shape:
        return value
    if isinstance(value, SpmBlock) and not value.shape:
        return Region((), ((0, site.core.of_block(value)),))
    raise UnsupportedOperation("a condition that is not a single truth value")
