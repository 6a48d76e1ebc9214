"""The orders in which the axes of a tensor are stored in DDR."""

from __future__ import annotations

from enum import Enum


class Order(Enum):
    """The order of axes that an operator expects of its operands and gives its result."""

    PLAIN = "plain"
    """The order of ONNX."""
    CHANNELS_LAST = "channels_last"
    """Axis 1 of the first operand and of the result is the innermost; the other operands are plain."""
    BLOCKED = "cx"
    """CHANNELS_LAST in the layout of the engines: planes of 64 channels and a narrower tail (NCx in
    ``tx8isa.numbers.layouts``). The bytes between two batches and after the last channel are undefined."""
    FOLLOW = "follow"
    """Any order, if all operands have the same."""
