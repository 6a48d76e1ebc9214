"""The operations of TTIR that are compiled, each with the function that writes it."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace

from compiler.frontend.triton.operations import TtirOperation, TtirType
from tx8isa.numbers.formats import Format

from compiler.frontend.triton.kernels.engines import shapes

from . import control
from compiler.frontend.triton.kernels.engines.elements import BINARY, PROPAGATING, UNARY
from compiler.frontend.triton.kernels.integers import ARITHMETIC, add, compare, indices_of, intersection, truth_of, uniform
from compiler.frontend.triton.kernels.site import Handler, KernelSite
from compiler.frontend.triton.kernels.values import (
    FLOAT_FORMATS,
    INTEGERS,
    TRUTH,
    Indices,
    KernelValue,
    Pointers,
    Region,
    Span,
    Splat,
    SpmBlock,
    Steps,
    UnsupportedOperation,
    everywhere,
)

HANDLERS: dict[str, Handler] = {}

Values = list[KernelValue]


def _operation(*names: str) -> Callable[[Handler], Handler]:
    """Register the function that writes these operations."""

    def register(handler: Handler) -> Handler:
        for name in names:
            HANDLERS[name] = handler
        return handler

    return register


# --- constants and places -----------------------------------------------------------------------------------


@_operation("arith.constant")
def _constant(site: KernelSite, operation: TtirOperation, operands: Values) -> Values:
    kind = operation.types[-1]
    text = str(operation.attributes.get("value", next(iter(operation.words), "")))
    if kind.element == TRUTH:
        whole = everywhere(kind.shape)
        return [whole if text == "true" else replace(whole, conditions=((0, 0),))]
    if kind.element in INTEGERS:
        if not re.fullmatch(r"-?\d+", text):
            raise UnsupportedOperation(f"a constant '{text[:40]}'; supported are blocks of one number")
        return [uniform(int(text), kind.shape)]
    return [Splat(_float(text, kind), kind.element, kind.shape)]


def _float(text: str, kind: TtirType) -> float:
    """A number of a float type: decimal, or its bits."""
    if kind.element not in FLOAT_FORMATS:
        raise UnsupportedOperation(f"floats of type {kind.element}; supported are {', '.join(FLOAT_FORMATS)}")
    if not text.startswith("0x"):
        return float(text)
    bits = int(text, 16)
    if kind.element == "bf16":
        bits <<= 16
    codes = ("<e", 2) if kind.element == "f16" else ("<f", 4)
    return float(struct.unpack(codes[0], bits.to_bytes(codes[1], "little"))[0])


@_operation("tt.get_program_id", "tt.get_num_programs")
def _program(site: KernelSite, operation: TtirOperation, operands: Values) -> Values:
    axis = "xyz".index(operation.words[0])
    place = site.program if operation.name == "tt.get_program_id" else site.grid
    return [Indices(place[axis])]


@_operation("tt.make_range")
def _range(site: KernelSite, operation: TtirOperation, operands: Values) -> Values:
    start = operation.attributes["start"]
    assert isinstance(start, int)
    return [Indices(start, (Steps(1),), operation.types[-1].shape)]


# --- integers and pointers ----------------------------------------------------------------------------------


def _arithmetic(site: KernelSite, operation: TtirOperation, operands: Values) -> Values:
    left, right = map(indices_of, operands)
    return [ARITHMETIC[operation.name](left, right)]


for _name in ARITHMETIC:
    _operation(_name)(_arithmetic)


@_operation("arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast", "arith.index_castui")
def _integer_cast(site: KernelSite, operation: TtirOperation, operands: Values) -> Values:
    (value,), bits = operands, re.fullmatch(r"i(\d+)", operation.types[-1].element)
    if not isinstance(value, Indices):
        raise UnsupportedOperation("a cast of integers that are data")
    low, high = value.range
    if bits and not -(1 << (int(bits[1]) - 1)) <= low <= high < 1 << int(bits[1]):
        raise UnsupportedOperation(f"integers of {low}..{high} as {operation.types[-1].element}")
    return [value]


@_operation("tt.addptr")
def _add_pointer(site: KernelSite, operation: TtirOperation, operands: Values) -> Values:
    pointers, offset = operands
    if not isinstance(pointers, Pointers):
        raise UnsupportedOperation("a pointer that was loaded")
    if not isinstance(offset, Indices):
        raise UnsupportedOperation(
            "offsets that are data; supported are those that grow evenly along each axis"
        )
    return [replace(pointers, indices=add(pointers.indices, offset))]


@_operation("arith.cmpi")
def _compare_integers(site: KernelSite, operation: TtirOperation, operands: Values) -> Values:
    predicate, (left, right) = operation.words[0], operands
    if isinstance(left, Indices) and isinstance(right, Indices):
        found = compare(predicate, left, right)
        if found is not None:
            return [_held(site, found)]
    numbers = [_as_floats(site, value) for value in operands]
    names = {"eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge"}
    name = predicate if predicate in names else predicate[1:]
    return [site.elements.truth(names[name], numbers[0], numbers[1])]


def _held(site: KernelSite, region: Region) -> Region:
    """A region whose limits are computed once."""
    spans = tuple(Span(site.kernel.let(span.low), site.kernel.let(span.high)) for span in region.spans)
    return replace(region, spans=spans)


def _as_floats(site: KernelSite, value: KernelValue) -> KernelValue:
    """Integers as exact numbers of FP32."""
    if isinstance(value, Indices):
        return site.elements.positions(value)
    if isinstance(value, SpmBlock) and value.fmt in (Format.INT8, Format.INT16):
        return site.elements.cast(value, "f32")
    raise UnsupportedOperation(
        "a comparison of integers of 32 bits that were loaded; they are not exact in FP32"
    )


# --- truth values -------------------------------------------------------------------------------------------


@_operation("arith.andi", "arith.ori", "arith.xori")
def _logic(site: KernelSite, operation: TtirOperation, operands: Values) -> Values:
    left, right = operands
    name = operation.name.removeprefix("arith.").removesuffix("i")
    if any(not isinstance(value, Region) and not _is_truth(value) for value in operands):
        raise UnsupportedOperation(f"'{name}' of integers; supported are truth values")
    if isinstance(left, Region) and isinstance(right, Region):
        if name == "and":
            return [intersection(left, right)]
        if name == "xor" and right.everywhere:
            return [_opposite(site, left)]
    return [site.elements.truth(name, left, right)]


def _opposite(site: KernelSite, region: Region) -> KernelValue:
    """Where a region does not hold: a region again if it is one condition, else data."""
    if all(map(region.whole, range(len(region.shape)))) and len(region.conditions) == 1:
        ((smaller, larger),) = region.conditions
        return replace(region, conditions=((larger, smaller + 1),))
    return site.elements.negate(region)


def _is_truth(value: KernelValue) -> bool:
    return isinstance(value, SpmBlock) and value.element == TRUTH


@_operation("arith.select")
def _select(site: KernelSite, operation: TtirOperation, operands: Values) -> Values:
    chosen, left, right = operands
    truth = truth_of(chosen) if isinstance(chosen, Region) and not chosen.shape else None
    if truth is not None:
        return [left if truth else right]
    if any(isinstance(value, Indices | Pointers) for value in (left, right)):
        raise UnsupportedOperation(
            "a choice between integers by a condition that is not known when compiling"
        )
    if isinstance(chosen, Region | SpmBlock) and not chosen.shape and left.shape:
        chosen = shapes.splat(chosen, left.shape)
    return [site.elements.select(chosen, left, right)]


# --- floats -------------------------------------------------------------------------------------------------


def _binary(site: KernelSite, operation: TtirOperation, operands: Values) -> Values:
    left, right = operands
    return [site.elements.binary(BINARY[operation.name], left, right, _element(operation))]


def _unary(site: KernelSite, operation: TtirOperation, operands: Values) -> Values:
    return [site.elements.unary(UNARY[operation.name], operands[0], _element(operation))]


def _propagating(site: KernelSite, operation: TtirOperation, operands: Values) -> Values:
    left, right = operands
    return [site.elements.propagating(PROPAGATING[operation.name], left, right, _element(operation))]


def _element(operation: TtirOperation) -> str:
    element = operation.types[-1].element
    if element not in FLOAT_FORMATS:
        raise UnsupportedOperation(f"floats of type {element}; supported are {', '.join(FLOAT_FORMATS)}")
    return element


for _names, _handler in ((BINARY, _binary), (UNARY, _unary), (PROPAGATING, _propagating)):
    for _name in _names:
        _operation(_name)(_handler)


@_operation("tt.clampf")
def _clamp(site: KernelSite, operation: TtirOperation, operands: Values) -> Values:
    element, (value, low, high) = _element(operation), operands
    larger = site.elements.binary("max", value, low, element)
    return [site.elements.binary("min", larger, high, element)]


@_operation("arith.cmpf")
def _compare_floats(site: KernelSite, operation: TtirOperation, operands: Values) -> Values:
    left, right = operands
    return [site.elements.compare(operation.words[0], left, right)]


@_operation("arith.extf", "arith.truncf", "tt.fp_to_fp", "arith.sitofp", "arith.uitofp")
def _to_float(site: KernelSite, operation: TtirOperation, operands: Values) -> Values:
    return [site.elements.cast(operands[0], operation.types[-1].element)]


@_operation("arith.fptosi")
def _to_integer(site: KernelSite, operation: TtirOperation, operands: Values) -> Values:
    element = operation.types[-1].element
    formats = {"i8": Format.INT8, "i16": Format.INT16, "i32": Format.INT32}
    if element not in formats:
        raise UnsupportedOperation(f"floats as {element}; supported are {', '.join(formats)}")
    data = site.blocks.data(operands[0])
    made = site.blocks.empty(element, formats[element], data.shape, data.stored, data.blocked)
    site.elements.convert(made, data, "rtz")
    return [made]


# --- shapes, memory, reductions, products, control ----------------------------------------------------------


@_operation("tt.splat", "tt.unsplat")
def _splat(site: KernelSite, operation: TtirOperation, operands: Values) -> Values:
    return [shapes.splat(operands[0], operation.types[-1].shape)]


@_operation("tt.expand_dims")
def _expand_dims(site: KernelSite, operation: TtirOperation, operands: Values) -> Values:
    return [shapes.expand_dims(operands[0], _integer(operation, "axis"))]


@_operation("tt.broadcast")
def _broadcast(site: KernelSite, operation: TtirOperation, operands: Values) -> Values:
    return [shapes.broadcast(operands[0], operation.types[-1].shape)]


@_operation("tt.trans")
def _transpose(site: KernelSite, operation: TtirOperation, operands: Values) -> Values:
    order = operation.attributes.get("order", (1, 0))
    assert isinstance(order, tuple)
    return [site.shapes.transpose(operands[0], order)]


@_operation("tt.reshape")
def _reshape(site: KernelSite, operation: TtirOperation, operands: Values) -> Values:
    return [site.shapes.reshape(operands[0], operation.types[-1].shape)]


def _integer(operation: TtirOperation, name: str) -> int:
    value = operation.attributes.get(name)
    if not isinstance(value, int):
        raise UnsupportedOperation(f"no attribute '{name}'")
    return value


@_operation("tt.load")
def _load(site: KernelSite, operation: TtirOperation, operands: Values) -> Values:
    pointers, *rest = operands
    if not isinstance(pointers, Pointers):
        raise UnsupportedOperation(
            "a pointer that was loaded, or of a block; supported are those of arguments"
        )
    mask, other = [*rest, None, None][:2]
    return [site.memory.load(pointers, mask, other)]


@_operation("tt.store")
def _store(site: KernelSite, operation: TtirOperation, operands: Values) -> Values:
    pointers, value, *rest = operands
    if not isinstance(pointers, Pointers):
        raise UnsupportedOperation(
            "a pointer that was loaded, or of a block; supported are those of arguments"
        )
    site.memory.store(pointers, value, rest[0] if rest else None)
    return []


@_operation("tt.reduce")
def _reduce(site: KernelSite, operation: TtirOperation, operands: Values) -> Values:
    if len(operands) > 1:
        raise UnsupportedOperation(f"a reduction of {len(operands)} blocks at once; supported is one")
    (body,), axis = operation.regions, _integer(operation, "axis")
    single = body.operations[0].name if len(body.operations) == 2 else ""

    def combine(left: SpmBlock, right: SpmBlock) -> KernelValue:
        with site.within(operation):
            return site.run_block(body, (left, right))[0]

    return [site.reductions.reduce(operands[0], axis, single, combine)]


@_operation("tt.dot")
def _dot(site: KernelSite, operation: TtirOperation, operands: Values) -> Values:
    precision = str(operation.attributes.get("inputPrecision", "ieee"))
    left, right, start = operands
    return [site.products.dot(left, right, start, precision)]


_operation("scf.for")(control.for_loop)
_operation("scf.if")(control.condition)


@_operation("tt.return", "llvm.intr.assume")
def _nothing(site: KernelSite, operation: TtirOperation, operands: Values) -> Sequence[KernelValue]:
    return []
