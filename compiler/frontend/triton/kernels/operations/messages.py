"""Operations that write a line or stop the program with one."""

from __future__ import annotations

from compiler.frontend.triton.kernels.core.messages import HEXADECIMAL, REAL, SIGNED, UNSIGNED
from compiler.frontend.triton.kernels.core.nodes import computed
from compiler.frontend.triton.kernels.site import KernelSite
from compiler.frontend.triton.kernels.values import (
    FLOAT_FORMATS,
    INTEGERS,
    TRUTH,
    KernelValue,
    Region,
    UnsupportedOperation,
    bits_of,
)
from compiler.frontend.triton.operations import TtirOperation, TtirType

from .registry import Values, operation


@operation("tt.print")
def _print(site: KernelSite, found: TtirOperation, operands: Values) -> Values:
    """Write a line for each element of each operand, or one line without operands."""
    text = str(found.attributes.get("text", ""))
    if not operands:
        site.messages.say(text, [])
    signed = found.attributes.get("isSigned")
    signs = signed if isinstance(signed, tuple) else (1,) * len(operands)
    hexadecimal = found.attributes.get("hex") == "true"
    for number, (value, kind, sign) in enumerate(zip(operands, found.types, signs, strict=False)):
        which = f"(operand {number}) " if len(operands) > 1 else ""
        made, format = _printable(site, value, kind, bool(sign), hexadecimal)
        site.picks.show(made, f"{text}{which}", format)
    return []


def _printable(
    site: KernelSite, value: KernelValue, kind: TtirType, signed: bool, hexadecimal: bool
) -> tuple[KernelValue, str]:
    """Return a value as the core reads it, and its placeholder."""
    element = kind.element
    if kind.pointer or element not in (*FLOAT_FORMATS, *INTEGERS, TRUTH):
        raise UnsupportedOperation(f"shows numbers and truth values, not {kind}")
    if element in FLOAT_FORMATS:
        if hexadecimal:
            raise UnsupportedOperation("hexadecimal digits of floats; supported are those of integers")
        return site.blocks.typed(site.elements.cast(value, "f32"), "f32"), REAL
    if signed and not hexadecimal and element != TRUTH:
        return value, SIGNED
    if element != TRUTH and bits_of(element) < 64:
        value = computed("extui", (value,), "i64", element)
    return value, f"0x{HEXADECIMAL}" if hexadecimal else UNSIGNED


@operation("tt.assert")
def _assert(site: KernelSite, found: TtirOperation, operands: Values) -> Values:
    """Stop the program where a condition does not hold."""
    (condition,) = operands
    if not (isinstance(condition, Region) and condition.everywhere):
        site.picks.require(condition, str(found.attributes.get("text", "")))
    return []
