"""Which bits of a stored float pattern say how large it is: none of them set means zero of either sign."""

from __future__ import annotations

from tx8isa.numbers.formats import EXPONENT_BITS, MANTISSA_BITS, Format


def magnitude_bits(fmt: Format) -> int:
    """All bits but the sign and those that the format does not use."""
    value_bits = EXPONENT_BITS[fmt] + MANTISSA_BITS[fmt]
    return ((1 << value_bits) - 1) << fmt.bits - 1 - value_bits
