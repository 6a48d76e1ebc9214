"""Families of vector instructions: one body gives the records of all forms (docs/isa.md, Vector forms)."""

from __future__ import annotations

from collections.abc import Callable

from .formats import FLOATS
from .meaning import Elementwise, Form
from .operands import count, format_suffix, linear, rounding, rule, scalar, spm
from .record import Engine, Instruction, Operand, register

Body = Callable[..., float]
Error = Callable[[float, float, float], float]

_SECOND = {
    Form.VV: "src1[i]",
    Form.VS: "the scalar whose raw bits stand in src1",
    Form.VUV: "src1[i mod unit]",
    Form.VUV_LOOP: "src1[(i div n)*unit + (i mod n) mod unit]",
}
_EXAMPLE = {
    Form.VV: "dst=0x30000, src0=0x10000, src1=0x20000, n=128",
    Form.VS: "dst=0x30000, src0=0x10000, src1=0x3c00, n=128",
    Form.VUV: "dst=0x30000, src0=0x10000, src1=0x20000, n=128, unit=32",
    Form.VUV_LOOP: "dst=0x30000, src0=0x10000, src1=0x20000, n=128, unit=64, full=384, full_unit=192",
}


@rule("n")
def _some(n: int) -> bool:
    """n must be at least 1"""
    return n >= 1


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


LOOP_RULES = (_some, _unit_is_64, _n_in_units, _full_in_groups, _full_unit_in_units, _same_groups)


def unary(opcode: int, evidence: str, *, single: bool = False) -> Callable[[Body], Body]:
    """Decorator: the V_V record of a body of one element."""

    def wrap(body: Body) -> Body:
        operands = (
            format_suffix(FLOATS),
            spm("dst", "dst0", "write", linear, "@format", "n"),
            spm("src0", "src0", "read", linear, "@format", "n"),
            count("n", "elem_count"),
        )
        name = body.__name__.rstrip("_")
        register(
            Instruction(
                Engine.CT, opcode, f"ct.{name}.v", operands, FLOATS,
                Elementwise(body, Form.V, single=single),
                f"{body.__doc__} dst[i] is the result for x = src0[i].",
                f"ct.{name}.v.fp16 dst=0x30000, src0=0x10000, n=128", evidence,
            )
        )  # fmt: skip
        return body

    return wrap


def binary(
    opcode: int, evidence: str, *, error: Error | None = None, single: bool = False
) -> Callable[[Body], Body]:
    """Decorator: the four records of a body of two elements, at opcode .. opcode + 3.

    ``error`` (sign of what the binary64 result leaves out) gives the records a rounding mode.
    """

    def wrap(body: Body) -> Body:
        name = body.__name__.rstrip("_")
        for step, form in enumerate((Form.VV, Form.VS, Form.VUV, Form.VUV_LOOP)):
            mnemonic = f"ct.{name}.{form.value}"
            register(
                Instruction(
                    Engine.CT, opcode + step, mnemonic, _binary_operands(form, error is not None), FLOATS,
                    Elementwise(body, form, error, single),
                    f"{body.__doc__} a = src0[i], b = {_SECOND[form]}.",
                    f"{mnemonic}.fp16 {_EXAMPLE[form]}", evidence,
                    LOOP_RULES if form is Form.VUV_LOOP else (),
                )
            )  # fmt: skip
        return body

    return wrap


def _binary_operands(form: Form, rounded: bool) -> tuple[Operand, ...]:
    total = "full" if form is Form.VUV_LOOP else "n"
    operands = [
        format_suffix(FLOATS),
        spm("dst", "dst0", "write", linear, "@format", total),
        spm("src0", "src0", "read", linear, "@format", total),
    ]
    if form is Form.VS:
        operands.append(scalar("src1", "src1"))
    else:
        length = {Form.VV: "n", Form.VUV: "unit", Form.VUV_LOOP: "full_unit"}[form]
        operands.append(spm("src1", "src1", "read", linear, "@format", length))
    operands.append(count("n", "elem_count"))
    if form in (Form.VUV, Form.VUV_LOOP):
        operands.append(count("unit", "unit_elem_count", 1, 64))
    if form is Form.VUV_LOOP:
        operands.append(count("full", "full_elem_count"))
        operands.append(count("full_unit", "full_unit_elem_count"))
    if rounded:
        operands.append(rounding())
    return tuple(operands)
