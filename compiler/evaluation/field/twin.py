"""The twin of a graph: the same nodes with constants that are exact in every format.

Programs store a constant rounded to some format, and multiply factors into it. In a field the rounded number
is a different one. So a proof is about the twin, whose constants and products are never rounded; its program
has the same instructions.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

import numpy as np

from compiler.graph import FLOATS, Array, AttrValue, Graph, Node
from compiler.operators import OPERATORS, call_of, is_known
from compiler.operators.boxes.forms import elementwise
from compiler.operators.linear.attention import HIDES
from tx8isa.numbers.formats import MANTISSA_BITS, Format

_LARGEST = 2.0**12
"""Constants with larger numbers are masks."""
_BITS = 8
"""Most digits of a constant: sums of a thousand products with shifts still have all digits in FP32."""


def twin_of(graph: Graph, compute: Format, factors: Collection[float] = ()) -> Graph:
    """The graph with short constants, and with powers of two as factors; ``compute`` is its format.

    ``factors``: numbers that rewrites make factors of nodes, such as the scale of attention, if single
    constants have them.
    """
    bits = min(_BITS, MANTISSA_BITS[Format.TF32 if compute is Format.FP32 else compute])
    scales = row_scales(graph)
    shifts = {
        node.inputs[2] for node in graph.nodes if OPERATORS[node.op].normalization and len(node.inputs) > 2
    }
    single = {name for name, array in graph.constants.items() if _is_one_of(array, factors)}
    powers, held = byte_scales(graph) | single, held_constants(graph)
    constants = {}
    for name, array in graph.constants.items():
        if name in scales:
            constants[name] = _as_scale(array, scales[name])
        elif name in powers:
            constants[name] = _as_factors(array)
        elif name in shifts:
            constants[name] = _as_powers(array)
        elif name not in held:
            constants[name] = _shortened(array, bits)
        else:
            constants[name] = array
    single = {name for name, array in constants.items() if name in powers and array.size < 2}
    factors_, stored = ({n: a for n, a in constants.items() if (n in single) is of} for of in (True, False))
    constants = _told_apart(graph.constants, stored) | _powers_apart(graph.constants, factors_)
    return replace(graph, constants=constants, nodes=tuple(map(_with_short_factors, graph.nodes)))


def part_of_twin(graph: Graph, twin: Callable[[Graph], Graph], whole: Graph, twin_of_whole: Graph) -> Graph:
    """The twin of a graph at some sizes, of which ``whole`` is the largest.

    A constant that is a corner of a larger one there has a corner of its twin, too, because the program
    stores one for all sizes.
    """
    found = twin(graph)
    parts = dict[str, Array]()
    for name, array in graph.constants.items():
        larger, corner = whole.constants.get(name), tuple(map(slice, array.shape))
        if larger is None or larger.shape == array.shape or larger.ndim != array.ndim:
            continue
        if np.array_equal(larger[corner], array):
            parts[name] = twin_of_whole.constants[name][corner]
    return replace(found, constants={**found.constants, **parts})


def _is_one_of(array: Array, numbers: Collection[float]) -> bool:
    """True if a constant is one of some numbers of FP32."""
    return array.size == 1 and array.dtype.name in FLOATS and float(np.float32(array.item())) in numbers


def held_constants(graph: Graph) -> set[str]:
    """The single numbers that instructions may hold, or that must be known when compiling."""
    return {
        name
        for node in graph.nodes
        for at, name in enumerate(node.inputs)
        if name in graph.constants and graph.constants[name].size < 2
        if holds_numbers(node) or is_known(node, at)
    } | {tensor.name for tensor in graph.outputs}


def holds_numbers(node: Node) -> bool:
    """True if instructions of an operator hold a constant of one element; other programs store it."""
    operator = OPERATORS[node.op]
    return operator.needs is elementwise and not operator.moves


def row_scales(graph: Graph) -> dict[str, int]:
    """Constants that scale normalized rows, which weights may take over, with the length of a row."""
    found = dict[str, int]()
    for node in graph.nodes:
        normalization = OPERATORS[node.op].normalization
        if normalization is not None and node.inputs[1] in graph.constants:
            shape = graph.tensors[node.inputs[0]].shape
            found[node.inputs[1]] = math.prod(
                shape[axis] for axis in normalization.axes(call_of(graph, node))
            )
    return found


def byte_scales(graph: Graph) -> set[str]:
    """Constants by which bytes are multiplied, or floats divided that become bytes."""
    return {
        node.inputs[at]
        for node in graph.nodes
        for at, operand in enumerate(OPERATORS[node.op].inputs[: len(node.inputs)])
        if operand.factor and node.inputs[at] in graph.constants
    }


_OF_SUM = ("a_scale", "b_scale", "y_scale")
"""The attributes of a sum of bytes that are scales."""


def _as_factors(array: Array) -> Array:
    """Powers of two beside the numbers; 1 only for 1, and one for all only where one number was for all."""
    if not array.size:
        return array
    powers = np.vectorize(_power_beside, otypes=[array.dtype])(array)
    if powers.min() == powers.max():
        powers = np.where(array < array.mean(dtype=np.float64), powers / 2, powers).astype(array.dtype)
    return np.asarray(powers)


def _as_powers(array: Array) -> Array:
    """Powers of two near the numbers, from 1/8 to 1: sums of products with them get few more digits."""
    values = array.astype(np.float64)
    exponents = np.rint(np.log2(np.maximum(np.abs(values), 2.0**-3)))
    powers = np.copysign(np.exp2(np.minimum(exponents, 0.0)), values)
    return np.asarray(np.where(values == 0.0, values, powers)).astype(array.dtype)


def _as_scale(array: Array, count: int) -> Array:
    """Powers of two over the root of the length of rows, which is divided by the nearest power of two.

    Lowerings multiply the root of the length, or of the length over the next power of two, into the scale,
    and the scale into weights. The product is a power of two, or such a root.
    """
    root = math.sqrt(count * 2.0 ** -round(math.log2(count)))
    return np.asarray(_as_powers(array).astype(np.float64) / root).astype(array.dtype)


def _shortened(array: Array, bits: int) -> Array:
    """Round a constant to whole multiples of a power of two, at most 2**bits of them, and none to zero.

    Numbers that hide keys become infinities in a constant with only such numbers and zeros.
    """
    if array.dtype.name not in FLOATS or not array.size:
        return array
    values = array.astype(np.float64)
    largest = float(np.abs(values).max())
    if not 0.0 < largest < _LARGEST:
        hidden = values <= HIDES
        is_mask = bool(np.all(hidden | (values == 0.0)))
        return np.where(hidden, np.array(-np.inf, array.dtype), array) if is_mask else array
    unit = math.ldexp(1.0, math.frexp(largest)[1] - bits)
    whole = np.rint(values / unit)
    whole = np.where((whole == 0.0) & (values != 0.0), np.copysign(1.0, values), whole)
    return np.asarray(whole * unit).astype(array.dtype)


def _told_apart(given: Mapping[str, Array], short: Mapping[str, Array]) -> dict[str, Array]:
    """Make short constants differ where the given ones do, because programs store equal constants once."""
    owners = dict[object, object]()
    found = dict[str, Array]()
    for name in sorted(short, key=lambda each: short[each] is not given[each]):
        array, owner, times = short[name], _key(given[name]), 0
        while owners.setdefault(_key(array), owner) != owner:
            array, times = _halved(short[name], times), times + 1
        found[name] = array
    return {name: found[name] for name in short}


def _powers_apart(given: Mapping[str, Array], powers: Mapping[str, Array]) -> dict[str, Array]:
    """Make powers of two differ where the given numbers do; none becomes 1, a factor without instructions."""
    owners, found = dict[float, object](), dict[str, Array]()
    for name, array in powers.items():
        if not array.size:
            found[name] = array
            continue
        owner, nearest = _key(given[name]), float(array.item())
        near = (nearest * 2.0**step for far in itertools.count() for step in dict.fromkeys((-far, far)))
        usable = (each for each in near if each != 1.0 or nearest == 1.0)
        value = next(each for each in usable if owners.setdefault(each, owner) == owner)
        found[name] = np.full_like(array, value)
    return found


def _key(array: Array) -> object:
    return array.dtype.str, array.shape, array.tobytes()


def _halved(array: Array, number: int) -> Array:
    """An array with one element halved, which is exact in every format; the element depends on the number."""
    flat = array.flatten()
    places = np.flatnonzero(flat)
    flat[places[number % places.size]] /= 2.0 ** (number // places.size + 1)
    return flat.reshape(array.shape)


def _with_short_factors(node: Node) -> Node:
    short: dict[str, AttrValue] = dict(_short_sum(node)) if _sums_bytes(node) else {}
    for name in _factors(node):
        value = node.attrs.get(name)
        if isinstance(value, int | float) and value:
            short[name] = math.copysign(_power_beside(abs(value)), value)
    return replace(node, attrs={**node.attrs, **short}) if short else node


def _sums_bytes(node: Node) -> bool:
    return all(name in node.attrs for name in _OF_SUM)


def _short_sum(node: Node) -> dict[str, float]:
    """Scales of a sum of bytes: three or six times a power of two that is the scale of the result.

    Code holds their quotients, and sums of these with zero points. The matrix engine multiplies by whole
    numbers of nine bits, such as 384.
    """
    a, b, y = (float(node.attrs[name]) for name in _OF_SUM)  # type: ignore[arg-type]
    unit = _power_beside(y)
    left, right = 6.0 if a > b else 3.0, 6.0 if b > a else 3.0
    return {"a_scale": left * unit, "b_scale": right * unit, "y_scale": unit}


def _factors(node: Node) -> list[str]:
    """The attributes by which instructions or constants are multiplied, but for scales of a sum of bytes."""
    operator = OPERATORS.get(node.op)
    if operator is None or _sums_bytes(node):
        return []
    return [each.name for each in operator.attributes if each.factor]


def long_factors(graph: Graph) -> dict[float, Node]:
    """The factors of nodes that are no powers of two, so that weights with them are rounded; as numbers of
    FP32, with a node of each."""
    factors = ((node.attrs.get(name), node) for node in graph.nodes for name in _factors(node))
    return {
        float(np.float32(value)): node
        for value, node in factors
        if isinstance(value, int | float) and value and abs(math.frexp(value)[0]) != 0.5
    }


def _power_beside(value: float) -> float:
    """A power of two near a number; 1 only for 1, because a factor of 1 has no instruction."""
    exponent = round(math.log2(value)) or (value > 1.0) - (value < 1.0)
    return math.ldexp(1.0, exponent)


def factors_of(graph: Graph, twin: Graph) -> dict[float, float] | None:
    """The twin's number for each factor and each single constant that it changes, as numbers of FP32.

    None where bytes have other scales: code holds any numbers that follow from these.
    """
    if byte_scales(graph) or any(map(_sums_bytes, graph.nodes)):
        return None
    found = {
        float(np.float32(array.item())): float(np.float32(twin.constants[name].item()))
        for name, array in graph.constants.items()
        if array.size == 1 and array.dtype.name in FLOATS and name in twin.constants
        if array.item() != twin.constants[name].item()
    }
    for before, after in zip(graph.nodes, twin.nodes, strict=True):
        for name in _factors(after):
            if after.attrs.get(name) != before.attrs.get(name):
                given, short = before.attrs[name], after.attrs[name]
                assert isinstance(given, int | float) and isinstance(short, int | float)
                found[float(np.float32(given))] = float(np.float32(short))
    return found
