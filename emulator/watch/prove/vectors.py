"""Vector instructions in the field."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from tx8isa.insns.ct.activation import LEAKY_SLOPE, SATRELU_LIMIT
from tx8isa.numbers.formats import Format
from tx8isa.numbers.keyed_order import RELATIONS
from tx8isa.numbers.packing import stored_numbers
from tx8isa.numbers.prime_field import Elements, PrimeField
from tx8isa.records.meaning import Bitwise, Convert, Elementwise, Form, MaskedCopy, Relation, Unpack

from .memory import Places
from .step import FieldStep, NotFollowed

_HIDDEN = -30000.0
"""Programs of attention replace lower numbers of a mask by it, because powers of both are 0."""

Unary = Callable[[PrimeField, Elements], Elements]
Binary = Callable[[PrimeField, Elements, Elements], Elements]


def _constant(field: PrimeField, value: float, like: Elements) -> Elements:
    """Return a number in a shape that broadcasts to elements."""
    return field.of_scalars(np.asarray(value), Format.FP32).reshape(-1, *(1,) * (like.ndim - 1))


def _rectified(field: PrimeField, x: Elements) -> Elements:
    return field.larger(x, _constant(field, 0.0, x))


def _saturated(field: PrimeField, x: Elements) -> Elements:
    return field.larger(_rectified(field, x), _constant(field, SATRELU_LIMIT, x), -1)


def _leaky(field: PrimeField, x: Elements) -> Elements:
    zero = _constant(field, 0.0, x)
    below = field.multiply(field.larger(x, zero, -1), _constant(field, LEAKY_SLOPE, x))
    return field.add(field.larger(x, zero), below)


_UNARY: dict[str, Unary] = {
    "abs": lambda field, x: field.subtract(field.larger(x, -x), np.zeros_like(x)),
    "recip": PrimeField.inverse,
    "square": lambda field, x: field.multiply(x, x),
    "sqrt": PrimeField.sqrt,
    "rsqrt": lambda field, x: field.inverse(field.sqrt(x)),
    "neg": lambda field, x: -x,
    "exp": PrimeField.exp,
    "exp_lp": PrimeField.exp,
    "pow2": PrimeField.pow2,
    "log2": PrimeField.log2,
    "relu": _rectified,
    "satrelu": _saturated,
    "leakyrelu": _leaky,
}
"""Functions with algebraic laws; any other one is a hash that depends on its name."""
_BINARY: dict[str, Binary] = {
    "max": PrimeField.larger,
    "min": lambda field, a, b: field.larger(a, b, -1),
    "add": PrimeField.add,
    "sub": PrimeField.subtract,
    "mul": PrimeField.multiply,
    "div": lambda field, a, b: field.multiply(a, field.inverse(b)),
}


def applied(field: PrimeField, name: str, *operands: Elements) -> Elements:
    """Apply a function of a record by its name: ``add``, ``exp``, ``tanh``."""
    if len(operands) == 2:
        return _BINARY[name](field, *operands)
    (x,) = operands
    return _UNARY[name](field, x) if name in _UNARY else field.hashed(name, x)


def _second(step: FieldStep, form: Form, count: int) -> Places:
    """Return the places of the second operand."""
    at, values = np.arange(count), step.values
    if form is Form.VUV:
        at = at % values["unit"]
    elif form is Form.VUV_LOOP:
        at = at // values["n"] * values["unit"] + at % values["n"] % values["unit"]
    return values["src1"] + at * step.size


def _operands(step: FieldStep, form: Form, count: int, literals: bool = False) -> list[Elements] | None:
    """Return the operands as elements; None if all are literals, unless ``literals`` is set."""
    places = [step.vector("src0", count)]
    if form not in (Form.V, Form.VS):
        places.append(_second(step, form, count))
    if step.literal(*places) and not literals:
        return None
    operands = [step.read(each) for each in places]
    return [*operands, _held(step)] if form is Form.VS else operands


def _held(step: FieldStep) -> Elements:
    """The number that an instruction holds; the least number of masks hides as an infinity does."""
    number = step.scalar("src1")
    pattern = np.array([step.values["src1"] & (1 << step.form.bits) - 1])
    is_hidden = _name(step) == "max" and bool(stored_numbers(pattern, step.form)[0] == _HIDDEN)
    return np.full_like(number, -np.inf) if is_hidden else number


def _name(step: FieldStep) -> str:
    """The function of an instruction: ``add``, ``max``, ``ge``."""
    return step.instruction.mnemonic.split(".")[1]


def _count(step: FieldStep, form: Form) -> int:
    return step.values["full" if form is Form.VUV_LOOP else "n"]


def elementwise(step: FieldStep) -> None:
    """Execute a function; literals give literals if the result is exact: 0 + 1, but not the sigmoid of 0."""
    form = step.meaning.form
    count = _count(step, form)
    result, name = step.vector("dst", count), _name(step)
    operands = _operands(step, form, count)
    if operands is not None:
        step.write(result, applied(step.field, name, *operands))
        return
    given = _operands(step, form, count, step.form.is_float)
    step.spm.clear_places(result, step.size)
    if given is not None:
        step.computed = result, applied(step.field, name, *given), step.form


def settle(step: FieldStep) -> None:
    """Make results of literals elements where the executed instruction has stored other numbers."""
    assert step.computed is not None
    places, elements, fmt = step.computed
    field, real = step.field, step.read(places, fmt)
    other = (field.canonical(real) != field.canonical(elements)).any(0)
    other &= ~np.isnan(real + elements).any(0)
    if other.any():
        step.write(places[other], elements[:, other], fmt)


def relation(step: FieldStep) -> None:
    """Execute a relation: 1 or 0 by the keyed order, or by real numbers where these decide."""
    form = step.meaning.form
    count = _count(step, form)
    operands = _operands(step, form, count)
    step.decided = step.finds and operands is not None
    if step.meaning.packed:
        step.spm.clear(step.values["dst"], -(-count // 8))
        if operands is not None and not step.finds:
            raise NotFollowed("packed bits of a condition on elements")
        return
    result, name = step.vector("dst", count), _name(step)
    if step.finds:
        step.spm.clear_places(result, step.size)
        return
    if operands is not None:
        step.write(result, holds(step.field, name, operands))
        return
    given = _operands(step, form, count, step.form.is_float)
    step.spm.clear_places(result, step.size)
    if given is not None:
        step.computed = result, holds(step.field, name, given), step.form


_LOGIC: dict[str, Callable[..., npt.NDArray[np.bool_]]] = {
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
    "not": np.logical_not,
}


def holds(field: PrimeField, name: str, operands: list[Elements]) -> Elements:
    """Evaluate a relation of elements, or of their truth, to 1 or 0."""
    if name in RELATIONS:
        return field.holds(name, *operands)
    if name not in _LOGIC:
        raise NotFollowed(f"the condition {name} on elements")
    found = _LOGIC[name](*map(field.truth, operands)).astype(np.float64)
    unknown = np.logical_or.reduce([np.broadcast_to(np.isnan(x), found.shape) for x in operands])
    return np.where(unknown, np.nan, found)


def convert(step: FieldStep) -> None:
    """Execute a conversion; between float formats it changes nothing, to bytes it limits numbers.

    Rounding to longer integers is a hash that keeps integers, with the mode of rounding as key.
    """
    source, target = step.meaning.source, step.meaning.target
    count = step.values["n"]
    places = step.values["src0"] + np.arange(count) * (source.bits // 8)
    result = step.values["dst"] + np.arange(count) * (target.bits // 8)
    if step.literal(places):
        if target.is_float or target is Format.INT8:
            step.computed = result, step.read(places, source), target
        step.spm.clear_places(result, target.bits // 8)
        return
    elements = step.read(places, source)
    if step.meaning.zero_point and step.values["zero"]:
        elements = step.field.subtract(elements, _constant(step.field, step.values["zero"], elements))
    if source.is_float and target is Format.INT8:
        elements = step.field.limited(elements)
    elif source.is_float and not target.is_float:
        elements = step.field.whole(elements, step.values.get("rnd", 0))
    step.write(result, elements, target)


def masked_copy(step: FieldStep) -> None:
    count = step.values["n"]
    source, mask, result = (step.vector(name, count) for name in ("src0", "src1", "dst"))
    if not step.literal(mask):
        given = step.read(mask)
        found = np.where(step.field.truth(given), step.read(source), step.read(result))
        step.write(result, np.where(np.isnan(given), np.nan, found))
        return
    chosen = step.spm.patterns(mask, step.form) << 1 & (1 << step.form.bits) - 1 != 0
    if step.literal(source[chosen]):
        step.spm.clear_places(result[chosen], step.size)
    else:
        step.write(result[chosen], step.read(source[chosen]))


def unpack(step: FieldStep) -> None:
    """Bits are literals."""
    step.spm.clear_places(step.vector("dst", step.values["n"]), step.size)


def bitwise(step: FieldStep) -> None:
    """Packed bits are literals; the highest bits of whole bytes can be inverted, and the lowest of FP16
    numbers cleared, which rounds them."""
    form = step.meaning.form
    bits = _count(step, form)
    count = -(-bits // 8)
    operands = [step.vector("src0", count, 1)]
    if form is not Form.V:
        repeated = {Form.VV: "n", Form.VUV: "unit", Form.VUV_LOOP: "full_unit"}[form]
        operands.append(step.vector("src1", -(-step.values[repeated] // 8), 1))
    if step.literal(*operands):
        step.spm.clear(step.values["dst"], count)
    elif form is Form.VUV and _name(step) == "xor" and bits % 8 == 0 and _has_signs(step, operands[1]):
        step.write(step.vector("dst", count, 1), step.read(operands[0], Format.INT8), Format.UINT8)
    elif form is Form.VUV and _name(step) == "and" and bits % 16 == 0 and _clears_last(step, operands[1]):
        places = step.vector("dst", count // 2, 2)
        step.write(places, step.read(step.vector("src0", count // 2, 2), Format.FP16), Format.FP16)
    else:
        raise NotFollowed("bits of elements")


def _has_signs(step: FieldStep, places: Places) -> bool:
    """True for a byte with its highest bit alone."""
    return places.size == 1 and step.literal(places) and bool(step.spm.data[places[0]] == 0x80)


def _clears_last(step: FieldStep, places: Places) -> bool:
    """True for words of 16 bits without their lowest bit."""
    words = places.size % 2 == 0 and step.literal(places)
    return words and bool((step.spm.data[places].reshape(-1, 2) == (0xFE, 0xFF)).all())


RULES: dict[type, Callable[[FieldStep], None]] = {
    Elementwise: elementwise,
    Relation: relation,
    Convert: convert,
    MaskedCopy: masked_copy,
    Unpack: unpack,
    Bitwise: bitwise,
}
