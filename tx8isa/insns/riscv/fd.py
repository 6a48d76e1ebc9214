"""Instructions common to F and D; each definition makes one for single and one for double precision.

Source: RISC-V manual, volume I, chapters "F" and "D" (spec). A body uses the names ``FORM``, ``opened`` and
``closed``. In this module they are bound to double precision; ``instructions_of`` binds them to another
precision in a copy of the function.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any, NamedTuple

from tx8isa.numbers.primitives import s64
from tx8isa.riscv.float_arithmetic import (
    DOUBLE,
    Form,
    classify,
    divide,
    equal,
    fused,
    larger,
    less,
    less_or_equal,
    multiply,
    one,
    sign_bit,
    smaller,
    square_root,
)
from tx8isa.riscv.float_convert import INT32, INT64, UINT32, UINT64, from_integer, to_integer
from tx8isa.riscv.format import Scalar, scalar

Body = Callable[..., Any]

FORM = DOUBLE
opened = s64


def closed(result: tuple[int, int]) -> tuple[int, int]:
    """A binary64 fills an f register."""
    return result


@dataclass(frozen=True, slots=True)
class Width:
    """One of the two precisions: values for the placeholders and the names of a definition."""

    letter: str
    """Placeholder ``{w}``: the end of a mnemonic."""
    code: str
    """Placeholder ``{fmt}``: the two bits of the encoding."""
    number: str
    """Placeholder ``{number}``: the manual's name for a number of this format."""
    FORM: Form
    opened: Callable[[int], int]
    """The pattern in an f register."""
    closed: Callable[[tuple[int, int]], tuple[int, int]]
    """(pattern, flags) with the pattern as an f register holds it."""

    def fill(self, text: str) -> str:
        """Fill the placeholders in a text of a definition."""
        return text.format(w=self.letter, fmt=self.code, number=self.number)


class _Definition(NamedTuple):
    syntax: str
    pattern: str
    example: str
    body: Body


_DEFINITIONS: list[_Definition] = []


def instructions_of(width: Width, module: str) -> tuple[Scalar, ...]:
    """Make the records of one precision; the manual lists them under ``module``."""
    return tuple(
        scalar(width.fill(syntax), width.fill(pattern), example=width.fill(example), kind="float")(
            _bound(body, width, module)
        )
        for syntax, pattern, example, body in _DEFINITIONS
    )


def _bound(body: Body, width: Width, module: str) -> Body:
    """Copy the body with the names of ``width`` as globals; callers could not inline a closure."""
    names = {"FORM": width.FORM, "opened": width.opened, "closed": width.closed, "__name__": module}
    made = FunctionType(body.__code__, {**body.__globals__, **names}, body.__name__)
    made.__doc__ = width.fill(body.__doc__ or "")
    return made


def _both(syntax: str, pattern: str, example: str) -> Callable[[Body], Body]:
    """Decorator: define an operation of both precisions, with texts as for ``scalar`` and ``Width``."""

    def define(body: Body) -> Body:
        _DEFINITIONS.append(_Definition(syntax, pattern, example, body))
        return body

    return define


@_both("fmadd.{w} rd, rs1, rs2, rs3, rm", "fs3 {fmt} fs2 fs1 rm fd 1000011", "fmadd.{w} fa0, fa1, fa2, fa3")
def fmadd(a: int, b: int, c: int, rm: int) -> tuple[int, int]:
    """rs1 * rs2 + rs3, rounded once."""
    return closed(fused(opened(a), opened(b), opened(c), rm, FORM))


@_both("fmsub.{w} rd, rs1, rs2, rs3, rm", "fs3 {fmt} fs2 fs1 rm fd 1000111", "fmsub.{w} fa0, fa1, fa2, fa3")
def fmsub(a: int, b: int, c: int, rm: int) -> tuple[int, int]:
    """rs1 * rs2 - rs3, rounded once."""
    return closed(fused(opened(a), opened(b), opened(c) ^ sign_bit(FORM), rm, FORM))


@_both("fnmsub.{w} rd, rs1, rs2, rs3, rm", "fs3 {fmt} fs2 fs1 rm fd 1001011", "fnmsub.{w} fa0, fa1, fa2, fa3")
def fnmsub(a: int, b: int, c: int, rm: int) -> tuple[int, int]:
    """-(rs1 * rs2) + rs3, rounded once."""
    return closed(fused(opened(a) ^ sign_bit(FORM), opened(b), opened(c), rm, FORM))


@_both("fnmadd.{w} rd, rs1, rs2, rs3, rm", "fs3 {fmt} fs2 fs1 rm fd 1001111", "fnmadd.{w} fa0, fa1, fa2, fa3")
def fnmadd(a: int, b: int, c: int, rm: int) -> tuple[int, int]:
    """-(rs1 * rs2) - rs3, rounded once."""
    return closed(fused(opened(a) ^ sign_bit(FORM), opened(b), opened(c) ^ sign_bit(FORM), rm, FORM))


@_both("fadd.{w} rd, rs1, rs2, rm", "00000{fmt} fs2 fs1 rm fd 1010011", "fadd.{w} fa0, fa1, fa2")
def fadd(a: int, b: int, rm: int) -> tuple[int, int]:
    """rs1 + rs2."""
    return closed(fused(opened(a), one(FORM), opened(b), rm, FORM))


@_both("fsub.{w} rd, rs1, rs2, rm", "00001{fmt} fs2 fs1 rm fd 1010011", "fsub.{w} fa0, fa1, fa2")
def fsub(a: int, b: int, rm: int) -> tuple[int, int]:
    """rs1 - rs2."""
    return closed(fused(opened(a), one(FORM), opened(b) ^ sign_bit(FORM), rm, FORM))


@_both("fmul.{w} rd, rs1, rs2, rm", "00010{fmt} fs2 fs1 rm fd 1010011", "fmul.{w} fa0, fa1, fa2")
def fmul(a: int, b: int, rm: int) -> tuple[int, int]:
    """rs1 * rs2."""
    return closed(multiply(opened(a), opened(b), rm, FORM))


@_both("fdiv.{w} rd, rs1, rs2, rm", "00011{fmt} fs2 fs1 rm fd 1010011", "fdiv.{w} fa0, fa1, fa2")
def fdiv(a: int, b: int, rm: int) -> tuple[int, int]:
    """rs1 / rs2."""
    return closed(divide(opened(a), opened(b), rm, FORM))


@_both("fsqrt.{w} rd, rs1, rm", "01011{fmt} 00000 fs1 rm fd 1010011", "fsqrt.{w} fa0, fa1")
def fsqrt(a: int, rm: int) -> tuple[int, int]:
    """Square root of rs1."""
    return closed(square_root(opened(a), rm, FORM))


@_both("fsgnj.{w} rd, rs1, rs2", "00100{fmt} fs2 fs1 000 fd 1010011", "fsgnj.{w} fa0, fa1, fa2")
def fsgnj(a: int, b: int) -> tuple[int, int]:
    """rs1 with the sign of rs2."""
    return closed((opened(a) & ~sign_bit(FORM) | opened(b) & sign_bit(FORM), 0))


@_both("fsgnjn.{w} rd, rs1, rs2", "00100{fmt} fs2 fs1 001 fd 1010011", "fsgnjn.{w} fa0, fa1, fa2")
def fsgnjn(a: int, b: int) -> tuple[int, int]:
    """rs1 with the opposite sign of rs2."""
    return closed((opened(a) & ~sign_bit(FORM) | ~opened(b) & sign_bit(FORM), 0))


@_both("fsgnjx.{w} rd, rs1, rs2", "00100{fmt} fs2 fs1 010 fd 1010011", "fsgnjx.{w} fa0, fa1, fa2")
def fsgnjx(a: int, b: int) -> tuple[int, int]:
    """rs1 with the sign of rs1 times that of rs2."""
    return closed((opened(a) ^ opened(b) & sign_bit(FORM), 0))


@_both("fmin.{w} rd, rs1, rs2", "00101{fmt} fs2 fs1 000 fd 1010011", "fmin.{w} fa0, fa1, fa2")
def fmin(a: int, b: int) -> tuple[int, int]:
    """The smaller of rs1 and rs2; the other operand if one is NaN; -0 counts as below +0."""
    return closed(smaller(opened(a), opened(b), FORM))


@_both("fmax.{w} rd, rs1, rs2", "00101{fmt} fs2 fs1 001 fd 1010011", "fmax.{w} fa0, fa1, fa2")
def fmax(a: int, b: int) -> tuple[int, int]:
    """The larger of rs1 and rs2; the other operand if one is NaN; +0 counts as above -0."""
    return closed(larger(opened(a), opened(b), FORM))


@_both("feq.{w} rd, rs1, rs2", "10100{fmt} fs2 fs1 010 rd 1010011", "feq.{w} a0, fa0, fa1")
def feq(a: int, b: int) -> tuple[int, int]:
    """1 when rs1 equals rs2, else 0; only a signaling NaN is invalid."""
    return equal(opened(a), opened(b), FORM)


@_both("flt.{w} rd, rs1, rs2", "10100{fmt} fs2 fs1 001 rd 1010011", "flt.{w} a0, fa0, fa1")
def flt(a: int, b: int) -> tuple[int, int]:
    """1 when rs1 is less than rs2, else 0; a NaN is invalid."""
    return less(opened(a), opened(b), FORM)


@_both("fle.{w} rd, rs1, rs2", "10100{fmt} fs2 fs1 000 rd 1010011", "fle.{w} a0, fa0, fa1")
def fle(a: int, b: int) -> tuple[int, int]:
    """1 when rs1 is not above rs2, else 0; a NaN is invalid."""
    return less_or_equal(opened(a), opened(b), FORM)


@_both("fclass.{w} rd, rs1", "11100{fmt} 00000 fs1 001 rd 1010011", "fclass.{w} a0, fa0")
def fclass(a: int) -> tuple[int, int]:
    """One bit of ten: what kind of number rs1 is."""
    return classify(opened(a), FORM), 0


@_both("fcvt.w.{w} rd, rs1, rm", "11000{fmt} 00000 fs1 rm rd 1010011", "fcvt.w.{w} a0, fa0, rtz")
def fcvt_w(a: int, rm: int) -> tuple[int, int]:
    """The signed 32-bit integer of a {number}; saturates."""
    return to_integer(opened(a), FORM, rm, INT32)


@_both("fcvt.wu.{w} rd, rs1, rm", "11000{fmt} 00001 fs1 rm rd 1010011", "fcvt.wu.{w} a0, fa0, rtz")
def fcvt_wu(a: int, rm: int) -> tuple[int, int]:
    """The unsigned 32-bit integer of a {number}; saturates, sign-extended."""
    return to_integer(opened(a), FORM, rm, UINT32)


@_both("fcvt.l.{w} rd, rs1, rm", "11000{fmt} 00010 fs1 rm rd 1010011", "fcvt.l.{w} a0, fa0, rtz")
def fcvt_l(a: int, rm: int) -> tuple[int, int]:
    """The signed 64-bit integer of a {number}; saturates."""
    return to_integer(opened(a), FORM, rm, INT64)


@_both("fcvt.lu.{w} rd, rs1, rm", "11000{fmt} 00011 fs1 rm rd 1010011", "fcvt.lu.{w} a0, fa0, rtz")
def fcvt_lu(a: int, rm: int) -> tuple[int, int]:
    """The unsigned 64-bit integer of a {number}; saturates."""
    return to_integer(opened(a), FORM, rm, UINT64)


@_both("fcvt.{w}.l rd, rs1, rm", "11010{fmt} 00010 rs1 rm fd 1010011", "fcvt.{w}.l fa0, a0")
def fcvt_from_l(a: int, rm: int) -> tuple[int, int]:
    """The {number} of a signed 64-bit integer."""
    return closed(from_integer(a, INT64, FORM, rm))


@_both("fcvt.{w}.lu rd, rs1, rm", "11010{fmt} 00011 rs1 rm fd 1010011", "fcvt.{w}.lu fa0, a0")
def fcvt_from_lu(a: int, rm: int) -> tuple[int, int]:
    """The {number} of an unsigned 64-bit integer."""
    return closed(from_integer(a, UINT64, FORM, rm))
