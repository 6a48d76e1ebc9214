"""Comparisons, logic and choice: on the vector engine, except for integers that FP32 does not hold."""

from __future__ import annotations

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.scalar import ScalarCode
from compiler.dialect.orders import Order
from compiler.graph import FLOATS
from compiler.lowering.record import EVERY_TYPE, Engine, Work, lowering, of_integers
from compiler.operators.record import Call

from .chain import FLOATS_AND_BOOL, compared_as_floats
from .integers import ElementCode, compute_elements
from .record import Operand, Pointwise, SliceVector, define
from .single import lower_single, unary_operator


@unary_operator("Not")
def _not(vector: SliceVector, x: Value, call: Call) -> Value:
    vector.unary("not", x, x)
    return x


def _define_binary(op: str, instruction: str, compares: bool = False) -> None:
    """Define a comparison of floats or an operator of truth values."""

    def body(vector: SliceVector, operands: list[Operand], call: Call) -> Value:
        a, b = operands
        result = vector.result_of(a, b)
        vector.vv(instruction, result, vector.data(a), vector.data(b))
        return result

    define(Pointwise(op, body, wide=True, compares=compares))


def _integer_comparison(mnemonic: str, swapped: bool, negated: bool) -> ElementCode:
    """Code of a comparison of integers: less than, or different in any bit."""

    def code(core: ScalarCode, values: list[str]) -> str:
        a, b = reversed(values) if swapped else values
        core.emit(mnemonic, a, a, b)
        if mnemonic == "xor":
            core.emit("snez", a, a)
        if negated:
            core.emit("xori", a, a, "1")
        return a

    return code


def _of_wide_integers(call: Call) -> bool:
    """for integers, unless they are compared with known ones below 2²⁴"""
    return of_integers(call) and not compared_as_floats(call)


def _define_comparison(
    op: str, instruction: str, mnemonic: str, *, swapped: bool = False, negated: bool = False
) -> None:
    """Define a comparison: on the kernel core if FP32 does not hold the integers, else by the engine."""
    _define_binary(op, instruction, compares=True)
    code = _integer_comparison(mnemonic, swapped, negated)

    def comparison(kernel: Kernel, work: Work) -> None:
        if _of_wide_integers(work.spec):
            compute_elements(kernel, [work.input(0), work.input(1)], work.output, code)
        else:
            lower_single(kernel, work)

    lowering(op, order=Order.FOLLOW, types=EVERY_TYPE, engines=(Engine.VECTOR,), on_core=_of_wide_integers)(
        comparison
    )


_define_comparison("Equal", "eq", "xor", negated=True)
_define_comparison("Greater", "gt", "slt", swapped=True)
_define_comparison("GreaterOrEqual", "ge", "slt", negated=True)
_define_comparison("Less", "lt", "slt")
_define_comparison("LessOrEqual", "le", "slt", swapped=True, negated=True)


def _define_logic(op: str, instruction: str) -> None:
    _define_binary(op, instruction)
    lowering(op, order=Order.FOLLOW, types=FLOATS_AND_BOOL, engines=(Engine.VECTOR,))(lower_single)


_define_logic("And", "and")
_define_logic("Or", "or")
_define_logic("Xor", "xor")


def _where(vector: SliceVector, operands: list[Operand], call: Call) -> Value:
    """Take the second operand where the condition holds, else the third; the third is overwritten."""
    condition, chosen, otherwise = operands
    result = vector.writable(otherwise)
    vector.choose(result, vector.data(condition), vector.data(chosen))
    return result


define(Pointwise("Where", _where, wide=True))


def _chooses_no_floats(call: Call) -> bool:
    """where the values to choose from are not floats"""
    return call.tensor(1).dtype not in FLOATS


@lowering("Where", order=Order.FOLLOW, types=EVERY_TYPE, engines=(Engine.VECTOR,), on_core=_chooses_no_floats)
def where(kernel: Kernel, work: Work) -> None:
    """Floats by a masked move, everything else by the kernel core."""
    if work.output.fmt.is_float:
        lower_single(kernel, work)
        return

    def code(core: ScalarCode, values: list[str]) -> str:
        core.emit("bnez", values[0], "1f")
        core.emit("mv", values[1], values[2])
        core.kernel.out.label("1")
        return values[1]

    compute_elements(kernel, [work.input(0), work.input(1), work.input(2)], work.output, code)
