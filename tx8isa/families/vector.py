"""Families of vector instructions: one body makes the records of all forms (docs/isa.md, Vector forms)."""

from __future__ import annotations

from collections.abc import Callable

from tx8isa.numbers.formats import FLOATS
from tx8isa.numbers.limits import LARGEST_UNIT
from tx8isa.records.meaning import Bitwise, Elementwise, Form, Relation
from tx8isa.records.operands import count, format_suffix, linear, rounding, rule, scalar, spm
from tx8isa.records.record import Engine, Instruction, Operand, Work, register

Body = Callable[..., float]
Error = Callable[[float, float, float], float]
Condition = Callable[..., bool]
Bits = Callable[..., int]

_SECOND = {
    Form.VV: "src1[i]",
    Form.VS: "the scalar whose raw bits are in src1",
    Form.VUV: "src1[i mod unit]",
    Form.VUV_LOOP: "src1[(i div n)*unit + (i mod n) mod unit]",
}
_EXAMPLE = {
    Form.VV: "dst=0x30000, src0=0x10000, src1=0x20000, n=128",
    Form.VS: "dst=0x30000, src0=0x10000, src1=0x3c00, n=128",
    Form.VUV: "dst=0x30000, src0=0x10000, src1=0x20000, n=128, unit=32",
    Form.VUV_LOOP: "dst=0x30000, src0=0x10000, src1=0x20000, n=128, unit=64, full=384, full_unit=192",
}
_SECOND_LENGTH = {Form.VV: "n", Form.VUV: "unit", Form.VUV_LOOP: "full_unit"}
"""The operand that counts the elements of src1."""
_RELATION_ORDER = (
    (Form.VV, False),
    (Form.VV, True),
    (Form.VS, False),
    (Form.VS, True),
    (Form.VUV, False),
    (Form.VUV_LOOP, False),
    (Form.VUV, True),
    (Form.VUV_LOOP, True),
)
"""(form, whether the result is packed bits) in the order of the opcodes."""
_BEYOND = "bits of the last byte beyond the count keep their values"
_BIT_FORM = {Form.V: "bv", Form.VV: "bvbv", Form.VUV: "bvubv", Form.VUV_LOOP: "bvubv_loop"}
_BIT_SECOND = {
    Form.VV: "bit i of src1",
    Form.VUV: "bit i mod p of src1, where p is unit rounded up to 8, and 0 after the last whole p",
    Form.VUV_LOOP: "bit (i div n)*unit + (i mod n) mod unit of src1",
}


def packed_bits(n: int) -> int:
    """Bytes of n packed bits."""
    return (n + 7) >> 3


@rule("unit")
def _unit_is_64(unit: int) -> bool:
    """unit must be 64 in the loop form"""
    return unit == 64


@rule("n")
def _n_in_units(n: int) -> bool:
    """n must be a multiple of 64 in the loop form"""
    return n % 64 == 0


@rule("full", "n")
def _full_in_groups(full: int, n: int) -> bool:
    """full must be a multiple of n"""
    return full % n == 0


@rule("full_unit")
def _full_unit_in_units(full_unit: int) -> bool:
    """full_unit must be a multiple of 64"""
    return full_unit % 64 == 0


@rule("full", "full_unit", "n", "unit")
def _same_groups(full: int, full_unit: int, n: int, unit: int) -> bool:
    """full / n must equal full_unit / unit: one unit vector for each group"""
    return full * unit == full_unit * n


LOOP_RULES = (_unit_is_64, _n_in_units, _full_in_groups, _full_unit_in_units, _same_groups)


def unary(
    opcode: int,
    evidence: str,
    *,
    single: bool = False,
    usual: Body | None = None,
    seldom: float = 0.0,
    binary32: bool = False,
    exact: Callable[[float], bool] | None = None,
    work: Work = Work.ARITHMETIC,
) -> Callable[[Body], Body]:
    """Decorator: make the V_V record of a body of one element; see ``Elementwise``."""

    def wrap(body: Body) -> Body:
        name = body.__name__.rstrip("_")
        register(
            Instruction(
                Engine.CT,
                opcode,
                f"ct.{name}.v",
                _unary_operands(),
                FLOATS,
                Elementwise(body, Form.V, None, single, usual, seldom, binary32, exact),
                f"{body.__doc__} dst[i] is the result for x = src0[i].",
                f"ct.{name}.v.fp16 dst=0x30000, src0=0x10000, n=128",
                evidence,
                work=work,
            ),
            body.__module__,
        )
        return body

    return wrap


def binary(
    opcode: int,
    evidence: str,
    *,
    error: Error | None = None,
    single: bool = False,
    down: Body | None = None,
    work: Work = Work.ARITHMETIC,
) -> Callable[[Body], Body]:
    """Decorator: make the four records of a body of two elements, at opcode .. opcode + 3.

    ``error`` (sign of the rounding error of the binary64 result) gives the records a rounding mode; ``down``
    is the body for the mode ``rdn`` if it differs.
    """

    def wrap(body: Body) -> Body:
        name = body.__name__.rstrip("_")
        for step, form in enumerate((Form.VV, Form.VS, Form.VUV, Form.VUV_LOOP)):
            mnemonic = f"ct.{name}.{form.value}"
            register(
                Instruction(
                    Engine.CT,
                    opcode + step,
                    mnemonic,
                    _binary_operands(form, error is not None),
                    FLOATS,
                    Elementwise(body, form, error, single, down=down),
                    f"{body.__doc__} a = src0[i], b = {_SECOND[form]}.",
                    f"{mnemonic}.fp16 {_EXAMPLE[form]}",
                    evidence,
                    LOOP_RULES if form is Form.VUV_LOOP else (),
                    work,
                ),
                body.__module__,
            )
        return body

    return wrap


def relation(opcode: int, evidence: str) -> Callable[[Condition], Condition]:
    """Decorator: make the eight records of a condition on two elements, at opcode .. opcode + 7."""

    def wrap(holds: Condition) -> Condition:
        for step, (form, packed) in enumerate(_RELATION_ORDER):
            name = f"{holds.__name__}.bv" if packed else holds.__name__
            _condition(opcode + step, name, holds, form, packed, evidence)
        return holds

    return wrap


def truth(opcode: int, evidence: str) -> Callable[[Condition], Condition]:
    """Decorator: make the records of a condition on truth values; every element but the two zeros is true.

    A body of one parameter gets the V_V record, one of two V_VV at ``opcode``, V_VuV at + 3 and V_VuV_loop
    at + 6.
    """

    def wrap(holds: Condition) -> Condition:
        for step, form in _logic_forms(holds):
            _condition(opcode + step, holds.__name__.rstrip("_"), holds, form, False, evidence)
        return holds

    return wrap


def bitwise(opcode: int, name: str, evidence: str) -> Callable[[Bits], Bits]:
    """Decorator: make the records ``ct.<name>.bv...`` of a body on bit vectors, numbered as by ``truth``."""

    def wrap(body: Bits) -> Bits:
        for step, form in _logic_forms(body):
            mnemonic = f"ct.{name}.bv.{_BIT_FORM[form]}"
            operands, example = _bit_operands(form), "dst=0x30000, src0=0x10000, n=128"
            second = f", b = {_BIT_SECOND[form]}" if form is not Form.V else ""
            register(
                Instruction(
                    Engine.CT,
                    opcode + step,
                    mnemonic,
                    operands,
                    (),
                    Bitwise(body, form),
                    f"{body.__doc__} Bit i of dst is the result for a = bit i of src0{second}. "
                    f"Counts are in bits; {_BEYOND}.",
                    f"{mnemonic} {_EXAMPLE.get(form, example)}",
                    evidence,
                    LOOP_RULES if form is Form.VUV_LOOP else (),
                ),
                body.__module__,
            )
        return body

    return wrap


def _logic_forms(body: Callable[..., int]) -> tuple[tuple[int, Form], ...]:
    """Return (distance from the first opcode, form) for the records of a logic operation."""
    if body.__code__.co_argcount == 1:
        return ((0, Form.V),)
    return ((0, Form.VV), (3, Form.VUV), (6, Form.VUV_LOOP))


def _condition(opcode: int, name: str, holds: Condition, form: Form, packed: bool, evidence: str) -> None:
    """Register one form of a condition."""
    mnemonic = f"ct.{name}.{form.value}"
    result = "dst[i] is 1.0 if it holds, otherwise 0.0"
    if packed:
        result = f"bit i of dst is 1 if it holds, otherwise 0; {_BEYOND}"
    elements = "x = src0[i]" if form is Form.V else f"a = src0[i], b = {_SECOND[form]}"
    register(
        Instruction(
            Engine.CT,
            opcode,
            mnemonic,
            _condition_operands(form, packed),
            FLOATS,
            Relation(holds, form, packed),
            f"{holds.__doc__} {elements}; {result}.",
            f"{mnemonic}.fp16 {_EXAMPLE.get(form, 'dst=0x30000, src0=0x10000, n=128')}",
            evidence,
            LOOP_RULES if form is Form.VUV_LOOP else (),
        ),
        holds.__module__,
    )


def _condition_operands(form: Form, packed: bool) -> tuple[Operand, ...]:
    if form is Form.V:
        return _unary_operands()
    first, target, *others = _binary_operands(form, False)
    if packed:
        target = spm("dst", "dst0", "write", packed_bits, _total(form))
    return (first, target, *others)


def _bit_operands(form: Form) -> tuple[Operand, ...]:
    operands = [
        spm("dst", "dst0", "write", packed_bits, _total(form)),
        spm("src0", "src0", "read", packed_bits, _total(form)),
    ]
    if form is not Form.V:
        operands.append(spm("src1", "src1", "read", packed_bits, _SECOND_LENGTH[form]))
    return (*operands, *_counts(form))


def _unary_operands() -> tuple[Operand, ...]:
    return (
        format_suffix(FLOATS),
        spm("dst", "dst0", "write", linear, "@format", "n"),
        spm("src0", "src0", "read", linear, "@format", "n"),
        count("n", "elem_count"),
    )


def _binary_operands(form: Form, rounded: bool) -> tuple[Operand, ...]:
    operands = [
        format_suffix(FLOATS),
        spm("dst", "dst0", "write", linear, "@format", _total(form)),
        spm("src0", "src0", "read", linear, "@format", _total(form)),
    ]
    if form is Form.VS:
        operands.append(scalar("src1", "src1"))
    else:
        operands.append(spm("src1", "src1", "read", linear, "@format", _SECOND_LENGTH[form]))
    operands += _counts(form)
    if rounded:
        operands.append(rounding())
    return tuple(operands)


def _total(form: Form) -> str:
    """The operand that counts the elements of the result."""
    return "full" if form is Form.VUV_LOOP else "n"


def _counts(form: Form) -> list[Operand]:
    operands = [count("n", "elem_count")]
    if form in (Form.VUV, Form.VUV_LOOP):
        operands.append(count("unit", "unit_elem_count", 1, LARGEST_UNIT))
    if form is Form.VUV_LOOP:
        operands.append(count("full", "full_elem_count"))
        operands.append(count("full_unit", "full_unit_elem_count"))
    return operands
