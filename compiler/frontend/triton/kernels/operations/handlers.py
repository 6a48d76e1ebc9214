"""The operations of TTIR that are compiled, each with the function that writes it."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from compiler.frontend.triton.kernels.core.arithmetic import wrapped
from compiler.frontend.triton.kernels.core.nodes import any_shape, computed
from compiler.frontend.triton.kernels.engines import shapes
from compiler.frontend.triton.kernels.engines.elements import BINARY, COMPOSED, PROPAGATING, UNARY
from compiler.frontend.triton.kernels.integers import uniform
from compiler.frontend.triton.kernels.site import KernelSite
from compiler.frontend.triton.kernels.values import (
    ELEMENT_FORMATS,
    FLOAT_FORMATS,
    INTEGER_FORMATS,
    INTEGERS,
    TRUTH,
    Computed,
    Indices,
    KernelValue,
    Pointers,
    Region,
    Splat,
    SpmBlock,
    Steps,
    UnsupportedOperation,
    bits_of,
    everywhere,
    varies,
)
from compiler.frontend.triton.operations import TtirOperation, TtirType
from tx8isa.numbers.formats import Format

from . import combining, control, messages, rearranging
from .integers import data_value
from .registry import HANDLERS, Values, integer_attribute, operation

__all__ = ["HANDLERS", "combining", "control", "messages", "rearranging"]

# --- constants and places -----------------------------------------------------------------------------------


@operation("arith.constant")
def _constant(site: KernelSite, found: TtirOperation, operands: Values) -> Values:
    kind = found.types[-1]
    text = str(found.attributes.get("value", next(iter(found.words), "")))
    if kind.element == TRUTH:
        whole = everywhere(kind.shape)
        return [whole if text == "true" else replace(whole, conditions=((0, 0),))]
    if text.startswith("["):
        return [_listed(site, text, kind)]
    if kind.element in INTEGERS:
        if not re.fullmatch(r"-?\d+", text):
            raise UnsupportedOperation(f"a constant '{text[:40]}'; supported are integers and lists of them")
        return [uniform(int(text), kind.shape)]
    return [Splat(_float(text, kind), kind.element, kind.shape)]


def _listed(site: KernelSite, text: str, kind: TtirType) -> KernelValue:
    """Return a block of several numbers, from a constant in DDR."""
    if kind.element not in ("f32", "i32"):
        raise UnsupportedOperation(f"a list of numbers of {kind.element}; supported are f32, i32")
    fmt = ELEMENT_FORMATS[kind.element]
    numbers = [_float(each, kind) for each in re.findall(r"[^\[\], ]+", text)]
    if len(numbers) != math.prod(kind.shape):
        raise UnsupportedOperation(f"{len(numbers)} numbers for {kind}")
    array = np.array(numbers, np.float32 if fmt.is_float else np.int32)
    symbol = site.kernel.constant("list", fmt, array)
    made = site.blocks.empty(kind.element, fmt, kind.shape, [extent > 1 for extent in kind.shape])
    site.kernel.emit(f"rdma.{fmt.token}", dst=made.address, src=symbol, n=made.count)
    return made


def _float(text: str, kind: TtirType) -> float:
    """Read a number: decimal, or the bits of a float."""
    if kind.element in INTEGERS:
        return int(text)
    if kind.element not in FLOAT_FORMATS:
        raise UnsupportedOperation(f"floats of type {kind.element}; supported are {', '.join(FLOAT_FORMATS)}")
    if not text.startswith("0x"):
        return float(text)
    bits = int(text, 16)
    if kind.element == "bf16":
        bits <<= 16
    codes = ("<e", 2) if kind.element == "f16" else ("<f", 4)
    return float(struct.unpack(codes[0], bits.to_bytes(codes[1], "little"))[0])


@operation("tt.get_program_id", "tt.get_num_programs")
def _program(site: KernelSite, found: TtirOperation, operands: Values) -> Values:
    axis = "xyz".index(found.words[0])
    place = site.program if found.name == "tt.get_program_id" else site.grid
    return [Indices(place[axis])]


@operation("tt.make_range")
def _range(site: KernelSite, found: TtirOperation, operands: Values) -> Values:
    start = found.attributes["start"]
    assert isinstance(start, int)
    return [Indices(start, (Steps(1),), found.types[-1].shape)]


# --- floats -------------------------------------------------------------------------------------------------


def _binary(site: KernelSite, found: TtirOperation, operands: Values) -> Values:
    left, right = operands
    if found.name == "arith.divf":
        return [site.elements.divide(left, right, _element(found))]
    return [site.elements.binary(BINARY[found.name], left, right, _element(found))]


def _unary(site: KernelSite, found: TtirOperation, operands: Values) -> Values:
    return [site.elements.unary(UNARY[found.name], operands[0], _element(found))]


def _propagating(site: KernelSite, found: TtirOperation, operands: Values) -> Values:
    left, right = operands
    return [site.elements.propagating(PROPAGATING[found.name], left, right, _element(found))]


def _element(found: TtirOperation) -> str:
    element = found.types[-1].element
    if element not in FLOAT_FORMATS:
        raise UnsupportedOperation(f"floats of type {element}; supported are {', '.join(FLOAT_FORMATS)}")
    return element


def _composed(site: KernelSite, found: TtirOperation, operands: Values) -> Values:
    return [site.elements.composed(found.name, operands[0], _element(found))]


for _names, _handler in (
    (BINARY, _binary),
    (UNARY, _unary),
    (PROPAGATING, _propagating),
    (COMPOSED, _composed),
):
    for _name in _names:
        operation(_name)(_handler)


@operation("arith.remf")
def _float_remainder(site: KernelSite, found: TtirOperation, operands: Values) -> Values:
    """Compute it on the core in FP32, which holds the remainder of shorter numbers exactly."""
    wide = tuple(site.elements.in_format(site.blocks.data(value), Format.FP32) for value in operands)
    made = site.core.block(computed("remf", wide, "f32", "f32"), "f32")
    return [site.elements.cast(made, _element(found))]


@operation("math.fma")
def _multiply_and_add(site: KernelSite, found: TtirOperation, operands: Values) -> Values:
    """Write a product and a sum; the product is rounded first, as no engine instruction does both."""
    element, (left, right, added) = _element(found), operands
    return [site.elements.binary("add", site.elements.binary("mul", left, right, element), added, element)]


@operation("tt.clampf")
def _clamp(site: KernelSite, found: TtirOperation, operands: Values) -> Values:
    element, (value, low, high) = _element(found), operands
    larger = site.elements.binary("max", value, low, element)
    clamped = site.elements.binary("min", larger, high, element)
    if found.attributes.get("propagateNan") != "all":
        return [clamped]
    return [site.elements.select(site.elements.compare("uno", value, value), value, clamped)]


@operation("arith.cmpf")
def _compare_floats(site: KernelSite, found: TtirOperation, operands: Values) -> Values:
    left, right = operands
    return [site.elements.compare(found.words[0], left, right)]


@operation("arith.extf", "arith.truncf", "tt.fp_to_fp")
def _to_float(site: KernelSite, found: TtirOperation, operands: Values) -> Values:
    return [site.elements.cast(operands[0], found.types[-1].element, _rounding(found))]


def _rounding(found: TtirOperation) -> str:
    """Return the engine's name of the rounding of a conversion."""
    name = str(found.attributes.get("rounding", "rtne"))
    if name not in _ROUNDINGS:
        raise UnsupportedOperation(f"rounding '{name}'; supported are {', '.join(_ROUNDINGS)}")
    return _ROUNDINGS[name]


_ROUNDINGS = {"rtne": "rne", "rtz": "rtz"}


@operation("arith.sitofp", "arith.uitofp")
def _integer_to_float(site: KernelSite, found: TtirOperation, operands: Values) -> Values:
    """Write the operation for the engine if its rounding is the required one, else for the core."""
    (value,), source, target = operands, found.types[0].element, found.types[-1].element
    if source == TRUTH:
        if found.name == "arith.sitofp":
            raise UnsupportedOperation("truth values as numbers with a sign")
        return [site.elements.cast(value, target)]
    if isinstance(value, Indices) and site.elements.are_exact(value):
        return [site.elements.cast(value, target)]
    signed = found.name == "arith.sitofp"
    if signed and source != "i64" and not isinstance(value, Indices):
        return [site.elements.cast(value, target)]
    if not signed:
        value = data_value(site, computed("extui", (value,), "i64", source), "i64")
    return [site.elements.cast(site.core.block(computed("tofloat", (value,), "f32", "i64"), "f32"), target)]


@operation("arith.fptosi", "arith.fptoui")
def _to_integer(site: KernelSite, found: TtirOperation, operands: Values) -> Values:
    """Write the conversion for the engine, which rounds to zero, if it has the type, else for the core."""
    kind, (value,) = found.types[-1], operands
    if isinstance(value, Splat):
        if not math.isfinite(value.number):
            raise UnsupportedOperation(f"{value.number} as an integer")
        return [uniform(wrapped(int(value.number), bits_of(kind.element)), kind.shape)]
    data = site.blocks.data(value)
    fmt = INTEGER_FORMATS[kind.element]
    if found.name == "arith.fptosi" and fmt is not Format.INT64 and kind.shape:
        made = site.blocks.empty(kind.element, fmt, data.shape, data.stored, data.blocked)
        site.elements.convert(made, data, "rtz")
        return [made]
    wide = site.elements.in_format(data, Format.FP32)
    return [data_value(site, computed("tointeger", (wide,), kind.element, "f32"), kind.element)]


# --- shapes, memory, reductions, products, control ----------------------------------------------------------


@operation("tt.splat")
def _splat(site: KernelSite, found: TtirOperation, operands: Values) -> Values:
    return [shapes.splat(operands[0], found.types[-1].shape)]


@operation("tt.unsplat")
def _unsplat(site: KernelSite, found: TtirOperation, operands: Values) -> Values:
    """Return the only element of a block."""
    return [site.single(any_shape(operands[0], lambda each: shapes.splat(each, ())), found.types[-1].element)]


@operation("tt.expand_dims")
def _expand_dims(site: KernelSite, found: TtirOperation, operands: Values) -> Values:
    axis = integer_attribute(found, "axis")

    def expanded(value: KernelValue) -> KernelValue:
        in_rows = site.blocks.compact(value) if isinstance(value, SpmBlock) else value
        return shapes.expand_dims(in_rows, axis)

    return [any_shape(operands[0], expanded)]


@operation("tt.broadcast")
def _broadcast(site: KernelSite, found: TtirOperation, operands: Values) -> Values:
    return [any_shape(operands[0], lambda each: shapes.broadcast(each, found.types[-1].shape))]


@operation("tt.trans")
def _transpose(site: KernelSite, found: TtirOperation, operands: Values) -> Values:
    order = found.attributes.get("order", (1, 0))
    assert isinstance(order, tuple)
    return [any_shape(operands[0], lambda each: site.shapes.transpose(each, order))]


@operation("tt.reshape")
def _reshape(site: KernelSite, found: TtirOperation, operands: Values) -> Values:
    (value,), kind = operands, found.types[-1]
    if not isinstance(value, SpmBlock) and _long(value.shape) == _long(kind.shape):
        return [any_shape(value, lambda each: _with_unit_axes(site, each, kind.shape))]
    if isinstance(value, Computed | Indices | Region) and any(varies(value)):
        value = site.core.block(value, found.types[0].element)
    return [site.shapes.reshape(value, kind.shape)]


def _long(shape: tuple[int, ...]) -> list[int]:
    return [extent for extent in shape if extent > 1]


def _with_unit_axes(site: KernelSite, value: KernelValue, shape: tuple[int, ...]) -> KernelValue:
    in_rows = site.blocks.compact(value) if isinstance(value, SpmBlock) else value
    return shapes.with_unit_axes(in_rows, shape)


@operation("tt.load")
def _load(site: KernelSite, found: TtirOperation, operands: Values) -> Values:
    pointers, *rest = operands
    if not isinstance(pointers, Pointers):
        raise UnsupportedOperation(
            "a pointer that was loaded, or of a block; supported are those of arguments"
        )
    mask, other = [*rest, None, None][:2]
    return [site.access.load(pointers, mask, other)]


@operation("tt.store")
def _store(site: KernelSite, found: TtirOperation, operands: Values) -> Values:
    pointers, value, *rest = operands
    if not isinstance(pointers, Pointers):
        raise UnsupportedOperation(
            "a pointer that was loaded, or of a block; supported are those of arguments"
        )
    site.access.store(pointers, value, rest[0] if rest else None)
    return []


@operation("tt.dot")
def _dot(site: KernelSite, found: TtirOperation, operands: Values) -> Values:
    precision = str(found.attributes.get("inputPrecision", "ieee"))
    left, right, start = operands
    return [site.products.dot(left, right, start, found.types[-1].element, precision)]


@operation("tt.return", "llvm.intr.assume")
def _nothing(site: KernelSite, found: TtirOperation, operands: Values) -> Sequence[KernelValue]:
    return []
